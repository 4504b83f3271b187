"""Components of vectors that pointers lead to: ``p->x``, of arguments, structures and private copies."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"next_ones": "split", "turned": "split", "moved": "split"}

SOURCE = """
typedef struct { float4 at; float4 speed[2]; } Body;

float length2(__global const float4 *p) { return p->x * p->x + p->y * p->y; }

__kernel void next_ones(__global const float4 *from, __global float *to)
{
    int i = get_global_id(0);
    __global const float4 *next = from + i + 1;
    to[i] = next->w + (from + i)->s2 + length2(&from[i]) + next->hi.x;
}

__kernel void turned(__global float4 *at)
{
    __global float4 *p = at + get_global_id(0);
    float4 old = *p, *q = &old;
    p->xy = q->yx;
    (*p).z = -q->z;
    p->w += 1;
}

__kernel void moved(__global Body *bodies, __global const int *which)
{
    __global Body *b = bodies + get_global_id(0);
    __global float4 *speed = b->speed + which[get_global_id(0)];
    b->speed->x += 1;
    (&b->at)->lo += speed->lo;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Launch the three kernels."""
    next_ones, turned, moved = kernels(ctx, SOURCE, "next_ones", "turned", "moved")
    random = np.random.default_rng(27)
    count = 320
    values = random.integers(0, 100, (count + 1, 4)).astype(np.float32)
    expected = values[1:, 3] + values[:-1, 2] + (values[:-1, :2] ** 2).sum(1) + values[1:, 2]
    to = to_device(ctx, np.zeros(count, np.float32))
    next_ones(queue, (count,), (16,), to_device(ctx, values), to)
    outputs: Outputs = {"next": to_host(queue, to, expected)}
    same(outputs["next"], expected, "what the next elements have")

    turned_values = np.stack([values[:, 1], values[:, 0], -values[:, 2], values[:, 3] + 1], 1)[:count]
    at = to_device(ctx, values[:count])
    turned(queue, (count,), (16,), at)
    outputs["turned"] = to_host(queue, at, turned_values)
    same(outputs["turned"], turned_values, "components that change places")

    bodies = random.integers(0, 100, (count, 3, 4)).astype(np.float32)
    which = random.integers(0, 2, count).astype(np.int32)
    after = bodies.copy()
    after[:, 1, 0] += 1
    after[:, 0, :2] += after[np.arange(count), 1 + which, :2]
    bodies_dev = to_device(ctx, bodies)
    for _ in range(2):
        moved(queue, (count,), (16,), bodies_dev, to_device(ctx, which))
    after[:, 1, 0] += 1
    after[:, 0, :2] += after[np.arange(count), 1 + which, :2]
    outputs["moved"] = to_host(queue, bodies_dev, after)
    same(outputs["moved"], after, "components of structures")
    return outputs
