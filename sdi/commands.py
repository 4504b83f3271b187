"""Commands: what the application enqueued, as frozen values.  Buffers are named by id, offsets are bytes."""

from __future__ import annotations

from sdi.dataclass import dataclass, field
from sdi.errors import insist
from sdi.intervals import ByteRange
from sdi.ndrange import Int3
from sdi.region import Bytes, Region, bytes_of, region


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A region of a buffer: ``region`` is (bytes per row, rows, slices), ``offset`` its first byte."""

    offset: int
    region: Int3
    row_pitch: int
    slice_pitch: int

    @property
    def contiguous(self) -> bool:
        """Whether the region is one run of bytes."""
        row, rows, slices = self.region
        return (rows == 1 or self.row_pitch == row) and (slices == 1 or self.slice_pitch == row * rows)

    @property
    def nbytes(self) -> int:
        """Bytes in the region (not those between its rows)."""
        return self.region[0] * self.region[1] * self.region[2]

    @property
    def strided(self) -> Region:
        """The same bytes, row by row."""
        return region(self.offset, self.region, (self.row_pitch, self.slice_pitch))

    @property
    def over(self) -> Bytes:
        """The same on as few levels as that takes; a range where it is one run."""
        rows = self.strided
        return bytes_of(rows.base, rows.nbytes, rows.levels)

    @property
    def bounds(self) -> ByteRange:
        """Smallest range that holds the region."""
        row, rows, slices = self.region
        span = row + (rows - 1) * self.row_pitch + (slices - 1) * self.slice_pitch
        return ByteRange(self.offset, self.offset + span)


@dataclass(frozen=True, slots=True)
class Read:
    """Copy a region of ``buffer`` to the application's memory; the client does the last step.

    ``into``: where in the arena the bytes go, in a row, if they go there: the service does all of it then.
    ``unasked``: no command of the application, but for memory of its own that the buffer uses.
    ``record``: its record from behind the command fields, where it may be replayed.
    """

    buffer: int
    rectangle: Rectangle
    blocking: bool
    unasked: bool = False
    into: int = 0
    record: bytes = field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class Write:
    """Copy the application's memory to a region of ``buffer``; the client does the copy when told.

    ``written_ns``: 0, or when it began with that, untold, since nobody else knew the buffer: it is done.
    ``data``: the bytes, row by row, where they came with the record or were staged: the client is done.
    ``staged_at``: where they are staged, until they are taken.  ``is_mapped``: of these, the buffer was once
    mapped for writing.
    ``unasked``, ``record``: see ``Read``.
    """

    buffer: int
    rectangle: Rectangle
    blocking: bool
    written_ns: int = 0
    unasked: bool = False
    data: bytes = b""
    staged_at: int = 0
    is_mapped: bool = False
    record: bytes = field(default=b"", compare=False)

    @property
    def is_transfer(self) -> bool:
        """Whether the client has yet to copy."""
        return not (self.written_ns or self.data)


@dataclass(frozen=True, slots=True)
class CopyBuffer:
    """Copy a region between two buffers or two places of one; regions never overlap.

    ``member``: 1 + the number of the member that has the copy then; 0: wherever is quickest.
    ``record``: see ``Read``.
    """

    source: int
    target: int
    source_rectangle: Rectangle
    target_rectangle: Rectangle
    record: bytes = field(default=b"", compare=False)
    member: int = 0


@dataclass(frozen=True, slots=True)
class Fill:
    """Repeat ``pattern`` over each row of a region of ``buffer``.

    ``member``, ``record``: see ``CopyBuffer``.
    """

    buffer: int
    rectangle: Rectangle
    pattern: bytes
    record: bytes = field(default=b"", compare=False)
    member: int = 0


@dataclass(frozen=True, slots=True)
class Map:
    """Make a region of ``buffer`` visible to the application.

    ``transfer``: the client copies the bytes on to a USE_HOST_PTR pointer.  ``record``: see ``Read``.
    """

    buffer: int
    rectangle: Rectangle
    fetch: bool
    for_writing: bool
    transfer: bool
    blocking: bool
    record: bytes = field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class Unmap:
    """The application is done with a mapping.

    ``transfer``: its bytes come from a USE_HOST_PTR pointer.  ``record``: see ``Read``.
    """

    buffer: int
    rectangle: Rectangle
    wrote: bool
    transfer: bool
    record: bytes = field(default=b"", compare=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """One NDRange.  ``arguments``: the wire's argument entries, undecoded (they are a cache key).

    ``local_size`` is None where the application left it to the implementation.  ``prints``: the client puts
    out what the kernel printed before the launch is complete.  ``record``: see ``Read``.
    ``member``: 1 + the number of the member that runs all of it; 0: whoever is chosen.
    ``regions``: of its arguments, the root buffers that it uses by address, since it follows pointers.
    ``reach``: the id of what it may reach beside them, as was told once; 0: nothing.
    """

    build: int
    kernel_index: int
    work_dim: int
    offset: Int3
    global_size: Int3
    local_size: Int3 | None
    arguments: bytes
    num_args: int
    prints: bool = False
    record: bytes = field(default=b"", compare=False)
    member: int = 0
    regions: tuple[int, ...] = ()
    reach: int = 0

    @property
    def is_by_address(self) -> bool:
        """Whether addresses in data have to be those that the application knows."""
        return bool(self.regions or self.reach)

    @property
    def names(self) -> tuple[int, ...]:
        """The ids by which it says what it uses by addresses."""
        return (*self.regions, self.reach) if self.reach else self.regions


@dataclass(frozen=True, slots=True)
class Marker:
    """Completes when what it waits for is complete.  ``barrier``: later commands of the queue wait for it."""

    barrier: bool


@dataclass(frozen=True, slots=True)
class Migrate:
    """Bring bytes somewhere before somebody asks.  ``places``: buffer, first byte, number of bytes.

    ``member``: 1 + the number of the member that gets them; 0: the host.
    """

    places: tuple[Int3, ...]
    member: int = 0

    def __post_init__(self) -> None:
        insist(all(nbytes for _, _, nbytes in self.places), "num_places", "an empty one")


Command = Read | Write | CopyBuffer | Fill | Map | Unmap | Launch | Marker | Migrate


def described(command: Command) -> tuple[str, int]:
    """What a profile calls ``command``, and the bytes that it reads, writes, copies or fills."""
    kind = type(command).__name__.lower()
    match command:
        case Read(unasked=True) | Write(unasked=True):
            return f"host pointer {kind}", command.rectangle.nbytes
        case CopyBuffer():
            return "copy", command.source_rectangle.nbytes
        case Launch() | Marker():
            return kind, 0
        case Migrate():
            return kind, sum(nbytes for _, _, nbytes in command.places)
        case _:
            return kind, command.rectangle.nbytes


def regions(command: Command) -> tuple[tuple[str, int, ByteRange], ...]:
    """The bytes of buffers that a command names itself: the record's field, the buffer, and around what."""
    match command:
        case CopyBuffer():
            source, target = command.source_rectangle.bounds, command.target_rectangle.bounds
            return (("source", command.source, source), ("target", command.target, target))
        case Launch() | Marker():
            return ()
        case Migrate():
            return tuple(("places", n, ByteRange(at, at + nbytes)) for n, at, nbytes in command.places)
        case _:
            return (("buffer", command.buffer, command.rectangle.bounds),)


def overwrites(command: Command) -> tuple[int, Rectangle] | None:
    """What the device itself writes of a buffer, but for launches: poisoned if it can't be issued."""
    match command:
        case CopyBuffer():
            return command.target, command.target_rectangle
        case Fill():
            return command.buffer, command.rectangle
        case Write() if command.data or command.staged_at or command.written_ns:
            return command.buffer, command.rectangle  # the application may have been told that it is over
        case Unmap() if command.wrote and not command.transfer:
            return command.buffer, command.rectangle
        case _:
            return None  # it only reads, or the application's copy is all that it writes
