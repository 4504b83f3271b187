"""Four host threads, each with its own queue, kernel and buffer, that share a context and an input."""

import threading

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, build, same, to_device, to_host

KERNELS: dict[str, str] = {"ht_hash": "split"}

SOURCE = """
__kernel void ht_hash(__global const uint *shared_input, __global uint *mine, uint seed)
{
    size_t i = get_global_id(0);
    mine[i] = (mine[i] ^ shared_input[i]) * 2654435761u + seed;
}
"""

THREADS, ROUNDS, N = 4, 15, 384


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Fifteen launches and reads per thread, at the same time."""
    program = build(ctx, SOURCE)
    data = np.random.default_rng(23).integers(0, 1 << 32, N, dtype=np.uint32)
    data_dev = to_device(ctx, data)
    cl.Kernel(program, "ht_hash")  # pyopencl makes code that calls it, and warns where two threads do
    outputs: Outputs = {}
    errors: list[BaseException] = []

    def work(k: int) -> None:
        try:
            own_queue, kernel = cl.CommandQueue(ctx), cl.Kernel(program, "ht_hash")
            mine = np.full(N, k, np.uint32)
            device = to_device(ctx, mine)
            history: list[Array] = []
            for r in range(ROUNDS):
                kernel(own_queue, (N,), (32,), data_dev, device, np.uint32(k * 100 + r))
                mine = (mine ^ data) * np.uint32(2654435761) + np.uint32(k * 100 + r)
                history.append(to_host(own_queue, device, mine))
                same(history[-1], mine, f"thread {k}, round {r}")
            outputs[f"thread{k}"] = np.stack(history)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return outputs
