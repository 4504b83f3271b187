"""Members on any installed OpenCL driver."""
