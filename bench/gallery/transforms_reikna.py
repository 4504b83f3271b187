"""Reikna: Fourier transforms, a product of matrices, a prefix sum and a sum."""

import numpy as np
from kit import result, timed
from reikna import cluda
from reikna.algorithms import Reduce, Scan, predicate_sum
from reikna.fft import FFT
from reikna.linalg import MatrixMul

thread = cluda.ocl_api().Thread.create()
rng = np.random.default_rng(2)
rows = thread.to_device((rng.random((64, 1024)) + 1j * rng.random((64, 1024))).astype(np.complex64))
FFT(rows, axes=(1,)).compile(thread)(rows, rows)
result("transform of rows", rows.get())
plane = thread.to_device(rng.random((512, 512)).astype(np.complex64))
transform = FFT(plane).compile(thread)
transform(plane, plane)
result("transform of a plane", plane.get())
a, b = (thread.to_device(rng.random(shape).astype(np.float32)) for shape in ((500, 300), (300, 700)))
c = thread.array((500, 700), np.float32)
MatrixMul(a, b, out_arr=c).compile(thread)(c, a, b)
result("product", c.get())
x = thread.to_device(rng.integers(0, 100, 100_001).astype(np.int32))
y = thread.empty_like(x)
Scan(x, predicate_sum(np.int32)).compile(thread)(y, x)
result("prefix sum", y.get())
total = Reduce(x, predicate_sum(np.int32)).compile(thread)
z = thread.empty_like(total.parameter.output)
total(z, x)
result("sum", z.get())


def transforms() -> None:
    """Twenty of a plane."""
    for _ in range(20):
        transform(plane, plane)
    thread.synchronize()


timed(transforms)
