"""Reikna: Fourier transforms, a product of matrices, a prefix sum and a sum."""

import numpy as np
from kit import ON_GPU, result, timed
from reikna import cluda
from reikna.algorithms import Reduce, Scan, predicate_sum
from reikna.fft import FFT
from reikna.linalg import MatrixMul

thread = cluda.ocl_api().Thread.create()
rng = np.random.default_rng(2)
rows = thread.to_device((rng.random((64, 1024)) + 1j * rng.random((64, 1024))).astype(np.complex64))
FFT(rows, axes=(1,)).compile(thread)(rows, rows)
result("transform of rows", rows.get())
SIDE, TIMES = (4096, 200) if ON_GPU else (512, 20)
plane = thread.to_device(rng.random((SIDE, SIDE)).astype(np.complex64))
transform = FFT(plane).compile(thread)
transform(plane, plane)
result("transform of a plane", plane.get())
# On NVIDIA's OpenCL reikna's product asks for larger work-groups than its kernel may have.
SHAPES = ((50, 30), (30, 70)) if ON_GPU else ((500, 300), (300, 700))
a, b = (thread.to_device(rng.random(shape).astype(np.float32)) for shape in SHAPES)
c = thread.array((SHAPES[0][0], SHAPES[1][1]), np.float32)
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
    """Many of a plane."""
    for _ in range(TIMES):
        transform(plane, plane)
    thread.synchronize()


timed(transforms)
