"""Binomial option pricing: American puts on a lattice of prices, one work-group for four options.

Cox, Ross and Rubinstein's lattice: the leaves hold the pay-off at expiry, and each step back takes the
discounted mean of two neighbours, or the pay-off of exercising now.  The lattice is in local memory.
"""

from dataclasses import dataclass

import numpy as np
import pyopencl as cl

from bench.applications.program import Array, Arrays, Session, expect_close, sample

TITLE = "BinomialOption"
RATE, VOLATILITY, YEARS = 0.02, 0.30, 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """``steps`` of the lattice; a work-group has one item more.  ``quads`` of options, a group for each."""

    quads: int
    steps: int


SIZES = {
    "smoke": Size(96, 31),
    "cpu": Size(2048, 127),
    "paper": Size(65520, 253),
    "gpu": Size(1048576, 511),
}

SOURCE = """
/* one option in each component; spot and strike interleaved */
__kernel void binomial(__global const float4 *quotes, __global float4 *values, int steps, float up,
                       float discount, float rising, __local float4 *lattice)
{
    int quad = get_group_id(0), leaf = get_local_id(0);
    float4 spot = quotes[2 * quad], strike = quotes[2 * quad + 1];
    float4 price = spot * pow(up, (float)(2 * leaf - steps));
    float4 value = max(strike - price, 0.0f);
    lattice[leaf] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = steps; step > 0; step--) {
        float4 above = lattice[min(leaf + 1, steps)];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (leaf < step) {
            price *= up;
            value = max(strike - price, discount * (rising * above + (1.0f - rising) * value));
            lattice[leaf] = value;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (leaf == 0)
        values[quad] = value;
}
"""


def inputs(size: Size) -> Arrays:
    """Spots between 50 and 150, strikes between 50 and 150, interleaved in fours."""
    return {"quotes": 50 + 100 * np.random.default_rng(1).random((size.quads, 2, 4), np.float32)}


def _factors(size: Size) -> tuple[float, float, float]:
    """The rise of a step, its discount, and the probability of a rise."""
    each = YEARS / size.steps
    up = float(np.exp(VOLATILITY * np.sqrt(each)))
    growth = float(np.exp(RATE * each))
    return up, 1 / growth, (growth - 1 / up) / (up - 1 / up)


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch."""
    quotes = session.upload(inputs["quotes"])
    values = session.empty(size.quads * 16)
    up, discount, rising = map(np.float32, _factors(size))
    items = size.steps + 1
    local = cl.LocalMemory(16 * items)
    scalars = np.int32(size.steps), up, discount, rising
    session.launch("binomial", [size.quads * items], [items], quotes, values, *scalars, local)
    return {"values": session.download(values, (size.quads, 4), np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The same lattices in double precision, up to 256 of them at once."""
    chosen = sample(size.quads, 64)
    spot, strike = (inputs["quotes"][chosen, k].astype(np.float64).reshape(-1, 1) for k in (0, 1))
    up, discount, rising = _factors(size)
    leaf = np.arange(size.steps + 1)
    price: Array = spot * up ** (2.0 * leaf - size.steps)
    value = np.maximum(strike - price, 0)
    for step in range(size.steps, 0, -1):
        price = price[:, :step] * up
        value = np.maximum(strike - price, discount * (rising * value[:, 1:] + (1 - rising) * value[:, :-1]))
    expect_close("values", outputs["values"][chosen].ravel(), value.ravel(), 2e-3, scale=10.0)
