"""CLBlast, by its C interface: products, sums and a triangular solve of single precision."""

import ctypes

import numpy as np
import pyopencl as cl
from kit import ON_GPU, result, timed

blast = ctypes.CDLL("libclblast.so.1")
context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
rng = np.random.default_rng(1)
N = 4096 if ON_GPU else 384
ROWS, NO, LEFT, LOWER, NON_UNIT = 101, 111, 141, 122, 131
handle = ctypes.c_void_p(queue.int_ptr)
size, real, last = ctypes.c_size_t, ctypes.c_float, (ctypes.byref(handle), None)


def buffer(array: np.ndarray) -> cl.Buffer:
    """A copy on the device."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=array)


def at(of: cl.Buffer) -> tuple[ctypes.c_void_p, ctypes.c_size_t]:
    """A buffer and the offset 0."""
    return ctypes.c_void_p(of.int_ptr), size(0)


def show(name: str, status: int, of: cl.Buffer, count: int) -> None:
    """Say what a routine left."""
    found = np.empty(count, np.float32)
    cl.enqueue_copy(queue, found, of)
    result(name, found if status == 0 else f"error {status}")


a, b, c = (buffer(rng.random((N, N), dtype=np.float32)) for _ in range(3))
x, y = (buffer(rng.random(N, dtype=np.float32)) for _ in range(2))
triangle = buffer((np.tril(rng.random((N, N))) + N * np.eye(N)).astype(np.float32))


def product(n: int = N) -> int:
    """C = A B + C / 2, of the first n rows and columns."""
    shape = (ROWS, NO, NO, size(n), size(n), size(n))
    rows = (*at(a), size(N), *at(b), size(N), real(0.5), *at(c), size(N))
    return blast.CLBlastSgemm(*shape, real(1), *rows, *last)


show("product", product(), c, N * N)
show("product of an odd size", product(N - 73), c, N * N)
vectors = (*at(x), size(1), *at(y), size(1))
show("axpy", blast.CLBlastSaxpy(size(N), real(2), *vectors, *last), y, N)
by = (ROWS, NO, size(N), size(N), real(1), *at(a), size(N), *at(x), size(1), real(0), *at(y), size(1))
show("product by a vector", blast.CLBlastSgemv(*by, *last), y, N)
solve = (ROWS, LEFT, LOWER, NO, NON_UNIT, size(N), size(N), real(1), *at(triangle), size(N), *at(b), size(N))
show("triangular solve", blast.CLBlastStrsm(*solve, *last), b, N * N)


def products() -> None:
    """Fifty."""
    for _ in range(50):
        product()
    queue.finish()


timed(products)
