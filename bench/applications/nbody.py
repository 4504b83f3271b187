"""N bodies that attract each other, all pairs, in steps of time.

Each work-group begins with the bodies of its own number and goes once around, through local memory.
"""

from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from bench.applications.program import Array, Arrays, Session, expect_close, sample

TITLE = "Nbody"
TIME_STEP, SOFTENING = 1e-3, 1e-2


@dataclass(frozen=True, slots=True)
class Size:
    """``bodies`` need no round number; the last work-group has items without a body."""

    bodies: int
    steps: int
    local: int = 256


SIZES = {
    "smoke": Size(500, 3, 32),
    "cpu": Size(4000, 4, 64),
    "paper": Size(524288, 10),
    "gpu": Size(1048576, 3),
}

SOURCE = """
/* positions: x, y, z, mass */
__kernel void move(__global const float4 *positions, __global float4 *moved, __global float4 *velocities,
                   int bodies, float dt, float softening, __local float4 *tile)
{
    int i = get_global_id(0), item = get_local_id(0), items = get_local_size(0);
    int tiles = get_num_groups(0), first = get_group_id(0);
    float4 me = 0.0f;
    if (i < bodies)
        me = positions[i];
    float3 pull = 0.0f;
    for (int k = 0; k < tiles; k++) {
        int from = first + k < tiles ? first + k : first + k - tiles;
        int other = from * items + item;
        tile[item] = other < bodies ? positions[other] : (float4)(0.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < items; j++) {
            float3 apart = tile[j].xyz - me.xyz;
            float near = rsqrt(apart.x * apart.x + apart.y * apart.y + apart.z * apart.z + softening);
            pull += tile[j].w * near * near * near * apart;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (i < bodies) {
        float4 velocity = velocities[i];
        velocity.xyz += dt * pull;
        velocities[i] = velocity;
        moved[i] = (float4)(me.xyz + dt * velocity.xyz, me.w);
    }
}
"""


def inputs(size: Size) -> Arrays:
    """Positions in a cube with masses that add up to about one; slow bodies."""
    random = np.random.default_rng(9)
    positions = (2 * random.random((size.bodies, 4), np.float32) - 1).astype(np.float32)
    positions[:, 3] = (0.5 + random.random(size.bodies, np.float32)) / np.float32(size.bodies)
    velocities = (0.1 * random.random((size.bodies, 4), np.float32)).astype(np.float32)
    velocities[:, 3] = 0
    return {"positions": positions, "velocities": velocities}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """A launch for each step; positions go from one buffer to the other, velocities change in place."""
    positions, velocities = session.upload(inputs["positions"]), session.upload(inputs["velocities"])
    moved = session.empty(16 * size.bodies)
    items = -(-size.bodies // size.local) * size.local
    scalars = np.int32(size.bodies), np.float32(TIME_STEP), np.float32(SOFTENING)
    tile = cl.LocalMemory(16 * size.local)
    for _ in range(size.steps):
        session.launch("move", [items], [size.local], positions, moved, velocities, *scalars, tile)
        positions, moved = moved, positions
    return {
        "positions": session.download(positions, (size.bodies, 4), np.float32),
        "velocities": session.download(velocities, (size.bodies, 4), np.float32),
    }


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """All steps in double precision; for many bodies some of them, with the field of the first step.

    Within so few steps the field changes by less than the tolerance.
    """
    positions, velocities = (inputs[name].astype(np.float64) for name in ("positions", "velocities"))
    exact = size.bodies <= 4096
    chosen = sample(size.bodies, size.bodies if exact else 64)
    at, speed = positions[chosen, :3], velocities[chosen, :3]
    pull = _pull(at, positions)
    for step in range(size.steps):
        if exact and step:
            pull = _pull(at, np.column_stack([at, positions[:, 3]]))
        speed = speed + TIME_STEP * pull
        at = at + TIME_STEP * speed
    expect_close("positions", outputs["positions"][chosen, :3], at, 1e-4, 1.0)
    expect_close("velocities", outputs["velocities"][chosen, :3], speed, 1e-4, 1.0)


def _pull(at: Array, bodies: Array) -> Array:
    found = np.empty_like(at)
    for k, here in enumerate(at):
        apart = bodies[:, :3] - here
        found[k] = (bodies[:, 3] * ((apart * apart).sum(axis=1) + SOFTENING) ** -1.5) @ apart
    return found
