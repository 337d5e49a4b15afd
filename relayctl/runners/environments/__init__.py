"""Environments of apps: what one is made from, where it lies, how it is built. When, and for whom, the worker says."""
