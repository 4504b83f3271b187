"""Magnetic resonance imaging: the vector F^H d of a non-Cartesian reconstruction, for all voxels of a volume.

The samples are weighted first; each launch then adds those of one chunk of the trajectory to all voxels.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, expect_close, sample

TITLE = "MRI-FHD"
LOCAL = 64


@dataclass(frozen=True, slots=True)
class Size:
    """So many ``voxels``, a multiple of 64; ``samples`` in k-space, ``chunk`` in each launch."""

    voxels: int
    samples: int
    chunk: int


SIZES = {"smoke": Size(1024, 64, 32), "cpu": Size(46656, 512, 64), "gpu": Size(1 << 22, 4096, 512)}

SOURCE = """
/* weighted: the conjugate of each sample's phase times its data */
__kernel void weigh(__global const float2 *phase, __global const float2 *data, __global float2 *weighted)
{
    int i = get_global_id(0);
    float2 p = phase[i], d = data[i];
    weighted[i] = (float2)(p.x * d.x + p.y * d.y, p.x * d.y - p.y * d.x);
}

/* chunk: kx, ky, kz of each sample */
__kernel void add_samples(__global const float *x, __global const float *y, __global const float *z,
                          __global float *real, __global float *imaginary, __constant float4 *chunk,
                          __global const float2 *weighted, int first, int count)
{
    int voxel = get_global_id(0);
    float at_x = x[voxel], at_y = y[voxel], at_z = z[voxel];
    float sum_real = real[voxel], sum_imaginary = imaginary[voxel];
    for (int s = 0; s < count; s++) {
        float4 k = chunk[s];
        float2 value = weighted[first + s];
        float angle = 6.2831853f * (k.x * at_x + k.y * at_y + k.z * at_z);
        float c = cos(angle), d = sin(angle);
        sum_real += value.x * c - value.y * d;
        sum_imaginary += value.y * c + value.x * d;
    }
    real[voxel] = sum_real;
    imaginary[voxel] = sum_imaginary;
}
"""


def inputs(size: Size) -> Arrays:
    """Voxels, the trajectory, phases and data of its samples."""
    random = np.random.default_rng(12)
    trajectory = np.zeros((size.samples, 4), np.float32)
    trajectory[:, :3] = 4 * random.random((size.samples, 3), np.float32) - 2
    return {
        "places": random.random((3, size.voxels), np.float32) - np.float32(0.5),
        "trajectory": trajectory,
        "phase": random.random((size.samples, 2), np.float32),
        "data": random.random((size.samples, 2), np.float32) - np.float32(0.5),
    }


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Weights, then one launch for each chunk."""
    phase, data = session.upload(inputs["phase"]), session.upload(inputs["data"])
    weighted = session.empty(8 * size.samples)
    session.launch("weigh", [size.samples], [min(LOCAL, size.samples)], phase, data, weighted)
    places = [session.upload(part) for part in inputs["places"]]
    real, imaginary = session.zeros(4 * size.voxels), session.zeros(4 * size.voxels)
    for start in range(0, size.samples, size.chunk):
        chunk = session.upload(inputs["trajectory"][start : start + size.chunk])
        scalars = np.int32(start), np.int32(size.chunk)
        arguments = (*places, real, imaginary, chunk, weighted, *scalars)
        session.launch("add_samples", [size.voxels], [LOCAL], *arguments)
    return {
        "real": session.download(real, size.voxels, np.float32),
        "imaginary": session.download(imaginary, size.voxels, np.float32),
    }


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some voxels, in double precision."""
    chosen = sample(size.voxels, 256)
    angle = 2 * np.pi * inputs["trajectory"][:, :3].astype(np.float64) @ inputs["places"][:, chosen]
    phase, data = (inputs[name].astype(np.float64) @ np.array([1, 1j]) for name in ("phase", "data"))
    wanted = (phase.conj() * data) @ np.exp(1j * angle)
    scale = float(np.sqrt(size.samples))
    expect_close("real", outputs["real"][chosen], wanted.real, 1e-4, scale)
    expect_close("imaginary", outputs["imaginary"][chosen], wanted.imag, 1e-4, scale)
