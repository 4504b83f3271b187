"""Coulombic potential: the potential of point charges on a plane of a grid.

The charges do not fit constant memory: each launch adds those of one batch to the plane.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close, sample

TITLE = "CP"
SPACING = 0.1


@dataclass(frozen=True, slots=True)
class Size:
    """A plane of ``side`` x ``side`` points, a multiple of 16; atoms in batches, one launch each."""

    side: int
    atoms: int
    batch: int


SIZES = {
    "smoke": Size(64, 96, 32),
    "cpu": Size(512, 1000, 250),
    "paper": Size(8192, 100000, 4000),
    "gpu": Size(8192, 40000, 4000),
}

SOURCE = """
__kernel void potential(__global float *energy, __constant float4 *atoms, int count, float spacing)
{
    int x = get_global_id(0), y = get_global_id(1);
    float at_x = spacing * x, at_y = spacing * y, sum = 0.0f;
    for (int k = 0; k < count; k++) {
        float dx = at_x - atoms[k].x, dy = at_y - atoms[k].y;
        sum += atoms[k].w * rsqrt(dx * dx + dy * dy + atoms[k].z);
    }
    energy[y * get_global_size(0) + x] += sum;
}
"""


def inputs(size: Size) -> Arrays:
    """For each atom x, y, the square of its distance from the plane, and its charge."""
    random = np.random.default_rng(4).random((size.atoms, 4), np.float32)
    random[:, :2] *= SPACING * size.side
    random[:, 2] += 0.05
    random[:, 3] = 2 * random[:, 3] - 1
    return {"atoms": random}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch for each batch of atoms, all on one plane."""
    energy = session.zeros(4 * size.side**2)
    plane, local = [size.side, size.side], [16, 16]
    for start in range(0, size.atoms, size.batch):
        part = inputs["atoms"][start : start + size.batch]
        atoms = session.upload(part)
        session.launch("potential", plane, local, energy, atoms, np.int32(len(part)), np.float32(SPACING))
    return {"energy": session.download(energy, (size.side, size.side), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The sum over all atoms at some points, in double precision."""
    chosen = sample(size.side**2, 256)
    y, x = np.divmod(chosen, size.side)
    atoms = inputs["atoms"].astype(np.float64)
    dx, dy = SPACING * x[:, None] - atoms[:, 0], SPACING * y[:, None] - atoms[:, 1]
    wanted = (atoms[:, 3] / np.sqrt(dx * dx + dy * dy + atoms[:, 2])).sum(axis=1)
    scale = float(np.sqrt(size.atoms))
    expect_close("energy", outputs["energy"].ravel()[chosen], wanted, 1e-4, scale)
