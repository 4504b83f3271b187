"""Programs: what a source becomes for every member, and what launches need to know of it."""
