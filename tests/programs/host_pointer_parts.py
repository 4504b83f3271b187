"""Parts of a buffer that uses the application's memory: mapped there, several at once, read into itself."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_host

KERNELS: dict[str, str] = {"hpp_triple": "split"}

SOURCE = """
__kernel void hpp_triple(__global int *data)
{
    size_t i = get_global_id(0);
    data[i] = 3 * data[i] + (int)get_group_id(0);
}
"""
READ, WRITE, INVALIDATE = cl.map_flags.READ, cl.map_flags.WRITE, cl.map_flags.WRITE_INVALIDATE_REGION
INT = np.dtype(np.int32)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Two parts that overlap, kernels on each, and maps of both and of the whole."""
    (triple,) = kernels(ctx, SOURCE, "hpp_triple")
    flags = cl.mem_flags
    n = 4096
    memory = np.arange(n, dtype=np.int32)
    expected = memory.copy()
    address = memory.ctypes.data
    whole = cl.Buffer(ctx, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=memory)
    low = whole.get_sub_region(1024, 8192)  # elements 256 to 2304
    high = whole.get_sub_region(4096, 8192)  # elements 1024 to 3072
    assert low.get_info(cl.mem_info.FLAGS) & flags.USE_HOST_PTR, "parts inherit where their memory is"

    groups = np.arange(2048, dtype=np.int32) // 64
    for part, start in ((low, 256), (high, 1024)):
        triple(queue, (2048,), (64,), part)
        expected[start : start + 2048] = 3 * expected[start : start + 2048] + groups
    outputs: Outputs = {}

    # Three maps at once: two that overlap and are read, one beside them that is written.
    first, _ = cl.enqueue_map_buffer(queue, low, READ, 0, (2048,), INT)
    second, _ = cl.enqueue_map_buffer(queue, high, READ, 0, (2048,), INT)
    third, _ = cl.enqueue_map_buffer(queue, whole, INVALIDATE, 3072 * 4, (1024,), INT)
    assert first.ctypes.data == address + 1024 and second.ctypes.data == address + 4096
    assert third.ctypes.data == address + 3072 * 4
    outputs["first"], outputs["second"] = first.copy(), second.copy()
    same(outputs["first"], expected[256:2304], "the low part")
    same(outputs["second"], expected[1024:3072], "the high part")
    third[:] = expected[3072:] = np.arange(1024, dtype=np.int32)[::-1]
    for view in (second, third, first):
        view.base.release(queue)  # type: ignore[union-attr]

    triple(queue, (4096,), (64,), whole)
    expected = 3 * expected + np.arange(n, dtype=np.int32) // 64
    # A read of the buffer into the memory that it uses; the rest of it is nobody's until it is mapped.
    cl.enqueue_copy(queue, memory[512:1536], whole, src_offset=2048)
    outputs["itself"] = memory[512:1536].copy()
    same(outputs["itself"], expected[512:1536], "read into its own memory")
    triple(queue, (2048,), (64,), high)
    expected[1024:3072] = 3 * expected[1024:3072] + groups
    view, _ = cl.enqueue_map_buffer(queue, whole, READ | WRITE, 0, (n,), INT)
    assert view.ctypes.data == address
    same(memory, expected, "all of it, mapped")
    memory[::7] = -1
    expected[::7] = -1
    view.base.release(queue)  # type: ignore[union-attr]
    outputs["all"] = to_host(queue, whole, memory)
    same(outputs["all"], expected, "all of it, read")
    return outputs
