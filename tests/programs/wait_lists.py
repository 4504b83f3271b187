"""Wait lists, markers and barriers that order three queues as no single queue would."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"wl_append": "split"}

SOURCE = """
__kernel void wl_append(__global ulong *data, uint digit)
{
    size_t i = get_global_id(0);
    data[i] = data[i] * 10 + digit;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Append the digits 1 to 9 on three queues, enqueued out of order behind user events and wait lists."""
    (append,) = kernels(ctx, SOURCE, "wl_append")
    n = 104
    device = to_device(ctx, np.zeros(n, np.uint64))
    queues = [queue, cl.CommandQueue(ctx), cl.CommandQueue(ctx)]

    def put(which: int, digit: int, *after: cl.Event) -> cl.Event:
        return append(queues[which], (n,), (8,), device, np.uint32(digit), wait_for=list(after))

    gate = cl.UserEvent(ctx)
    four_may_start = cl.UserEvent(ctx)
    four = put(2, 4, four_may_start)
    one = put(0, 1, gate)
    two = put(1, 2, one)
    three = put(0, 3, two, one)
    for q in queues:
        q.flush()
    gate.set_status(cl.command_execution_status.COMPLETE)
    three.wait()
    four_may_start.set_status(cl.command_execution_status.COMPLETE)
    five = put(0, 5, four)
    marker = cl.enqueue_marker(queues[0], wait_for=[five, three])
    six = put(1, 6, marker)
    barrier = cl.enqueue_barrier(queues[2], wait_for=[six])
    put(2, 7)
    all_of_two = cl.enqueue_marker(queues[2])
    put(0, 8, all_of_two, barrier)
    nine = put(0, 9)
    for q in queues:
        q.flush()
    result = np.empty(n, np.uint64)
    cl.enqueue_copy(queues[1], result, device, wait_for=[nine])
    same(result, np.full(n, 123456789, np.uint64), "digits")
    same(to_host(queues[0], device, result), result, "read by another queue")
    return {"digits": result}
