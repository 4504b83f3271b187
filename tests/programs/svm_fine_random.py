"""Fine-grained regions used by kernels and, beside what they use, by the application, in random order."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same
from tests.programs._svm import has_fine_grain
from tests.programs.svm_fine import fine

NEEDS = has_fine_grain
KERNELS: dict[str, str] = {"sr_mix": "beside"}

SOURCE = """
kernel void sr_mix(global int *a, global const int *b, int at, int from)
{
    int i = get_global_id(0);
    a[at + i] = 3 * a[at + i] + b[from + i];
}
"""
COUNT, STEPS = 24 << 10, 160


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """The application keeps off the ints of launches that it has not waited for, and sees all others."""
    (mix,) = kernels(ctx, SOURCE, *KERNELS)
    random = np.random.default_rng(17)
    regions, expected, pending = [], [], []
    for _ in range(3):
        region, found = fine(ctx, 4 * COUNT)
        regions.append((region, found.view(np.int32)))
        regions[-1][1][:] = 0
        expected.append(np.zeros(COUNT, np.int32))
        pending.append(np.zeros(COUNT, bool))

    def part() -> tuple[int, int]:
        count = 16 * int(random.integers(64, COUNT // 32))
        return int(random.integers(0, COUNT - count)), count

    out: Outputs = {}
    for step in range(STEPS):
        k = int(random.integers(3))
        seen, at, count = regions[k][1], *part()
        match random.choice(["launch", "launch", "write", "write", "look", "finish"]):
            case "launch":
                other = int((k + random.integers(1, 3)) % 3)
                start = int(random.integers(0, COUNT - count))
                mix.set_args(regions[k][0], regions[other][0], np.int32(at), np.int32(start))
                cl.enqueue_nd_range_kernel(queue, mix, (count,), (16,))
                expected[k][at : at + count] *= 3
                expected[k][at : at + count] += expected[other][start : start + count]
                pending[k][at : at + count] = pending[other][start : start + count] = True
            case "write":
                free = at + np.flatnonzero(~pending[k][at : at + (count if step % 5 else 9)])
                seen[free] = expected[k][free] = random.integers(-9, 9, len(free))
            case "look":
                free = at + np.flatnonzero(~pending[k][at : at + count])
                same(seen[free], expected[k][free], f"step {step}")
            case _:
                queue.finish()
                for each in pending:
                    each[:] = False
    queue.finish()
    for k, (_, seen) in enumerate(regions):
        same(seen, expected[k], f"region {k}")
        out[f"region {k}"] = seen.copy()
    return out
