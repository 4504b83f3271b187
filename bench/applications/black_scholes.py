"""Black-Scholes: European option prices, each averaged over a sweep of volatilities.

One work-item prices one option; the sweep makes the arithmetic outweigh the 28 bytes that an option takes.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, expect_close, sample

TITLE = "BlackScholes"
SPREAD = 1e-4
"""The volatility rises by this part from one sweep to the next."""


@dataclass(frozen=True, slots=True)
class Size:
    """``options``, a multiple of 256, and how many volatilities each is priced for."""

    options: int
    sweeps: int


SIZES = {
    "smoke": Size(8192, 4),
    "cpu": Size(1 << 20, 16),
    "paper": Size(16773120, 1000),
    "gpu": Size(1 << 26, 10000),
}

SOURCE = """
float normal_below(float x)
{
    float k = 1.0f / (1.0f + 0.2316419f * fabs(x));
    float poly = k * (0.319381530f + k * (-0.356563782f + k * (1.781477937f
                 + k * (-1.821255978f + k * 1.330274429f))));
    float tail = 0.39894228040f * exp(-0.5f * x * x) * poly;
    return x < 0.0f ? tail : 1.0f - tail;
}

__kernel void black_scholes(__global const float *spot, __global const float *strike,
                            __global const float *rate, __global const float *volatility,
                            __global const float *years, __global const int *is_put,
                            __global float *price, int options, int sweeps, float spread)
{
    int i = get_global_id(0);
    if (i >= options)
        return;
    float s = spot[i], t = years[i], root = sqrt(t), log_ratio = log(s / strike[i]);
    float discounted = strike[i] * exp(-rate[i] * t);
    float total = 0.0f, sum = 0.0f; /* of at most 64, which are small beside the total */
    for (int k = 0; k < sweeps; k++) {
        float sigma = volatility[i] * (1.0f + spread * k);
        float deviation = sigma * root;
        float d1 = (log_ratio + (rate[i] + 0.5f * sigma * sigma) * t) / deviation;
        float call = s * normal_below(d1) - discounted * normal_below(d1 - deviation);
        sum += is_put[i] ? call - s + discounted : call;
        if (k % 64 == 63) {
            total += sum;
            sum = 0.0f;
        }
    }
    price[i] = (total + sum) / sweeps;
}
"""

FIELDS = {
    "spot": (20, 120),
    "strike": (20, 120),
    "rate": (0.01, 0.1),
    "volatility": (0.1, 0.6),
    "years": (0.2, 2),
}


def inputs(size: Size) -> Arrays:
    """Six arrays, an element for each option."""
    random = np.random.default_rng(2)
    found: Arrays = {
        name: (low + (high - low) * random.random(size.options, np.float32)).astype(np.float32)
        for name, (low, high) in FIELDS.items()
    }
    found["is_put"] = (np.arange(size.options) % 2).astype(np.int32)
    return found


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """One launch."""
    buffers = [session.upload(array) for array in inputs.values()]
    price = session.empty(4 * size.options)
    scalars = np.int32(size.options), np.int32(size.sweeps), np.float32(SPREAD)
    session.launch("black_scholes", [size.options], [256], *buffers, price, *scalars)
    return {"price": session.download(price, size.options, np.float32)}


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """The formula in double precision for some options."""
    chosen = sample(size.options, 2048)
    spot, strike, rate, volatility, years, is_put = (
        array[chosen].astype(np.float64)[:, None] for array in inputs.values()
    )
    sigma = volatility * (1 + SPREAD * np.arange(size.sweeps))
    deviation = sigma * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma * sigma) * years) / deviation
    discounted = strike * np.exp(-rate * years)
    call = spot * _normal_below(d1) - discounted * _normal_below(d1 - deviation)
    wanted = np.where(is_put != 0, call - spot + discounted, call).mean(axis=1)
    expect_close("price", outputs["price"][chosen], wanted, 2e-4, scale=20.0)


def _normal_below(x: Array) -> Array:
    """The polynomial of Abramowitz and Stegun 26.2.17: within 7.5e-8 of the distribution."""
    k = 1 / (1 + 0.2316419 * np.abs(x))
    weights = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530, 0.0)
    tail = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) * np.polyval(weights, k)
    return np.where(x < 0, tail, 1 - tail)
