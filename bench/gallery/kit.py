"""What the gallery's programs print: results, which must be those of the plain driver, and a time."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable

import numpy as np

ON_GPU = os.environ.get("GALLERY_KIND") == "gpu"
"""Whether sizes are those that keep a GPU busy."""


def result(name: str, values: object) -> None:
    """Say what ``values`` are, bit by bit: an array, bytes or text."""
    data = values if isinstance(values, bytes) else values.encode() if isinstance(values, str) else None
    if data is None:
        data = np.ascontiguousarray(values).tobytes()
    print("result", name, hashlib.sha256(data).hexdigest()[:16], flush=True)


def timed(work: Callable[[], object], times: int = 3) -> None:
    """Say what ``work`` takes, in seconds: the least of so many."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    print("seconds", f"{min(taken):.4f}", flush=True)
