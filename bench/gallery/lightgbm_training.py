"""LightGBM, device_type=gpu: trains trees on a matrix of random numbers."""

import lightgbm
import numpy as np
from kit import ON_GPU, result, timed

rng = np.random.default_rng(1)
ROWS, COLUMNS, ROUNDS, LEAVES = (1_000_000, 30, 50, 255) if ON_GPU else (20_000, 30, 10, 31)
x = rng.random((ROWS, COLUMNS), dtype=np.float32)
y = (x @ rng.random(COLUMNS) + 0.1 * rng.random(ROWS) > COLUMNS / 4).astype(np.float32)
parameters = {
    "objective": "binary",
    "device_type": "gpu",
    "num_leaves": LEAVES,
    "seed": 3,
    "deterministic": True,
}


def train() -> lightgbm.Booster:
    """All rounds."""
    return lightgbm.train(parameters | {"gpu_use_dp": True, "verbose": -1}, lightgbm.Dataset(x, y), ROUNDS)


result("model", train().model_to_string().split("parameters:")[0])
timed(train, 2)
