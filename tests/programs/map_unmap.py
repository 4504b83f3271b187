"""Buffers mapped for reading, for writing and both, in part and several at once, between kernels."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"mu_double": "split"}

SOURCE = """
__kernel void mu_double(__global int *data) { data[get_global_id(0)] *= 2; }
"""

READ, WRITE = cl.map_flags.READ, cl.map_flags.WRITE


def mapped(queue: cl.CommandQueue, buffer: cl.Buffer, flags: int, first: int, count: int) -> Array:
    """A blocking map of ``count`` integers from ``first``."""
    return cl.enqueue_map_buffer(queue, buffer, flags, first * 4, (count,), np.dtype(np.int32))[0]


def unmap(queue: cl.CommandQueue, array: Array) -> cl.Event:
    """Hand a mapped array back."""
    event: cl.Event = array.base.release(queue)  # type: ignore[union-attr]
    return event


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Map, change and unmap a buffer between launches."""
    (double,) = kernels(ctx, SOURCE, "mu_double")
    n = 640
    data = np.arange(n, dtype=np.int32) + 1
    device = to_device(ctx, data)
    outputs: Outputs = {}

    double(queue, (n,), (32,), device)
    data *= 2
    view = mapped(queue, device, READ, 100, 333)
    outputs["read"] = view.copy()
    unmap(queue, view)
    same(outputs["read"], data[100:433], "mapped for reading")

    view = mapped(queue, device, WRITE, 7, 250)
    view[:] = np.arange(250) * -3
    unmap(queue, view)
    data[7:257] = np.arange(250) * -3
    double(queue, (n,), (32,), device)
    data *= 2

    low, high = mapped(queue, device, READ | WRITE, 0, 320), mapped(queue, device, READ | WRITE, 320, 320)
    low += 1
    high -= low
    data[:320] += 1
    data[320:] -= data[:320]
    unmap(queue, high)
    unmap(queue, low)
    double(queue, (n,), (32,), device)
    data *= 2

    view, event = cl.enqueue_map_buffer(
        queue, device, cl.map_flags.WRITE_INVALIDATE_REGION, 0, (n,), np.dtype(np.int32), is_blocking=False
    )
    event.wait()
    view[:] = np.arange(n)[::-1]
    unmap(queue, view).wait()
    double(queue, (n,), (32,), device)
    data = (np.arange(n, dtype=np.int32)[::-1] * 2).astype(np.int32)

    first, second = mapped(queue, device, READ, 0, n), mapped(queue, device, READ, 300, 100)
    outputs["twice"] = np.concatenate([first, second])
    unmap(queue, first)
    unmap(queue, second)
    same(outputs["twice"], np.concatenate([data, data[300:400]]), "mapped twice")

    for number in range(4):  # what is written elsewhere leaves alone what the application is storing
        double(queue, (n,), (32,), device)
        data *= 2
        unmap(queue, mapped(queue, device, READ, 0, n))
        view = mapped(queue, device, READ | WRITE, 0, 100)
        view[:] = number
        cl.enqueue_copy(queue, device, np.full(50, number + 7, np.int32), dst_offset=4 * 300)
        unmap(queue, mapped(queue, device, READ | WRITE, 500, 50))
        unmap(queue, view)
        data[:100], data[300:350] = number, number + 7
        same(to_host(queue, device, data), data, "written beside what is mapped")
    outputs["data"] = to_host(queue, device, data)
    same(outputs["data"], data, "data")
    return outputs
