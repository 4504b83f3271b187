"""Non-blocking reads that land while later kernels, fills and writes already change the buffer."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"lr_step": "split"}

SOURCE = """
__kernel void lr_step(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 69069u + k;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twenty-four snapshots, each taken between two changes."""
    (step,) = kernels(ctx, SOURCE, "lr_step")
    n = 4160
    data = np.random.default_rng(44).integers(0, 1 << 32, n, dtype=np.uint32)
    device = to_device(ctx, data)
    snapshots, expected = np.zeros((2, 24, n), np.uint32)
    patch = np.arange(100, dtype=np.uint32)
    kept: list[cl.Event] = []
    for k in range(24):
        step(queue, (n,), (64,), device, np.uint32(k))
        data = data * np.uint32(69069) + np.uint32(k)
        kept.append(cl.enqueue_copy(queue, snapshots[k], device, is_blocking=False))
        expected[k] = data
        if k % 3 == 1:
            cl.enqueue_fill_buffer(queue, device, np.uint32(k), 400, 8000)
            data[100:2100] = k
        if k % 3 == 2:
            kept.append(cl.enqueue_copy(queue, device, patch, dst_offset=4 * 50 * k, is_blocking=False))
            data[50 * k : 50 * k + 100] = patch
    for event in reversed(kept):
        event.wait()
    same(snapshots, expected, "snapshots")
    outputs = {"snapshots": snapshots, "data": to_host(queue, device, data)}
    same(outputs["data"], data, "data")
    return outputs
