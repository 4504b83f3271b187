"""Functions of a program's own that are named like built-in ones: the arguments say which is called."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"oo_mix": "split"}

SOURCE = """
float4 step(float4 a) { return a + 1; }
static int2 max(int2 a, int2 b, int2 c) { return max(max(a, b), c); }
float min(float a, int scale) { return a * scale; }
void vstore4(float4 v, global float *at) { vstore4(v.wzyx, 0, at); }

kernel void oo_mix(global float *out, global int *numbers, global const float *in)
{
    size_t i = get_global_id(0);
    float a = in[i];
    float4 four = step((float4)(a)) + step(a, 0.5f) + (float)min(3, 5) * min(a, 2);
    int2 three = max((int2)(i), (int2)(7), (int2)(30, 90)) + max(numbers[i], 11);
    vstore4(four + (float4)(0, 1, 2, 3), out + 8 * i);
    vstore4(step(four), 1, out + 8 * i);
    numbers[i] = three.x + 3 * three.y;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each of them beside the built-in function of its name."""
    (mix,) = kernels(ctx, SOURCE, "oo_mix")
    n = 160
    random = np.random.default_rng(12)
    given = random.integers(0, 8, n).astype(np.float32) / 8
    numbers = random.integers(-40, 40, n, dtype=np.int32)
    buffers = [to_device(ctx, each) for each in (np.zeros((n, 8), np.float32), numbers, given)]
    mix(queue, (n,), (16,), *buffers)
    four = given + 1 + np.where(np.float32(0.5) < given, 0, 1) + 6 * given
    expected = np.stack([four + k for k in (3, 2, 1, 0)] + [four + 1] * 4, axis=1).astype(np.float32)
    i = np.arange(n)
    more = np.maximum(numbers, 11)
    expected_numbers = (np.maximum(i, 30) + more + 3 * (np.maximum(i, 90) + more)).astype(np.int32)
    outputs = {
        "out": to_host(queue, buffers[0], expected),
        "numbers": to_host(queue, buffers[1], expected_numbers),
    }
    same(outputs["out"], expected, "out")
    same(outputs["numbers"], expected_numbers, "numbers")
    return outputs
