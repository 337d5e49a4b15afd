"""Values to text, JSON and other formats, one module per noun. Pure: width, colour and time are arguments."""
