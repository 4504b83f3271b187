"""Integer divisions by zero: their results are open, but everything else has to go on."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

TYPES = {"char": "i1", "ushort": "u2", "int": "i4", "uint": "u4", "long": "i8", "ulong": "u8"}
KERNELS: dict[str, str] = {f"dz_{name}": "split" for name in TYPES} | {"dz_blocks": "split"}

SOURCE = "\n".join(
    f"""
__kernel void dz_{name}(__global const {name} *a, __global const {name} *b, __global {name} *out)
{{
    size_t i = get_global_id(0), n = get_global_size(0);
    out[i] = a[i] / b[i];
    out[n + i] = a[i] % b[i];
}}
"""
    for name in TYPES
)
BLOCKS = """
__kernel void dz_blocks(__global int *out, int n)
{
    int i = get_global_id(0);
    out[n ? i - i % n + (n - 1 - i % n) : i] = i + n;
}
"""
ITEMS = 240


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Quotients and remainders, some by zero, and indices that would be if they were not guarded."""
    outputs: Outputs = {}
    rng = np.random.default_rng(17)
    made = kernels(ctx, SOURCE, *(f"dz_{name}" for name in TYPES))
    for (name, code), kernel in zip(TYPES.items(), made, strict=True):
        dtype = np.dtype(code)
        a = rng.integers(1, 100, ITEMS).astype(dtype)
        b = rng.integers(0, 4, ITEMS).astype(dtype)
        assert 0 < np.count_nonzero(b) < ITEMS
        out_dev = to_device(ctx, np.zeros(2 * ITEMS, dtype))
        kernel(queue, (ITEMS,), (8,), to_device(ctx, a), to_device(ctx, b), out_dev)
        out = to_host(queue, out_dev, np.zeros(2 * ITEMS, dtype)).reshape(2, ITEMS)
        out[:, b == 0] = 0
        divisor = np.maximum(b, 1)
        same(out, np.where(b == 0, 0, np.stack([a // divisor, a % divisor])).astype(dtype), name)
        outputs[name] = out
    (blocks,) = kernels(ctx, BLOCKS, "dz_blocks")
    for n in (0, 4, 1, 0):
        out_dev = to_device(ctx, np.full(ITEMS, -1, np.int32))
        blocks(queue, (ITEMS,), (8,), out_dev, np.int32(n))
        items = np.arange(ITEMS, dtype=np.int32)
        expected = items if n == 0 else items.reshape(-1, n)[:, ::-1].reshape(-1) + n
        outputs[f"blocks{n}"] = to_host(queue, out_dev, expected)
        same(outputs[f"blocks{n}"], expected.astype(np.int32), f"blocks of {n}")
    return outputs
