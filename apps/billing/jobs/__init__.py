"""The jobs of the billing app."""
