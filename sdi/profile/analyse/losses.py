"""Where the time of a run went: every member is in one class at every instant, so the classes add up.

A sweep over all spans of a session, in the order of their ends and begins.  Between two of them nothing
changes; that time counts, for each member, in the first of ``CLASSES`` that fits.

Source: papers/1, figures 11 to 13 (transfers, consistency, kernel time per device), carried on to all time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from operator import itemgetter

from sdi.dataclass import dataclass
from sdi.profile.analyse.classes import CLASSES, NO_KERNEL, Instant, RunningLaunch, Situation, classify
from sdi.profile.analyse.model import Call, SessionProfile

APPLICATION_COPIES = frozenset({"read", "write"})
"""Commands whose own time is a copy that the application makes."""
CONSISTENCY = frozenset({"twin", "diff", "merge"})
"""Work on what several members wrote."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Time of one session by class.

    ``member_ns``: (kernel, class) -> ns, summed over the members; all of them together are
    ``wall_ns * members``.  The kernel is empty where none had to do with it.
    ``by_member``: for each member class -> ns, ``wall_ns`` in all.
    """

    wall_ns: int
    members: int
    member_ns: dict[tuple[str, str], int]
    by_member: tuple[dict[str, int], ...]

    def of_kernel(self, kernel: str) -> dict[str, float]:
        """ns of wall time by class."""
        return {name: self.member_ns.get((kernel, name), 0) / max(1, self.members) for name in CLASSES}

    def kernels(self) -> list[str]:
        """Kernels that have time, and the empty name."""
        return sorted({kernel for kernel, _ in self.member_ns})

    def check(self) -> None:
        """Assert that nothing is counted twice or not at all."""
        assert sum(self.member_ns.values()) == self.wall_ns * self.members
        assert all(sum(classes.values()) == self.wall_ns for classes in self.by_member)


def losses(session: SessionProfile, calls: Iterable[Call] = ()) -> Losses:
    """Classify the time of ``session``.  ``calls``: of its application, where they were recorded.

    O(n log n) over all spans, times the members.
    """
    members = len(session.members)
    kernels = {launch.command: launch.kernel for launch in session.launches}
    running = _launches(session, kernels)
    spare_ns = _repeated_gaps(session, running)
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    by_member = [dict.fromkeys(CLASSES, 0) for _ in range(members)]
    each = range(members)
    state = Situation([{} for _ in each], [{} for _ in each], [{} for _ in each])
    last_ns = session.opened_ns
    for at_ns, change in sorted(_changes(session, kernels, running, calls), key=itemgetter(0)):
        at_ns = min(max(at_ns, session.opened_ns), session.closed_ns)
        if at_ns > last_ns:
            for member in range(members):
                for kernel, name, ns in classify(Instant(state, member, last_ns, at_ns, spare_ns)):
                    found[kernel, name] += ns
                    by_member[member][name] += ns
            last_ns = at_ns
        change(state)
    if session.closed_ns > last_ns:
        found[NO_KERNEL, "application"] += (session.closed_ns - last_ns) * members
        for classes in by_member:
            classes["application"] += session.closed_ns - last_ns
    result = Losses(session.closed_ns - session.opened_ns, members, dict(found), tuple(by_member))
    result.check()
    return result


def _launches(session: SessionProfile, kernels: dict[int, str]) -> dict[int, RunningLaunch]:
    """The launches that ran, by command."""
    shapes = {launch.command: launch.shape for launch in session.launches}
    found: dict[int, RunningLaunch] = {}
    for span in session.assignments:
        if not span.end_ns:
            continue
        launch = found.get(span.command)
        if launch is None:
            launch = found[span.command] = RunningLaunch(
                kernels.get(span.command, NO_KERNEL),
                shapes.get(span.command, 0),
                span.start_ns,
                span.end_ns,
                {},
            )
        launch.start_ns = min(launch.start_ns, span.start_ns)
        launch.end_ns = max(launch.end_ns, span.end_ns)
        launch.last_ns[span.member] = max(launch.last_ns.get(span.member, 0), span.end_ns)
    return found


def _repeated_gaps(session: SessionProfile, running: dict[int, RunningLaunch]) -> dict[tuple[int, int], int]:
    """(command, member) -> ns that the member is idle at the end of the launch because its part is too small:
    by how much its parts of launches of this shape take less than the longest ones, in the mean.
    """
    busy: Counter[tuple[int, int]] = Counter()
    launches = Counter(launch.shape for launch in running.values())
    for span in session.assignments:
        if span.end_ns:
            busy[running[span.command].shape, span.member] += span.end_ns - span.start_ns
    longest: Counter[int] = Counter()
    for (shape, _), ns in busy.items():
        longest[shape] = max(longest[shape], ns)
    return {
        (command, member): (longest[launch.shape] - busy[launch.shape, member]) // launches[launch.shape]
        for command, launch in running.items()
        for member in launch.last_ns
    }


_Change = tuple[int, Callable[[Situation], None]]
_Where = Callable[[Situation], dict[int, str]]


def _changes(
    session: SessionProfile, kernels: dict[int, str], running: dict[int, RunningLaunch], calls: Iterable[Call]
) -> Iterator[_Change]:
    """Begin and end of every span; ends that never came are left out with their begins."""
    keys = count()

    def during(
        start_ns: int, end_ns: int, where: Callable[[Situation], dict[int, str]], kernel: str
    ) -> list[_Change]:
        if not start_ns or end_ns <= start_ns:
            return []
        key = next(keys)
        return [
            (start_ns, lambda state: where(state).__setitem__(key, kernel)),
            (end_ns, lambda state: where(state).__delitem__(key)),
        ]

    for span in session.assignments:
        kernel = kernels.get(span.command, NO_KERNEL)
        if 0 < span.start_ns < span.end_ns:
            yield from during(span.start_ns, span.end_ns, _computing(span.member), kernel)
            yield from _counting(running[span.command], span.start_ns, span.end_ns)
    for copy in session.copies:
        kernel = kernels.get(copy.command, NO_KERNEL)
        crosses = session.crosses(copy)
        ends = {session.member(copy.source), session.member(copy.target)}
        for member in [end for end in ends if end is not None]:
            where = _sending(member) if crosses else _copying(member)
            yield from during(copy.start_ns, copy.end_ns, where, kernel)
        yield from during(copy.start_ns, copy.end_ns, _crossing if crosses else _moving, kernel)
    for work in session.works:
        kernel = kernels.get(work.command, NO_KERNEL)
        if work.what in CONSISTENCY:
            yield from during(work.start_ns, work.end_ns, lambda state: state.merging, kernel)
        else:
            yield from during(work.start_ns, work.end_ns, _moving, kernel)
            if work.member >= 0:
                yield from during(work.start_ns, work.end_ns, _copying(work.member), kernel)
    for command, launch in running.items():
        yield from _spanning(command, launch)
    for build in session.builds:
        yield from during(build.start_ns, build.end_ns, lambda state: state.preparing, NO_KERNEL)
    for planned in session.launches:
        if planned.is_planned:
            yield from during(
                planned.begin_ns, planned.bound_ns, lambda state: state.preparing, planned.kernel
            )
    for asked in session.commands:
        kernel = kernels.get(asked.id, NO_KERNEL)
        yield from during(asked.queued_ns, asked.end_ns, lambda state: state.waiting, kernel)
        yield from during(asked.submitted_ns, asked.end_ns, lambda state: state.outstanding, kernel)
        first = running.get(asked.id)
        start_ns = first.start_ns if first is not None else asked.start_ns
        yield from during(asked.submitted_ns, start_ns, lambda state: state.starting, kernel)
        if asked.kind in APPLICATION_COPIES:
            yield from during(asked.start_ns, asked.end_ns, _moving, NO_KERNEL)
    for turn in session.turns:
        yield from during(turn.start_ns, turn.end_ns, lambda state: state.turns, NO_KERNEL)
    for call in calls:
        yield from during(call.start_ns, call.end_ns, lambda state: state.calls, NO_KERNEL)


def _computing(member: int) -> _Where:
    return lambda state: state.computing[member]


def _counting(launch: RunningLaunch, start_ns: int, end_ns: int) -> list[_Change]:
    def count(by: int) -> None:
        launch.computing += by

    return [(start_ns, lambda _state: count(1)), (end_ns, lambda _state: count(-1))]


def _copying(member: int) -> _Where:
    return lambda state: state.copying[member]


def _sending(member: int) -> _Where:
    return lambda state: state.sending[member]


def _moving(state: Situation) -> dict[int, str]:
    return state.moving


def _crossing(state: Situation) -> dict[int, str]:
    return state.crossing


def _spanning(command: int, launch: RunningLaunch) -> list[_Change]:
    return [
        (launch.start_ns, lambda state: state.running.__setitem__(command, launch)),
        (launch.end_ns, lambda state: state.running.__delitem__(command)),
    ]
