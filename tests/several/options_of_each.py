"""One program, built for each device with options of its own; then binaries, for all devices at once."""

from functools import partial

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, failure, same

SOURCE = """
#ifdef FIRST
__kernel void only_first(__global int *data) { data[0] = 1; }
#endif
__kernel void put(__global int *data, int n) { data[get_global_id(0)] = NUMBER * 100 + n; }
"""


def _put(context: cl.Context, devices: list[cl.Device], program: cl.Program) -> list[int]:
    """What the kernel puts on each device."""
    found = []
    put = cl.Kernel(program, "put")
    for device in devices:
        queue = cl.CommandQueue(context, device)
        buffer, value = cl.Buffer(context, 0, 64), np.empty(16, np.int32)
        put(queue, (16,), None, buffer, np.int32(7))
        cl.enqueue_copy(queue, value, buffer)
        assert (value == value[0]).all()
        found.append(int(value[0]))
    return found


def run(devices: list[cl.Device]) -> Outputs:
    """A kernel that only one device has is no kernel of the others'."""
    context = cl.Context(devices)
    made = cl._cl._Program(context, SOURCE)
    for k, device in enumerate(devices):
        made._build(f"-DNUMBER={k}{' -DFIRST' if k == 0 else ''}".encode(), [device])
    info = cl.program_build_info
    told = [made.get_build_info(device, info.OPTIONS) for device in devices]
    assert [text.split()[0] for text in told] == [f"-DNUMBER={k}" for k in range(len(devices))]
    assert all(made.get_build_info(each, info.STATUS) == 0 for each in devices)
    numbers = _put(context, devices, made)
    same(np.array(numbers), 7 + 100 * np.arange(len(devices)), "numbers")
    only = cl._cl.Kernel(made, "only_first")
    buffer = cl.Buffer(context, 0, 64)
    only.set_arg(0, buffer)
    cl.enqueue_nd_range_kernel(cl.CommandQueue(context, devices[0]), only, (1,), None)
    for device in devices[1:]:
        queue = cl.CommandQueue(context, device)
        refused = failure(partial(cl.enqueue_nd_range_kernel, queue, only, (1,), None), "a launch")
        assert refused.code == cl.status_code.INVALID_PROGRAM_EXECUTABLE
    binaries = made.get_info(cl.program_info.BINARIES)
    assert len(binaries) == len(devices) == made.get_info(cl.program_info.NUM_DEVICES)
    again = cl.Program(context, devices, binaries).build()
    same(np.array(_put(context, devices, again)), np.array(numbers), "from binaries")
    back = cl.Program(context, devices[::-1], binaries[::-1]).build()
    same(np.array(_put(context, devices, back)), np.array(numbers), "in another order")
    return {"first": np.array(numbers[:1])}
