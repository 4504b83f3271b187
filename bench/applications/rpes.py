"""Two-electron repulsion integrals over contracted Gaussians of s type.

The integral over four primitives is 2 pi^2.5 / (p q sqrt(p + q)) exp(-K) F0(t): the one-point case of Rys'
quadrature, where F0 comes from the error function.  Integrals (ij|kl) are enumerated by their symmetry
(i >= j, k >= l, ij >= kl), in batches.  ``primitives`` is launched three times a batch, each for a third of
the primitives of ij; ``contract`` then sums up what these left on the device, and leaves out integrals that a
bound of Schwarz's makes negligible.  Shells are found from the number of the integral by square roots.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult, expect_close, sample

TITLE = "RPES"
SLICES = 3
CUTOFF = 1e-7


@dataclass(frozen=True, slots=True)
class Size:
    """``shells`` of ``depth`` primitives each (a multiple of 3); the integrals are done in ``batches``."""

    shells: int
    depth: int
    batches: int
    local: int = 64


SIZES = {
    "smoke": Size(9, 3, 2, 32),
    "cpu": Size(24, 3, 3),
    "paper": Size(112, 3, 18),
    "gpu": Size(128, 9, 18),
}

SOURCE = """
/* shells: x, y, z, unused; primitives: exponent, coefficient */

/* The largest n with n (n + 1) / 2 <= k. */
uint row_of(uint k)
{
    uint n = (uint)((sqrt(8.0f * k + 1.0f) - 1.0f) * 0.5f);
    while (n * (n + 1) / 2 > k)
        n--;
    while ((n + 1) * (n + 2) / 2 <= k)
        n++;
    return n;
}

float boys(float t)
{
    if (t < 1e-3f)
        return 1.0f - t / 3.0f;
    float root = sqrt(t);
    return 0.88622693f * erf(root) / root;
}

float distance2(float4 a, float4 b)
{
    float4 d = a - b;
    return d.x * d.x + d.y * d.y + d.z * d.z;
}

__kernel void primitives(__global const float4 *shells, __global const float2 *parts, __global float *partial,
                         uint first, uint count, int depth, int slice)
{
    uint item = get_global_id(0);
    if (item >= count)
        return;
    uint ij = row_of(first + item), kl = first + item - ij * (ij + 1) / 2;
    uint i = row_of(ij), j = ij - i * (i + 1) / 2, k = row_of(kl), l = kl - k * (k + 1) / 2;
    float4 at_i = shells[i], at_j = shells[j], at_k = shells[k], at_l = shells[l];
    float apart_ij = distance2(at_i, at_j), apart_kl = distance2(at_k, at_l), sum = 0.0f;
    for (int a = slice * depth / 3; a < (slice + 1) * depth / 3; a++)
        for (int b = 0; b < depth; b++) {
            float2 part_a = parts[i * depth + a], part_b = parts[j * depth + b];
            float p = part_a.x + part_b.x;
            float4 at_p = (part_a.x * at_i + part_b.x * at_j) / p;
            float bra = part_a.y * part_b.y * exp(-part_a.x * part_b.x / p * apart_ij) / p;
            for (int c = 0; c < depth; c++)
                for (int d = 0; d < depth; d++) {
                    float2 part_c = parts[k * depth + c], part_d = parts[l * depth + d];
                    float q = part_c.x + part_d.x;
                    float4 at_q = (part_c.x * at_k + part_d.x * at_l) / q;
                    float ket = part_c.y * part_d.y * exp(-part_c.x * part_d.x / q * apart_kl) / q;
                    sum += bra * ket * rsqrt(p + q) * boys(p * q / (p + q) * distance2(at_p, at_q));
                }
        }
    partial[slice * count + item] = 34.986837f * sum;
}

__kernel void contract(__global const float *partial, __global const float *bounds, __global float *integrals,
                       uint first, uint count, float cutoff)
{
    uint item = get_global_id(0);
    if (item >= count)
        return;
    uint ij = row_of(first + item), kl = first + item - ij * (ij + 1) / 2;
    float integral = 0.0f;
    if (bounds[ij] * bounds[kl] >= cutoff)
        integral = partial[item] + partial[count + item] + partial[2 * count + item];
    integrals[first + item] = integral;
}
"""


def _pairs(shells: int) -> tuple[Array, Array]:
    """The shells of each pair."""
    first, second = np.tril_indices(shells)
    return first, second


def inputs(size: Size) -> Arrays:
    """Shells in a box; exponents fall by three from 5 on; Schwarz bounds of all pairs."""
    random = np.random.default_rng(10)
    shells = np.zeros((size.shells, 4), np.float32)
    shells[:, :3] = size.shells ** (1 / 3) * 2 * random.random((size.shells, 3), np.float32)
    parts = np.empty((size.shells, size.depth, 2), np.float32)
    parts[..., 0] = 5.0 / 3.0 ** np.arange(size.depth) * (1 + 0.1 * random.random((size.shells, 1)))
    parts[..., 1] = (2 * parts[..., 0] / np.pi) ** 0.75 / size.depth
    pair = np.arange(size.shells * (size.shells + 1) // 2)
    bounds = np.sqrt(_integrals(shells, parts, pair, pair)).astype(np.float32)
    return {"shells": shells, "parts": parts, "bounds": bounds}


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Four launches for each batch, on one buffer of partial sums."""
    shells, parts, bounds = (session.upload(array) for array in inputs.values())
    pairs = inputs["bounds"].size
    total = pairs * (pairs + 1) // 2
    batch = -(-total // size.batches)
    partial, integrals = session.empty(4 * SLICES * batch), session.empty(4 * total)
    for first in range(0, total, batch):
        count = min(batch, total - first)
        items = [-(-count // size.local) * size.local]
        span = np.uint32(first), np.uint32(count)
        for part in range(SLICES):
            scalars = *span, np.int32(size.depth), np.int32(part)
            session.launch("primitives", items, [size.local], shells, parts, partial, *scalars)
        scalars = *span, np.float32(CUTOFF)
        session.launch("contract", items, [size.local], partial, bounds, integrals, *scalars)
    return {"integrals": session.download(integrals, total, np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some integrals, in double precision."""
    found = outputs["integrals"]
    chosen = sample(found.size, 2048)
    ij = ((np.sqrt(8.0 * chosen + 1) - 1) / 2).astype(np.int64)
    ij -= ij * (ij + 1) // 2 > chosen
    ij += (ij + 1) * (ij + 2) // 2 <= chosen
    kl = chosen - ij * (ij + 1) // 2
    wanted = _integrals(inputs["shells"], inputs["parts"], ij, kl)
    bound = inputs["bounds"][ij] * inputs["bounds"][kl]
    if not found.any() or np.any(found[chosen][bound < 0.999 * CUTOFF]):
        raise WrongResult("the bound is not applied")
    kept = bound > 1.001 * CUTOFF
    expect_close("integrals", found[chosen][kept], wanted[kept], 1e-3, float(np.abs(wanted).max()) * 1e-3)


def _integrals(shells: Array, parts: Array, ij: Array, kl: Array) -> Array:
    """Integrals of pairs of pairs."""
    first, second = _pairs(len(shells))
    at = shells[:, :3].astype(np.float64)
    p, at_p, bra = _products(at, parts.astype(np.float64), first[ij], second[ij])
    q, at_q, ket = _products(at, parts.astype(np.float64), first[kl], second[kl])
    p, bra, at_p = p[:, :, None], bra[:, :, None], at_p[:, :, None, :]
    q, ket, at_q = q[:, None, :], ket[:, None, :], at_q[:, None, :, :]
    t = p * q / (p + q) * ((at_p - at_q) ** 2).sum(axis=-1)
    found: Array = (2 * np.pi**2.5 * bra * ket / np.sqrt(p + q) * _boys(t)).sum(axis=(1, 2))
    return found


def _products(at: Array, parts: Array, i: Array, j: Array) -> tuple[Array, Array, Array]:
    """Exponents, centres and weights of the products of all primitives of shells i and j."""
    a, b = parts[i][:, :, None, :], parts[j][:, None, :, :]
    p = a[..., 0] + b[..., 0]
    apart = ((at[i] - at[j]) ** 2).sum(axis=-1)[:, None, None]
    weight = a[..., 1] * b[..., 1] * np.exp(-a[..., 0] * b[..., 0] / p * apart) / p
    here, there = at[i][:, None, None, :], at[j][:, None, None, :]
    centre = (a[..., :1] * here + b[..., :1] * there) / p[..., None]
    n = len(i)
    return p.reshape(n, -1), centre.reshape(n, -1, 3), weight.reshape(n, -1)


def _boys(t: Array) -> Array:
    """F0 by the power series of its integral where that is short, else by its limit for large t.

    F0(t) = exp(-t) times the sum of (2 t)^k / (2 k + 1)!!.
    """
    small = np.minimum(t, 30.0)
    term = np.ones_like(small)
    total = term.copy()
    for k in range(1, 120):
        term = term * 2 * small / (2 * k + 1)
        total += term
    return np.where(t < 30.0, np.exp(-small) * total, 0.5 * np.sqrt(np.pi / np.maximum(t, 1e-300)))
