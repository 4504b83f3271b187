"""Members on NVIDIA GPUs through the CUDA driver."""
