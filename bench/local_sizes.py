"""Short kernels whose local size the application leaves open, and the same with sizes of its own.

``OCL_ICD_VENDORS=folder python bench/local_sizes.py [--log2 18]``: on the first device there is, which may be
an image's (``sdi run -n 1 -- python bench/local_sizes.py``).  Microseconds of a launch among ten that are
waited for together, the least of 40: of adding two arrays of as many floats, and the same in two dimensions.
Needs pyopencl.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void add(global float *a, global const float *b)
{
    size_t i = get_global_id(0);
    a[i] = a[i] * 0.5f + b[i];
}

kernel void add_rows(global float *a, global const float *b, int width)
{
    int at = get_global_id(1) * width + get_global_id(0);
    a[at] = a[at] * 0.5f + b[at];
}
"""
ROUNDS, LAUNCHES = 40, 10


Sizes = tuple[int, ...]


def least_us(queue: cl.CommandQueue, kernel: cl.Kernel, whole: Sizes, local: Sizes | None) -> float:
    """Of a launch."""
    found = []
    for _ in range(ROUNDS):
        queue.finish()
        begin = time.perf_counter()
        for _ in range(LAUNCHES):
            cl.enqueue_nd_range_kernel(queue, kernel, whole, local)
        queue.finish()
        found.append((time.perf_counter() - begin) / LAUNCHES)
    return min(found) * 1e6


def main() -> None:
    """Print a line for each local size."""
    parser = argparse.ArgumentParser(description="Local sizes, given and left open.")
    parser.add_argument("--log2", type=int, default=18, help="of how many numbers")
    options = parser.parse_args()
    count, width = 1 << options.log2, 1 << options.log2 // 2
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = cl.Program(context, SOURCE).build()
    ones = np.ones(count, np.float32)
    copied = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    a, b = (cl.Buffer(context, copied, hostbuf=ones) for _ in range(2))
    add, add_rows = cl.Kernel(program, "add"), cl.Kernel(program, "add_rows")
    add.set_args(a, b)
    add_rows.set_args(a, b, np.int32(width))
    print(f"{device.name}, {count} numbers")
    for local in (None, (16,), (64,), (256,), (1024,)):
        told = "open" if local is None else str(local[0])
        print(f"add       {told:>8} {least_us(queue, add, (count,), local):8.1f} us")
    for shape in (None, (8, 8), (64, 1), (16, 16), (256, 1)):
        told = "open" if shape is None else "x".join(map(str, shape))
        print(f"add_rows  {told:>8} {least_us(queue, add_rows, (width, count // width), shape):8.1f} us")


if __name__ == "__main__":
    main()
