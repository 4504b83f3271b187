"""How many members a launch is worth (``SDI_SPLIT=auto``): the way of least predicted time.

Everything that is predicted was measured before, or is taken to be as good as it can be, so that it is tried
and measured.  Source: papers/1 section 3.4, constraint 3; DESIGN "Splitting or not".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sdi.dataclass import dataclass, field

COPY_BYTES_PER_NS = 8.0
"""Comparing with twins: what one core does."""
RECONSIDER = frozenset({2, 5, 16, 64, 256, 1024, 4096, 16384})
"""After so many launches of a kind the way they run is chosen anew."""
_MORE, _FEWER = 0.9, 0.97
"""A way with more, or fewer, assignments must be predicted to take less than this part of the time: one that
a single member runs as fast is no business of several."""
_WEIGHT = 0.25
SHORTEST_FIRST_NS = 250_000_000.0
"""A kernel's first launch that takes less says more about loading its code than about work."""
_AGREE = 3.0
"""Times of two runs differ no more than by this factor, unless something else has changed."""


class Span(Protocol):
    """When something ran."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Ran:
    """One assignment."""

    start_ns: int
    end_ns: int


@dataclass(slots=True)
class Rates:
    """Measured time per work-group of one kernel, by the number of assignments that run side by side.

    ``is_shared``: members share one machine's cores, so that they may slow each other down.  ``guessed``:
    what earlier runs measured, as long as nothing that is measured contradicts it.  ``first``: in a kernel's
    first launch, which is no more than a guess for the next run.  ``times``: how often each was measured.
    """

    is_shared: bool
    measured: dict[int, float] = field(default_factory=dict)
    guessed: dict[int, float] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)

    @property
    def known(self) -> dict[int, float]:
        """Time per work-group, measured or guessed."""
        return {**self.guessed, **self.measured}

    def total_ns(self, ran: Sequence[Span]) -> float:
        """The time of all assignments of a launch.

        Those that share cores may run one after the other, each with all cores: what they took side by side
        is the time from the first one's start to the last one's end.  Those of others may be far apart.
        """
        if self.is_shared:
            return len(ran) * (max(each.end_ns for each in ran) - min(each.start_ns for each in ran))
        return sum(each.end_ns - each.start_ns for each in ran)

    def record(self, assignments: int, total_ns: float, groups: int, is_first: bool = False) -> None:
        """``groups`` work-groups took ``total_ns`` in all, added up over the assignments.

        ``is_first``: drivers may have loaded the kernel's code in that time.
        A shorter time is believed at once, a longer one by and by: what disturbs a run only makes it longer.
        """
        now = total_ns / groups
        if is_first and total_ns < SHORTEST_FIRST_NS:
            self.first[assignments] = now
            return
        guess = self.guessed.get(assignments, now)
        if not guess / _AGREE <= now <= guess * _AGREE:
            self.guessed = {}  # another machine, or other work: nothing else that it says can be trusted
        self.times[assignments] = self.times.get(assignments, 0) + 1
        known = self.measured.get(assignments, now)
        self.measured[assignments] = now if now < known else (1 - _WEIGHT) * known + _WEIGHT * now

    def group_ns(self, assignments: int) -> float | None:
        """Predicted time per work-group; None before anything was measured.

        Numbers of assignments between two that were measured are on the line between them.  More than were
        measured are taken not to slow each other down; of fewer, which share a machine, each is taken to be
        as much faster.  Where nothing is shared, fewer assignments have no more to do in all than more have.
        """
        known = self.known
        if not known:
            return None
        found = self._between(assignments, known)
        return found if self.is_shared else min([found, *(ns for k, ns in known.items() if k >= assignments)])

    def _between(self, assignments: int, known: dict[int, float]) -> float:
        if assignments in known:
            return known[assignments]
        fewer = max((k for k in known if k < assignments), default=0)
        more = min((k for k in known if k > assignments), default=0)
        if fewer and more:
            share = (assignments - fewer) / (more - fewer)
            return (1 - share) * known[fewer] + share * known[more]
        if fewer:
            return known[fewer]
        return known[more] * (assignments / more if self.is_shared else 1.0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Predicted times of running a launch in some assignments, in ns.

    ``run_ns``: the largest assignment.  ``issue_ns``: for all, planning included.  ``move_ns``: bringing
    what is stale now.  ``steady_ns``: that, when launches like this one have run this way for a while.
    """

    assignments: int
    run_ns: float
    issue_ns: float
    move_ns: float
    steady_ns: float

    def total_ns(self, ahead: int) -> float:
        """One launch of ``ahead`` that are to come, which share what moves once."""
        once = max(0.0, self.move_ns - self.steady_ns)
        return self.run_ns + self.issue_ns + self.steady_ns + once / ahead


def choose(ways: Sequence[Candidate], current: int, ahead: int) -> Candidate:
    """The best way; that with ``current`` assignments (0: none yet) stays unless one is clearly better."""
    now = next((way for way in ways if way.assignments == current), None)
    if now is not None:
        ways = [
            way
            for way in ways
            if way is now
            or way.total_ns(ahead) < now.total_ns(ahead) * (_MORE if way.assignments > current else _FEWER)
        ]
    return min(ways, key=lambda way: (way.total_ns(ahead), way.assignments))


def described(chosen: Candidate, most: Candidate, ahead: int) -> str:
    """Why not in as many assignments as there are members, in one sentence with figures."""
    return (
        f"predicted {most.total_ns(ahead) / 1e6:.2f} ms in {most.assignments} assignments "
        f"({most.move_ns / 1e6:.2f} ms of it for copies), {chosen.total_ns(ahead) / 1e6:.2f} ms "
        + ("whole" if chosen.assignments == 1 else f"in {chosen.assignments}")
    )
