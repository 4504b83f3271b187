"""Launches that are issued again just as before: everything that can't have changed was looked up once.

A session knows a launch by the bytes of its record and has the same ``Launch`` for it each time, so that the
object itself says which binding is meant.  A ``Repeat`` is what its last ordinary issue came to: pieces with
their members and hazards, copies before them, and the states of its buffers before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sdi.devices.base import BoundKernel
from sdi.devices.pace import PACE
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.runtime.commands import Launch
from sdi.runtime.counters import Tally
from sdi.runtime.programs import Arrangement, Kernel
from sdi.vmem.buffer import Extent, ImageCopy
from sdi.vmem.directory import Directory, State
from sdi.vmem.hazards import Use
from sdi.vmem.memory import Transfer, VirtualMemory

IssuePiece = Callable[[BoundKernel, Int3, Int3, int, Sequence[Ticket]], Ticket]
"""``Device.launch``."""
_REPEATS_MAX = 256
_STATES_MAX = 4


class Piece:
    """What one member does: ``issue`` and ``flush`` are that member's."""

    __slots__ = ("flush", "groups", "issue", "kernel", "uses")

    def __init__(
        self,
        issue: IssuePiece,
        flush: Callable[[], None],
        kernel: BoundKernel,
        groups: Int3,
        uses: tuple[Use, ...],
    ) -> None:
        self.issue = issue
        self.flush = flush
        self.kernel = kernel
        self.groups = groups
        self.uses = uses


class Change:
    """A buffer's residency: the launch finds it in one state and leaves it in another, perhaps the same."""

    __slots__ = ("after", "before", "directory")

    def __init__(self, directory: Directory, before: State, after: State) -> None:
        self.directory = directory
        self.before = before
        self.after = after


class Repeat:
    """A launch of one wave, ready to be issued once more.  Owned by: sdi-scheduler.

    It is right while all of these are as they were: the kernel's bindings, the way that launches like it are
    cut, every place of any buffer on any member, and the states of its own buffers.  From the states follow
    what has to be moved and, where one member runs all, which one.
    """

    __slots__ = (
        "_bindings",
        "_changes",
        "_extents",
        "_kernel",
        "_local_size",
        "_pieces",
        "_placed",
        "_tally",
        "_transfers",
        "_work_dim",
        "arrangement",
        "launch",
    )

    def __init__(
        self,
        launch: Launch,
        kernel: Kernel,
        arrangement: Arrangement,
        pieces: list[Piece],
        transfers: tuple[Transfer, ...],
        changes: list[Change],
        tally: Tally,
    ) -> None:
        wave = arrangement.waves[0]
        self.launch = launch
        self.arrangement = arrangement
        self._kernel = kernel
        self._bindings = kernel.generation
        self._placed = wave.placed[1]
        self._extents: tuple[Extent | ImageCopy, ...] = wave.extents
        self._pieces = pieces
        self._transfers = transfers
        self._changes = changes
        self._tally = tally
        self._local_size = arrangement.ndrange.local_size
        self._work_dim = arrangement.ndrange.work_dim

    def is_right(self, placed: int) -> bool:
        """Whether the next launch is this one again; counts it with its trial then.

        ``placed``: the generation of the placement.  Launches that are measured, and those after which the
        cut is chosen anew, are not.
        """
        arrangement = self.arrangement
        if self._placed != placed or self._bindings != self._kernel.generation:
            return False
        for change in self._changes:
            if change.directory.state() is not change.before:
                return False
        usage, trial = arrangement.usage, arrangement.trial
        if arrangement.version != usage.version or not usage.is_routine():
            return False
        return trial is None or trial.passes(usage.launches + 1)

    def may_be_right(self, newer: Repeat) -> bool:
        """Whether it may still be, beside a newer one of the same launch in other states."""
        return self._placed == newer._placed and self._bindings == newer._bindings

    def issue(self, memory: VirtualMemory) -> list[Ticket]:
        """Issue it; the tickets of its pieces.  Nothing raises but what a copy's member does."""
        arrangement = self.arrangement
        arrangement.launches += 1
        arrangement.usage.ran(len(self._pieces))
        memory.placement.touch(self._extents)
        for transfer in self._transfers:
            memory.perform(transfer, True)
        local_size, work_dim = self._local_size, self._work_dim
        tickets: list[Ticket] = []
        if PACE.has_more and arrangement.trial is not None and not self._transfers:
            # Not where copies come between: they wait for the launch before, which has an event then anyway.
            PACE.is_brief = arrangement.trial.is_brief
        try:
            for piece in self._pieces:
                found: dict[Ticket, None] = {}
                for use in piece.uses:
                    use.gather(found)
                ticket = piece.issue(piece.kernel, piece.groups, local_size, work_dim, list(found))
                piece.flush()
                tickets.append(ticket)
                for use in piece.uses:
                    use.by(ticket)
        finally:
            PACE.is_brief = False
        for change in self._changes:
            change.directory.enter(change.after)
        self._tally.launches += 1
        return tickets


class Repeats:
    """The launches that can be repeated, by their objects.  Owned by: sdi-scheduler.

    A few for each, since the first launch of a loop finds its buffers in other states than the next ones.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Repeat, ...]] = {}

    def find(self, launch: Launch) -> tuple[Repeat, ...]:
        """What ``launch`` came to, the last first."""
        known = self._known.get(id(launch), ())
        return known if known and known[0].launch is launch else ()

    def keep(self, repeat: Repeat) -> None:
        """Remember it; it keeps its launch, so that no other object has its id."""
        if len(self._known) >= _REPEATS_MAX:
            self._known.clear()
        others = [other for other in self.find(repeat.launch) if other.may_be_right(repeat)]
        self._known[id(repeat.launch)] = (repeat, *others[: _STATES_MAX - 1])

    def clear(self) -> None:
        """Builds or members are others now."""
        self._known.clear()


def is_repeatable(arrangement: Arrangement, launch: Launch) -> bool:
    """Whether a launch whose states are known can be: one wave is all of it, and nothing is put out after."""
    return len(arrangement.waves) == 1 and not launch.prints


__all__ = ["Change", "Piece", "Repeat", "Repeats", "is_repeatable"]
