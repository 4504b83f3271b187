"""What hand-split code could reach: one GPU does the parts of N, one after the other.

``python -m bench.hand_split [--platform NVIDIA] [--size gpu] [--parts 2,4] [--only eigenvalue,ep]``

The plain driver runs an application's launches whole, and then each as N ranges of work-groups (by a global
offset), with boundaries that follow from how long the parts of the round before took.  GPUs that are alike,
share nothing and wait for nobody would take the sum, over the launches, of the longest part: no division into
ranges of whole work-groups is faster, however it is made.  Where that is not N times as fast, the kernel has
too few groups, or too long ones.  For kernels that choose their work by global ids: an offset does not change
the ids of groups.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyopencl as cl

from bench.applications.program import Argument, Session, load


class PartsSession(Session):
    """Does each launch in ``parts`` ranges of groups along its slowest dimension."""

    def __init__(self, device: cl.Device, source: str, parts: int) -> None:
        super().__init__(device, source)
        self.parts = parts
        self.shares: list[list[float]] = []  # of each launch of a run
        self.events: list[list[cl.Event]] = []

    def launch(
        self, kernel: str, global_size: Sequence[int], local_size: Sequence[int], *arguments: Argument
    ) -> None:
        """Likewise, part by part."""
        made = cl.Kernel(self.program, kernel)
        made.set_args(*arguments)
        dim = len(global_size) - 1
        groups = global_size[dim] // local_size[dim]
        number = len(self.events)
        if number == len(self.shares):
            self.shares.append([1 / self.parts] * self.parts)
        ends = [round(groups * end) for end in np.cumsum([0.0, *self.shares[number]])]
        done = []
        for start, stop in pairwise(ends):
            if stop == start:
                continue
            size, offset = list(global_size), [0] * len(global_size)
            size[dim], offset[dim] = (stop - start) * local_size[dim], start * local_size[dim]
            done.append(cl.enqueue_nd_range_kernel(self.queue, made, size, list(local_size), offset))
        self.events.append(done)

    def times(self) -> list[list[float]]:
        """Of the parts of each launch since the last call, in ms; shares follow from them."""
        found = [[(event.profile.end - event.profile.start) / 1e6 for event in done] for done in self.events]
        for number, took in enumerate(found):
            if len(took) == self.parts:
                rates = [share / ms for share, ms in zip(self.shares[number], took, strict=True)]
                wanted = [rate / sum(rates) for rate in rates]
                self.shares[number] = [
                    (share + other) / 2 for share, other in zip(self.shares[number], wanted, strict=True)
                ]
        self.events = []
        return found


def measure(device: cl.Device, name: str, size: str, parts: int, rounds: int) -> float:
    """Sum over the launches of their longest part, in ms: the best of so many rounds after a first one."""
    application: Any = load(name)
    given = application.SIZES[size]
    inputs = application.inputs(given)
    session = PartsSession(device, application.SOURCE, parts)
    sums = []
    for _ in range(rounds + 1):
        session.run(application, given, inputs)
        sums.append(sum(max(took) for took in session.times()))
    return min(sums[1:]) if parts > 1 else statistics.median(sums[1:])


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--platform", default="")
    parser.add_argument("--size", default="gpu")
    parser.add_argument("--parts", default="2,4")
    parser.add_argument("--only", default="eigenvalue,ep")
    parser.add_argument("--rounds", type=int, default=4)
    given = parser.parse_args()
    platform = next(each for each in cl.get_platforms() if given.platform.lower() in each.name.lower())
    device = platform.get_devices()[0]
    parts = [int(text) for text in given.parts.split(",")]
    print(f"{device.name.strip()}, {device.driver_version}: kernels, ms")
    print("| | whole | " + " | ".join(f"{n} parts: longest, of {n} times" for n in parts) + " |")
    print("|---|---|" + "---|" * len(parts))
    for name in given.only.split(","):
        whole = measure(device, name, given.size, 1, given.rounds)
        cells = []
        for n in parts:
            took = measure(device, name, given.size, n, given.rounds)
            cells.append(f"{took:.1f}, {100 * whole / took / n:.0f} %")
        print(f"| {name} | {whole:.1f} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
