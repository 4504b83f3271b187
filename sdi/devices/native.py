"""What a member tells the player: the driver's handles that C issues operations by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from sdi.dataclass import dataclass, field
from sdi.devices.handles import BoundKernel, DeviceBuffer, HostBytes
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region


class DriverKind(IntEnum):
    """Which entry points a lane's operations go to."""

    CUDA = 1
    OPENCL = 2


@dataclass(frozen=True, slots=True)
class NativeLane:
    """A stream or in-order queue, and the context that it is in (0: none).

    ``has_events``: others of the driver wait for what is in it; else they need nothing for that.
    ``fills_nbytes``: lengths of the patterns that it fills with, all where there are none.
    """

    driver: DriverKind
    context: int
    stream: int
    has_events: bool = False
    fills_nbytes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class NativeLaunch:
    """A bound kernel with its groups.

    ``kernel``: the driver's function or kernel, which nobody else sets arguments of.  ``size``: work-groups.
    ``block``: its parameters as CUDA takes them.  ``scalars``: by argument, where its value is in the block,
    or its index for OpenCL.  ``keep``: what must live as long.  ``order``: see ``launched``.
    """

    kernel: int
    size: Int3
    local_size: Int3
    work_dim: int
    shared_nbytes: int = 0
    block: bytes = b""
    scalars: Mapping[int, int] = field(default_factory=dict)
    keep: object = None
    order: tuple[tuple[object, ...], int] = ((), 0)


@dataclass(frozen=True, slots=True)
class NativePlace:
    """Bytes of a member: an address, or an offset in the driver's ``buffer``.

    ``near``: where the buffer begins in this process, in whose memory the member computes; 0: elsewhere.
    """

    buffer: int
    at: int
    near: int = 0


FETCHED_MAX = 16
"""Of so many parts a kernel brings all."""


class NativePart(NamedTuple):
    """Runs of another member, the first of which is at ``from_`` there, and goes to ``to``."""

    to: NativePlace
    from_: NativePlace
    runs: Region


class NativeMember(Protocol):
    """A member, as the player issues its operations."""

    def lane(self) -> NativeLane | None:
        """None: the player can't."""

    def side(self) -> NativeLane | None:
        """One more stream, that nobody else uses, for what may run beside the lane.

        None: there is none.  Python's own operations wait for what the player gave it only through the lane,
        which waits for it first.
        """

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int
    ) -> NativeLaunch | None:
        """None: this one can't be issued by the player."""

    def place(self, buffer: DeviceBuffer, offset: int) -> NativePlace | None:
        """Where these bytes are; None where the driver must be asked differently."""

    def host(self, host: HostBytes, is_large: bool = False) -> bool:
        """Make ``host`` such that copies of it can be issued without blocking; False: that can't be.

        ``is_large``: only where it is so already, and one thread that copies is not too slow for it.
        """

    def peer(self, source: NativeMember | None) -> bool:
        """Whether a copy from a buffer of ``source`` is one operation of the driver."""

    def may_begin(self, bound: BoundKernel, groups: Int3, local_size: Int3) -> bool:
        """Whether the player may launch it although nobody did so before."""

    def fetch(self, source: NativeMember, parts: Sequence[NativePart]) -> NativeLaunch | None:
        """A kernel that brings all these of ``source``; None where the driver's copies are as good."""

    def marker(self) -> Ticket:
        """Done when all that was given to the lane is."""

    def launched(self, launch: NativeLaunch, ticket: Ticket) -> None:
        """The player launched it, perhaps often; all of that is done when ``ticket`` is."""

    def is_idle(self) -> bool:
        """Whether all that Python issued is done."""
