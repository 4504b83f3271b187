"""Gravity between all pairs of bodies, with positions staged through ``__local`` memory."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, near, to_device, to_host

KERNELS: dict[str, str] = {"nb_forces": "split", "nb_move": "split"}

SOURCE = """
__kernel void nb_forces(__global const float4 *position, __global float4 *velocity, __local float4 *tile,
                        int n, float dt)
{
    int i = get_global_id(0), lid = get_local_id(0), size = get_local_size(0);
    float4 me = position[i];
    float3 pull = (float3)(0.0f);
    for (int base = 0; base < n; base += size) {
        tile[lid] = position[base + lid];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < size; ++k) {
            float3 d = tile[k].xyz - me.xyz;
            float r = rsqrt(dot(d, d) + 0.01f);
            pull += d * (tile[k].w * r * r * r);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    velocity[i].xyz += pull * dt;
}

__kernel void nb_move(__global float4 *position, __global const float4 *velocity, float dt)
{
    int i = get_global_id(0);
    position[i].xyz += velocity[i].xyz * dt;
}
"""


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Ten steps of 288 bodies."""
    forces, move = kernels(ctx, SOURCE, *KERNELS)
    n, dt = 288, np.float32(0.001)
    position = np.random.default_rng(31).random((n, 4), dtype=np.float32)
    velocity = np.zeros((n, 4), np.float32)
    p_dev, v_dev = to_device(ctx, position), to_device(ctx, velocity)
    p, v = position.astype(np.float64), velocity.astype(np.float64)
    for _ in range(10):
        forces(queue, (n,), (32,), p_dev, v_dev, cl.LocalMemory(32 * 16), np.int32(n), dt)
        move(queue, (n,), (32,), p_dev, v_dev, dt)
        d = p[None, :, :3] - p[:, None, :3]
        weight = p[None, :, 3] * ((d * d).sum(axis=2) + 0.01) ** -1.5
        v[:, :3] += (d * weight[..., None]).sum(axis=1) * dt
        p[:, :3] += v[:, :3] * dt
    outputs = {"position": to_host(queue, p_dev, position), "velocity": to_host(queue, v_dev, velocity)}
    near(outputs["position"], p, "positions", rtol=1e-4)
    near(outputs["velocity"], v, "velocities", rtol=1e-3, atol=1e-3)
    return outputs
