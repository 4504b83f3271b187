"""The ``Device`` protocol: what a member of the image can do.

Implemented in ``opencl`` (any installed OpenCL driver), ``cuda``, ``testing`` and ``cluster``.
What differs between kinds of members is a value of their ``capabilities``.

Contract.  Every operation but ``build`` returns at once with a ``Ticket``; it starts
when all tickets in ``wait`` are done (tickets may belong to other members or be completed by hand).  If
one of those failed, the operation is not performed and its ticket fails with the same error.  Operations
are issued from one thread (sdi-scheduler); tickets complete on the member's own ``-done`` thread.
Operations issued on one member in order run in that order or concurrently: the caller orders conflicting
ones through ``wait``.  Host memory given to a copy is referenced by the member until the copy's ticket is
done.  Driver errors never escape from an issuing call: they fail the ticket with ``DeviceFailed``.
What answers at once raises ``DeviceLost`` on a member that is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol, cast

from sdi.atomics import Update
from sdi.clc.preprocess.compiler import Ask
from sdi.dataclass import dataclass
from sdi.devices.capabilities import Capabilities
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape, LinearImage, Sampler
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.memory_share import MemoryShare
from sdi.devices.native import NativeMember
from sdi.devices.signals import Signals
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Levels, Region


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """Work-group info of a built kernel on one member (``clGetKernelWorkGroupInfo``).

    ``sub_groups``: the numbers that were asked for by a ``SubGroupQuery``.
    """

    work_group_size: int
    preferred_multiple: int
    local_mem_nbytes: int
    private_mem_nbytes: int
    sub_groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SubGroupQuery:
    """What ``clGetKernelSubGroupInfo`` is asked: the query's number, with the numbers that are ``given``.

    ``num_answers``: how many numbers it answers.
    """

    param: int
    given: tuple[int, ...]
    num_answers: int


@dataclass(frozen=True, slots=True)
class LocalBytes:
    """A ``__local`` argument of ``nbytes``."""

    nbytes: int


class Place(NamedTuple):
    """Where bytes are: in the host's ``memory``, or in that of ``device``.

    ``offset``: where a region's offset 0 is.  ``levels``: how a region's runs lie here, where that is not
    as the region says.  Of an image offsets are those of linear bytes, laid out as its shape says.
    """

    memory: HostBytes | DeviceBuffer
    offset: int = 0
    device: Device | None = None
    levels: Levels | None = None

    def here(self, region: Region) -> Region:
        """The bytes here that a region means."""
        levels = region.levels if self.levels is None else self.levels
        return Region(self.offset + region.base, region.nbytes, levels)

    def at(self, offset: int, levels: Levels | None = None) -> Place:
        """The same memory from another offset on."""
        return Place(self.memory, offset, self.device, levels)

    def host(self, nbytes: int, start: int) -> HostBytes:
        """So many bytes of host memory from ``start`` on.  Raises ValueError past its end."""
        memory = cast(HostBytes, self.memory)
        if start + nbytes > memory.nbytes:
            raise ValueError(f"{nbytes} bytes at {start} of {memory.nbytes}")
        return memory if nbytes == memory.nbytes else memory[start : start + nbytes]


class MergeStep(Enum):
    """What of a merge is done, see ``Device.merge``."""

    DIFF = 0
    APPLY = 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """``nbytes`` of ``buffer`` from ``offset`` beside their twin: what they were before a launch.

    Both on one member, at multiples of ``unit_nbytes`` (1, 2, 4 or 8), the size of the largest scalar stored;
    ``smallest_nbytes``: of the smallest one.  ``update``: how they are atomically updated, if they are.
    """

    buffer: DeviceBuffer
    offset: int
    twin: DeviceBuffer
    twin_offset: int
    nbytes: int
    unit_nbytes: int
    smallest_nbytes: int
    update: Update | None = None


BoundArgument = DeviceBuffer | LinearImage | Sampler | bytes | LocalBytes | None
"""One kernel argument: a device buffer or image, an image in a buffer where members have such, a sampler, a
value's bytes, a ``__local`` size, or None (NULL pointer)."""


class Device(Protocol):
    """One member.  Owned by: sdi-scheduler (issue), its own ``-done`` thread (completions).

    ``memory``: its own, counted.  ``ask``: its compiler, from a build thread.
    """

    capabilities: Capabilities
    memory: MemoryShare
    ask: Ask

    @property
    def native(self) -> NativeMember | None:
        """What the player issues its operations by; None: it can't."""

    @property
    def signals(self) -> Signals | None:
        """How it sends short copies to devices of other processes, and takes theirs; None: it can't."""

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        """New bytes, so many, > 0, or a new image, their content undefined; or a buffer of these very bytes.

        Raises ClError(MEM_OBJECT_ALLOCATION_FAILURE), also past ``memory.nbytes`` in all and for host bytes
        that the member can't use.
        ``on_host``: bytes in the memory of the host that the member is on, which count as none of its own and
        which kernels reach as those of the host: both for what is larger than the member.
        Host bytes start at a page and outlive the buffer, and whoever uses either orders all access to both.
        """

    def free(self, buffer: DeviceBuffer) -> None:
        """Give bytes or an image back; every operation that uses them must be done."""

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        """``buffer``'s bytes themselves, where the member computes in the host's memory; else None.

        Whoever uses them orders all access to them and to the buffer, and ends it before that is freed.
        """

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        """Copy the bytes of ``region``, which share none with those that are written.

        The target is this member's, or the host's and the source this member's.  An image's other end are
        bytes of its own member, and ``region`` is what its shape calls the ``pixels`` of some slabs.
        The source is read behind ``source_waits``, the target written behind ``target_waits``.  The first
        ticket says that the source was read, the second that the target was written; they may be one.
        Where the runs do not lie ``alike`` at both ends, or past the end of a buffer, the tickets fail, or
        ValueError is raised: a bug of who calls.
        """

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        """Bring what several members wrote together; only where ``capabilities.compares``.

        DIFF: write to ``changes`` the units that differ from their twin, laid out as ``comparing.py`` says.
        APPLY: take what another member changed into ``comparison.buffer``, beside what this one changed.
        Without an update each unit of ``changes`` is taken; one that this member changed too is a conflict,
        counted in the header of ``changes``, unless the two changed different scalars of the smallest size,
        which are both kept; so they are where both made the same of what both changed.  With an update the
        unit becomes what it were had both updated it.
        """

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        """Repeat ``pattern`` (1 to 128 bytes, a power of two) over ``nbytes`` (a multiple of it)."""

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        """Compile OpenCL C for this member.  Blocks; called from a build thread.  Raises BuildError."""

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        """Work-group info of ``kernel``, and what is ``asked`` of its sub-groups.

        May block; called from a build thread.  Raises ClError for what the driver refuses to answer.
        """

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        """Set all arguments once.  The result is launched any number of times, from sdi-scheduler."""

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        """Run ``groups`` work-groups of ``local_size`` work-items."""

    def flush(self) -> None:
        """Make sure that everything issued so far will run without further calls."""

    def is_lost(self) -> bool:
        """Whether the driver refuses everything from now on; asked when something failed.  Doesn't block."""

    def close(self) -> None:
        """Wait for what the driver has, release the driver's objects, join the ``-done`` thread.

        Operations whose ``wait`` is not done yet fail with DeviceFailed: a ticket that nobody completes must
        not keep a session from ending.
        """
