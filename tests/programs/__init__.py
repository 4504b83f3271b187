"""Plain OpenCL programs: each has ``KERNELS`` and ``run(ctx, queue)``, which returns all it computed."""
