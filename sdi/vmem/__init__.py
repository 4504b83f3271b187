"""The memory of the image: virtual buffers, residency, dependencies, merging."""
