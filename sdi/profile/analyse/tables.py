"""The tables of a profile, as frozen rows: text, CSV, JSON and HTML all show these.

Times are ns; a row's times are sums over the spans of the same profile, so traces and tables agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from sdi.dataclass import dataclass
from sdi.profile.analyse.classes import CLASSES, NO_KERNEL
from sdi.profile.analyse.losses import CONSISTENCY, Losses, losses
from sdi.profile.analyse.model import (
    HOST,
    AssignmentSpan,
    Call,
    CallTotals,
    Command,
    CopySpan,
    PatternRow,
    Profile,
    SessionProfile,
)


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """Calls of one function of the API, or commands of one kind: cliloader's columns, and Failed."""

    name: str
    calls: int
    ns: int
    percent: float
    min_ns: int
    max_ns: int
    failed: int

    @property
    def average_ns(self) -> int:
        """0 without calls."""
        return self.ns // self.calls if self.calls else 0


@dataclass(frozen=True, slots=True)
class ArgumentRow:
    """What went between memories for one argument of a kernel (or several that name one buffer)."""

    argument: str
    copies: int
    nbytes: int
    ns: int


@dataclass(frozen=True, slots=True)
class KernelRow:
    """All launches of the kernels of one name.

    ``ns``: of the launches' events, from start to end.  ``member_ns``, ``member_groups``: per member.
    ``imbalance_percent``: of the split launches, how much shorter the mean assignment is than the longest.
    ``replays``, ``bindings``, ``plans``, ``new_plans``: launches that the player executed, that looked up
    everything, that used a known plan, that made one; ``bind_ns``: for the last two.  ``issue_ns``: the
    service's time from there.  ``whole_ns``, ``split_ns``: mean times of whole and split launches of the same
    number of groups, None where not both ran; ``speed_up`` compares them.  ``classes``: argument, reads,
    writes (of the last launch that was planned).  ``patterns``: of all sessions.  ``by_address``: launches
    that may reach regions of shared virtual memory by addresses; ``regions``, ``reached_nbytes``: most of it.
    """

    name: str
    launches: int
    split: int
    whole: int
    why_whole: tuple[str, ...]
    cuts: tuple[str, ...]
    chunks: int
    failed: int
    ns: int
    member_ns: tuple[int, ...]
    member_groups: tuple[int, ...]
    imbalance_percent: float
    replays: int
    bindings: int
    plans: int
    new_plans: int
    bind_ns: int
    issue_ns: int
    held_ns: int
    arguments: tuple[ArgumentRow, ...]
    merges: int
    merge_ns: int
    merged_nbytes: int
    whole_ns: int | None
    split_ns: int | None
    classes: tuple[tuple[str, str, str], ...]
    advice: str
    patterns: tuple[PatternRow, ...] = ()
    by_address: int = 0
    regions: int = 0
    reached_nbytes: int = 0

    @property
    def speed_up(self) -> float | None:
        """Split against whole, where both ran."""
        return self.whole_ns / self.split_ns if self.whole_ns and self.split_ns else None

    @property
    def moved_nbytes(self) -> int:
        """Bytes copied for all its arguments."""
        return sum(row.nbytes for row in self.arguments)


@dataclass(frozen=True, slots=True)
class LinkRow:
    """Copies from one memory to another.

    ``kind``: "network" where they go over one, else "host to device", "device to host", "peer",
    "own memory" (a node's, which its members fill), or "host-staged" (one of two copies through the host that
    bring bytes from a member to another).
    ``ns``: time in which at least one copy ran.  ``measured``: GB/s of the link as ``vmem/links.py`` measured
    it; None where no copy was long enough.
    """

    kind: str
    source: str
    target: str
    copies: int
    nbytes: int
    ns: int
    measured: float | None

    @property
    def gb_per_s(self) -> float:
        """Bytes per ns, 0 where no time is known."""
        return self.nbytes / self.ns if self.ns else 0.0

    @property
    def percent(self) -> float | None:
        """Of the measured link."""
        return 100 * self.gb_per_s / self.measured if self.measured else None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """Copies of buffers from one node's memories to another's; ``way``: "network" or "shared memory".

    ``ns``: time in which at least one copy ran.
    """

    source: int
    target: int
    way: str
    copies: int
    nbytes: int
    ns: int

    @property
    def gb_per_s(self) -> float:
        """Bytes per ns, 0 where no time is known."""
        return self.nbytes / self.ns if self.ns else 0.0


@dataclass(frozen=True, slots=True)
class LossRow:
    """Wall time of all sessions by class; ``kernel`` is empty where none had to do with it."""

    kernel: str
    ns: dict[str, float]


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """What the service itself used: turns of the scheduler and builds, wall and processor time."""

    what: str
    count: int
    ns: int
    cpu_ns: int


@dataclass(frozen=True, slots=True)
class Tables:
    """Everything that is shown; ``wall_ns`` is that of all ``services`` together.  ``commands`` leaves out
    ``unfinished_commands``, still to do at the end.
    """

    members: tuple[str, ...]
    services: int
    wall_ns: int
    is_complete: bool
    calls: tuple[FunctionRow, ...]
    dropped_calls: int
    commands: tuple[FunctionRow, ...]
    unfinished_commands: int
    kernels: tuple[KernelRow, ...]
    links: tuple[LinkRow, ...]
    nodes: tuple[NodeRow, ...]
    losses: tuple[LossRow, ...]
    member_losses: tuple[dict[str, int], ...]
    service: tuple[ServiceRow, ...]
    peak_nbytes: tuple[int, ...]
    events: dict[str, int]

    def lost_ns(self, name: str) -> float:
        """Wall time in one class, over all kernels."""
        return sum(row.ns[name] for row in self.losses)


def make_tables(profile: Profile) -> Tables:
    """All tables of ``profile``; several sessions are summed."""
    sessions = profile.sessions
    found = [losses(session, _calls_of(profile, session)) for session in sessions]
    kernels = {row.name: row for row in kernel_rows(sessions)}
    peaks = [0] * len(profile.members)
    events: Counter[str] = Counter()
    for session in sessions:
        for resident in session.residents:
            peaks[resident.member] = max(peaks[resident.member], resident.nbytes)
        events.update(session.events)
    return Tables(
        members=tuple(member.name for member in profile.members),
        services=len(sessions),
        wall_ns=sum(one.wall_ns for one in found),
        is_complete=all(session.is_complete for session in sessions),
        calls=_call_rows([totals for one in profile.applications for totals in one.totals]),
        dropped_calls=sum(one.dropped for one in profile.applications),
        commands=command_rows(sessions),
        unfinished_commands=sum(not has_ended(command) for one in sessions for command in one.commands),
        kernels=tuple(kernels.values()),
        links=link_rows(sessions),
        nodes=node_rows(sessions),
        losses=_loss_rows(found, list(kernels)),
        member_losses=_member_losses(found, len(peaks)),
        service=_service_rows(sessions),
        peak_nbytes=tuple(peaks),
        events=dict(events),
    )


def _calls_of(profile: Profile, session: SessionProfile) -> Iterable[Call]:
    for application in profile.applications:
        if application.pid == session.application:
            yield from application.calls


def _call_rows(totals: Sequence[CallTotals]) -> tuple[FunctionRow, ...]:
    names: defaultdict[str, list[CallTotals]] = defaultdict(list)
    for one in totals:
        if one.calls:
            names[one.name].append(one)
    all_ns = sum(one.ns for one in totals)
    rows = [
        FunctionRow(
            name,
            sum(one.calls for one in ones),
            sum(one.ns for one in ones),
            100 * sum(one.ns for one in ones) / max(1, all_ns),
            min(one.min_ns for one in ones),
            max(one.max_ns for one in ones),
            sum(one.failed for one in ones),
        )
        for name, ones in names.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.ns))


def has_ended(command: Command) -> bool:
    """Whether it ended or failed while its application was there."""
    return command.end_ns > 0 or command.status < 0


def command_rows(sessions: Sequence[SessionProfile]) -> tuple[FunctionRow, ...]:
    """Device commands that ended, by kernel or kind.  A command's time is its event's, from start to end."""
    spans: defaultdict[str, list[int]] = defaultdict(list)
    failed: Counter[str] = Counter()
    for session in sessions:
        kernels = {launch.command: launch.kernel for launch in session.launches}
        for command in filter(has_ended, session.commands):
            name = kernels.get(command.id, f"({command.kind})")
            spans[name].append(max(0, command.end_ns - command.start_ns))
            failed[name] += command.status < 0
    all_ns = sum(sum(found) for found in spans.values())
    rows = [
        FunctionRow(
            name,
            len(found),
            sum(found),
            100 * sum(found) / max(1, all_ns),
            min(found),
            max(found),
            failed[name],
        )
        for name, found in spans.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.ns))


def kernel_rows(sessions: Sequence[SessionProfile]) -> list[KernelRow]:
    """One row for each kernel name, in the order of first launches."""
    names = dict.fromkeys(name for session in sessions for name in session.kernel_names())
    members = max((len(session.members) for session in sessions), default=0)
    return [_kernel_row(name, sessions, members) for name in names]


def _kernel_row(name: str, sessions: Sequence[SessionProfile], members: int) -> KernelRow:
    member_ns, member_groups = [0] * members, [0] * members
    known: Counter[str] = Counter()
    ns = split = whole = failed = chunks = bind_ns = issue_ns = held_ns = 0
    longest = mean = 0.0
    why: dict[str, None] = {}
    cuts: dict[str, None] = {}
    spans: defaultdict[tuple[int, bool], list[int]] = defaultdict(list)
    arguments: dict[str, list[int]] = {}
    merges = merge_ns = merged_nbytes = 0
    by_address = regions = reached_nbytes = 0
    classes: tuple[tuple[str, str, str], ...] = ()
    advice = ""
    patterns: tuple[PatternRow, ...] = ()
    for session in sessions:
        launches = [launch for launch in session.launches if launch.kernel == name]
        mine = {launch.command for launch in launches}
        assignments: defaultdict[int, list[AssignmentSpan]] = defaultdict(list)
        for span in session.assignments:
            if span.command in mine:
                assignments[span.command].append(span)
                member_groups[span.member] += span.groups
                member_ns[span.member] += max(0, span.end_ns - span.start_ns)
        shapes = {shape.id: shape for shape in session.shapes}
        commands = [command for command in session.commands if command.id in mine]
        times = {command.id: max(0, command.end_ns - command.start_ns) for command in commands}
        failed += sum(command.status < 0 for command in commands)
        for launch in launches:
            shape = shapes[launch.shape]
            busy: Counter[int] = Counter()
            for span in assignments[launch.command]:
                busy[span.member] += max(0, span.end_ns - span.start_ns)
            is_split = shape.members > 1
            split, whole = split + is_split, whole + (not is_split)
            known[launch.known] += 1
            bind_ns += (launch.bound_ns - launch.begin_ns) if launch.is_planned else 0
            issue_ns += launch.issued_ns - launch.bound_ns - launch.held_ns
            held_ns += launch.held_ns
            took_ns = times.get(launch.command, 0)
            ns += took_ns
            chunks += shape.chunks - 1
            by_address += shape.regions > 0
            regions, reached_nbytes = max(regions, shape.regions), max(reached_nbytes, shape.reached_nbytes)
            if is_split:
                cuts[" x ".join(str(parts) for parts in shape.cut if parts != 1) or "1"] = None
                longest += max(busy.values(), default=0)
                mean += sum(busy.values()) / shape.members
            elif shape.why_whole:
                why[shape.why_whole] = None
            if took_ns:
                groups = shape.num_groups[0] * shape.num_groups[1] * shape.num_groups[2]
                spans[groups, is_split].append(took_ns)
        for copy in session.copies:
            if copy.command in mine:
                sums = arguments.setdefault(copy.cause.partition(": ")[2] or f"({copy.cause})", [0, 0, 0])
                sums[0] += 1
                sums[1] += copy.nbytes
                sums[2] += max(0, copy.end_ns - copy.start_ns)
        for work in session.works:
            if work.command in mine and work.what in CONSISTENCY:
                merges += work.what == "merge"
                merge_ns += max(0, work.end_ns - work.start_ns)
                merged_nbytes += work.nbytes * (work.what == "merge")
        if name in session.explained:
            classes, advice = session.explained[name].arguments, session.explained[name].advice
            patterns += session.explained[name].patterns
    both = [groups for groups, is_split in spans if is_split and (groups, False) in spans]
    most = max(both, default=None)
    return KernelRow(
        name=name,
        launches=split + whole,
        split=split,
        whole=whole,
        why_whole=tuple(why),
        cuts=tuple(cuts),
        chunks=chunks,
        failed=failed,
        ns=ns,
        member_ns=tuple(member_ns),
        member_groups=tuple(member_groups),
        imbalance_percent=100 * (longest - mean) / longest if longest else 0.0,
        replays=known["replay"],
        bindings=known["binding"],
        plans=known["plan"],
        new_plans=known[""],
        bind_ns=bind_ns,
        issue_ns=issue_ns,
        held_ns=held_ns,
        arguments=tuple(ArgumentRow(argument, *sums) for argument, sums in arguments.items()),
        merges=merges,
        merge_ns=merge_ns,
        merged_nbytes=merged_nbytes,
        whole_ns=None if most is None else _mean(spans[most, False]),
        split_ns=None if most is None else _mean(spans[most, True]),
        classes=classes,
        advice=advice,
        patterns=patterns,
        by_address=by_address,
        regions=regions,
        reached_nbytes=reached_nbytes,
    )


def _mean(values: Sequence[int]) -> int:
    return sum(values) // len(values)


def link_rows(sessions: Sequence[SessionProfile]) -> tuple[LinkRow, ...]:
    """One row for each pair of memories between which bytes went, staged ones apart."""
    found: dict[tuple[str, int, int], list[int]] = {}
    rates: dict[tuple[int, int], float] = {}
    names: dict[int, str] = {}
    for session in sessions:
        rates.update(session.link_ns)
        by_link: defaultdict[tuple[str, int, int], list[CopySpan]] = defaultdict(list)
        for copy in session.copies:
            kind = "network" if session.crosses(copy) else _kind(session, copy)
            by_link[kind, copy.source, copy.target].append(copy)
            names |= {memory: session.memory_name(memory) for memory in (copy.source, copy.target)}
        for link, copies in by_link.items():
            sums = found.setdefault(link, [0, 0, 0])
            sums[0] += len(copies)
            sums[1] += sum(copy.nbytes for copy in copies)
            sums[2] += covered_ns([(copy.start_ns, copy.end_ns) for copy in copies])
    return tuple(
        LinkRow(
            kind,
            names[source],
            names[target],
            copies=copies,
            nbytes=nbytes,
            ns=ns,
            measured=1 / rates[source, target] if rates.get((source, target)) else None,
        )
        for (kind, source, target), (copies, nbytes, ns) in sorted(found.items())
    )


def node_rows(sessions: Sequence[SessionProfile]) -> tuple[NodeRow, ...]:
    """One row for each pair of nodes between whose memories bytes went; rank 0's are the host's too."""
    found: dict[tuple[int, int, str], list[int]] = {}
    for session in sessions:
        by_nodes: defaultdict[tuple[int, int, str], list[CopySpan]] = defaultdict(list)
        for copy in session.copies:
            source, target = session.node(copy.source), session.node(copy.target)
            if source != target:
                way = "network" if session.crosses(copy) else "shared memory"
                by_nodes[source, target, way].append(copy)
        for ends, copies in by_nodes.items():
            sums = found.setdefault(ends, [0, 0, 0])
            sums[0] += len(copies)
            sums[1] += sum(copy.nbytes for copy in copies)
            sums[2] += covered_ns([(copy.start_ns, copy.end_ns) for copy in copies])
    return tuple(NodeRow(*ends, *sums) for ends, sums in sorted(found.items()))


def _kind(session: SessionProfile, copy: CopySpan) -> str:
    if copy.is_staged:
        return "host-staged"
    if copy.source == HOST:
        return "host to device"
    if copy.target == HOST:
        return "device to host"
    is_peer = session.member(copy.source) is not None and session.member(copy.target) is not None
    return "peer" if is_peer else "own memory"


def covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Time in which at least one of ``spans`` (start, end) ran."""
    total = last = 0
    for start, end in sorted(spans):
        if end > max(start, last):
            total += end - max(start, last)
            last = end
    return total


def _loss_rows(found: Sequence[Losses], kernels: Sequence[str]) -> tuple[LossRow, ...]:
    rows = []
    for kernel in (*kernels, NO_KERNEL):
        parts = [one.of_kernel(kernel) for one in found]
        rows.append(LossRow(kernel, {name: sum(part[name] for part in parts) for name in CLASSES}))
    return tuple(rows)


def _member_losses(found: Sequence[Losses], members: int) -> tuple[dict[str, int], ...]:
    """For each member class -> ns, over all sessions that have it."""
    return tuple(
        {name: sum(one.by_member[m][name] for one in found if m < one.members) for name in CLASSES}
        for m in range(members)
    )


def _service_rows(sessions: Sequence[SessionProfile]) -> tuple[ServiceRow, ...]:
    rows = []
    turns = [turn for session in sessions for turn in session.turns]
    builds = [build for session in sessions for build in session.builds]
    for what, ones in (("turns of the scheduler", turns), ("builds", builds)):
        ns, cpu_ns = sum(one.end_ns - one.start_ns for one in ones), sum(one.cpu_ns for one in ones)
        rows.append(ServiceRow(what, len(ones), ns, cpu_ns))
    return tuple(rows)
