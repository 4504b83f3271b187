"""Access maps that know nothing but whether an argument is read or written at all."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.clc.model import ArgumentKind, KernelModel
from sdi.dataclass import dataclass
from sdi.intervals import ByteRange
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling.model import AccessRange, Precision


@dataclass(frozen=True, slots=True)
class BoundWholeAccess:
    """Every box may touch every byte."""

    ranges: tuple[AccessRange, ...]

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """See ``BoundAccess``."""
        del box
        return self.ranges

    def bounds(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """See ``BoundAccess``."""
        return self.over(box)

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """See ``BoundAccess``: nothing is to be found out."""

    def work(self, dim: int) -> None:
        """See ``BoundAccess``."""
        del dim

    def effort(self) -> None:
        """See ``BoundAccess``."""


@dataclass(frozen=True, slots=True)
class WholeAccess:
    """See ``KernelAccess``: reads and writes of whole buffers, from the kernel's model."""

    model: KernelModel

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> BoundWholeAccess:
        """See ``KernelAccess``."""
        del ndrange, values
        found = []
        for index, (argument, nbytes) in enumerate(zip(self.model.arguments, buffer_nbytes, strict=True)):
            if argument.kind not in (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT):
                continue
            whole = RegionSet((ByteRange(0, nbytes),)) if nbytes else RegionSet()
            writes = argument.writes or argument.atomic
            found.append(
                AccessRange(
                    index,
                    whole if argument.reads or argument.atomic else RegionSet(),
                    whole if writes else RegionSet(),
                    Precision.WHOLE if writes else Precision.EXACT,
                    reads_whole=argument.reads,
                )
            )
        return BoundWholeAccess(tuple(found))
