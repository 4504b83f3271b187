"""What a generator of sequences knows: which objects there are and which accesses may still be pending."""

from __future__ import annotations

from dataclasses import dataclass, field

READ_WRITE, WRITE_ONLY, READ_ONLY = 1, 2, 4
USE_HOST_PTR, ALLOC_HOST_PTR, COPY_HOST_PTR = 8, 16, 32
HOST_WRITE_ONLY, HOST_READ_ONLY, HOST_NO_ACCESS = 128, 256, 512
MAP_READ, MAP_WRITE, MAP_WRITE_INVALIDATE = 1, 2, 4


@dataclass(frozen=True, slots=True)
class Access:
    """One command's use of bytes.  ``event``: its event; empty when it has none."""

    queue: Queue
    event: str
    start: int
    stop: int
    writes: bool

    def conflicts(self, start: int, stop: int, writes: bool) -> bool:
        """Whether the order with another use matters."""
        return self.start < stop and start < self.stop and (self.writes or writes)


@dataclass(slots=True, eq=False)
class Queue:
    """A command queue."""

    name: str
    in_order: bool
    profiling: bool


@dataclass(slots=True, eq=False)
class Memory:
    """Bytes that commands use: a root buffer, or memory of the application."""

    name: str
    nbytes: int
    accesses: list[Access] = field(default_factory=list)
    maps: list[Mapping] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class View:
    """A buffer, or a part of one.  ``host_ptr``: the memory is the application's."""

    name: str
    root: Memory
    origin: int
    nbytes: int
    flags: int
    host_ptr: bool

    def host_may(self, writes: bool) -> bool:
        """Whether the host-access flags allow it."""
        return not self.flags & ((HOST_READ_ONLY if writes else HOST_WRITE_ONLY) | HOST_NO_ACCESS)

    def kernel_may(self, reads: bool, writes: bool) -> bool:
        """Whether the access flags allow it."""
        return not (reads and self.flags & WRITE_ONLY) and not (writes and self.flags & READ_ONLY)


@dataclass(slots=True, eq=False)
class Mapping:
    """A range of a root that the host has mapped through ``view``."""

    name: str
    view: View
    start: int
    stop: int
    writes: bool


@dataclass(slots=True, eq=False)
class Program:
    """``source`` names its text; ``kernels``: how many kernel objects of it are alive; ``is_launched``: a
    command may still use one that was released.
    """

    name: str
    source: str
    from_source: bool
    kernels: int = 0
    is_launched: bool = False


@dataclass(slots=True, eq=False)
class Kernel:
    """A kernel object and what its arguments are: a View, None (NULL), a number of elements, or else True."""

    name: str
    kind: str
    program: Program
    arguments: dict[int, View | int | None] = field(default_factory=dict)
