"""Radio astronomy: correlates the signals of all pairs of stations, in each frequency channel.

Work-group i computes the pairs (i, j) with j <= i, so the work of a group grows with its id, and the place of
its results with the square of it.  A station has two polarisations; each of the four products of a pair is
summed over time by one work-item.  Samples are complex numbers of two bytes, so all sums are exact.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Arrays, Session, WrongResult, sample

TITLE = "Correlator"


@dataclass(frozen=True, slots=True)
class Size:
    """A work-group has four items for each channel; ``times``: samples over which is summed."""

    stations: int
    channels: int
    times: int


SIZES = {
    "smoke": Size(24, 16, 16),
    "cpu": Size(96, 32, 128),
    "paper": Size(512, 128, 3072),
    "gpu": Size(4096, 32, 8192),
}

SOURCE = """
/* samples[station][time][channel]: x real, x imaginary, y real, y imaginary
   visibilities[pair][channel][xx, xy, yx, yy] */
__kernel void correlate(__global const char4 *samples, __global int2 *visibilities, int channels, int times)
{
    int first = get_group_id(0), item = get_local_id(0), channel = item / 4;
    bool is_y = item & 2, with_y = item & 1;
    for (int second = 0; second <= first; second++) {
        int2 sum = 0;
        for (int t = 0; t < times; t++) {
            int4 one = convert_int4(samples[(first * times + t) * channels + channel]);
            int4 other = convert_int4(samples[(second * times + t) * channels + channel]);
            int2 a = is_y ? one.hi : one.lo, b = with_y ? other.hi : other.lo;
            sum.x += a.x * b.x + a.y * b.y;
            sum.y += a.y * b.x - a.x * b.y;
        }
        int pair = first * (first + 1) / 2 + second;
        visibilities[pair * channels * 4 + item] = sum;
    }
}
"""


def inputs(size: Size) -> Arrays:
    """Noise of one byte for each real and imaginary part."""
    shape = (size.stations, size.times, size.channels, 4)
    return {"samples": np.random.default_rng(3).integers(-127, 128, shape, np.int8)}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch."""
    samples = session.upload(inputs["samples"])
    pairs, items = size.stations * (size.stations + 1) // 2, 4 * size.channels
    visibilities = session.empty(pairs * items * 8)
    scalars = np.int32(size.channels), np.int32(size.times)
    session.launch("correlate", [size.stations * items], [items], samples, visibilities, *scalars)
    return {"visibilities": session.download(visibilities, (pairs, size.channels, 4, 2), np.int32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some pairs, exactly."""
    first, second = np.tril_indices(size.stations)
    for pair in sample(first.size, 256):
        a, b = (
            part[..., 0] + 1j * part[..., 1]
            for part in (
                inputs["samples"][station].reshape(size.times, size.channels, 2, 2).astype(np.float64)
                for station in (first[pair], second[pair])
            )
        )
        wanted = np.einsum("tcx,tcy->cxy", a, b.conj()).reshape(size.channels, 4)
        found = outputs["visibilities"][pair]
        if not (np.array_equal(found[..., 0], wanted.real) and np.array_equal(found[..., 1], wanted.imag)):
            raise WrongResult(f"stations {first[pair]} and {second[pair]} are correlated wrongly")
