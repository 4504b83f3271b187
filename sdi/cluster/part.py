"""A node's part of a recording: kept as data, and done again when rank 0 says so.

The node orders what parts do in its members' memories by dependencies of its own; what else rank 0 has it do
there is not among them, so rank 0 says which tickets of that kind an operation of a replay waits for.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

from sdi.cluster.arguments import arguments_of
from sdi.cluster.exchange import region_of
from sdi.cluster.mailboxes import Mailboxes, RepeatedRound
from sdi.cluster.records import NodeRecord, RecordKind
from sdi.dataclass import dataclass
from sdi.devices.base import BoundArgument, Device
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram
from sdi.devices.issue import Timing
from sdi.devices.join import all_of
from sdi.devices.signals import RepeatedCopy
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3
from sdi.region import Bytes
from sdi.vmem.dependencies import Dependencies, Use

_log = logging.getLogger("sdi.node")
REPLAYS = 1 << 62
"""Names of replays' tickets are larger, those of others smaller."""
OPERATIONS_MAX = 1 << 20
"""In a part.  In replay ``name`` its operation k has the ticket ``name + 1 + k``, copy k of the
recording the key ``name + k``."""
_BOUND_MAX = 64
"""So many sets of arguments that change are kept bound."""


def replay_name(number: int) -> int:
    """What the replay of that number is called on all nodes."""
    return REPLAYS + number * OPERATIONS_MAX


def replay_number(name: int) -> int:
    """The contrary."""
    return (name - REPLAYS) // OPERATIONS_MAX


@dataclass(frozen=True, slots=True)
class KeptUse:
    """What an operation reads and writes of ``nbytes`` of a root buffer in one memory."""

    buffer: int
    memory: int
    nbytes: int
    reads: tuple[Bytes, ...]
    writes: tuple[Bytes, ...]

    def __reduce__(self) -> tuple[type[KeptUse], tuple[object, ...]]:
        return KeptUse, (self.buffer, self.memory, self.nbytes, self.reads, self.writes)


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """What is asked of a member, as a ``NodeRecord``.

    ``ticket``: 0, or the number of the copy in the recording where it is SEND's key, as is the last field of
    RECEIVE's.  ``fields`` of a launch: of LAUNCH, with the program for the kernel; ``tail``: its kernel's
    name and arguments.
    """

    kind: int
    member: int
    ticket: int
    fields: tuple[int, ...]
    tail: bytes

    def __reduce__(self) -> tuple[type[KeptRecord], tuple[object, ...]]:
        return KeptRecord, (self.kind, self.member, self.ticket, self.fields, self.tail)


def copy_number(record: KeptRecord | NodeRecord) -> int | None:
    """The copy's number in the recording, where the record is an end of one between processes."""
    match record.kind:
        case RecordKind.SEND:
            return record.ticket
        case RecordKind.RECEIVE:
            return record.fields[-1]
        case _:
            return None


@dataclass(frozen=True, slots=True)
class KeptOperation:
    """``records``: several of a copy in several parts, which is done when all of them are."""

    records: tuple[KeptRecord, ...]
    uses: tuple[KeptUse, ...]

    def __reduce__(self) -> tuple[type[KeptOperation], tuple[object, ...]]:
        return KeptOperation, (self.records, self.uses)


@dataclass(frozen=True, slots=True)
class KeptPart:
    """``holes``: the numbers of the arguments that each replay has anew.  ``places``: of the mailboxes by
    which copies go in firm replays, by the copies' numbers; none where it has none.
    """

    operations: tuple[KeptOperation, ...]
    holes: tuple[int, ...]
    places: dict[int, int]


class _Launch:
    """A kernel with the arguments that it was launched with, and with those of late."""

    def __init__(self, device: Device, kept: KeptRecord, objects: Mapping[int, object]) -> None:
        """Raises why something that it needs was not made."""
        program, gx, gy, gz, lx, ly, lz, dimensions = kept.fields
        self.name, self._arguments = arguments_of(kept.tail, objects)
        self._program = cast(DeviceProgram, objects[program])
        self._device = device
        self._box: tuple[Int3, Int3, int] = (gx, gy, gz), (lx, ly, lz), dimensions
        self._bound: dict[bytes, BoundKernel] = {}

    def issue(self, holes: Sequence[int], given: bytes, wait: Sequence[Ticket], timing: Timing) -> Ticket:
        """Launch it.  ``given``: the arguments of ``holes``, packed."""
        bound = self._bound.get(given)
        if bound is None:
            if len(self._bound) >= _BOUND_MAX:
                self._bound.clear()
            arguments: list[BoundArgument] = list(self._arguments)
            if holes:
                _, values = arguments_of(given, {})
                for hole, value in zip(holes, values, strict=True):
                    arguments[hole] = value
            bound = self._bound[given] = self._device.bind(self._program, self.name, arguments)
        return self._device.launch(bound, *self._box, wait, timing)


class Part:
    """One that is kept.  Owned by: sdi-net, as all of the node."""

    def __init__(
        self,
        tail: bytes | memoryview,
        devices: Sequence[Device],
        objects: Mapping[int, object],
        use: Callable[[KeptUse], Use],
        mailboxes: Mailboxes,
    ) -> None:
        """As a record KEEP has it.  Raises why it can't be kept."""
        kept = pickle.loads(tail)
        assert isinstance(kept, KeptPart)
        self._holes = kept.holes
        self._mailboxes = mailboxes
        self._operations: list[tuple[list[NodeRecord], _Launch | Exception | None, tuple[Use, ...]]] = []
        for each in kept.operations:
            first = each.records[0]
            is_launch = first.kind == RecordKind.LAUNCH
            launch = _launch(devices[first.member], first, objects) if is_launch else None
            self._operations.append(
                ([_record(one) for one in each.records], launch, tuple([use(one) for one in each.uses]))
            )
        self.members = frozenset(one.member for each in kept.operations for one in each.records)
        self._round = self._repeated(kept.places, devices, objects) if kept.places else None
        """None: it has no copies by mailboxes; or why they can't be made."""

    def _repeated(
        self, places: Mapping[int, int], devices: Sequence[Device], objects: Mapping[int, object]
    ) -> RepeatedRound | Exception:
        """What makes all its copies together; or why something that they need was not made."""
        copies, sent, all_uses = list[RepeatedCopy](), dict[int, int](), list[Use]()
        for (record,), launch, uses in self._operations:
            if launch is not None:
                continue
            all_uses += uses
            buffer, *strided = record.fields[:5]
            region, is_sent = region_of(*strided), record.kind is RecordKind.SEND
            place = places[cast(int, copy_number(record))]
            box = self._mailboxes.use(place, region.total_nbytes)
            copies.append(RepeatedCopy(cast(DeviceBuffer, objects.get(buffer)), region, box, is_sent))
            if is_sent:
                to = record.fields[5]
                sent[to] = sent.get(to, 0) + region.total_nbytes
        for copy in copies:  # all mailboxes are known by now: others may have to be told not to wait
            if copy.buffer is None or isinstance(copy.buffer, Exception):
                return copy.buffer or DeviceFailed("a node", "a buffer is not known")
        (member,) = self.members
        return self._mailboxes.round_of(devices[member], copies, sent, all_uses)

    def _copied(self, name: int, before: Mapping[int, Sequence[Ticket]]) -> Ticket | None:
        """Make all copies of a firm replay; their ticket, if there are any."""
        issue = self._round
        if issue is None:
            return None
        if isinstance(issue, Exception):
            self._mailboxes.give_up()
            return completed(issue)
        found: dict[Ticket, None] = {}
        for number, waits in before.items():
            if self._operations[number][1] is None:
                found.update(dict.fromkeys(waits))
        return issue.issue(replay_number(name), list(found))

    def replay(
        self,
        name: int,
        given: bytes,
        timing: Timing,
        is_firm: bool,
        before: Mapping[int, Sequence[Ticket]],
        issue: Callable[[NodeRecord, list[Ticket], int], Ticket],
    ) -> tuple[list[Ticket], list[Ticket]]:
        """Issue all of it once more: the tickets of its operations, and those of launches among them.

        ``given``: arguments, see ``KeptPart.holes``.  ``is_firm``: copies go by mailboxes, before all
        launches.  ``before``: what operations wait for beside what parts do.  ``issue``: does a record's
        operation in this replay, and never raises.
        """
        tickets, launches = [], []
        copied = self._copied(name, before) if is_firm else None
        for number, (parts, launch, uses) in enumerate(self._operations):
            if copied is not None and launch is None:
                tickets.append(copied)
                continue
            found = dict.fromkeys(before.get(number, ()))
            for use in uses:
                use.gather(found)
            if launch is None:
                ticket = all_of([issue(record, list(found), name) for record in parts])
            else:
                ticket = _launched(launch, self._holes, given, list(found), timing)
                launches.append(ticket)
            for use in uses:
                use.by(ticket)
            tickets.append(ticket)
        return tickets, launches


class Parts:
    """All that a node keeps, and its dependencies.  Owned by: sdi-net."""

    def __init__(self, mailboxes: Mailboxes) -> None:
        self._mailboxes = mailboxes
        self._parts: dict[int, Part | Exception] = {}
        self._dependencies: dict[int, dict[int, Dependencies]] = {}  # by root buffer and memory
        self._before: dict[int, dict[int, list[Ticket]]] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._parts

    @property
    def is_empty(self) -> bool:
        """Whether nothing is kept, and no buffer is known."""
        return not (self._parts or self._dependencies)

    def keep(self, record: NodeRecord, devices: Sequence[Device], objects: Mapping[int, object]) -> None:
        """Keep what KEEP has from now on, or no more; replays of one that can't be kept fail."""
        self._parts.pop(record.ticket, None)
        if record.tail:
            try:
                self._parts[record.ticket] = Part(record.tail, devices, objects, self._use, self._mailboxes)
            except Exception as error:
                _log.debug("a part", exc_info=True)
                self._parts[record.ticket] = error

    def _use(self, kept: KeptUse) -> Use:
        dependencies = self._dependencies.setdefault(kept.buffer, {})
        if kept.memory not in dependencies:
            dependencies[kept.memory] = Dependencies(kept.nbytes)
        return dependencies[kept.memory].use(kept.reads, kept.writes)

    def forget(self, buffer: int) -> None:
        """Nothing names a root buffer any more; 0: all of them, and nothing is kept."""
        if buffer:
            self._dependencies.pop(buffer, None)
        else:
            self._dependencies.clear()
            self._parts.clear()

    def wait_before(self, name: int, operation: int, wait: list[Ticket]) -> None:
        """An operation of the replay ``name``, which comes, is to wait for ``wait`` too."""
        self._before.setdefault(name, {})[operation] = wait

    def replay(
        self,
        number: int,
        name: int,
        given: bytes,
        timing: Timing,
        is_firm: bool,
        issue: Callable[[NodeRecord, list[Ticket], int], Ticket],
    ) -> tuple[list[Ticket], list[Ticket], Collection[int], Exception | None]:
        """Part ``number`` again, see ``Part.replay``; the members that it is of; or why it can't be."""
        part, before = self._parts.get(number), self._before.pop(name, {})
        if isinstance(part, Part):
            return *part.replay(name, given, timing, is_firm, before, issue), part.members, None
        if is_firm:
            self._mailboxes.give_up()
        return [], [], (), part or DeviceFailed("a node", f"recording {number} is not known")


def _record(kept: KeptRecord) -> NodeRecord:
    return NodeRecord(RecordKind(kept.kind), kept.member, kept.ticket, kept.fields, (), kept.tail)


def _launch(device: Device, kept: KeptRecord, objects: Mapping[int, object]) -> _Launch | Exception:
    """Or why it can't be launched: the part's copies are made all the same, since others wait for them."""
    try:
        return _Launch(device, kept, objects)
    except Exception as error:
        return error


def _launched(
    launch: _Launch | Exception, holes: Sequence[int], given: bytes, wait: list[Ticket], timing: Timing
) -> Ticket:
    try:
        if isinstance(launch, Exception):
            raise launch
        return launch.issue(holes, given, wait, timing)
    except Exception as error:
        return completed(error)


def unknown_replay(name: int) -> Ticket:
    """Of a replay that the node has not heard of, or has forgotten: it failed."""
    return completed(DeviceFailed("a node", f"replay {name} is not known"))


def complete_replay(whole: Ticket, launches: Sequence[Ticket], error: BaseException | None) -> None:
    """A replay is done: it took as long as its launches."""
    starts = [launch.start_ns for launch in launches if launch.start_ns]
    whole.complete(error, min(starts, default=0), max([launch.end_ns for launch in launches], default=0))
