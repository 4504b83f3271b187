"""Launches that are issued again just as before: everything that can't have changed was looked up once.

A session knows a launch by the bytes of its record and has the same ``Launch`` for it each time, so that the
object itself says which recording is meant, with which arguments.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi.devices.base import BoundKernel
from sdi.devices.pace import PACE
from sdi.devices.ticket import Ticket
from sdi.launch.recording import Recording
from sdi.runtime.commands import Launch
from sdi.runtime.counters import Tally
from sdi.runtime.programs import Arrangement, Kernel
from sdi.vmem.buffer import Extent, ImageCopy
from sdi.vmem.memory import VirtualMemory

_LAUNCHES_MAX = 256
_STATES_MAX = 4


class KnownLaunch:
    """A launch that is one recording.  Owned by: sdi-scheduler.

    It is right while all of these are as they were: the kernel's bindings, the way that launches like it are
    cut, every place of any buffer on any member, and the states of its own buffers.  From the states follow
    what has to be moved and, where one member runs all, which one.
    """

    __slots__ = (
        "_bindings",
        "_extents",
        "_kernel",
        "_kernels",
        "_placed",
        "_recording",
        "_tally",
        "arrangement",
        "launch",
    )

    def __init__(
        self,
        launch: Launch,
        kernel: Kernel,
        arrangement: Arrangement,
        recording: Recording,
        kernels: Sequence[BoundKernel],
        tally: Tally,
    ) -> None:
        wave = arrangement.waves[0]
        self.launch = launch
        self.arrangement = arrangement
        self._kernel = kernel
        self._bindings = kernel.generation
        self._placed = wave.placed[1]
        self._extents: tuple[Extent | ImageCopy, ...] = wave.extents
        self._recording = recording
        self._kernels = kernels
        self._tally = tally

    def is_right(self, placed: int) -> bool:
        """Whether the next launch is this one again; counts it with its trial then.

        ``placed``: the generation of the placement.  Launches that are measured, and those after which the
        cut is chosen anew, are not.
        """
        arrangement = self.arrangement
        if self._placed != placed or self._bindings != self._kernel.generation:
            return False
        if not self._recording.is_there():
            return False
        usage, trial = arrangement.usage, arrangement.trial
        if arrangement.version != usage.version or not usage.is_routine():
            return False
        return trial is None or trial.passes(usage.launches + 1)

    def may_be_right(self, newer: KnownLaunch) -> bool:
        """Whether it may still be, beside a newer one of the same launch in other states."""
        return self._placed == newer._placed and self._bindings == newer._bindings

    def issue(self, memory: VirtualMemory) -> list[Ticket]:
        """Issue it; the tickets of its kernels."""
        arrangement, recording = self.arrangement, self._recording
        arrangement.launches += 1
        arrangement.usage.ran(len(self._kernels))
        memory.placement.touch(self._extents)
        trial = arrangement.trial
        # Not where copies come between: they wait for the launch before, which has an event then anyway.
        is_brief = PACE.has_more and trial is not None and trial.is_brief and not recording.transfers
        tickets = recording.replay(memory, self._kernels, is_brief)
        self._tally.launches += 1
        return tickets


class KnownLaunches:
    """The launches that can be issued at once, by their objects.  Owned by: sdi-scheduler.

    A few for each, since the first launch of a loop finds its buffers in other states than the next ones.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[KnownLaunch, ...]] = {}

    def find(self, launch: Launch) -> tuple[KnownLaunch, ...]:
        """What ``launch`` came to, the last first."""
        known = self._known.get(id(launch), ())
        return known if known and known[0].launch is launch else ()

    def keep(self, made: KnownLaunch) -> None:
        """Remember it; it keeps its launch, so that no other object has its id."""
        if len(self._known) >= _LAUNCHES_MAX:
            self._known.clear()
        others = [other for other in self.find(made.launch) if other.may_be_right(made)]
        self._known[id(made.launch)] = (made, *others[: _STATES_MAX - 1])

    def clear(self) -> None:
        """Builds or members are others now."""
        self._known.clear()


__all__ = ["KnownLaunch", "KnownLaunches"]
