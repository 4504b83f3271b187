"""Recordings: what one part of a launch comes to, and the loop that carries it out.

Planning a part ends in a recording: what is copied first, what each member runs and what that reads and
writes, and how the residency of its buffers changes.  It is right again whenever its buffers are in the
states that it begins in, with the arguments that are bound then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from sdi.dataclass import dataclass
from sdi.devices.base import Device
from sdi.devices.handles import BoundKernel
from sdi.devices.issue import Issue, Timing
from sdi.devices.join import join
from sdi.devices.ticket import Ticket
from sdi.launch.patterns import CopyPattern
from sdi.ndrange import Int3
from sdi.partition.history import LaunchHistory
from sdi.vmem.buffer import Allocation, ImageCopy
from sdi.vmem.dependencies import Use
from sdi.vmem.directory import Directory, State
from sdi.vmem.memory import VirtualMemory
from sdi.vmem.reaches import NOTHING, Reached
from sdi.vmem.transfers import Transfer


@dataclass(frozen=True, slots=True)
class CopyTime:
    """What copies from members before a launch and merges after it are predicted to take: ``ns`` in all.

    ``apart``: of a launch on one member so much because launches of others left in parts what it needs.
    """

    ns: float = 0.0
    apart: tuple[tuple[LaunchHistory, float], ...] = ()


IssueKernel = Callable[[BoundKernel, Int3, Int3, int, Sequence[Ticket], Timing], Ticket]
"""``Device.launch``."""

HowLaunched = tuple[tuple[int, ...], tuple[int, ...], str, bool]
"""Work-groups, and on which members, why whole, and whether by address."""


class Tally:
    """``launches`` of a kernel that ran alike and are not counted yet."""

    __slots__ = ("how", "launches", "name")

    def __init__(self, name: str, how: HowLaunched) -> None:
        self.name = name
        self.how = how
        self.launches = 0


class Assignment:
    """What one member does: ``issue`` and ``flush`` are that member's.

    ``uses``: what it waits for.  ``leaves``: of these, what is in use until the kernel is done; the others
    are recorded by who issued it.
    """

    __slots__ = ("flush", "groups", "issue", "leaves", "node", "uses")

    def __init__(
        self, device: Device, groups: Int3, uses: tuple[Use, ...], leaves: tuple[Use, ...] | None = None
    ) -> None:
        self.issue: IssueKernel = device.launch
        self.flush = device.flush
        self.node = device.capabilities.node
        self.groups = groups
        self.uses = uses
        self.leaves = uses if leaves is None else leaves


def _later() -> None:
    """The next assignment's does."""


class Change:
    """A buffer's residency: a command finds it in one state and leaves it in another, perhaps the same."""

    __slots__ = ("after", "before", "directory")

    def __init__(self, directory: Directory, before: State, after: State) -> None:
        self.directory = directory
        self.before = before
        self.after = after


class Recording:
    """A part of a launch, planned.  Owned by: sdi-scheduler.

    ``where``: the members of the launch.  ``transfers``: copies before it.  ``changes``: per buffer; none
    where states are not known, and then it is carried out once only; ``moves``: of these, what leaves another
    state than it finds.  ``copying``: how long that takes.  ``allocations``: places that it uses, its
    buffers' own while the placement has the generation ``placed``.  ``tally``: counts replays.
    ``patterns``: what its copies are, where somebody wants to know.  ``reached``: what all assignments use in
    one memory, by ``together``: they do not wait for each other, and what comes next waits for all of them.
    """

    __slots__ = (
        "allocations",
        "assignments",
        "changes",
        "copying",
        "local_size",
        "moves",
        "patterns",
        "placed",
        "reached",
        "tally",
        "together",
        "transfers",
        "where",
        "work_dim",
    )

    def __init__(
        self,
        where: tuple[int, ...],
        assignments: Sequence[Assignment],
        transfers: Sequence[Transfer],
        local_size: Int3,
        work_dim: int,
    ) -> None:
        self.where = where
        self.assignments = tuple(assignments)
        for one, other in pairwise(self.assignments):
            if one.node == other.node != 0:
                one.flush = _later  # what is said to a node goes out together
        self.transfers = tuple(transfers)
        self.changes: tuple[Change, ...] = ()
        self.moves: tuple[Change, ...] = ()
        self.copying = CopyTime()
        self.local_size = local_size
        self.work_dim = work_dim
        self.allocations: tuple[Allocation | ImageCopy, ...] = ()
        self.placed = -1
        self.tally: Tally | None = None
        self.patterns: tuple[CopyPattern, ...] = ()
        self.reached = NOTHING
        self.together: tuple[Use, ...] = ()

    def uses_together(self, reached: Reached, uses: tuple[Use, ...]) -> None:
        """All assignments use ``reached`` by ``uses``."""
        self.reached, self.together = reached, uses

    def repeats(self, changes: Sequence[Change]) -> None:
        """It may be carried out again: ``changes`` is what it does to residency."""
        self.changes = tuple(changes)
        self.moves = tuple([change for change in changes if change.before is not change.after])

    def is_there(self) -> bool:
        """Whether its buffers are in the states in which it begins."""
        return all(change.directory.state() is change.before for change in self.changes)

    def replay(
        self, memory: VirtualMemory, kernels: Sequence[BoundKernel], issue: Issue, timing: Timing
    ) -> list[Ticket]:
        """Carry out all of it once more, with ``kernels``, one for each assignment; the kernels' tickets.

        ``timing``: of the kernels.
        """
        for transfer in self.transfers:
            memory.transfers.perform(transfer, issue, is_repeated=True)
        tickets = self.start(kernels, timing)
        self.leave(tickets)
        for change in self.moves:
            change.directory.enter(change.after)
        return tickets

    def leave(self, tickets: Sequence[Ticket]) -> None:
        """All that uses ``reached`` was issued, and is done when these are."""
        if not self.together:
            return
        everyone = tickets[0]
        if len(tickets) > 1:
            everyone = Ticket()
            join(tickets, everyone.complete)
        for use in self.together:
            use.by(everyone)

    def start(
        self, kernels: Sequence[BoundKernel], timing: Timing, among: Sequence[Assignment] | None = None
    ) -> list[Ticket]:
        """Launch what the members run, once its copies are issued.  Nothing raises.

        ``among``: some of its assignments, those of ``kernels``.
        """
        local_size, work_dim = self.local_size, self.work_dim
        tickets: list[Ticket] = []
        common: dict[Ticket, None] = {}
        for use in self.together:
            use.gather(common)
        for assignment, kernel in zip(self.assignments if among is None else among, kernels, strict=True):
            found = dict(common) if common else {}
            for use in assignment.uses:
                use.gather(found)
            ticket = assignment.issue(kernel, assignment.groups, local_size, work_dim, list(found), timing)
            assignment.flush()
            tickets.append(ticket)
            for use in assignment.leaves:
                use.by(ticket)
        return tickets
