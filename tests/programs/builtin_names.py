"""Kernels that are named like built-in functions: there or not there, as on the driver."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"bn_other": "split"}

NAMES = ("step", "max", "bn_other")


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """A program builds whatever its kernels are called; those that can be created run."""
    codes = []
    n = 96
    for name in NAMES:
        texts = [
            f"kernel void {k}(global int *a) {{ a[get_global_id(0)] += 3; }}" for k in (name, "bn_other")
        ]
        program = build(ctx, "\n".join(dict.fromkeys(texts)))
        data = to_device(ctx, np.zeros(n, np.int32))
        ran = 0
        for kernel in (name, "bn_other"):
            try:
                cl.Kernel(program, kernel)(queue, (n,), (8,), data)
                ran += 1
                codes.append(0)
            except cl.Error as error:
                codes.append(int(error.code))
        expected = np.full(n, 3 * ran, np.int32)
        same(to_host(queue, data, expected), expected, name)
    assert set(codes) <= {0, cl.status_code.INVALID_KERNEL_NAME}, codes
    return {"codes": np.array(codes, np.int32)}
