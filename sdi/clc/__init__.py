"""OpenCL C front end: build log, kernel model, sub-range OpenCL C."""
