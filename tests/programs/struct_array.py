"""Arrays of padded structs, updated field by field and copied whole, with unions and nested arrays."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"st_move": "split", "st_pick": "split"}

SOURCE = """
typedef struct {
    float position[3];
    uchar kind;
    union { uint bits; float value; } u;
    ushort link;
    double mass;
} particle_t;

__kernel void st_move(__global particle_t *particles, float step)
{
    size_t i = get_global_id(0);
    __global particle_t *p = &particles[i];
    for (int d = 0; d < 3; ++d)
        p->position[d] += step * (d + 1);
    p->kind ^= (uchar)i;
    p->u.value = p->position[0];
    p->u.bits |= 1u;
    if (p->link % 3 == 0)
        p->mass *= 2.0;
}

__kernel void st_pick(__global const particle_t *particles, __global double *picked)
{
    size_t i = get_global_id(0);
    particle_t p = particles[particles[i].link];
    picked[i] = p.mass + p.kind + p.position[2];
}
"""

PARTICLE = np.dtype(
    [("position", "<f4", 3), ("kind", "u1"), ("bits", "<u4"), ("link", "<u2"), ("mass", "<f8")], align=True
)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Move 104 particles three times, then follow their links; padding bytes must survive."""
    move, pick = kernels(ctx, SOURCE, *KERNELS)
    n = 104
    rng = np.random.default_rng(9)
    raw = np.full(n * PARTICLE.itemsize, 0xA5, np.uint8)
    particles = raw.view(PARTICLE)
    particles["position"] = rng.integers(0, 100, (n, 3))
    particles["kind"], particles["bits"], particles["link"] = 7, 0, rng.permutation(n)
    particles["mass"] = rng.integers(1, 50, n)
    device, picked_dev = to_device(ctx, raw), to_device(ctx, np.zeros(n))
    for _ in range(3):
        move(queue, (n,), (8,), device, np.float32(0.5))
        particles["position"] += np.array([0.5, 1.0, 1.5], np.float32)
        particles["kind"] ^= np.arange(n, dtype=np.uint8)
        particles["bits"] = np.ascontiguousarray(particles["position"][:, 0]).view(np.uint32) | 1
        particles["mass"] *= np.where(particles["link"] % 3 == 0, 2.0, 1.0)
    pick(queue, (n,), (8,), device, picked_dev)
    outputs = {"particles": to_host(queue, device, raw), "picked": to_host(queue, picked_dev, np.zeros(n))}
    same(outputs["particles"], raw, "bytes of the particles")
    linked = particles[particles["link"]]
    same(outputs["picked"], linked["mass"] + linked["kind"] + linked["position"][:, 2], "picked")
    return outputs
