"""The pure core: values and decisions. No I/O, no clock, no environment, no randomness, no logging."""
