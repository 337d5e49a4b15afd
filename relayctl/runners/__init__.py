"""One invocation in a process: the pool of warm children, environments, output, limits."""
