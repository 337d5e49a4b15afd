"""The programs that run inside a child process. They import nothing of relayctl."""
