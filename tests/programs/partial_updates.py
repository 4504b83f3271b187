"""Host writes and reads of parts of a buffer between kernels, at odd offsets and lengths."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"pu_add": "split"}

SOURCE = """
__kernel void pu_add(__global uchar *data, uchar v) { data[get_global_id(0)] += v; }
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Sixty rounds of a partial write, a launch and a partial read."""
    (add,) = kernels(ctx, SOURCE, "pu_add")
    rng = np.random.default_rng(21)
    n = 1100
    data = rng.integers(0, 256, n, dtype=np.uint8)
    device = to_device(ctx, data)
    pieces = []
    for k in range(60):
        offset = int(rng.integers(0, n - 1))
        length = int(rng.integers(1, n - offset + 1))
        fresh = rng.integers(0, 256, length, dtype=np.uint8)
        cl.enqueue_copy(queue, device, fresh, dst_offset=offset, is_blocking=k % 2 == 0)
        data[offset : offset + length] = fresh
        add(queue, (n,), (100,), device, np.uint8(k * 3 + 1))
        data += np.uint8(k * 3 + 1)
        start = int(rng.integers(0, n - 64))
        piece = np.empty(int(rng.integers(1, 64)), np.uint8)
        cl.enqueue_copy(queue, piece, device, src_offset=start)
        same(piece, data[start : start + piece.size], f"piece {k} at {start}")
        pieces.append(piece)
    outputs = {"data": to_host(queue, device, data), "pieces": np.concatenate(pieces)}
    same(outputs["data"], data, "data")
    return outputs
