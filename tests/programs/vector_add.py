"""Vector addition with a guard, a size that no group size divides, and launches of 1 to 40 groups."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"va_add": "split"}

SOURCE = """
__kernel void va_add(__global const float *a, __global const float *b, __global float *c, int n)
{
    int i = get_global_id(0);
    if (i < n)
        c[i] = a[i] + 2.0f * b[i];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Add vectors of many lengths; bytes after the last element stay as they were."""
    (add,) = kernels(ctx, SOURCE, "va_add")
    rng = np.random.default_rng(1)
    outputs: Outputs = {}
    for n, local in ((1, 32), (33, 32), (70, 32), (129, 32), (431, 64), (1003, 32), (1279, 32)):
        a, b = rng.random((2, n), dtype=np.float32)
        c = np.full(n + 40, 7, np.float32)
        a_dev, b_dev, c_dev = to_device(ctx, a), to_device(ctx, b), to_device(ctx, c)
        add(queue, (-(-n // local) * local,), (local,), a_dev, b_dev, c_dev, np.int32(n))
        outputs[f"c{n}"] = to_host(queue, c_dev, c)
        expected = c.copy()
        expected[:n] = a + 2 * b
        same(outputs[f"c{n}"], expected, f"{n} elements")
    return outputs
