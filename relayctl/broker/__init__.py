"""The embedded broker: finding a server binary, starting it once per state directory, keeping it alive."""
