"""NULL for buffer arguments, which the kernel tests before it uses them."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"nu_optional": "split"}

SOURCE = """
__kernel void nu_optional(__global const int *weights, __global int *out, __global uchar *mask,
                          __constant int *bias)
{
    int i = get_global_id(0);
    int v = weights ? weights[i] : i;
    if (bias != 0)
        v += bias[0];
    if (mask)
        mask[i] = v & 1;
    if (out)
        out[i] = v + (weights == 0) * 1000 + !mask * 2000;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """All sensible combinations of present and absent buffers."""
    (optional,) = kernels(ctx, SOURCE, "nu_optional")
    n = 72
    weights, bias = np.arange(n, dtype=np.int32) * 3, np.array([50], np.int32)
    w_dev, b_dev = to_device(ctx, weights), to_device(ctx, bias)
    outputs: Outputs = {}
    for case in range(8):
        out, mask = np.zeros(n, np.int32), np.full(n, 9, np.uint8)
        out_dev, mask_dev = to_device(ctx, out), to_device(ctx, mask)
        use_weights, use_mask, use_bias = case & 1, case & 2, case & 4
        optional.set_args(
            w_dev if use_weights else None,
            out_dev,
            mask_dev if use_mask else None,
            b_dev if use_bias else None,
        )
        cl.enqueue_nd_range_kernel(queue, optional, (n,), (8,))
        v = (weights if use_weights else np.arange(n)) + (50 if use_bias else 0)
        expected = v + (0 if use_weights else 1000) + (0 if use_mask else 2000)
        outputs[f"out{case}"] = to_host(queue, out_dev, out)
        outputs[f"mask{case}"] = to_host(queue, mask_dev, mask)
        same(outputs[f"out{case}"], expected.astype(np.int32), f"out of case {case}")
        same(outputs[f"mask{case}"], (v & 1 if use_mask else mask).astype(np.uint8), f"mask of case {case}")
    return outputs
