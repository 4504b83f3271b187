"""What GNU C adds to C99 and OpenCL drivers made of clang take, and names beyond ASCII."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {
    "gc_prototypes": "split",
    "gc_parameters": "split",
    "gc_expressions": "split",
    "gc_jumps": "split",
    "gc_either": "split",
    "gc_hidden": "split",
    "gc_größen": "split",
    "gc_loose": "split",
}
ITEMS = 96

SOURCE = r"""
__kernel void gc_prototypes(__global int *out)
{
    int item(int), twice = 2, thrice(int);
    for (int i = 0; i < 3; i++) {
        int thrice(int);
        twice += thrice(i);
    }
    out[get_global_id(0)] = item(twice);
}
int thrice(int a) { return 3 * a; }
int item(int factor) { return (int)get_global_id(0) * factor; }

__kernel void gc_parameters(__global int *out, struct pair { int low; short high; } pair,
                            __global const struct entry { char key; int value; } *const entries,
                            enum { SMALL = 3, LARGE = 1 << 20 } step)
{
    size_t i = get_global_id(0);
    struct pair other = { entries[i].value, pair.high };
    out[i] = pair.low * step + other.low + other.high;
    out[i] += ((struct { int a, b; }){ other.low, LARGE }).b / LARGE;
}

#define LARGER(a, b) ({ int a_ = (a), b_ = (b); a_ > b_ ? a_ : b_; })
__kernel void gc_expressions(__global int *out, __global int4 *wide)
{
    int i = get_global_id(0);
    int sum = ({
        int n = 0;
        for (int k = 0; k < 100; k++) { if (k == i) break; if (k & 1) continue; n += k; }
        n;
    });
    sum += ({
        int kind;
        switch (i & 3) { case 0: kind = 5; break; case 1: kind = 7; default: kind = 9; }
        kind;
    });
    sum += ({ int n = i; again: if (n > 6) { n -= 6; goto again; } n; });
    wide[i] = ({ int4 v = (int4)(i); v.yw += ({ int2 w = v.xz; w.x--; w; }); v; });
    ({ sum++; });
    ({ });
    out[i] = LARGER(sum, LARGER(i, 3));
}

__kernel void gc_jumps(__global int *out)
{
    int i = get_global_id(0), total = 0;
    for (int k = 0; k < 8; k++) {
        int doubled = ({ if (k == (i & 7)) continue; 2 * k; });
        total += ({ if (doubled > 10) break; doubled; });
    }
    out[i] = -1;
    out[i] = ({ if (i % 5 == 0) return; total; });
}

__kernel void gc_either(__global int *out, __global int4 *wide)
{
    int i = get_global_id(0), calls = 0;
    out[i] = (calls++, i & 3) ?: 40 + calls;
    int4 v = (int4)(-1, 0, i, -i);
    wide[i] = v ?: (int4)(7);
}

struct pair { int low; int high; };
union view { int i; float f; };
enum { ONE = 1 };
__kernel void gc_hidden(__global int *out, __global struct pair *pairs)
{
    int i = get_global_id(0), sum = ONE;
    struct pair outer = pairs[i];
    {
        struct pair { char low; float high; double more; };
        enum { ONE = 10 };
        union view { short i[2]; uint u; } view = { .u = 0x20001 };
        struct pair inner = { 3, 2.5f, 4 }, pair = inner;
        sum += pair.low + (int)(pair.high * 2) + (int)sizeof(struct pair) + ONE + view.i[1];
    }
    { struct pair { int b, c; } inner = { .c = 5 }; sum += inner.b + inner.c; }
    union view view = { .f = 1.0f };
    int pair = outer.low;
    out[i] = sum + pair + outer.high + ONE + (view.i >> 23);
}

#define VERDOPPLE(größe) ((größe) * 2)
#define ÜBRIG 4
struct Maß { int länge; };
enum Art { klein = 1, groß = 3 };
int π_mal(int größe) { return 3 * größe; }
__kernel void gc_größen(__global int *ausgänge, __constant int *λ)
{
    int größe = (int)get_global_id(0);
    struct Maß maß = { .länge = π_mal(größe) };
    if (größe & 1)
        goto übrig;
    maß.länge += VERDOPPLE(λ[größe & 3]);
übrig:
    ausgänge[größe] = maß.länge + groß + ÜBRIG + sizeof("größe");
}

__constant float least = -INFINITY;
__constant float scale = 256.0f;
static const __constant float part = 16.0f / scale, tiny = 1e-50, parts[2] = { 16.0f / scale, INFINITY };
__constant int wrapped = 2147483647 + 1, table[1] = { 5 };
__constant char letters[3] = "abc";
_Static_assert(sizeof(int) == 4, "int");
struct mode { enum { FIRST, SECOND = 5 } kind; int more; };
int __attribute__((overloadable)) of(__global const int *p) { return p[0]; }
int __attribute__((overloadable)) of(__local int *p) { return p[0] * 10; }
int __attribute__((overloadable)) of(__constant int *p) { return p[0] * 100; }
int next_of(int *p) { return p[1]; }
__kernel void gc_loose(__global int *out, __global const int *numbers, __global int4 *wide)
{
    #pragma OPENCL FP_CONTRACT OFF
    int i = get_global_id(0);
    __local int shared[1];
    shared[0] = 4;
    const int own[2] = { i, 2 * i };
    struct mode mode = { SECOND, 1 };
    int sum = next_of(own) + of(numbers) + of(shared) + of(table) + mode.kind + letters[i % 3];
    for (int k = 0; k < 3; k++) { float k = 2.5f; sum += (int)(k * 2); }
    sum += (least < -1e38f) + (int)(part * 1024) + (tiny == 0) + (parts[0] == part) + (parts[1] > 1e38f);
    sum += wrapped < 0;
    int4 pieces[2] = { 3, 4 }, both[1][2] = { 5, 6 };
    sum += pieces[i & 1].y + both[0][1].w;
    __global const void *at = numbers;
    at = at + 4 * (i & 3);
    sum += *(__global const int *)at;
    at++;
    at += 3;
    sum += *(__global const int *)at + (int)(at - (__global const void *)numbers);
    switch (i & 3) {
    case 0:
        sum += 7;
        __attribute__((fallthrough));
    case 1:;
        int2 both = (int2)(i, 1);
        sum += both.x + both.y;
        break;
    default:
        break;
    }
    out[i] = sum;
    if (i & 1)
        goto end;
    int4 v = (int4)(i);
    wide[i] = v * 2;
end:;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each kernel on 96 items, against the same on the host."""
    prototypes, parameters, expressions, jumps, either, hidden, sizes, loose = kernels(
        ctx, SOURCE, *KERNELS, options=["-w"]
    )
    empty, four = np.zeros(ITEMS, np.int32), np.zeros((ITEMS, 4), np.int32)
    i = np.arange(ITEMS, dtype=np.int32)
    outputs: Outputs = {}

    def launch(name: str, kernel: cl.Kernel, expected: np.ndarray, *arguments: object) -> None:
        out = to_device(ctx, empty)
        kernel(queue, (ITEMS,), (8,), out, *arguments)
        outputs[name] = to_host(queue, out, empty)
        same(outputs[name], expected.astype(np.int32), name)

    launch("prototypes", prototypes, i * 11)
    entries = np.zeros(ITEMS, np.dtype([("key", np.int8), ("value", np.int32)], align=True))
    entries["value"] = i * 7
    pair = np.zeros((), np.dtype([("low", np.int32), ("high", np.int16)], align=True))
    pair["low"], pair["high"] = 5, -2
    launch("parameters", parameters, 15 + 1 + 7 * i - 2, pair, to_device(ctx, entries), np.int32(3))

    wide = to_device(ctx, four)
    even = (i + 1) // 2
    kind = np.choose(i & 3, (5, 9, 9, 9))
    left = np.where(i > 6, (i - 1) % 6 + 1, i)
    total = even * (even - 1) + kind + left + 1
    launch("expressions", expressions, np.maximum(np.maximum(i, 3), total), wide)
    outputs["wide"] = to_host(queue, wide, four)
    same(outputs["wide"], np.stack([i, 2 * i - 1, i, 2 * i], 1), "vectors of statement expressions")

    # 0 + 2 + 4 + 6 + 8 + 10 until one is larger, without the one that is skipped.
    expected = np.where(i % 5 == 0, -1, 30 - np.where((i & 7) < 6, 2 * (i & 7), 0))
    launch("jumps", jumps, expected)
    launch("either", either, np.where(i & 3, i & 3, 41), wide)
    outputs["chosen"] = to_host(queue, wide, four)
    seven = np.full(ITEMS, 7)
    same(
        outputs["chosen"], np.stack([seven - 8, seven, seven, np.where(i, -i, 7)], 1), "either of two vectors"
    )

    pairs = np.stack([i * 2, i * 3], 1).astype(np.int32)
    launch("hidden", hidden, 1 + 3 + 5 + 16 + 10 + 2 + 5 + 5 * i + 1 + 127, to_device(ctx, pairs))
    table = np.array([1, 10, 100, 1000], np.int32)
    added = np.where(i & 1, 0, 2 * table[i & 3])
    launch("sizes", sizes, 3 * i + added + 3 + 4 + 8, to_device(ctx, table))
    numbers = 3 * np.arange(8, dtype=np.int32) + 2
    total = 2 * i + 2 + 40 + 500 + 5 + np.frombuffer(b"abc", np.uint8)[i % 3] + 15 + 1 + 64 + 4
    total += numbers[i & 3] + numbers[(i & 3) + 1] + 4 * ((i & 3) + 1)
    total += 3 + (i & 1) + 6
    total += np.where(i & 3 == 0, 7, 0) + np.where(i & 3 < 2, i + 1, 0)
    wide = to_device(ctx, four)
    launch("loose", loose, total, to_device(ctx, numbers), wide)
    outputs["jumped over"] = to_host(queue, wide, four)
    same(outputs["jumped over"], np.where(i & 1, 0, 2 * i)[:, None].repeat(4, 1), "what is jumped over")
    return outputs
