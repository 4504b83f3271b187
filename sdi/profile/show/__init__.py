"""Shows a profile: text, CSV, JSON, one HTML file, a trace for browsers."""
