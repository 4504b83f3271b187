"""LightGBM, device_type=gpu: trains trees on a matrix of random numbers."""

import lightgbm
import numpy as np
from kit import result, timed

rng = np.random.default_rng(1)
x = rng.random((20_000, 30), dtype=np.float32)
y = (x @ rng.random(30) + 0.1 * rng.random(20_000) > 7.5).astype(np.float32)
parameters = {"objective": "binary", "device_type": "gpu", "num_leaves": 31, "seed": 3, "deterministic": True}


def train() -> lightgbm.Booster:
    """Ten rounds."""
    return lightgbm.train(parameters | {"gpu_use_dp": True, "verbose": -1}, lightgbm.Dataset(x, y), 10)


result("model", train().model_to_string().split("parameters:")[0])
timed(train, 2)
