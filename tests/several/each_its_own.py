"""A context, a program and a queue for each device, as programs do that know nothing of shared contexts."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, same

SOURCE = "__kernel void scale(__global float *data, float by) { data[get_global_id(0)] *= by; }"
LENGTH = 1200


def run(devices: list[cl.Device]) -> Outputs:
    """Equal parts; the host puts the results together."""
    data = np.random.default_rng(1).random(LENGTH, dtype=np.float32)
    found = np.empty_like(data)
    parts = np.array_split(np.arange(LENGTH), len(devices))
    for device, part in zip(devices, parts, strict=True):
        context = cl.Context([device])
        queue = cl.CommandQueue(context)
        assert queue.device == device and context.devices == [device]
        program = cl.Program(context, SOURCE).build()
        own = np.ascontiguousarray(data[part])
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
        buffer = cl.Buffer(context, flags, hostbuf=own)
        cl.Kernel(program, "scale")(queue, own.shape, None, buffer, np.float32(1.5))
        shown, _ = cl.enqueue_map_buffer(queue, buffer, cl.map_flags.READ, 0, own.shape, np.float32)
        found[part] = shown
        shown.base.release(queue)
        queue.finish()
    same(found, data * np.float32(1.5), "scaled")
    return {"scaled": found}
