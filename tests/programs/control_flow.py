"""Loops of unknown length, ``switch``, ``goto``-like exits and private arrays, on each item's own data."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"cf_collatz": "split", "cf_machine": "split"}

SOURCE = """
__kernel void cf_collatz(__global const uint *start, __global ushort *steps, __global uint *peak)
{
    size_t i = get_global_id(0);
    ulong v = start[i], top = v;
    ushort n = 0;
    for (;;) {
        if (v <= 1)
            break;
        v = v & 1 ? 3 * v + 1 : v >> 1;
        top = max(top, v);
        if (++n == 500)
            break;
    }
    steps[i] = n;
    peak[i] = (uint)min(top, (ulong)UINT_MAX);
}

__kernel void cf_machine(__global const uchar *code, __global int *out, int length)
{
    int stack[8] = { 0 }, depth = 0, acc = (int)get_global_id(0);
    for (int pc = 0; pc < length; ++pc) {
        switch (code[get_group_id(0) * length + pc] & 7) {
        case 0: acc += pc; break;
        case 1: acc *= 3; break;
        case 2: if (depth < 8) stack[depth++] = acc; break;
        case 3: if (depth > 0) acc ^= stack[--depth]; break;
        case 4: if (acc & 1) continue; /* fall through */
        case 5: acc -= 7; break;
        case 6: do acc >>= 1; while (acc > 1000000); break;
        default: acc = ~acc;
        }
    }
    out[get_global_id(0)] = acc + stack[depth & 7];
}
"""


def machine(code: np.ndarray, acc: int) -> int:
    """The interpreter on the host, in 32-bit arithmetic."""
    stack, depth = [0] * 8, 0

    def wrap(v: int) -> int:
        return (v + (1 << 31)) % (1 << 32) - (1 << 31)

    for pc, op in enumerate(code & 7):
        match int(op):
            case 0:
                acc = wrap(acc + pc)
            case 1:
                acc = wrap(acc * 3)
            case 2 if depth < 8:
                stack[depth] = acc
                depth += 1
            case 3 if depth > 0:
                depth -= 1
                acc ^= stack[depth]
            case 4 | 5:
                if op == 5 or not acc & 1:
                    acc = wrap(acc - 7)
            case 6:
                acc >>= 1
                while acc > 1_000_000:
                    acc >>= 1
            case 7:
                acc = ~acc
    return wrap(acc + stack[depth & 7])


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Collatz sequences of 104 numbers, and 9 little programs run by 8 items each."""
    collatz, interpreter = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(42)
    start = rng.integers(1, 100_000, 104, dtype=np.uint32)
    code = rng.integers(0, 8, (9, 24), dtype=np.uint8)
    steps_dev, peak_dev = to_device(ctx, np.zeros(104, np.uint16)), to_device(ctx, np.zeros(104, np.uint32))
    out_dev = to_device(ctx, np.zeros(72, np.int32))
    collatz(queue, (104,), (8,), to_device(ctx, start), steps_dev, peak_dev)
    interpreter(queue, (72,), (8,), to_device(ctx, code), out_dev, np.int32(24))
    outputs = {
        "steps": to_host(queue, steps_dev, np.zeros(104, np.uint16)),
        "peak": to_host(queue, peak_dev, start),
        "out": to_host(queue, out_dev, np.zeros(72, np.int32)),
    }
    expected = np.array([machine(code[g // 8], g) for g in range(72)], np.int32)
    same(outputs["out"], expected, "interpreted")
    for k, v in enumerate(map(int, start)):
        n = 0
        while v > 1 and n < 500:
            v, n = 3 * v + 1 if v & 1 else v >> 1, n + 1
        assert outputs["steps"][k] == n, f"steps of {start[k]}: {outputs['steps'][k]}, expected {n}"
    return outputs
