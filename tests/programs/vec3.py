"""Three-element vectors: 16 bytes apart as arrays, packed by ``vload3`` and ``vstore3``, as arguments."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, same, to_device, to_host

KERNELS: dict[str, str] = {"v3_cross": "split", "v3_packed": "split", "v3_turned": "split"}

SOURCE = """
__kernel void v3_cross(__global const float3 *a, __global const float3 *b, __global float4 *out, float3 bias)
{
    size_t i = get_global_id(0);
    float3 c = cross(a[i], b[i]) + bias;
    out[i] = (float4)(c, sizeof(float3) + length(a[i].zyx));
}

__kernel void v3_packed(__global const short *in, __global short *out, int3 scale)
{
    size_t i = get_global_id(0);
    short3 v = vload3(i, in);
    v.yz = v.zy * convert_short2(scale.xy);
    vstore3(v + (short)scale.z, get_global_size(0) - 1 - i, out);
}

__kernel void v3_turned(__global const int3 *in, __global int3 *out)
{
    size_t i = get_global_id(0);
    out[i] = in[i].zxy;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Cross products of 90 pairs, 104 packed triples in reverse order, and 48 turned ones."""
    cross, packed, turned = kernels(ctx, SOURCE, *KERNELS)
    rng = np.random.default_rng(7)
    a, b = rng.random((2, 90, 4), dtype=np.float32)
    bias = np.array([1, 2, 3, 0], np.float32)
    out = to_device(ctx, np.zeros((90, 4), np.float32))
    cross(queue, (90,), (9,), to_device(ctx, a), to_device(ctx, b), out, bias)

    triples = rng.integers(-100, 100, (104, 3), dtype=np.int16)
    reverse = to_device(ctx, np.zeros((104, 3), np.int16))
    packed(queue, (104,), (8,), to_device(ctx, triples), reverse, np.array([3, -2, 7, 0], np.int32))

    fours = rng.integers(0, 1000, (48, 4), dtype=np.int32)
    turned_dev = to_device(ctx, np.full((48, 4), -1, np.int32))
    turned(queue, (48,), (8,), to_device(ctx, fours), turned_dev)

    outputs = {"cross": to_host(queue, out, a), "packed": to_host(queue, reverse, triples)}
    # What drivers write into the padding is theirs; members have the same driver.
    outputs["turned"] = to_host(queue, turned_dev, fours)
    same(outputs["turned"][:, :3], fours[:, [2, 0, 1]], "turned triples")
    near(outputs["cross"][:, :3], np.cross(a[:, :3], b[:, :3]) + bias[:3], "cross product", atol=1e-5)
    near(outputs["cross"][:, 3], 16 + np.linalg.norm(a[:, :3], axis=1), "length")
    expected = np.stack([triples[:, 0], triples[:, 2] * 3, triples[:, 1] * -2], axis=1) + 7
    same(outputs["packed"], expected.astype(np.int16)[::-1], "packed triples")
    return outputs
