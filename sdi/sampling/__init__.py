"""Access ranges: which bytes of each buffer a box of work-groups reads and writes."""
