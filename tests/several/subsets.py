"""Contexts of some devices; programs for some of their devices; and what is refused of all others."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, failure, same

SOURCE = "__kernel void twice(__global int *data) { data[get_global_id(0)] *= 2; }"


def _code(call: Callable[[], object], what: str) -> int:
    return int(failure(call, what).code)


def run(devices: list[cl.Device]) -> Outputs:
    """The first device alone, and, if there are several, the first and the last."""
    codes = cl.status_code
    few = list(dict.fromkeys((devices[0], devices[-1])))
    context = cl.Context(few)
    assert context.devices == few and context.num_devices == len(few)
    assert cl.Context([*few, few[0]]).num_devices == len(few)
    kinds = cl.Context(
        dev_type=cl.device_type.ALL, properties=[(cl.context_properties.PLATFORM, few[0].platform)]
    )
    assert kinds.devices == devices
    for device in devices:
        if device not in few:
            assert _code(partial(cl.CommandQueue, context, device), "a queue") == codes.INVALID_DEVICE
            program = cl._cl._Program(context, SOURCE)
            assert _code(partial(program._build, b"", [device]), "a build") == codes.INVALID_DEVICE
    made = cl._cl._Program(context, SOURCE)
    made._build(b"", [few[-1]])
    info = cl.program_build_info
    states = [made.get_build_info(device, info.STATUS) for device in few]
    assert states == [-1] * (len(few) - 1) + [0]
    kernel = cl._cl.Kernel(made, "twice")
    data = np.arange(64, dtype=np.int32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(context, flags, hostbuf=data)
    kernel.set_arg(0, buffer)
    queues = [cl.CommandQueue(context, device) for device in few]
    group = cl.kernel_work_group_info.WORK_GROUP_SIZE
    for queue in queues[:-1]:
        refused = _code(partial(cl.enqueue_nd_range_kernel, queue, kernel, (64,), None), "a launch")
        assert refused == codes.INVALID_PROGRAM_EXECUTABLE
        assert (
            _code(lambda q=queue: kernel.get_work_group_info(group, q.device), "a size")
            == codes.INVALID_DEVICE
        )
    assert kernel.get_work_group_info(group, few[-1]) > 0
    cl.enqueue_nd_range_kernel(queues[-1], kernel, (64,), None)
    cl.enqueue_migrate_mem_objects(queues[0], [buffer])
    found = np.empty_like(data)
    cl.enqueue_copy(queues[0], found, buffer)
    same(found, 2 * data, "twice")
    other = cl.Context(devices)
    elsewhere = cl.CommandQueue(other, devices[0])
    assert _code(partial(cl.enqueue_copy, elsewhere, found, buffer), "a read") == codes.INVALID_CONTEXT
    return {"twice": found}
