"""Lint rules, one module per family; each looks at a shaped template and yields problems."""
