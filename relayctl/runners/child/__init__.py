"""The programs that run inside children. Standard library only; they import nothing of this package."""
