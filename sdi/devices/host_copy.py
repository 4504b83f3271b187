"""Copies within the host's memory, by a thread of our own: for members that compute there.

[M] pocl 3.1 runs a copy in a queue of its own only when the kernels of other queues are done, since these
have all its threads.  So large copies are not given to it at all: the lane's thread makes them, beside
kernels.  Short ones stay in the member's queue, where what follows need not wait for a thread to wake up.
"""

from __future__ import annotations

import time

import numpy as np

from sdi.devices.handles import HostBytes
from sdi.region import Region, Runs, alike

BESIDE_KERNELS_NBYTES = 1 << 20
"""Copies of at least so much are made beside kernels: one takes longer than two thread switches."""


class HostCopy:
    """One copy of all of ``source`` to ``target``, of the same size, or of a region.  A ``Native`` of a lane.

    ``regions``: of target and source, ``alike``.
    """

    def __init__(
        self, target: HostBytes, source: HostBytes, regions: tuple[Region, Region] | None = None
    ) -> None:
        if target.readonly:
            raise ValueError("the memory to copy to is read-only")
        self._target: Runs = np.frombuffer(target, np.uint8)
        self._source: Runs = np.frombuffer(source, np.uint8)
        if regions is not None:
            from_, to = alike(regions[1], regions[0])
            self._target, self._source = to.of(target), from_.of(source)
        self._times = (0, 0)

    def wait(self) -> None:
        """Make the copy, without the GIL."""
        start = time.monotonic_ns()
        np.copyto(self._target, self._source)
        self._times = (start, time.monotonic_ns())

    def times(self) -> tuple[int, int]:
        """When it was made, on the host clock."""
        return self._times
