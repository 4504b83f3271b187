"""What virtual device memory did: bytes moved by link and by cause, twins, diffs, spills, chunks.

Issue and profile read these; nothing decides by them.  Owned by: sdi-scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from sdi.dataclass import asdict, dataclass, field
from sdi.devices.issue import Issue
from sdi.devices.ticket import Ticket
from sdi.vmem.directory import HOST


@dataclass(slots=True)
class BytesMoved:
    """Bytes moved since the start, by kind of link."""

    host_to_member: int = 0
    member_to_host: int = 0
    member_to_member: int = 0
    application: int = 0


@dataclass(slots=True)
class Events:
    """How often things happened, and to how many bytes.

    ``twins``: regions that several members might write, compared with their bytes from before the launch.
    ``diff_nbytes``: what had changed in them.
    ``drops``: device buffers given up that were current elsewhere too; ``spills``: those that had to be
    copied to the host first.  ``moves``: device buffers replaced by others of another range.  ``chunks``:
    launches' parts beyond the first, issued because not all fitted.  ``holds``: times that issuing stood
    still for memory.  ``mapped``: buffers used in the arena by members that can't hold them;
    ``shared``: those that found room in the memory of all members together.
    ``image_...``: linear bytes that went to opaque images and back.  ``lost_nbytes``: what members alone had
    that were lost.  ``host_...``: memory of the application that buffers use, compared with what both sides
    knew of it, and copied from or to it.  ``node_replays``: launches that nodes carried out by what they
    keep of them, ``firm_replays`` of these with copies of which nothing is said.
    ``node_spills``: device buffers given up on other machines of which something was copied to the node's
    own memory, ``node_spilled_nbytes``; ``node_filled_nbytes``: came to members from there;
    ``node_refused_nbytes``: had no room there.
    ``round_trips``: writes of what had been read, of which ``round_trip_nbytes`` came to members from others
    or were there, not from rank 0.
    ``file_...``: what lies in files: bytes read and written, time for which the disk was waited for, the most
    that was in memory of it at a time (``file_cached_nbytes``), and the most that buffers had of files.
    """

    twins: int = 0
    twin_nbytes: int = 0
    diff_nbytes: int = 0
    drops: int = 0
    dropped_nbytes: int = 0
    spills: int = 0
    spilled_nbytes: int = 0
    moves: int = 0
    chunks: int = 0
    holds: int = 0
    mapped: int = 0
    shared: int = 0
    image_refreshed_nbytes: int = 0
    image_written_nbytes: int = 0
    members_lost: int = 0
    lost_nbytes: int = 0
    host_compared_nbytes: int = 0
    host_copied_nbytes: int = 0
    host_faults: int = 0
    host_faults_ns: int = 0
    node_replays: int = 0
    firm_replays: int = 0
    node_spills: int = 0
    node_spilled_nbytes: int = 0
    node_filled_nbytes: int = 0
    node_refused_nbytes: int = 0
    round_trips: int = 0
    round_trip_nbytes: int = 0
    file_read_nbytes: int = 0
    file_written_nbytes: int = 0
    file_read_ns: int = 0
    file_written_ns: int = 0
    file_cached_nbytes: int = 0
    file_nbytes: int = 0


@dataclass(slots=True)
class _Sum:
    """Copies and their bytes."""

    copies: int = 0
    nbytes: int = 0


class OperationRecorder(Protocol):
    """Who is told of each operation beside launches: ``Recorder``, where a session is profiled."""

    def copied(
        self,
        command: int,
        source: int,
        target: int,
        nbytes: int,
        cause: str,
        is_staged: bool,
        ticket: Ticket,
    ) -> None:
        """A copy between two memories was issued."""
        ...

    def worked(self, command: int, what: str, member: int, nbytes: int, cause: str, ticket: Ticket) -> None:
        """Something else was issued on a member, or on the host (-1)."""
        ...

    def resident(self, member: int, nbytes: int) -> None:
        """So many bytes are allocated on a member from now on."""
        ...


@dataclass(slots=True)
class Accounting:
    """All counts of one session.

    ``peak_nbytes``: the most that was allocated on each member at a time.
    ``recorder``: of a session that is profiled.
    ``on_report``: called by ``settle``.  ``nodes``: whose own memory those behind the members' are.
    ``races``: conflicts as ``MergeResult`` has them, by cause ("kernel: arguments"): the program races.
    """

    moved: BytesMoved
    peak_nbytes: list[int]
    events: Events = field(default_factory=Events)
    recorder: OperationRecorder | None = None
    races: Counter[str] = field(default_factory=Counter)
    on_report: list[Callable[[], None]] = field(default_factory=list)
    nodes: tuple[int, ...] = ()
    _links: dict[tuple[int, int], _Sum] = field(default_factory=dict)
    _causes: dict[tuple[str, int, int], _Sum] = field(default_factory=dict)

    def copied(
        self,
        source: int,
        target: int,
        nbytes: int,
        ticket: Ticket,
        cause: str,
        command: int,
        is_staged: bool = False,
    ) -> None:
        """``nbytes`` go from memory ``source`` to memory ``target``; ``ticket``: the copy's.

        ``cause``, ``command``: see ``Issue``.  ``is_staged``: on their way between two members.
        """
        if self.recorder is not None:
            self.recorder.copied(command, source, target, nbytes, cause, is_staged, ticket)
        self.repeated(source, target, nbytes, cause, 1)

    def repeated(self, source: int, target: int, total_nbytes: int, cause: str, times: int) -> None:
        """``copied`` so many times, so much in all; a profile is told otherwise."""
        moved = self.moved
        if source == HOST:
            moved.host_to_member += total_nbytes
        elif target == HOST:
            moved.member_to_host += total_nbytes
        elif self._is_node(source):
            self.events.node_filled_nbytes += total_nbytes
        elif not self._is_node(target):
            moved.member_to_member += total_nbytes
        ends = (source, target)
        total = self._links.get(ends)
        if total is None:
            total = self._links[ends] = _Sum()
        total.copies += times
        total.nbytes += total_nbytes
        key = (cause, source, target)
        total = self._causes.get(key)
        if total is None:
            total = self._causes[key] = _Sum()
        total.copies += times
        total.nbytes += total_nbytes

    def worked(self, what: str, member: int, nbytes: int, ticket: Ticket, issue: Issue) -> None:
        """Something else was issued on a member, or on the host (-1); see ``Recorder.worked``."""
        if self.recorder is not None:
            self.recorder.worked(issue.command, what, member, nbytes, issue.cause, ticket)

    def raced(self, cause: str, conflicts: int) -> None:
        """So many conflicts were found in what a launch wrote to one buffer."""
        if conflicts:
            self.races[cause] += conflicts

    def between_members_ns(self, cost_ns: Callable[[int, int, int], float]) -> float:
        """What copies between members took that one member alone would not have needed.

        ``cost_ns``: expected time of one copy, by source, target and bytes.  Members receive side by side.
        """
        received: dict[int, float] = {}
        for (source, target), total in self._links.items():
            is_between = HOST not in (source, target) and not (self._is_node(source) or self._is_node(target))
            if is_between and total.copies:
                each_ns = cost_ns(source, target, total.nbytes // total.copies)
                received[target] = received.get(target, 0.0) + total.copies * each_ns
        return max(received.values(), default=0.0)

    def resident(self, member: int, nbytes: int) -> None:
        """So many bytes are allocated on a member from now on."""
        self.peak_nbytes[member] = max(self.peak_nbytes[member], nbytes)
        if self.recorder is not None:
            self.recorder.resident(member, nbytes)

    def settle(self) -> None:
        """Have all that is counted late counted now: before anything is read."""
        for count in self.on_report:
            count()

    def report(self) -> dict[str, object]:
        """Everything but ``moved``, ready for JSON.  Memories are called "host", "0", "1" ... "node 1" ..."""
        causes: dict[str, dict[str, int]] = {}
        for (cause, source, target), total in self._causes.items():
            causes.setdefault(cause, {})[self._link(source, target)] = total.nbytes
        return {
            "links": {self._link(*ends): asdict(total) for ends, total in self._links.items()},
            "causes": causes,
            "peak_nbytes": list(self.peak_nbytes),
            **asdict(self.events),
        }

    def _link(self, source: int, target: int) -> str:
        return f"{self._name(source)}>{self._name(target)}"

    def _name(self, memory: int) -> str:
        if self._is_node(memory):
            return f"node {self.nodes[memory - len(self.peak_nbytes) - 1]}"
        return "host" if memory == HOST else str(memory - 1)

    def _is_node(self, memory: int) -> bool:
        return bool(self.nodes) and memory > len(self.peak_nbytes)
