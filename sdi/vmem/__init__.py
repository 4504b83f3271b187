"""The memory of the image: virtual buffers, residency, hazards, merging."""
