"""What a ``cl_mem`` names, and the parts of it that members hold."""

from __future__ import annotations

from collections.abc import Callable

from sdi.cells import STAGE_IN_USE, Cells
from sdi.dataclass import dataclass, field
from sdi.devices.base import Place
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.join import join
from sdi.intervals import ByteRange
from sdi.regions import RegionSet
from sdi.vmem.dependencies import Dependencies
from sdi.vmem.directory import HOST, Directory


@dataclass(slots=True, eq=False)
class Allocation:
    """Bytes ``over`` of a root buffer on one member, the first of them at the start of ``device_buffer``.

    Never changes its place: what holds other bytes is another allocation, so identity tells whether what was
    bound to it is still right.  ``nbytes``: of the member's memory that it takes, 0 on the member's host.
    ``used``: when a launch last wanted it.  ``place``: of the root buffer, as far as its bytes are here; None
    in the memory of several members, which name it each in its own way.
    """

    device_buffer: DeviceBuffer
    over: ByteRange
    nbytes: int
    used: int = 0
    place: Place | None = None

    @property
    def is_on_host(self) -> bool:
        """Whether it takes none of the member's memory."""
        return not self.nbytes

    def holds(self, over: ByteRange) -> bool:
        """Whether all of ``over`` lies in it."""
        return self.over.start <= over.start and over.stop <= self.over.stop


@dataclass(frozen=True, slots=True)
class ImageView:
    """Bytes of a root buffer as pixels, the first of them at ``offset``."""

    offset: int
    shape: ImageShape

    @property
    def over(self) -> ByteRange:
        """From the first pixel's first byte to the last one's last."""
        return ByteRange(self.offset, self.offset + self.shape.span_nbytes)

    def bytes_of(self, slabs: RegionSet) -> RegionSet:
        """The bytes of some slabs, by their numbers."""
        found = [self.shape.bytes_of(Slabs(part.start, part.stop)) for part in slabs.runs()]
        return RegionSet(tuple([over.moved(self.offset) for over in found]))


@dataclass(slots=True, eq=False)
class ImageCopy:
    """An opaque copy of a view on one member: its ``number`` in the directory, accesses by root offsets.

    ``used``: when a launch last wanted it.
    """

    device_image: DeviceBuffer
    view: ImageView
    number: int
    dependencies: Dependencies
    used: int = 0


@dataclass(slots=True, eq=False)
class VirtualBuffer:
    """``nbytes`` bytes at ``offset`` in the arena, and at most one allocation per member.

    A member is a holder (see ``directory``) of bytes in its allocation only.  ``mapped``: the arena's bytes
    as device buffers, by member.  ``images``: opaque copies by member and view.  ``on_release``: told the
    buffer's id when it goes.  ``places``: the cell that changes with its allocations, if somebody wants one;
    ``stage_cell``: then that of its ``stage``, see ``player.library``.  ``is_outside``: the application may
    have changed its bytes in the arena without a command that says so.  ``is_one_of_many``: that launches may
    reach together, see ``Reaches``.
    ``is_in_place``: it is used in the arena only, where the application may use it at any time.
    ``written_nbytes``: of the last write that came with its record.  ``came``: see ``came_before``.
    """

    id: int
    nbytes: int
    offset: int
    directory: Directory
    dependencies: list[Dependencies]
    allocations: list[Allocation | None]
    mapped: dict[int, DeviceBuffer] = field(default_factory=dict)
    images: dict[tuple[int, ImageView], ImageCopy] = field(default_factory=dict)
    on_release: set[Callable[[int], None]] = field(default_factory=set)
    places: tuple[Cells, int] | None = None
    stage: int = STAGE_IN_USE
    stage_cell: int = 0
    is_outside: bool = False
    is_one_of_many: bool = False
    is_in_place: bool = False
    written_nbytes: int = 0
    came: int = 0
    whole: ByteRange = field(init=False)

    def __post_init__(self) -> None:
        self.whole = ByteRange(0, self.nbytes)

    def came_before(self, op: int) -> bool:
        """Whether commands of kind ``op`` were asked about before: the first one may be the only one."""
        before, self.came = self.came, self.came | 1 << op
        return before >> op & 1 == 1

    @property
    def together(self) -> int:
        """The bit set of memories that are the host's too, with that; 0: none is."""
        return self.directory.together

    def own(self, memory: int) -> int:
        """``memory``, or the host's where it is that."""
        return HOST if self.together >> memory & 1 else memory

    def is_only_on(self, member: int) -> bool:
        """Whether no other member has a place for bytes of it, and so holds any."""
        return all(each is None for number, each in enumerate(self.allocations) if number != member)

    def follow(self, cells: Cells, cell: int, stage_cell: int) -> None:
        """Have ``cell`` change whenever an allocation does, and ``stage_cell`` say how it is used."""
        self.places = (cells, cell)
        self.stage_cell = stage_cell
        self.enter(self.stage)

    def enter(self, stage: int) -> None:
        """Be in ``stage``."""
        self.stage = stage
        if self.places is not None:
            self.places[0].at[self.stage_cell] = stage

    def unfollow(self) -> None:
        """Write to no cell any more."""
        self.places = None
        self.directory.mirror(None, 0)

    def moved(self) -> None:
        """One of its allocations is another one now, or gone."""
        if self.places is not None:
            self.places[0].changed(self.places[1])

    def when_idle(self, post: Callable[[Callable[[], None]], None], then: Callable[[], None]) -> None:
        """Call ``then`` once all that was issued on it is done: now, or in a turn that ``post`` arranges.

        Also what is issued meanwhile: a member that is short of memory brings home what only it has.
        """
        if all(dependencies.is_idle() for dependencies in self.dependencies):
            then()
            return
        pending = [ticket for dependencies in self.dependencies for ticket in dependencies.pending()]
        join(pending, lambda _error: post(lambda: self.when_idle(post, then)))
