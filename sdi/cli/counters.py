"""The counters that a service writes at the end of a session, and the table ``sdi run --stats`` prints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from sdi.cli.verdict import Course, verdict
from sdi.dataclass import dataclass, field, fields
from sdi.sizes import size
from sdi.wire.records import COMMANDS

_FAILURES_SHOWN = 3


class CountersError(ValueError):
    """The file is not what a service writes."""


@dataclass(frozen=True, slots=True)
class KernelCounts:
    """One kernel's launches.

    ``members_used``: how many launches ran on so many members.  ``groups_per_member``: work-groups that
    each member ran, over all launches.  ``why_whole``: one sentence, empty when nothing ran whole.
    ``launches_by_address``: of all, those that used shared virtual memory by its addresses.
    ``explained``: lines that say how and why the last launch was split; none unless asked for.
    """

    launches_split: int
    launches_whole: int
    why_whole: str
    members_used: Mapping[int, int]
    groups_per_member: tuple[int, ...]
    explained: tuple[str, ...] = ()
    launches_by_address: int = 0


@dataclass(frozen=True, slots=True)
class MovedCounts:
    """Bytes copied between memories; ``application``: between the application and the virtual buffers."""

    host_to_member: int
    member_to_host: int
    member_to_member: int
    application: int


@dataclass(frozen=True, slots=True)
class Sent:
    """What went from one node to another.  ``bulk_nbytes``: bytes of buffers; the rest is what to do.

    ``shared_nbytes``: bytes of buffers that were not sent, since both ends reach them where they are.
    """

    messages: int
    record_nbytes: int
    bulk_nbytes: int
    shared_nbytes: int = 0

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            self.messages + other.messages,
            self.record_nbytes + other.record_nbytes,
            self.bulk_nbytes + other.bulk_nbytes,
            self.shared_nbytes + other.shared_nbytes,
        )


@dataclass(frozen=True, slots=True)
class Race:
    """Launches in which a member's store took the place of another's.

    ``cause``: the kernel and the arguments that name the buffer.  ``lines``: that store there, where they are
    known.
    """

    cause: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """Counters of a session, or of several.

    ``races``: how often each was seen.  ``courses``: of each session, by what the verdict goes.
    ``failures``: what builds and commands that failed said.
    ``unfinished``: the signals that ended services which did not finish, "": not known; what these counted is
    lost, and their courses are not in ``courses``.
    ``lost_nbytes``: what members alone had that were lost.
    ``host_compared_nbytes``, ``host_copied_nbytes``: of memory of the application that buffers use;
    ``host_faults``: page faults in fine-grained memory, until all were answered in ``host_faults_ns``.
    ``network``: from one node to another.  ``node_replays``: launches that nodes carried out by what they
    keep of them, ``firm_replays`` of these with copies of which nothing is said.
    ``node_spilled_nbytes``: copied to nodes' own memory by members that lack room, ``node_filled_nbytes``:
    from there to members, ``node_refused_nbytes``: for which there was no room.
    ``round_trips``: writes of what had been read, of which ``round_trip_nbytes`` did not go out again.
    ``file_nbytes``: what buffers had of files, ``file_...``: bytes read and written, and time for that.
    ``records``: by kind, how many were replayed ("played"), or left to Python: see ``player.library.WHYS``.
    """

    members: int
    kernels: Mapping[str, KernelCounts]
    bytes_moved: MovedCounts
    races: Mapping[Race, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    members_lost: int = 0
    lost_nbytes: int = 0
    host_compared_nbytes: int = 0
    host_copied_nbytes: int = 0
    host_faults: int = 0
    host_faults_ns: int = 0
    node_replays: int = 0
    firm_replays: int = 0
    node_spilled_nbytes: int = 0
    node_filled_nbytes: int = 0
    node_refused_nbytes: int = 0
    round_trips: int = 0
    round_trip_nbytes: int = 0
    file_nbytes: int = 0
    file_read_nbytes: int = 0
    file_written_nbytes: int = 0
    file_read_ns: int = 0
    file_written_ns: int = 0
    network: Mapping[tuple[int, int], Sent] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    courses: tuple[Course, ...] = ()
    unfinished: tuple[str, ...] = ()

    @staticmethod
    def from_json(text: str) -> SessionCounts:
        """Read what the service wrote.  Raises CountersError."""
        try:
            data = json.loads(text)
            is_finished = bool(data.get("finished", True))
            return SessionCounts(
                members=int(data["members"]),
                kernels={str(name): _kernel(entry) for name, entry in data["kernels"].items()},
                bytes_moved=MovedCounts(
                    **{key: int(data["bytes_moved"][key]) for key in MovedCounts.__dataclass_fields__}
                ),
                races={
                    Race(str(race["cause"]), tuple(map(str, race["lines"]))): int(race["times"])
                    for race in data["races"]
                },
                failures=tuple(map(str, data["failures"])),
                courses=(Course.from_json(text),) if is_finished else (),
                unfinished=() if is_finished else ("",),
                records={
                    str(op): {str(why): int(count) for why, count in whys.items()}
                    for op, whys in data.get("records", {}).items()
                },
                network={(int(e["from"]), int(e["to"])): _sent(e) for e in data.get("network", ())},
                **{key: int(data.get("memory", {}).get(key, 0)) for key in _SUMS},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CountersError(f"not the counters of a session: {error!r}") from error


_SUMS = tuple(each.name for each in fields(SessionCounts) if each.type == "int" and each.name != "members")


def _sent(entry: Mapping[str, int]) -> Sent:
    return Sent(**{key: int(entry.get(key, 0)) for key in Sent.__dataclass_fields__})


def _kernel(entry: Mapping[str, object]) -> KernelCounts:
    used, groups = entry["members_used"], entry["groups_per_member"]
    if not isinstance(used, dict) or not isinstance(groups, list):
        raise TypeError("members_used or groups_per_member")
    explain = entry.get("explain")
    return KernelCounts(
        explained=tuple(map(str, explain["text"])) if isinstance(explain, dict) else (),
        launches_split=int(str(entry["launches_split"])),
        launches_whole=int(str(entry["launches_whole"])),
        why_whole=str(entry["why_whole"]),
        members_used={int(k): int(v) for k, v in used.items()},
        groups_per_member=tuple(int(g) for g in groups),
        launches_by_address=int(str(entry.get("launches_by_address", 0))),
    )


def merged(sessions: Sequence[SessionCounts]) -> SessionCounts:
    """The sums over ``sessions``, of which there is at least one."""
    members = max(s.members for s in sessions)
    names = dict.fromkeys(name for s in sessions for name in s.kernels)
    kernels = {}
    for name in names:
        parts = [s.kernels[name] for s in sessions if name in s.kernels]
        used: Counter[int] = Counter()
        for part in parts:
            used.update(part.members_used)
        kernels[name] = KernelCounts(
            launches_split=sum(p.launches_split for p in parts),
            launches_whole=sum(p.launches_whole for p in parts),
            why_whole=next((p.why_whole for p in parts if p.why_whole), ""),
            members_used=dict(sorted(used.items())),
            explained=next((p.explained for p in reversed(parts) if p.explained), ()),
            groups_per_member=tuple(
                sum(p.groups_per_member[k] for p in parts if k < len(p.groups_per_member))
                for k in range(members)
            ),
            launches_by_address=sum(p.launches_by_address for p in parts),
        )
    moved = MovedCounts(
        **{
            key: sum(getattr(s.bytes_moved, key) for s in sessions)
            for key in MovedCounts.__dataclass_fields__
        }
    )
    network: dict[tuple[int, int], Sent] = {}
    for ends, sent in (item for s in sessions for item in s.network.items()):
        network[ends] = network[ends] + sent if ends in network else sent
    sums = {key: sum(getattr(s, key) for s in sessions) for key in _SUMS}
    records: dict[str, Counter[str]] = {}
    for op, whys in (item for s in sessions for item in s.records.items()):
        records.setdefault(op, Counter()).update(whys)
    races: Counter[Race] = Counter()
    for session in sessions:
        races.update(session.races)
    courses = tuple(course for session in sessions for course in session.courses)
    failures = tuple(failure for session in sessions for failure in session.failures)
    return SessionCounts(
        *(members, kernels, moved, races, failures),
        **sums,
        network=network,
        records=records,
        courses=courses,
        unfinished=tuple(signal for session in sessions for signal in session.unfinished),
    )


def unfinished(counters: SessionCounts) -> str:
    """A sentence on services that did not finish; "" where all did."""
    count, total = len(counters.unfinished), len(counters.unfinished) + len(counters.courses)
    if not count:
        return ""
    signals = ", ".join(dict.fromkeys(filter(None, counters.unfinished)))
    how = f" ({signals})" if signals else ""
    if total == 1:
        return f"the service did not finish{how}: its counters are lost"
    return f"{count} of {total} services did not finish{how}: what these counted is lost"


def report(counters: SessionCounts) -> str:
    """The table for people; no newline at its end."""
    lines = [f"sdi: {counters.members} member{'s' * (counters.members != 1)}"]
    if lost := unfinished(counters):
        lines.append(lost)
        if not counters.courses:
            return "\n".join(lines)
    if counters.kernels:
        rows = [("kernel", "split", "whole", "members", "groups on each member", "")]
        for name, kernel in counters.kernels.items():
            used = " ".join(str(k) for k in kernel.members_used) or "-"
            groups = " ".join(str(g) for g in kernel.groups_per_member)
            notes = [f"by address: {kernel.launches_by_address}"] if kernel.launches_by_address else []
            if kernel.launches_whole and kernel.why_whole:
                notes.append(f"whole: {kernel.why_whole}")
            counts = (str(kernel.launches_split), str(kernel.launches_whole), used, groups)
            rows.append((name, *counts, "; ".join(notes)))
        lines += table(rows, right={1, 2})
    else:
        lines.append("no kernel was launched" + " by the others" * bool(lost))
    moved = counters.bytes_moved
    lines.append(
        f"moved: {size(moved.host_to_member)} host to members, {size(moved.member_to_host)} members to host, "
        f"{size(moved.member_to_member)} between members, {size(moved.application)} for the application"
    )
    if counters.host_compared_nbytes:
        lines.append(
            f"host pointers: {size(counters.host_compared_nbytes)} compared, "
            f"{size(counters.host_copied_nbytes)} copied, for buffers in memory of the application"
        )
    if counters.host_faults:
        lines.append(
            f"page faults in fine-grained memory: {counters.host_faults}, answered in "
            f"{counters.host_faults_ns / 1e9:.3f} s"
        )
    if counters.records:
        lines.append(f"replayed: {replayed(counters.records)}")
    if counters.node_replays:
        launches = sum(kernel.launches_split + kernel.launches_whole for kernel in counters.kernels.values())
        firm = f", {counters.firm_replays} with mailboxes for copies" if counters.firm_replays else ""
        lines.append(f"replayed by nodes: {counters.node_replays} of {launches} launches{firm}")
    if counters.node_spilled_nbytes or counters.node_refused_nbytes:
        none = (
            f"; {size(counters.node_refused_nbytes)} had no room there"
            if counters.node_refused_nbytes
            else ""
        )
        lines.append(
            f"nodes' own memory: {size(counters.node_spilled_nbytes)} came from members that lack room, "
            f"{size(counters.node_filled_nbytes)} went to members{none}"
        )
    if counters.file_nbytes:
        lines.append(
            f"files (SDI_SPILL): {size(counters.file_nbytes)} of buffers; {size(counters.file_read_nbytes)} "
            f"read in {counters.file_read_ns / 1e9:.1f} s, {size(counters.file_written_nbytes)} written in "
            f"{counters.file_written_ns / 1e9:.1f} s"
        )
    if counters.round_trips:
        lines.append(
            f"round trips: {counters.round_trips} writes of what had been read from another buffer; members "
            f"had {size(counters.round_trip_nbytes)} of it or got them from each other, not from rank 0"
        )
    if counters.network:
        links = [("network", "messages", "of buffers", "what to do", "in shared memory")]
        for (from_, to), sent in sorted(counters.network.items()):
            sizes = size(sent.bulk_nbytes), size(sent.record_nbytes), size(sent.shared_nbytes)
            links.append((f"node {from_} to {to}", str(sent.messages), *sizes))
        lines += table(links, right={1, 2, 3, 4})
    lines += [f"races: {said}" for said in races(counters)]
    if counters.members_lost:
        data = (
            f"with {size(counters.lost_nbytes)} that were nowhere else"
            if counters.lost_nbytes
            else "no data with it"
        )
        many = "s were" if counters.members_lost > 1 else " was"
        lines.append(f"lost: {counters.members_lost} member{many} lost, {data}")
    lines += counters.failures[:_FAILURES_SHOWN]
    if len(counters.failures) > _FAILURES_SHOWN:
        lines.append(f"and {len(counters.failures) - _FAILURES_SHOWN} more failed")
    if said := verdict(counters.courses):
        lines.append(f"verdict: {'of the others: ' * bool(lost)}{said}")
    return "\n".join(lines)


def races(counters: SessionCounts) -> list[str]:
    """A sentence for each buffer of each kernel that races."""
    found = []
    for race, times in counters.races.items():
        name, _, arguments = race.cause.partition(": ")
        at = f", {' and '.join(race.lines)}" if race.lines else ""
        found.append(
            f"{times} times two members stored to the same place in one launch of {name}, "
            f"through {arguments}{at}; the later value was kept"
        )
    return found


def explanation(counters: SessionCounts) -> str:
    """How and why each kernel's last launch was split; no newline at its end."""
    lines = [line for kernel in counters.kernels.values() for line in kernel.explained]
    return "\n".join(lines) or f"sdi: {unfinished(counters) or 'no kernel was launched'}"


def table(rows: Sequence[Sequence[str]], right: set[int] | None = None) -> list[str]:
    """Lines with aligned columns, the first row included; ``right``: columns aligned to the right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if right and at in right else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


_CALLED = {"NDRANGE": "launches", "COPY": "copies"}
_RECYCLED = {"RECYCLE_BUFFER": "buffers released", "REUSE_BUFFER": "buffers used again"}
_COMMANDS = _RECYCLED | {op.name: _CALLED.get(op.name, f"{op.name.lower()}s") for op in COMMANDS}


def replayed(records: Mapping[str, Mapping[str, int]]) -> str:
    """How many commands were replayed without Python; of the others the most frequent, and why."""
    commands = [(_COMMANDS[op], whys) for op, whys in records.items() if op in _COMMANDS]
    total = sum(count for _, whys in commands for count in whys.values())
    played = sum(whys.get("played", 0) for _, whys in commands)
    left = [
        (-count, f"{name} {why}") for name, whys in commands for why, count in whys.items() if why != "played"
    ]
    most = ", ".join(f"{what} {-count}" for count, what in sorted(left)[:4])
    return f"{played} of {total} commands" + (f"; the others: {most}" if most else "")
