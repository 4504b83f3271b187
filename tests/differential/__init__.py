"""Random OpenCL C, run on the plain driver and on images: the bytes must be the same."""
