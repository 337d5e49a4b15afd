"""relayctl: recurring and event-driven work, kept in git and run once per due instant across a fleet."""

__version__ = "0.1.0"
