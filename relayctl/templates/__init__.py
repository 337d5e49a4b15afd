"""From a template file to an `App`, or to problems with file, line and column. Never runs app code."""
