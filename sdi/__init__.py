"""sdi makes many GPUs look like one OpenCL device."""

__version__ = "0.1.0"
