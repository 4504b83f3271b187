"""What platform, device, context, queue, buffer, program and kernel say about themselves is consistent."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"df_sized": "split"}

SOURCE = """
__kernel __attribute__((reqd_work_group_size(4, 2, 1))) __attribute__((vec_type_hint(float4)))
void df_sized(__global uint *out, __local float *tmp)
{
    tmp[get_local_id(0)] = 1.0f;
    size_t at = get_global_id(1) * get_global_size(0) + get_global_id(0);
    out[at] = get_local_size(0) * 10 + get_local_size(1);
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Ask everything that a careful application asks before it starts."""
    (device,) = ctx.devices
    assert device.platform.get_devices()[0] == device
    assert device.available and device.compiler_available and device.max_compute_units >= 1
    assert device.max_work_item_dimensions >= 3 and min(device.max_work_item_sizes[:3]) >= 1
    assert 1 <= device.max_work_group_size <= np.prod(device.max_work_item_sizes[:3], dtype=float)
    assert device.global_mem_size >= device.max_mem_alloc_size >= min(1 << 30, device.global_mem_size // 4)
    assert device.local_mem_size >= 32 << 10 and device.address_bits in (32, 64)
    assert "cl_khr_global_int32_base_atomics" in device.extensions.split()
    assert device.version.startswith("OpenCL ") and device.opencl_c_version.startswith("OpenCL C ")
    assert queue.context == ctx and queue.device == device
    assert ctx.num_devices == 1

    data = np.arange(16 * 24, dtype=np.uint32)
    buffer = to_device(ctx, data)
    assert buffer.size == data.nbytes and buffer.context == ctx
    assert buffer.flags & cl.mem_flags.READ_WRITE and buffer.type == cl.mem_object_type.BUFFER

    program = build(ctx, SOURCE, ["-cl-std=CL1.2"])
    assert program.get_build_info(device, cl.program_build_info.STATUS) == 0
    assert (
        program.devices == [device] and program.num_kernels == 1 and program.source.strip() == SOURCE.strip()
    )
    kernel = cl.Kernel(program, "df_sized")
    assert kernel.function_name == "df_sized" and kernel.num_args == 2 and kernel.context == ctx
    info = cl.kernel_work_group_info
    assert list(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device)) == [4, 2, 1]
    assert kernel.get_work_group_info(info.WORK_GROUP_SIZE, device) >= 8
    assert kernel.get_work_group_info(info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE, device) >= 1

    event = kernel(queue, (16, 24), (4, 2), buffer, cl.LocalMemory(16))
    event.wait()
    assert event.command_type == cl.command_type.NDRANGE_KERNEL and event.command_queue == queue
    out = to_host(queue, buffer, data)
    same(out, np.full(data.size, 42, np.uint32), "out")
    return {"out": out}
