"""Results of atomic functions that are seldom used: searches without a hit, with one and many; errors."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"se_search": "some", "se_error": "split", "se_first": "some", "se_list": "some"}

SOURCE = """
uint hash(uint x)
{
    for (int i = 0; i < 9; i++)
        x = (x ^ (x >> 15)) * 0x2c1b3c6du + i;
    return x;
}

__kernel void se_search(volatile __global uint *found, __global uint2 *results, uint wanted, uint mask,
                        __global uint *sums)
{
    uint i = get_global_id(0), h = hash(i);
    sums[i] = h;
    if ((h & mask) == wanted) {
        uint at = atomic_inc(found);
        if (at < 16) {
            results[at].x = i;
            results[at].y = h;
        }
    }
}

int claim(volatile __global int *flag)
{
    return atomic_cmpxchg(flag, 0, 1) == 0;
}

__kernel void se_error(__global const float *in, __global float *out, volatile __global int *error,
                       __global int *where)
{
    int i = get_global_id(0);
    out[i] = sqrt(in[i]);
    if (in[i] < 0 && claim(error))
        *where = i;
}

__kernel void se_first(__global const int *in, __global int *state, int n)
{
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        if (state[0])
            return;
        if (in[i] == 12345 && !atomic_xchg(&state[0], 1))
            state[1] = i;
    }
}

/* What was found lies behind its counter. */
__kernel void se_list(volatile __global uint *list, uint wanted, uint mask, uint room)
{
    uint i = get_global_id(0);
    if ((hash(i) & mask) == wanted) {
        uint at = atomic_inc(list);
        if (at < room)
            list[1 + at] = i;
    }
}
"""

GROUPS, LOCAL = 20, 32
N = GROUPS * LOCAL


def hashes() -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    """Of all numbers."""
    x = np.arange(N, dtype=np.uint32)
    for i in range(9):
        x = (x ^ (x >> np.uint32(15))) * np.uint32(0x2C1B3C6D) + np.uint32(i)
    return x


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """What depends on the order of work-items is sorted, or left out."""
    search, error, first, behind = kernels(ctx, SOURCE, *KERNELS)
    outputs: Outputs = {}
    known = hashes()
    only = known[137]
    assert np.count_nonzero(known == only) == 1
    for name, wanted, mask in (
        ("none", 1, 0),
        ("one", int(only), 0xFFFFFFFF),
        ("one again", int(only), 0xFFFFFFFF),
        ("none again", 1, 0),
        ("many", 3, 63),
    ):
        found_dev, results_dev = (
            to_device(ctx, np.zeros(1, np.uint32)),
            to_device(ctx, np.zeros((16, 2), np.uint32)),
        )
        sums_dev = to_device(ctx, np.zeros(N, np.uint32))
        search(queue, (N,), (LOCAL,), found_dev, results_dev, np.uint32(wanted), np.uint32(mask), sums_dev)
        outputs[f"{name} count"] = to_host(queue, found_dev, np.zeros(1, np.uint32))
        results = to_host(queue, results_dev, np.zeros((16, 2), np.uint32))
        outputs[f"{name} results"] = np.array(sorted(map(tuple, results.tolist())), np.uint32)
        outputs[f"{name} sums"] = to_host(queue, sums_dev, np.zeros(N, np.uint32))
        same(outputs[f"{name} sums"], known, name)
        assert outputs[f"{name} count"][0] == np.count_nonzero((known & np.uint32(mask)) == wanted) <= 16
        list_dev = to_device(ctx, np.zeros(17, np.uint32))
        behind(queue, (N,), (LOCAL,), list_dev, np.uint32(wanted), np.uint32(mask), np.uint32(16))
        listed = to_host(queue, list_dev, np.zeros(17, np.uint32))
        outputs[f"{name} listed"] = np.array([listed[0], *sorted(listed[1:])], np.uint32)
        assert listed[0] == outputs[f"{name} count"][0], name

    data = np.linspace(0, 9, N, dtype=np.float32)
    for name, bad in (("right", []), ("wrong", [500]), ("worse", [300, 301])):
        data[bad] = -1
        out_dev, where_dev = to_device(ctx, np.zeros(N, np.float32)), to_device(ctx, np.zeros(1, np.int32))
        error_dev = to_device(ctx, np.zeros(1, np.int32))
        error(queue, (N,), (LOCAL,), to_device(ctx, data), out_dev, error_dev, where_dev)
        outputs[f"{name} roots"] = to_host(queue, out_dev, data)
        outputs[f"{name} error"] = to_host(queue, error_dev, np.zeros(1, np.int32))
        (where,) = to_host(queue, where_dev, np.zeros(1, np.int32))
        assert (where in (500, *bad)) if name != "right" else where == 0, name
        data[bad] = 1

    numbers = np.arange(3 * N, dtype=np.int32)
    for name, at in (("missing", []), ("present", [700]), ("often", [5, 600, 1500])):
        numbers[at] = 12345
        state_dev = to_device(ctx, np.zeros(2, np.int32))
        first(queue, (N,), (LOCAL,), to_device(ctx, numbers), state_dev, np.int32(3 * N))
        state = to_host(queue, state_dev, np.zeros(2, np.int32))
        assert state[1] in (at or [0]), name
        outputs[name] = state[:1]
        numbers[at] = 0
    return outputs
