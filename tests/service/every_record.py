"""A program whose calls bring about records of every kind: run with an image whose service records.

``python -m tests.service.every_record``
"""

from __future__ import annotations

import contextlib

import numpy as np
import pyopencl as cl

from tests.programs._svm import reaches
from tests.programs.runner import choose_device

SOURCE = """
#define N 64
__kernel void add(__global int *a, __constant int *b, __local int *t, int k) {
    int i = get_global_id(0);
    t[get_local_id(0)] = b[i % N];
    barrier(CLK_LOCAL_MEM_FENCE);
    a[i] += t[get_local_id(0)] * k;
}
__kernel void look(read_only image2d_t from, sampler_t how, write_only image2d_t to) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imagef(to, at, read_imagef(from, how, at + 1));
}
__kernel void point(__global ulong *n) { n[0] = (ulong)&n[get_global_id(0) + 1]; }
__kernel void say(int k) { if (k == get_global_id(0)) printf("at %d\\n", k); }
"""
HEADER = "#define K 3\n"
PART = """
#include "part.h"
int twice(int x);
__kernel void use(__global int *a) { a[get_global_id(0)] = twice(K); }
"""
OTHER = "int twice(int x) { return 2 * x; }"


def buffers(ctx: cl.Context, queue: cl.CommandQueue, program: cl.Program) -> None:
    """Reads, writes, copies, fills and maps of runs and of rectangles; launches; events."""
    flags, data = cl.mem_flags, np.arange(64, dtype=np.int32)
    a = cl.Buffer(ctx, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=data)
    b = cl.Buffer(ctx, flags.READ_WRITE, data.nbytes)
    out = np.zeros_like(data)
    cl.enqueue_copy(queue, b, data)
    gate = cl.UserEvent(ctx)
    add = cl.Kernel(program, "add")
    waiting = add(queue, (64,), (8,), a, b, cl.LocalMemory(32), np.int32(2), wait_for=[gate])
    waiting.set_callback(cl.command_execution_status.COMPLETE, lambda status: None)
    gate.set_status(cl.command_execution_status.COMPLETE)
    cl.enqueue_copy(queue, out, a, wait_for=[waiting])
    square = {"buffer_origin": (4, 1), "host_origin": (0, 0), "region": (8, 3)}
    cl.enqueue_copy(queue, b, out, **square, buffer_pitches=(32,), host_pitches=(32,))
    cl.enqueue_copy(queue, out, b, **square, buffer_pitches=(32,), host_pitches=(16,), is_blocking=False)
    cl.enqueue_copy(
        queue, b, a, src_origin=(0, 0), dst_origin=(4, 1), region=(8, 3), src_pitches=(32,), dst_pitches=(16,)
    )
    cl.enqueue_copy(queue, a, b, byte_count=64, dst_offset=128)
    cl.enqueue_fill_buffer(queue, a, np.int32(7), 0, 64)
    large = cl.Buffer(ctx, flags.READ_WRITE, 1 << 14)
    cl.enqueue_fill_buffer(queue, large, np.int32(7), 0, 64)
    cl.enqueue_copy(queue, large, np.arange(1 << 12, dtype=np.int32))
    mapped, _ = cl.enqueue_map_buffer(queue, a, cl.map_flags.READ | cl.map_flags.WRITE, 0, (8,), np.int32)
    mapped[:] = 5
    mapped.base.release(queue)
    cl.enqueue_migrate_mem_objects(queue, [a, b], cl.mem_migration_flags.HOST)
    cl.enqueue_marker(queue, wait_for=[waiting])
    cl.enqueue_barrier(queue)
    say = cl.Kernel(program, "say")
    say(queue, (8,), (4,), np.int32(3))
    queue.finish()
    cl.Buffer(ctx, flags.READ_WRITE, (256 << 20) + 4096).release()  # too large to be kept for another
    for _ in range(3):
        recycled = cl.Buffer(ctx, flags.READ_WRITE, 8192)
        cl.enqueue_fill_buffer(queue, recycled, np.int32(1), 0, 8192)
        queue.finish()
        recycled.release()


def memory(ctx: cl.Context, queue: cl.CommandQueue, program: cl.Program) -> None:
    """A buffer in memory of the application, that is changed and looked at."""
    data = np.arange(64, dtype=np.int32)
    a = cl.Buffer(ctx, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR, hostbuf=data)
    for k in range(2):
        data[k] = 5
        cl.Kernel(program, "add")(queue, (64,), (8,), a, a, cl.LocalMemory(32), np.int32(2))
        queue.finish()


def regions(ctx: cl.Context, queue: cl.CommandQueue, program: cl.Program) -> None:
    """Of shared virtual memory, with an address in one; filled and copied.

    No address is followed: records that are damaged would have the kernel go anywhere.
    """
    nodes, other = (cl.svm_empty(ctx, cl.svm_mem_flags.READ_WRITE, 4, np.uint64) for _ in range(2))
    kernel = cl.Kernel(program, "point")
    reaches(kernel, [cl.SVM(other)])
    kernel(queue, (1,), (1,), cl.SVM(nodes))
    for number in range(1, 10):  # more than the client remembers
        reaches(kernel, [cl.SVM(other)] * number)
    del kernel
    with cl.SVM(nodes).map_rw(queue) as mapped:
        assert mapped[0] == nodes.ctypes.data + 8
    cl.enqueue_svm_memfill(queue, cl.SVM(other), np.uint64(3))
    cl.enqueue_copy(queue, cl.SVM(other), cl.SVM(nodes))
    queue.finish()


def images(ctx: cl.Context, queue: cl.CommandQueue, program: cl.Program) -> None:
    """The same of pixels."""
    form = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.FLOAT)
    one, other = (cl.create_image(ctx, cl.mem_flags.READ_WRITE, form, shape=(16, 8)) for _ in range(2))
    pixels = np.ones((4, 4, 4), np.float32)
    cl.enqueue_fill_image(queue, one, np.ones(4, np.float32), (1, 1), (8, 4))
    cl.enqueue_copy(queue, one, pixels, origin=(2, 2), region=(4, 4))
    how = cl.Sampler(ctx, False, cl.addressing_mode.CLAMP, cl.filter_mode.NEAREST)
    cl.Kernel(program, "look")(queue, (16, 8), (4, 2), one, how, other)
    cl.enqueue_copy(queue, one, other, src_origin=(0, 0), dest_origin=(4, 4), region=(3, 2))
    cl.enqueue_copy(queue, pixels, other, origin=(1, 1), region=(4, 4))
    write = cl.map_flags.WRITE
    mapped, *_ = cl.enqueue_map_image(queue, other, write, (1, 1), (4, 4), (4, 4, 4), np.float32)
    mapped[...] = 2
    mapped.base.release(queue)
    queue.finish()


def programs(ctx: cl.Context, queue: cl.CommandQueue) -> None:
    """Compiled, linked, made from a binary; one that fails."""
    parts = [cl.Program(ctx, text) for text in (PART, OTHER)]
    parts[0].compile(headers=[("part.h", cl.Program(ctx, HEADER))])
    parts[1].compile()
    linked = cl.link_program(ctx, parts)
    again = cl.Program(ctx, ctx.devices, [linked.get_info(cl.program_info.BINARIES)[0]]).build()
    cl.Kernel(again, "use")(queue, (16,), (4,), cl.Buffer(ctx, 0, 64))
    try:
        cl.Program(ctx, "nothing of the kind").build()
    except cl.RuntimeError:
        queue.finish()


def sub_groups(device: cl.Device, kernel: cl.Kernel) -> None:
    """Of a kernel, which drivers without them refuse to speak of."""
    with contextlib.suppress(cl.LogicError):
        kernel.get_sub_group_info(device, cl.kernel_sub_group_info.SUB_GROUP_COUNT_FOR_NDRANGE, [8, 4])


def main() -> None:
    """See the module."""
    ctx = cl.Context([choose_device()])
    queue = cl.CommandQueue(ctx, properties=cl.command_queue_properties.PROFILING_ENABLE)
    program = cl.Program(ctx, SOURCE).build()
    buffers(ctx, queue, program)
    memory(ctx, queue, program)
    images(ctx, queue, program)
    regions(ctx, queue, program)
    sub_groups(ctx.devices[0], cl.Kernel(program, "say"))
    programs(ctx, queue)


if __name__ == "__main__":
    main()
