"""Arithmetic on ``pyopencl.array`` and an elementwise kernel that pyopencl writes itself."""

import numpy as np
import pyopencl as cl
import pyopencl.array
from pyopencl.elementwise import ElementwiseKernel

from tests.programs._kit import Outputs, near, same

KERNELS: dict[str, str] = {"py_blend": "split"}


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Expressions over arrays of 3001 elements, slices included."""
    rng = np.random.default_rng(48)
    x, y = rng.random((2, 3001), dtype=np.float32)
    k = rng.integers(-50, 50, 3001, dtype=np.int64)
    x_dev, y_dev, k_dev = (cl.array.to_device(queue, v) for v in (x, y, k))
    blend = ElementwiseKernel(
        ctx, "float *x, float *y, float *z, float t", "z[i] = t * x[i] + (1 - t) * y[i]", name="py_blend"
    )
    z_dev = cl.array.zeros_like(x_dev)
    blend(x_dev, y_dev, z_dev, np.float32(0.25))
    outputs = {
        "sum": (2 * x_dev + y_dev * x_dev - 1).get(),
        "integers": (k_dev * 3 - (k_dev + 7)).get(),
        "slice": (x_dev[100:2000] / (y_dev[1:1901] + 1)).get(),
        "blend": z_dev.get(),
        "zeros": (cl.array.arange(queue, 500, dtype=np.int32) - 5).get(),
    }
    near(outputs["sum"], 2 * x + y * x - 1, "sum")
    same(outputs["integers"], k * 3 - (k + 7), "integers")
    near(outputs["slice"], x[100:2000] / (y[1:1901] + 1), "slice")
    near(outputs["blend"], 0.25 * x + 0.75 * y, "blend")
    same(outputs["zeros"], np.arange(500, dtype=np.int32) - 5, "range")
    return outputs
