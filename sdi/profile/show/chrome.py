"""A profile as a trace for chrome://tracing and ui.perfetto.dev (the Trace Event Format, JSON).

Tracks: each thread of the application with its calls; the virtual device with what it issues and, per queue,
the commands as the application sees them; the service's turns, plans and builds; each member with kernels,
copies in, out and between members, other work; the host; in a job each node, with what goes to
and from others.  Arrows go from where a command is issued to what it became.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from sdi.dataclass import dataclass, field
from sdi.profile.analyse.model import Application, CopySpan, Profile, SessionProfile

_APPLICATION, _DEVICE, _SERVICE, _HOST, _MEMBERS, _NODES = 0, 1, 2, 3, 4, 500
_PROCESSES_PER_SESSION = 1000
_ISSUE_NS = 1000
"""How long the issue of a command is drawn that took no time of its own."""

Event = dict[str, object]


@dataclass(slots=True)
class _Tracks:
    """Threads of the trace: spans of one track that overlap without nesting get lanes side by side."""

    names: dict[tuple[int, str], int] = field(default_factory=dict)
    free_ns: dict[tuple[int, str], list[int]] = field(default_factory=dict)

    def place(self, process: int, track: str, start_ns: int, end_ns: int) -> int:
        """The thread number for a span that begins no earlier than those placed before on this track."""
        lanes = self.free_ns.setdefault((process, track), [])
        lane = next((k for k, free in enumerate(lanes) if free <= start_ns), len(lanes))
        if lane == len(lanes):
            lanes.append(0)
        lanes[lane] = max(end_ns, start_ns + 1)
        name = track if lane == 0 else f"{track} ({lane + 1})"
        return self.names.setdefault((process, name), len(self.names) + 1)


@dataclass(frozen=True, slots=True)
class _Span:
    """Something to draw; ``flow``: the command that it belongs to, 0 for none."""

    process: int
    track: str
    name: str
    category: str
    start_ns: int
    end_ns: int
    args: dict[str, object]
    flow: int = 0
    is_source: bool = False


def chrome_trace(profile: Profile) -> str:
    """The trace as one JSON object.  Spans that never ended are drawn to the end of their session."""
    starts = [session.opened_ns for session in profile.sessions]
    starts += [application.started_ns for application in profile.applications]
    origin_ns = min(starts, default=0)
    ends_ns = {session.application: session.closed_ns for session in profile.sessions}
    events: list[Event] = []
    for number, session in enumerate(profile.sessions):
        base = 1 + number * _PROCESSES_PER_SESSION
        events += _drawn(list(_session_spans(session, base)), origin_ns)
        events += _counters(session, base, origin_ns)
        for process, name in _process_names(session, base):
            events.append(_named("process_name", process, 0, name))
    for number, application in enumerate(profile.applications):
        process = next(
            (
                1 + k * _PROCESSES_PER_SESSION + _APPLICATION
                for k, session in enumerate(profile.sessions)
                if session.application == application.pid
            ),
            1 + (len(profile.sessions) + number) * _PROCESSES_PER_SESSION,
        )
        last_ns = max([ends_ns.get(application.pid, 0), *(call.end_ns for call in application.calls)])
        events += _drawn(list(_call_spans(application, process, last_ns)), origin_ns)
        events.append(_named("process_name", process, 0, f"application {application.pid}"))
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


def _process_names(session: SessionProfile, base: int) -> Iterator[tuple[int, str]]:
    yield base + _DEVICE, f"virtual device of {session.application}"
    yield base + _SERVICE, f"service {session.pid}"
    yield base + _HOST, "host"
    for number, member in enumerate(session.members):
        yield base + _MEMBERS + number, f"member {number}: {member.name}"
    nodes: dict[int, list[str]] = {0: []}
    for number, member in enumerate(session.members):
        nodes.setdefault(member.node, []).append(str(number))
    for node, numbers in sorted(nodes.items()) if len(nodes) > 1 else ():
        yield base + _NODES + node, f"node {node}: members {', '.join(numbers) or 'none'}"


def _call_spans(application: Application, process: int, last_ns: int) -> Iterator[_Span]:
    for call in application.calls:
        args: dict[str, object] = {} if call.end_ns else {"never returned": True}
        end_ns = call.end_ns or max(last_ns, call.start_ns)
        yield _Span(process, f"thread {call.thread}", call.name, "call", call.start_ns, end_ns, args)


def _session_spans(session: SessionProfile, base: int) -> Iterator[_Span]:
    kernels = {launch.command: launch.kernel for launch in session.launches}
    launches = {launch.command: launch for launch in session.launches}
    device, service, host = base + _DEVICE, base + _SERVICE, base + _HOST
    for command in session.commands:
        name = kernels.get(command.id, command.kind)
        args: dict[str, object] = {"command": command.id, "nbytes": command.nbytes, "status": command.status}
        launch = launches.get(command.id)
        if launch or (command.submitted_ns and command.kind != "marker"):
            begin_ns = launch.begin_ns if launch else command.submitted_ns
            end_ns = launch.issued_ns if launch else begin_ns + _ISSUE_NS
            yield _Span(device, "issue", name, "issue", begin_ns, end_ns, args, command.id, True)
        if command.start_ns:
            track = f"queue {command.queue}"
            end_ns = command.end_ns or session.closed_ns
            yield _Span(device, track, name, "command", command.start_ns, end_ns, args, command.id)
    for launch in session.launches:
        if launch.is_planned:
            yield _Span(service, "plans", launch.kernel, "plan", launch.begin_ns, launch.bound_ns, {})
    for turn in session.turns:
        yield _Span(service, "turns", "turn", "turn", turn.start_ns, turn.end_ns, {"cpu_ns": turn.cpu_ns})
    for build in session.builds:
        yield _Span(
            service, "builds", "build", "build", build.start_ns, build.end_ns, {"cpu_ns": build.cpu_ns}
        )
    for span in session.assignments:
        if span.start_ns:
            member, name = base + _MEMBERS + span.member, kernels.get(span.command, "?")
            args = {"command": span.command, "chunk": span.chunk, "groups": span.groups}
            yield _Span(member, "kernels", name, "kernel", span.start_ns, span.end_ns, args, span.command)
    for copy in session.copies:
        if copy.start_ns:
            args = {
                "command": copy.command, "nbytes": copy.nbytes, "for": copy.cause,
                "from": session.memory_name(copy.source), "to": session.memory_name(copy.target),
            }  # fmt: skip
            yield from _between_nodes(session, copy, base, args)
            process, track = _copy_track(session, copy, base)
            yield _Span(process, track, copy.cause, "copy", copy.start_ns, copy.end_ns, args, copy.command)
    for work in session.works:
        if work.start_ns:
            process = host if work.member < 0 else base + _MEMBERS + work.member
            args = {"command": work.command, "nbytes": work.nbytes, "for": work.cause}
            track = "work" if work.member < 0 else "other work"
            yield _Span(process, track, work.what, "work", work.start_ns, work.end_ns, args, work.command)


def _between_nodes(
    session: SessionProfile, copy: CopySpan, base: int, args: dict[str, object]
) -> Iterator[_Span]:
    """A copy from one node's memory to another's, at both of them."""
    source, target = session.node(copy.source), session.node(copy.target)
    if source != target:
        for node, track in ((source, f"to node {target}"), (target, f"from node {source}")):
            process = base + _NODES + node
            yield _Span(process, track, copy.cause, "node", copy.start_ns, copy.end_ns, args, copy.command)


def _copy_track(session: SessionProfile, copy: CopySpan, base: int) -> tuple[int, str]:
    """A copy is drawn at the member where it arrives, or that it leaves; else at the node that it leaves."""
    source, target = session.member(copy.source), session.member(copy.target)
    if target is not None:
        return base + _MEMBERS + target, "copies in" if source is None else "copies from members"
    if source is not None:
        return base + _MEMBERS + source, "copies out"
    return base + _NODES + session.node(copy.source), "copies out of its own memory"


def _drawn(spans: list[_Span], origin_ns: int) -> Iterator[Event]:
    """Spans on their tracks, with the arrows between them."""
    tracks = _Tracks()
    sources: dict[int, tuple[int, int, int]] = {}
    targets: list[tuple[int, int, int, int]] = []
    for span in sorted(spans, key=lambda one: (one.start_ns, -one.end_ns)):
        thread = tracks.place(span.process, span.track, span.start_ns, span.end_ns)
        yield {
            "ph": "X",
            "pid": span.process,
            "tid": thread,
            "name": span.name,
            "cat": span.category,
            "ts": _us(span.start_ns - origin_ns),
            "dur": _us(max(0, span.end_ns - span.start_ns)),
            "args": span.args,
        }
        if span.is_source:
            sources[span.flow] = (span.process, thread, span.start_ns)
        elif span.flow:
            targets.append((span.flow, span.process, thread, span.start_ns))
    for number, (flow, process, thread, at_ns) in enumerate(targets, 1):
        source = sources.get(flow)
        if source is not None:
            common: Event = {"name": "becomes", "cat": "flow", "id": f"{process}.{flow}.{number}"}
            yield {**common, "ph": "s", "pid": source[0], "tid": source[1], "ts": _us(source[2] - origin_ns)}
            yield {
                **common,
                "ph": "f",
                "bp": "e",
                "pid": process,
                "tid": thread,
                "ts": _us(at_ns - origin_ns),
            }
    for (process, name), thread in tracks.names.items():
        yield _named("thread_name", process, thread, name)


def _counters(session: SessionProfile, base: int, origin_ns: int) -> Iterator[Event]:
    """Resident bytes of each member, and commands that are queued or run."""
    for resident in session.residents:
        yield _counter(
            "resident bytes", base + _MEMBERS + resident.member, resident.at_ns - origin_ns, resident.nbytes
        )
    steps = [(command.queued_ns, 1) for command in session.commands]
    steps += [(command.end_ns, -1) for command in session.commands if command.end_ns]
    depth = 0
    for at_ns, step in sorted(steps):
        depth += step
        yield _counter("queue depth", base + _DEVICE, at_ns - origin_ns, depth)


def _counter(name: str, process: int, at_ns: int, value: int) -> Event:
    return {"ph": "C", "pid": process, "tid": 0, "name": name, "ts": _us(at_ns), "args": {"value": value}}


def _named(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "pid": process, "tid": thread, "name": what, "args": {"name": name}}


def _us(ns: int) -> float:
    return ns / 1000
