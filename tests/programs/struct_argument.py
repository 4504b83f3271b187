"""Structs passed by value, nested and with padding, and members of them used as sizes."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"sa_apply": "split"}

SOURCE = """
typedef struct { char tag; int shift; } inner_t;
typedef struct { short count; inner_t inner[2]; long scale; float4 weights; uchar last; } outer_t;

long weigh(outer_t s, int k) { return s.scale * (long)s.weights[k & 3] + s.inner[k & 1].shift; }

__kernel void sa_apply(__global long *out, outer_t s, inner_t extra)
{
    int i = get_global_id(0);
    if (i < s.count)
        out[i] = weigh(s, i) * s.last + extra.tag + extra.shift * (long)sizeof(outer_t) + s.inner[1].tag * i;
}
"""

INNER = np.dtype([("tag", "i1"), ("shift", "<i4")], align=True)
OUTER = np.dtype(
    {
        "names": ["count", "inner", "scale", "weights", "last"],
        "formats": ["<i2", (INNER, 2), "<i8", ("<f4", 4), "u1"],
        "offsets": [0, 4, 24, 32, 48],
        "itemsize": 64,
    }
)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Apply two different structs in a row, the second over the first's result."""
    (apply,) = kernels(ctx, SOURCE, "sa_apply")
    first = np.zeros((), OUTER)
    first["count"], first["scale"], first["last"] = 83, -(1 << 33), 200
    first["inner"] = [(1, 10), (2, 20)]
    first["weights"] = [3, 5, 7, 9]
    second = first.copy()
    second["count"], second["last"] = 50, 3
    extra = np.zeros((), INNER)
    extra["tag"], extra["shift"] = -4, 1000

    start = np.full(96, -1, np.int64)
    out_dev = to_device(ctx, start)
    outputs: Outputs = {}
    i = np.arange(96)
    for name, s in (("first", first), ("second", second)):
        apply(queue, (96,), (8,), out_dev, s[()], extra[()])
        weigh = int(s["scale"]) * s["weights"].astype(np.int64)[i & 3] + s["inner"]["shift"][i & 1]
        value = weigh * int(s["last"]) - 4 + 1000 * 64 + 2 * i
        start = np.where(i < s["count"], value, start)
        outputs[name] = to_host(queue, out_dev, start)
        same(outputs[name], start, name)
    return outputs
