"""What host memory has no room for lies in a file (design/0025)."""
