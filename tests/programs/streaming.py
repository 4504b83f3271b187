"""Chunks streamed through two queues and two pairs of buffers: upload, compute and download overlap."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device

KERNELS: dict[str, str] = {"sm_chunk": "split"}

SOURCE = """
__kernel void sm_chunk(__global const uchar *in, __global uint *out, int n)
{
    int i = get_global_id(0);
    uint v = 2166136261u;
    for (int k = 0; k < 4; ++k)
        v = (v ^ in[(i + k) % n]) * 16777619u;
    out[i] = v;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Twelve chunks of 2,560 bytes."""
    (chunk_kernel,) = kernels(ctx, SOURCE, "sm_chunk")
    n, chunks = 2560, 12
    data = np.random.default_rng(45).integers(0, 256, (chunks, n), dtype=np.uint8)
    result = np.zeros((chunks, n), np.uint32)
    copies, compute = cl.CommandQueue(ctx), queue
    ins = [to_device(ctx, np.zeros(n, np.uint8)) for _ in range(2)]
    outs = [to_device(ctx, np.zeros(n, np.uint32)) for _ in range(2)]
    computed: list[cl.Event] = []
    downloaded: list[cl.Event] = []
    uploads: list[cl.Event] = []
    for k in range(chunks):
        free = [computed[k - 2]] if k >= 2 else []
        uploads.append(cl.enqueue_copy(copies, ins[k % 2], data[k], is_blocking=False, wait_for=free))
        copies.flush()
        ready = [uploads[k], *([downloaded[k - 2]] if k >= 2 else [])]
        computed.append(
            chunk_kernel(compute, (n,), (64,), ins[k % 2], outs[k % 2], np.int32(n), wait_for=ready)
        )
        compute.flush()
        after = [computed[k]]
        downloaded.append(cl.enqueue_copy(copies, result[k], outs[k % 2], is_blocking=False, wait_for=after))
        copies.flush()
    cl.wait_for_events(downloaded)
    expected = np.full((chunks, n), 2166136261, np.uint32)
    for k in range(4):
        expected = (expected ^ np.roll(data, -k, axis=1)) * np.uint32(16777619)
    same(result, expected, "chunks")
    return {"result": result}
