"""Headers found through several ``-I`` options, headers that include headers, and a kernel body in a file."""

from pathlib import Path

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"ic_apply": "split"}

SOURCE = """
#include "first.h"
#include <second.h>
__kernel void ic_apply(__global const int *in, __global int *out)
{
#include "kernel_body.inc"
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Build with two include folders and a macro that only a header uses."""
    here = Path(__file__).parent
    options = ["-I", str(here / "include_first"), f"-I{here / 'include_second'}", "-DSECOND_LAST=19"]
    (apply,) = kernels(ctx, SOURCE, "ic_apply", options=options)
    data = np.random.default_rng(13).integers(0, 300, 104, dtype=np.int32)
    out_dev = to_device(ctx, np.zeros_like(data))
    apply(queue, (104,), (8,), to_device(ctx, data), out_dev)
    out = to_host(queue, out_dev, data)
    table = np.array([2, 3, 5, 7, 11, 13, 17, 19], np.int32)
    same(out, (table[data & 7] + data) * 1000 + data * 3, "out")
    return {"out": out}
