"""One invocation in a process: builds, children, output, limits. Knows nothing of the broker or the store."""
