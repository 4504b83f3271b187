"""pyvkfft: Fourier transforms of a volume and of planes, there and back."""

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from kit import ON_GPU, result, timed
from pyvkfft.opencl import VkFFTApp

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
rng = np.random.default_rng(2)
for name, shape, ndim in (
    ("volume", (32, 64, 64), 3),
    ("planes", (8, 243, 125), 2),
    ("prime", (16, 1021), 1),
):
    data = (rng.random(shape) + 1j * rng.random(shape)).astype(np.complex64)
    there = cla.to_device(queue, data)
    app = VkFFTApp(there.shape, there.dtype, queue, ndim=ndim)
    app.fft(there)
    result(f"{name} there", there.get())
    app.ifft(there)
    result(f"{name} and back", there.get())
SIDE, TIMES = (4096, 500) if ON_GPU else (512, 20)
plane = cla.to_device(queue, rng.random((SIDE, SIDE)).astype(np.complex64))
transform = VkFFTApp(plane.shape, plane.dtype, queue, ndim=2)


def transforms() -> None:
    """Many of a plane, there and back."""
    for _ in range(TIMES):
        transform.fft(plane)
        transform.ifft(plane)
    queue.finish()


timed(transforms)
