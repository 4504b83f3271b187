"""Every reduction of every type of elements against numpy, bit by bit."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs
from tests.several.all_collectives import BAND, OPERATIONS, TYPES, Ring, reductions


def run(devices: list[cl.Device]) -> Outputs:
    """Few elements of each."""
    ring, found = Ring(devices), {}
    for kind in TYPES:
        for operation in OPERATIONS:
            if operation < BAND or not np.issubdtype(kind, np.floating):
                made = reductions(ring, kind, operation, 100)
                found[f"{kind.__name__} {operation - min(OPERATIONS)}"] = made["Scan"]
    return found
