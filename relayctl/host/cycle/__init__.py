"""What is done again and again on this machine, by several processes that must not do it at once."""
