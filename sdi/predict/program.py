"""A recorded run as commands that can be planned again, with what each took, and the application between."""

from __future__ import annotations

import heapq
import struct
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from sdi.commands import Command, Launch, Marker
from sdi.dataclass import dataclass
from sdi.devices.capabilities import kind_named
from sdi.profile.analyse.model import Call, Profile, SessionProfile
from sdi.profile.analyse.model import Command as CommandSpan
from sdi.profile.record.asked import command_of


class NotPredictable(ValueError):
    """The profile lacks what planning needs; the text is one line."""


@dataclass(frozen=True, slots=True)
class Built:
    """A program: ``packed`` is what ``builds.rebuild`` takes."""

    id: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class Created:
    """A buffer."""

    id: int
    nbytes: int
    is_defined: bool


@dataclass(frozen=True, slots=True)
class Gone:
    """A buffer or a program is released."""

    id: int


@dataclass(frozen=True, slots=True)
class Enqueued:
    """A command.  ``after``: of the commands before it the application waited for so many, 0: it did not
    wait; ``gap_ns``: from then, or from the command before, to this one.

    ``kernel_ns``: of a launch, added up over ``groups`` work-groups; ``start_ns``: from when it was issued,
    its copies were there and its member was free, until it began.  ``issue_ns``: of the service, to plan and
    issue a launch that it did not know, 0 of others: drivers load code then.  ``work_ns``: of copies and
    fills on members, for all of the command's bytes; ``host_ns``: of what the host does at the end.
    """

    command: Command
    queue: int
    kernel: str
    after: int
    gap_ns: float
    kernel_ns: float
    groups: int
    work_ns: float
    host_ns: float
    start_ns: float = 0.0
    issue_ns: float = 0.0


Step = Built | Created | Gone | Enqueued


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """``members``: that the run had.  ``measured_ns``: from the first command to the last one's end;
    ``around_ns``: of the application before and behind that, builds included.
    """

    session: SessionProfile
    steps: tuple[Step, ...]
    measured_ns: float
    around_ns: float

    def launches(self) -> Iterator[Enqueued]:
        """In the order of the application."""
        for step in self.steps:
            if isinstance(step, Enqueued) and isinstance(step.command, Launch):
                yield step


def recorded(profile: Profile) -> RecordedProgram:
    """The session of a profile that has most launches.  Raises NotPredictable."""
    session = max(profile.sessions, key=lambda each: len(each.launches), default=None)
    if session is None or not session.launches:
        raise NotPredictable("the profile has no launches")
    if not session.programs or any(not each.asked and each.kind != "marker" for each in session.commands):
        raise NotPredictable(
            "the profile is of an older sdi, which did not record what commands ask for: record it anew"
        )
    if any(span.status < 0 for span in session.commands):
        raise NotPredictable("commands failed in that run")
    calls = [call for each in profile.applications if each.pid == session.application for call in each.calls]
    return _Reader(session, calls).program()


class _Reader:
    def __init__(self, session: SessionProfile, calls: Sequence[Call]) -> None:
        self._session = session
        self._calls = sorted([(call.start_ns, call.end_ns) for call in calls if call.end_ns])
        self._starts = [start for start, _ in self._calls]
        self._asked = {each.id: each.row for each in session.asked}
        self._commands: dict[int, Command] = {}
        self._kernels = {launch.command: launch.kernel for launch in session.launches}
        self._ran: dict[int, tuple[float, int]] = {}
        self._started: dict[int, float] = {}
        self._issued: dict[int, float] = {}
        self._worked: dict[int, float] = {}
        self._on_host: dict[int, float] = {}
        self._moved: dict[int, tuple[int, int]] = {}
        self._look()

    def _look(self) -> None:
        """Add up by command what members and host did."""
        session = self._session
        is_shared = all(kind_named(member.kind).is_host_processor for member in session.members)
        ends: dict[int, list[tuple[int, int, int]]] = {}
        for span in session.assignments:
            ends.setdefault(span.command, []).append((span.start_ns, span.end_ns, span.groups))
        for command, spans in ends.items():
            groups = sum(count for *_, count in spans)
            if is_shared:  # side by side on the same cores
                took = max(end for _, end, _ in spans) - min(start for start, *_ in spans)
            else:
                took = sum(end - start for start, end, _ in spans)
            self._ran[command] = float(took), groups
        for work in session.works:
            if work.what in ("copy", "fill") and work.member >= 0:
                self._worked[work.command] = self._worked.get(work.command, 0.0) + work.end_ns - work.start_ns
            elif work.member < 0 and work.what not in ("merge", "diff", "twin"):
                self._on_host[work.command] = (
                    self._on_host.get(work.command, 0.0) + work.end_ns - work.start_ns
                )
        for copy in session.copies:
            first, last = self._moved.get(copy.command, (copy.start_ns, copy.end_ns))
            self._moved[copy.command] = min(first, copy.start_ns), max(last, copy.end_ns)

        self._find_starts()

    def _find_starts(self) -> None:
        launches = self._session.launches
        issued = {launch.command: launch.issued_ns for launch in launches}
        self._issued = {
            launch.command: float(launch.issued_ns - launch.begin_ns - launch.held_ns)
            for launch in launches
            if launch.known != "replay"
        }
        free: dict[int, int] = {}
        for span in sorted(self._session.assignments, key=lambda each: each.start_ns):
            before = max(issued.get(span.command, 0), free.get(span.member, 0))
            # What it waited for beside its copies: before these began, and after they were over.
            moved_from, moved_until = self._moved.get(span.command, (before, before))
            late_ns = max(0, moved_from - before) + max(0, span.start_ns - max(before, moved_until))
            self._started[span.command] = max(self._started.get(span.command, 0.0), float(late_ns))
            free[span.member] = max(free.get(span.member, 0), span.end_ns)

    def program(self) -> RecordedProgram:
        session = self._session
        spans = sorted([each for each in session.commands if each.end_ns], key=lambda c: (c.queued_ns, c.id))
        happened: list[tuple[int, int, Step]] = []
        for built in session.programs:
            happened.append((built.at_ns, 0, Built(built.id, b64decode(built.object))))
        for made in session.buffers:
            happened.append((made.at_ns, 1, Created(made.id, made.nbytes, bool(made.is_defined))))
        for span, step in zip(spans, self._enqueued(spans), strict=True):
            happened.append((span.queued_ns, 2, step))
        for gone in session.released:
            happened.append((gone.at_ns, 3, Gone(gone.id)))
        steps = tuple([step for _, _, step in sorted(happened, key=lambda one: one[:2])])
        first, last = spans[0].queued_ns, max(span.end_ns for span in spans)
        around = (session.closed_ns - session.opened_ns) - (last - first)
        return RecordedProgram(session, steps, float(last - first), float(around))

    def _enqueued(self, spans: Sequence[CommandSpan]) -> Iterator[Enqueued]:
        """The commands, in the order in which they came."""
        latest = -1  # the last one that was waited for
        before_ns = 0
        pending: list[tuple[int, int]] = []  # when they end, and which they are
        done: tuple[int, int] = (0, -1)  # the last to end so far
        for position, span in enumerate(spans):
            while pending and pending[0][0] <= span.queued_ns:
                done = max(done, heapq.heappop(pending))
            after, gap_ns = 0, float(span.queued_ns - before_ns) if position else 0.0
            if done[1] > latest and self._waited(done[0], before_ns, bool(pending)):
                latest = done[1]
                after, gap_ns = latest + 1, float(span.queued_ns - done[0])
            yield self._one(span, after, gap_ns)
            heapq.heappush(pending, (span.end_ns, position))
            before_ns = span.queued_ns

    def _waited(self, end_ns: int, before_ns: int, has_more: bool) -> bool:
        """Whether the application waited for what ended then: by its calls, or as nothing else was left."""
        if end_ns <= before_ns:
            return False
        if not self._calls:
            return not has_more
        at = bisect_right(self._starts, end_ns)
        return any(end >= end_ns for _, end in self._calls[max(0, at - _CALLS_OPEN) : at])

    def _one(self, span: CommandSpan, after: int, gap_ns: float) -> Enqueued:
        command = self._commands.get(span.asked)
        if command is None and not span.asked:
            command = Marker(True)
        if command is None:
            row = self._asked.get(span.asked)
            if row is None:
                raise NotPredictable(f"the profile does not say what command {span.id} asks for")
            try:
                command = command_of(row, struct.pack("<I", span.asked))
            except (ValueError, TypeError, KeyError) as error:
                raise NotPredictable(f"command {span.id}: {error}") from error
            self._commands[span.asked] = command
        kernel_ns, groups = self._ran.get(span.id, (0.0, 0))
        host_ns = self._on_host.get(span.id, 0.0)
        if not isinstance(command, Launch | Marker) and span.id not in self._worked and not host_ns:
            host_ns = float(span.end_ns - max(span.start_ns, self._moved.get(span.id, (0, 0))[1]))
        name = self._kernels.get(span.id, "")
        work_ns = self._worked.get(span.id, 0.0)
        start_ns, issue_ns = self._started.get(span.id, 0.0), self._issued.get(span.id, 0.0)
        times = kernel_ns, groups, work_ns, max(0.0, host_ns), start_ns, issue_ns
        return Enqueued(command, span.queue, name, after, gap_ns, *times)


_CALLS_OPEN = 64
"""Calls that began last are looked at: those of as many threads may be open."""
