"""The door to Redis: connections, keys, scripts and the operations built on them. Only this imports redis."""
