"""The command line: one module per verb. A command parses, calls, renders and exits."""
