"""What C makes of enumerations, designators, compound literals, truth and arrays of no elements."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "co_enumerations": "split",
    "co_lists": "split",
    "co_literals": "split",
    "co_truth": "split",
    "co_ends": "split",
}
ITEMS, PER_ITEM = 96, 8

SOURCE = r"""
enum whole { NONE, SOME, MANY = 7 };
enum signed_one { LESS = -1, MORE };
enum __attribute__((packed)) small { TINY, LITTLE = 200 };
__kernel void co_enumerations(__global int *out)
{
    int i = get_global_id(0);
    __global int *own = out + 8 * i;
    enum whole whole = i - 48;
    enum signed_one low = i - 48;
    enum small small = i * 8;
    long of_whole = whole, of_low = low;
    own[0] = of_whole >> 32;
    own[1] = of_low >> 32;
    own[2] = (float)whole > 4e9f;
    own[3] = whole >> 31;
    own[4] = low < 0;
    own[5] = sizeof(small) + small;
    switch (whole) {
    case NONE ... MANY: own[6] = 1; break;
    default: own[6] = 2;
    }
}

enum { X, Y, Z, LAST };
struct inner { short low, high; };
struct outer { int list[3]; union { int i; float f; }; struct inner in[2]; char text[4]; };
__constant struct outer table[LAST + 1] = {
    [Y] = { { 1, 2, 3 }, .f = 1.0f, { [1].high = 4 }, "ab" },
    [X].in[0].low = 5, 6, { 7 }, "cdef",
    [LAST] = { .list = { [1 ... 2] = 8 }, .text[1] = 'x' },
};
__kernel void co_lists(__global int *out)
{
    int i = get_global_id(0);
    __global int *own = out + 8 * i;
    struct outer one = { .list[1] = i, 2, { 3 }, .in = { [0 ... 1] = { 4, 5 } }, .in[1].low = i };
    float4 rows[2][2] = { [1] = { 1, { 2, 3, i, 4 } }, [0][1] = (float4)(4) };
    own[0] = table[i & 3].list[2] + 10 * table[i & 3].in[0].low + 100 * table[i & 3].in[1].low;
    own[1] = table[i & 3].in[1].high + 10 * (table[i & 3].f == 1.0f) + 100 * table[i & 3].in[0].high;
    own[2] = table[i & 3].text[1] + table[i & 3].text[3];
    own[3] = one.list[0] + one.list[1] + 1000 * one.list[2] + 10000 * one.i;
    own[4] = one.in[0].high + 10 * one.in[1].high + 100 * one.in[1].low;
    own[5] = rows[1][1].z + 1000 * rows[0][1].w + 10000 * rows[1][0].y + 100000 * rows[0][0].x;
}

__kernel void co_literals(__global int *out)
{
    int i = get_global_id(0), sum = 0, at = 0;
    __global int *own = out + 8 * i;
    own[0] = ((int[]){ i, 2, 3, 4 })[i & 3];
    own[1] = (&(struct inner){ 3, i })->high + ((struct inner){ 1, i }.high += 2);
    own[2] = ((float4[]){ (float4)(1), (float4)(i) })[1].z;
again:
    sum += ((int[]){ at, 10 })[i & 1]++;
    if (++at < 3)
        goto again;
    own[3] = sum;
    for (int k = 0; k < 3; k++)
        own[4] += ((int[2][2]){ { k, k + 1 }, { [1] = i } })[1][k & 1];
}

__kernel void co_truth(__global int *out)
{
    int i = get_global_id(0);
    __global int *own = out + 8 * i;
    bool a = i & 1, b = i & 2, c;
    a++;
    own[0] = a;
    a--;
    own[1] = a;
    --a;
    own[2] = a;
    c = b--;
    own[3] = c + 2 * b;
    b *= 0.5f;
    own[4] = b;
}

struct ended { int count; int values[]; };
__kernel void co_ends(__global int *out)
{
    int i = get_global_id(0);
    __global struct ended *own = (__global struct ended *)(out + 8 * i);
    own->count = sizeof(struct ended) + __builtin_offsetof(struct outer, in[1].high);
    own->values[i & 3] = i;
    __global int *last = own->values + 6;
    *last = own->values[i & 3] * 2;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each kernel on 96 items, against the same on the host."""
    i = np.arange(ITEMS, dtype=np.int64)
    zero = np.zeros(ITEMS, np.int64)
    below = i < 48
    wide = np.where(below, 1, 0)
    kind = np.where((i >= 48) & (i <= 55), 1, 2)
    small = 1 + (8 * i & 255)
    enumerations = [zero, -wide, wide, wide, wide, small, kind]
    at = i & 3
    table = [
        np.choose(at, (50 + 700, 3, 0, 8)),
        np.choose(at, (600, 4 + 10, 0, 0)),
        np.choose(at, (ord("d") + ord("f"), ord("b"), 0, ord("x"))),
    ]
    lists = [*table, i + 2000 + 30000, 5 + 50 + 100 * i, i + 4000 + 10000]
    sums = np.where(i & 1, 30, 3)
    literals = [np.choose(at, (i, 2, 3, 4)), 2 * i + 2, i, sums, i]
    two = i >> 1 & 1
    truth = [zero + 1, zero, zero + 1, two + 2 * (1 - two), 1 - two]
    ends = [zero + 4 + 22, *(np.where(at == k, i, 0) for k in range(4)), zero, zero, 2 * i]
    outputs: Outputs = {}
    columns = (enumerations, lists, literals, truth, ends)
    for kernel, name, expected in zip(
        kernels(ctx, SOURCE, *KERNELS, options=["-w"]), KERNELS, columns, strict=True
    ):
        filled = np.zeros((ITEMS, PER_ITEM), np.int32)
        out = to_device(ctx, filled)
        kernel(queue, (ITEMS,), (8,), out)
        outputs[name] = to_host(queue, out, filled)
        filled[:, : len(expected)] = np.stack(expected, 1)
        same(outputs[name], filled, name)
    return outputs
