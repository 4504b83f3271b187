"""Whether to run an index slice first: the ranges of x in ``x[col[k]]``, against sending all of x.

``python bench/index_arrays.py [--rows 2000000] [--members 4]`` prints one table.  A slice finds, for each
member's rows, the least and the greatest index: it reads all of the index array, and the launch has to wait
for it and for everything that wrote that array.  What it saves is the part of x outside of these bounds.
Times are of one core (processor time); on a GPU the slice is bounded by its memory instead, given here by
bytes.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np

GPU_MEMORY, GPU_LINK, GPU_PEER = 4000.0, 55.0, 395.0  # bytes per ns: an H200's memory, PCIe, NVLink (DESIGN)
WAIT_NS = 50_000.0
"""A kernel, eight bytes to the host and the decision there: what a launch waits for at least."""


def cases(rows: int) -> dict[str, np.ndarray]:
    """Index arrays of shape (rows, width), int32: what each row gathers."""
    random = np.random.default_rng(7)
    row = np.arange(rows, dtype=np.int64)[:, None]
    side = int(rows**0.5)
    offsets = np.array([-side, -1, 0, 1, side])
    return {
        "spmv, 5-point grid": np.clip(row + offsets, 0, rows - 1).astype(np.int32),
        "spmv, random columns": random.integers(0, rows, (rows, 16), np.int32),
        "spmv, band of 1 %": np.clip(
            row + random.integers(-rows // 200, rows // 200, (rows, 16)), 0, rows - 1
        ).astype(np.int32),
        "scatter, permutation": random.permutation(rows).astype(np.int32)[:, None],
        "breadth-first search": random.zipf(1.5, (rows, 8)).clip(1, rows).astype(np.int32) - 1,
    }


def best_ns(action: Callable[[], object]) -> float:
    """Least processor time of three."""
    times = []
    for _ in range(3):
        start = time.thread_time_ns()
        action()
        times.append(time.thread_time_ns() - start)
    return float(min(times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--members", type=int, default=4)
    options = parser.parse_args()
    rows, members = options.rows, options.members
    x = np.zeros(rows, np.float32)
    print(f"{rows} rows, {members} members, one core of {platform.machine()}; ms per launch")
    print(
        f"\n{'':24}{'kept of x':>10}{'slice':>9}{'saved':>9}"
        f"   {'GPU slice':>10}{'saved, peer':>12}{'saved, host':>12}"
    )
    for title, index in cases(rows).items():
        edges = [rows * k // members for k in range(members + 1)]
        parts = [index[a:b] for a, b in pairwise(edges)]
        needed = sum(int(part.max()) - int(part.min()) + 1 for part in parts)
        # What a member has not written itself has to be sent either way, or not at all.
        spared = max(members * rows - needed, 0) * 4
        slice_ns = best_ns(lambda parts=parts: [(part.min(), part.max()) for part in parts])  # type: ignore[misc]
        sent_ns = best_ns(lambda: [x.copy() for _ in range(members)]) * spared / (4 * members * rows)
        gpu_ns = WAIT_NS + index.nbytes / members / GPU_MEMORY
        print(
            f"{title:24}{needed / (members * rows):10.0%}{slice_ns / 1e6:9.2f}{sent_ns / 1e6:9.2f}"
            f"   {gpu_ns / 1e6:10.3f}{spared / members / GPU_PEER / 1e6:12.3f}{spared / GPU_LINK / 1e6:12.3f}"
        )


if __name__ == "__main__":
    main()
