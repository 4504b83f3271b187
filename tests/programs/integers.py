"""Arithmetic in integers of 8 to 64 bits, signed and unsigned, with the integer built-ins."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

TYPES = {
    "char": "i1",
    "uchar": "u1",
    "short": "i2",
    "ushort": "u2",
    "int": "i4",
    "uint": "u4",
    "long": "i8",
    "ulong": "u8",
}
KERNELS: dict[str, str] = {f"in_{name}": "split" for name in TYPES}

SOURCE = """
#define KERNEL(T) \\
__kernel void in_##T(__global const T *a, __global const T *b, __global T *out) \\
{ \\
    size_t i = get_global_id(0), n = get_global_size(0); \\
    T x = a[i], y = b[i]; \\
    out[i] = x * y + (T)3; \\
    out[n + i] = add_sat(x, y); \\
    out[2 * n + i] = rhadd(x, y); \\
    out[3 * n + i] = mul_hi(x, y); \\
    out[4 * n + i] = rotate(x, (T)5); \\
    out[5 * n + i] = clz(y); \\
    out[6 * n + i] = popcount(x); \\
    out[7 * n + i] = y != 0 ? x / (y | (T)1) + x % (y | (T)1) : (T)17; \\
    out[8 * n + i] = clamp(x, (T)3, (T)90) ^ (x >> 3); \\
}
KERNEL(char) KERNEL(uchar) KERNEL(short) KERNEL(ushort) KERNEL(int) KERNEL(uint) KERNEL(long) KERNEL(ulong)
"""


def expected_rows(a: Array, b: Array) -> list[Array]:
    """Rows 0, 1, 2 and 6 with Python's exact integers."""
    info, bits = np.iinfo(a.dtype), a.dtype.itemsize * 8
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]

    def wrap(v: int) -> int:
        v &= (1 << bits) - 1
        return v - (1 << bits) if v > info.max else v

    rows = [
        [wrap(x * y + 3) for x, y in pairs],
        [min(max(x + y, info.min), info.max) for x, y in pairs],
        [(x + y + 1) >> 1 for x, y in pairs],
        [(x * y) >> bits for x, y in pairs],
        [(x & ((1 << bits) - 1)).bit_count() for x, y in pairs],
    ]
    return [np.array(row, a.dtype) for row in rows]


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Nine results for 96 pairs in each of eight types."""
    rng = np.random.default_rng(10)
    outputs: Outputs = {}
    for kernel, (name, code) in zip(kernels(ctx, SOURCE, *KERNELS), TYPES.items(), strict=True):
        dtype = np.dtype(code)
        a, b = rng.integers(0, 256, (2, 96 * dtype.itemsize), dtype=np.uint8).view(dtype)
        out = np.zeros((9, 96), dtype)
        out_dev = to_device(ctx, out)
        kernel(queue, (96,), (12,), to_device(ctx, a), to_device(ctx, b), out_dev)
        outputs[name] = to_host(queue, out_dev, out)
        for row, expected in zip((0, 1, 2, 3, 6), expected_rows(a, b), strict=True):
            same(outputs[name][row], expected, f"{name}, row {row}")
    return outputs
