"""Schedules written down elsewhere, as an app of relayctl: a template, scripts, and what could not be carried."""
