"""This machine only: clock, locks, state directory, secrets, sockets. Knows nothing of Redis or schedules."""
