"""Launches of one kernel whose access ranges are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from sdi.commands import Launch
from sdi.intervals import ByteRange
from sdi.launch.plan import CutPlan
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling.model import AccessRange, Precision
from sdi.vmem.buffer import VirtualBuffer
from tests.runtime.machine import Machine, argument_entries
from tests.vmem.conftest import MakeRig, Rig, noise

GROUP = 512
GROUPS = 40
NBYTES = GROUP * GROUPS
STEP = 31  # has no factor in common with NBYTES
SOURCE = """
kernel void move(global uchar *to, global const uchar *from, int distance, int seed, int scatter)
{
    int n = get_global_size(0), i = get_global_id(0), j = clamp(i + distance, 0, n - 1);
    if (seed == 0 || (i * 13 + seed) % 3 != 0)
        to[scatter ? (int)((long)i * 31 % n) : i] = from[j] + 1;
}
"""


def move(to: np.ndarray, from_: np.ndarray, distance: int, seed: int, scatter: int) -> np.ndarray:
    """What the kernel does."""
    i = np.arange(NBYTES)
    stored = i if seed == 0 else i[(i * 13 + seed) % 3 != 0]
    result = to.copy()
    result[stored * STEP % NBYTES if scatter else stored] = (
        from_[np.clip(stored + distance, 0, NBYTES - 1)] + 1
    )
    return result


@dataclass(frozen=True)
class ByHand:
    """Access maps of ``move``."""

    distance: int = 0
    seed: int = 0
    scatter: int = 0

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> ByHand:
        return ByHand(*(int.from_bytes(cast(bytes, value), "little", signed=True) for value in values[2:]))

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        start, stop = box.start[0] * GROUP, box.stop[0] * GROUP
        last = NBYTES - 1
        reads = ByteRange(
            min(max(start + self.distance, 0), last), min(max(stop - 1 + self.distance, 0), last) + 1
        )
        writes = ByteRange(0, NBYTES) if self.scatter else ByteRange(start, stop)
        precision = Precision.MAY if self.seed or self.scatter else Precision.EXACT
        return (
            AccessRange(0, RegionSet(), RegionSet((writes,)), precision),
            AccessRange(1, RegionSet((reads,)), RegionSet(), Precision.EXACT),
        )

    bounds = over

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """Nothing is to be found out."""


class Mover(Machine):
    """Runs ``move``."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig, SOURCE)
        self.build.kernels[0].maps = ByHand()

    def move(self, to: int, from_: int, distance: int, seed: int, scatter: int) -> CutPlan:
        """Launch it; how it is cut."""
        entries = argument_entries([(to, 0, 0), (from_, 0, 0)], [distance, seed, scatter])
        record = entries  # nothing else differs between records
        launch = Launch(1, 0, 1, (0, 0, 0), (NBYTES, 1, 1), (GROUP, 1, 1), entries, 5, record=record)
        return self.launch(launch)[0]

    def buffers(self, *seeds: int) -> list[VirtualBuffer]:
        """New ones with the ``noise`` of these numbers."""
        return [self.rig.buffer(noise(NBYTES, seed)) for seed in seeds]


MakeMover = Callable[..., Mover]


@pytest.fixture
def mover(rig: MakeRig) -> Iterator[MakeMover]:
    """Makes them on rigs: see ``rig``."""
    made: list[Mover] = []

    def make(*given: object, **named: object) -> Mover:
        made.append(Mover(rig(*given, **named)))
        return made[-1]

    yield make
    for each in made:
        each.__dict__.clear()  # pytest keeps what a fixture made for a while
