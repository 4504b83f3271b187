"""What access analysis answers: which bytes an assignment of a launch may read and write.

Frozen values.  Offsets are bytes from the start of the memory that the argument's pointer names (the bound
buffer or sub-buffer), in the application's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from sdi.atomics import Update
from sdi.dataclass import dataclass
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet


class Precision(Enum):
    """How well the written bytes of an argument are known.

    EXACT: the box writes exactly ``writes``, whatever the buffers hold.  COVER: data decide what of
    ``writes`` it writes, but not where: boxes of which none writes what another one does have answers apart.
    MAY: it writes within ``writes``, as far as bounds tell, and nowhere else.  WHOLE: nothing is known;
    ``writes`` is the whole buffer.
    """

    EXACT = "exact"
    COVER = "cover"
    MAY = "may"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class AccessRange:
    """What one box of work-groups does through one pointer argument.

    ``reads``: contains every byte that is read (never less).  ``writes``: see ``Precision``.  Both are
    clipped to the buffer.  ``reads_whole``: the reads are not known and ``reads`` is the whole buffer.
    ``updates``: the bytes that may be changed by each kind of atomic update; they count as neither read nor
    written.  Where ``precision`` is WHOLE, there may be others.
    """

    argument: int
    reads: RegionSet
    writes: RegionSet
    precision: Precision
    reads_whole: bool = False
    updates: tuple[tuple[Update, RegionSet], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """What work-groups have to do along one dimension, as estimated from loops.

    ``density``: accesses of a work-item on average, in equal parts of the dimension.  ``accesses``: of all.
    """

    density: tuple[float, ...]
    accesses: float


class BoundAccess(Protocol):
    """The access maps of a kernel with the NDRange and all scalars known.  Cheap to keep, pure."""

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """What the work-groups of ``box`` do, one entry per GLOBAL or CONSTANT argument, in order."""

    def bounds(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """The same with one range per access: cheap where there would be many."""

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """All of these will be asked for, by ``over`` or by ``bounds``."""

    def work(self, dim: int) -> WorkEstimate | None:
        """What work-groups have to do along dimension ``dim``; None: the same everywhere, or unknown."""

    def effort(self) -> float | None:
        """Accesses of all work-items, as estimated from loops; None: nothing is known."""


class KernelAccess(Protocol):
    """The access maps of a kernel, parametric in scalars, offset and local size; made once per build."""

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> BoundAccess:
        """``values``: each argument's bytes as the application set them, None for pointers.

        ``buffer_nbytes``: size of the memory behind each pointer argument, None for other arguments and NULL.
        """


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an argument is not better known: one sentence for the user, with the line of the source."""

    argument: int
    text: str
    line: int
