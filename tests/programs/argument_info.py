"""What kernels tell of their arguments depends on the options and the origin of their program."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs

KERNELS: dict[str, str] = {}

SOURCE = "kernel void ai_named(global const float *restrict data, const int count, local uchar *scratch) {}"
OPTIONS = ("", "-cl-kernel-arg-info", "-cl-mad-enable -cl-kernel-arg-info")


def told(program: cl.Program) -> tuple[list[str], list[int]]:
    """Names, and all other answers or codes."""
    kernel, info = cl.Kernel(program, "ai_named"), cl.kernel_arg_info
    names, answers = [], []
    for index in range(4):
        for what in (info.NAME, info.TYPE_NAME, info.ADDRESS_QUALIFIER, info.TYPE_QUALIFIER):
            try:
                answer = kernel.get_arg_info(index, what)
            except cl.Error as error:
                answer = int(error.code)
            if isinstance(answer, str):
                names.append(answer)
            else:
                answers.append(int(answer))
    return names, answers


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Ask a program from source with and without the option, two from a binary, and one that was linked."""
    found: dict[str, Array] = {}
    for number, options in enumerate(OPTIONS):
        program = cl.Program(ctx, SOURCE)
        program.build(options, cache_dir=False)
        names, _ = told(program)
        if options in OPTIONS[1:3]:
            assert names == ["data", "float*", "count", "int", "scratch", "uchar*"]
        again = cl.Program(ctx, ctx.devices, program.binaries).build()
        asked = cl.Program(ctx, ctx.devices, program.binaries).build(OPTIONS[1])
        part = cl.Program(ctx, SOURCE)
        part.compile(options.split())
        linked = cl.link_program(ctx, [part])
        kinds = {"source": program, "binary": again, "binary, asked": asked, "linked": linked}
        for what, answer in {what: told(kind)[1] for what, kind in kinds.items()}.items():
            found[f"{what} {number}"] = np.array(answer, np.int64)
    return found
