"""From problems that carry a fix to a mended text: exact edits of what was written, and nothing but them."""
