"""Arguments set again, and buffers, kernels, programs and queues released, right after an enqueue."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"rr_add": "split"}

SOURCE = """
__kernel void rr_add(__global const int *in, __global int *out, int k, __local int *tmp)
{
    size_t i = get_global_id(0), lid = get_local_id(0);
    tmp[lid] = in[i] * k;
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] += tmp[lid];
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Thirty launches behind a user event, each of whose inputs is released before it can run."""
    program = build(ctx, SOURCE)
    kernel = cl.Kernel(program, "rr_add")
    n = 208
    out = np.zeros(n, np.int32)
    outs = [to_device(ctx, out), to_device(ctx, out)]
    expected = [out.copy(), out.copy()]
    gate = cl.UserEvent(ctx)
    cl.enqueue_marker(queue, wait_for=[gate])
    decoy = to_device(ctx, np.full(n, -1_000_000, np.int32))
    for k in range(30):
        data = np.arange(n, dtype=np.int32) + k
        source = to_device(ctx, data)
        kernel.set_args(source, outs[k % 2], np.int32(k), cl.LocalMemory(4 * 16))
        cl.enqueue_nd_range_kernel(queue, kernel, (n,), (16,))
        kernel.set_args(decoy, outs[(k + 1) % 2], np.int32(-k), cl.LocalMemory(4))
        source.release()
        expected[k % 2] += data * k
    other = cl.CommandQueue(ctx)
    third = to_device(ctx, out)
    kernel.set_args(outs[0], third, np.int32(1), cl.LocalMemory(4 * 16))
    done = cl.enqueue_nd_range_kernel(other, kernel, (n,), (16,), wait_for=[cl.enqueue_marker(queue)])
    other.flush()
    queue.flush()
    del kernel, program, other, decoy
    gate.set_status(cl.command_execution_status.COMPLETE)
    result = np.empty(n, np.int32)
    cl.enqueue_copy(queue, result, third, wait_for=[done])
    same(result, expected[0], "copied by a queue that is gone")
    outputs = {f"out{k}": to_host(queue, outs[k], out) for k in range(2)} | {"copied": result}
    for k in range(2):
        same(outputs[f"out{k}"], expected[k], f"out {k}")
    return outputs
