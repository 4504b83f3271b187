"""A program saved as binary and made again from it, as caches of applications do."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"pb_step": "split"}

SOURCE = """
__constant int weights[4] = { 1, -2, 3, -4 };
__kernel void pb_step(__global int *data) { data[get_global_id(0)] += weights[get_global_id(0) & 3] * SCALE; }
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Run the original and the reloaded program on one buffer."""
    (device,) = ctx.devices
    program = build(ctx, SOURCE, ["-DSCALE=5"])
    (binary,) = program.get_info(cl.program_info.BINARIES)
    assert len(binary) > 0
    again = cl.Program(ctx, [device], [binary]).build()
    n = 104
    buffer = to_device(ctx, np.zeros(n, np.int32))
    for source in (program, again, again):
        cl.Kernel(source, "pb_step")(queue, (n,), (8,), buffer)
    expected = np.tile(np.array([1, -2, 3, -4], np.int32), 26) * 15
    out = to_host(queue, buffer, expected)
    same(out, expected, "out")
    return {"out": out}
