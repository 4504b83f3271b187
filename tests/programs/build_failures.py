"""Programs that do not build and kernels that do not exist, between launches that must still work."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, failure, same, to_device, to_host

KERNELS: dict[str, str] = {"bd_fine": "split"}

FINE = "__kernel void bd_fine(__global int *data) { data[get_global_id(0)] += 3; }"

BROKEN = {
    "missing semicolon": "__kernel void broken(__global int *a)\n{\n    a[0] = 1\n}\n",
    "unknown name": "__kernel void broken(__global int *a)\n{\n    a[0] =\n        no_such_name;\n}\n",
    "error directive": "\n\n#error this is wrong\n",
    "unknown type": "__kernel void broken(__global no_such_type *a) { }",
}


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each failure raises, names its cause in the log, and leaves the context usable."""
    program = build(ctx, FINE)
    kernel = cl.Kernel(program, "bd_fine")
    n = 96
    device = to_device(ctx, np.zeros(n, np.int32))
    for what, source in BROKEN.items():
        error = failure(lambda source=source: build(ctx, source), what)
        assert error.code == cl.status_code.BUILD_PROGRAM_FAILURE, f"{what}: {error}"
        assert "error" in str(error), f"{what}: the log says only {error}"
        kernel(queue, (n,), (8,), device)
    for name in ("no_such_kernel", "bd_fin", ""):
        error = failure(lambda name=name: cl.Kernel(program, name), f"kernel {name!r}")
        assert error.code == cl.status_code.INVALID_KERNEL_NAME, error
    out = to_host(queue, device, np.zeros(n, np.int32))
    same(out, np.full(n, 12, np.int32), "out")
    return {"out": out}
