"""Plain OpenCL programs: each module has ``KERNELS`` and ``run(ctx, queue)``, which returns all it computed."""
