"""Ten thousand small commands of all kinds, behind one user event."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"mc_step": "split"}

SOURCE = """
__kernel void mc_step(__global uint *data, uint k)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 5u + k;
}
"""

COMMANDS, N = 10_000, 64


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Markers, copies, fills, writes, reads and launches, none of which may run before the event."""
    (step,) = kernels(ctx, SOURCE, "mc_step")
    a, b = np.arange(N, dtype=np.uint32), np.zeros(N, np.uint32)
    a_dev, b_dev = to_device(ctx, a), to_device(ctx, b)
    gate = cl.UserEvent(ctx)
    first = cl.enqueue_marker(queue, wait_for=[gate])
    words = np.arange(COMMANDS, dtype=np.uint32)
    landed = np.zeros(COMMANDS, np.uint32)
    expected = np.zeros(COMMANDS, np.uint32)
    kept: list[cl.Event] = []
    for k in range(COMMANDS - 1):
        match k % 16:
            case 0 if k % 64 == 0:
                step(queue, (N,), (8,), a_dev, words[k])
                a = a * np.uint32(5) + words[k]
            case 3 | 11:
                at = k % 60
                cl.enqueue_copy(
                    queue, b_dev, a_dev, src_offset=at * 4, dst_offset=(63 - at) * 4, byte_count=4
                )
                b[63 - at] = a[at]
            case 5:
                at = k % 61
                kept.append(
                    cl.enqueue_copy(queue, a_dev, words[k : k + 1], dst_offset=at * 4, is_blocking=False)
                )
                a[at] = k
            case 9:
                at = k % 59
                kept.append(
                    cl.enqueue_copy(queue, landed[k : k + 1], b_dev, src_offset=at * 4, is_blocking=False)
                )
                expected[k] = b[at]
            case 13:
                at = k % 53
                cl.enqueue_fill_buffer(queue, b_dev, words[k], at * 4, 8)
                b[at : at + 2] = k
            case _:
                cl.enqueue_marker(queue)
    queue.flush()
    assert first.command_execution_status > 0 and not landed.any(), "a command ran before the user event"
    gate.set_status(cl.command_execution_status.COMPLETE)
    queue.finish()
    outputs = {"a": to_host(queue, a_dev, a), "b": to_host(queue, b_dev, b), "landed": landed}
    same(outputs["a"], a, "a")
    same(outputs["b"], b, "b")
    same(landed, expected, "landed reads")
    return outputs
