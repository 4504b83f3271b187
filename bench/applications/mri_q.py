"""Magnetic resonance imaging: the matrix Q of a non-Cartesian reconstruction, for all voxels of a volume.

The trajectory in k-space does not fit constant memory: each launch adds the samples of one chunk.  A
work-group handles a brick of 8 x 8 x 4 voxels, so its results lie in 32 separate runs of each array, and
bricks at a border reach over it.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close, sample

TITLE = "MRI-Q"
BRICK = (8, 8, 4)


@dataclass(frozen=True, slots=True)
class Size:
    """A volume of ``side`` voxels in each direction; ``samples`` in k-space, ``chunk`` in each launch."""

    side: int
    samples: int
    chunk: int


SIZES = {
    "smoke": Size(21, 64, 32),
    "cpu": Size(36, 512, 256),
    "paper": Size(64, 2048, 1024),
    "gpu": Size(252, 16384, 4096),
}

SOURCE = """
__kernel void magnitudes(__global const float *real, __global const float *imaginary,
                         __global float *magnitude, int samples)
{
    int i = get_global_id(0);
    if (i < samples)
        magnitude[i] = real[i] * real[i] + imaginary[i] * imaginary[i];
}

/* trajectory: kx, ky, kz, magnitude of each sample of a chunk */
__kernel void add_chunk(__global const float *x, __global const float *y, __global const float *z,
                        __global float *real, __global float *imaginary, __constant float4 *trajectory,
                        int chunk, int side, int bricks_x, int bricks_y)
{
    int brick = get_group_id(0), item = get_local_id(0);
    int i = brick % bricks_x * 8 + item % 8;
    int j = brick / bricks_x % bricks_y * 8 + item / 8 % 8;
    int k = brick / (bricks_x * bricks_y) * 4 + item / 64;
    if (i < side && j < side && k < side) {
        int voxel = (k * side + j) * side + i;
        float at_x = x[voxel], at_y = y[voxel], at_z = z[voxel];
        float sum_real = real[voxel], sum_imaginary = imaginary[voxel];
        for (int s = 0; s < chunk; s++) {
            float4 k_space = trajectory[s];
            float angle = 6.2831853f * (k_space.x * at_x + k_space.y * at_y + k_space.z * at_z);
            sum_real += k_space.w * cos(angle);
            sum_imaginary += k_space.w * sin(angle);
        }
        real[voxel] = sum_real;
        imaginary[voxel] = sum_imaginary;
    }
}
"""


def inputs(size: Size) -> Arrays:
    """Coordinates of the voxels, the trajectory and the signal."""
    random = np.random.default_rng(8)
    places = (random.random((3, size.side**3), np.float32) - np.float32(0.5)).astype(np.float32)
    return {
        "places": places,
        "trajectory": (4 * random.random((size.samples, 3), np.float32) - 2).astype(np.float32),
        "signal": random.random((2, size.samples), np.float32),
    }


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Magnitudes first; the host puts them beside the trajectory, chunk by chunk."""
    signal = [session.upload(part) for part in inputs["signal"]]
    magnitude = session.empty(4 * size.samples)
    local = min(512, size.samples // 4)
    session.launch("magnitudes", [size.samples], [local], *signal, magnitude, np.int32(size.samples))
    weights = session.download(magnitude, size.samples, np.float32)
    trajectory = np.column_stack([inputs["trajectory"], weights])

    places = [session.upload(part) for part in inputs["places"]]
    voxels = size.side**3
    real, imaginary = session.zeros(4 * voxels), session.zeros(4 * voxels)
    bricks = [-(-size.side // edge) for edge in BRICK]
    items = int(np.prod(BRICK))
    for start in range(0, size.samples, size.chunk):
        part = np.ascontiguousarray(trajectory[start : start + size.chunk])
        scalars = map(np.int32, (len(part), size.side, bricks[0], bricks[1]))
        session.launch(
            "add_chunk",
            [int(np.prod(bricks)) * items],
            [items],
            *places,
            real,
            imaginary,
            session.upload(part),
            *scalars,
        )
    return {
        "real": session.download(real, voxels, np.float32),
        "imaginary": session.download(imaginary, voxels, np.float32),
    }


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some voxels, in double precision."""
    chosen = sample(size.side**3, 512)
    places = inputs["places"][:, chosen].astype(np.float64)
    angle = 2 * np.pi * inputs["trajectory"].astype(np.float64) @ places
    weights = (inputs["signal"].astype(np.float64) ** 2).sum(axis=0)
    scale = float(np.sqrt(size.samples))
    expect_close("real", outputs["real"][chosen], weights @ np.cos(angle), 1e-4, scale)
    expect_close("imaginary", outputs["imaginary"][chosen], weights @ np.sin(angle), 1e-4, scale)
