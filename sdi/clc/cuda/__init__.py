"""OpenCL C as CUDA C++ for NVRTC."""
