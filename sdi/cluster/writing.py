"""What a replay of a recording has nodes and this process do, written down instead of issued."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sdi.cluster.exchange import Exchange
from sdi.cluster.part import KeptRecord
from sdi.cluster.records import RecordKind
from sdi.cluster.remote_device import RemoteDevice
from sdi.cluster.remote_node import RemoteNode
from sdi.dataclass import dataclass, field
from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.join import all_of
from sdi.devices.ticket import Ticket, completed
from sdi.region import Region
from sdi.vmem.dependencies import Use

READING = RecordKind.SEND, RecordKind.COPY, RecordKind.PEER_COPY
WRITING = RecordKind.RECEIVE, RecordKind.UPLOAD, RecordKind.COPY, RecordKind.PEER_COPY


class NotKept(Exception):
    """A recording has something that nodes can't keep."""


class Signalled(NamedTuple):
    """``region`` of ``buffer`` of ``device``, which goes to ``rank`` or comes from there."""

    device: Device
    buffer: DeviceBuffer
    region: Region
    rank: int
    is_sent: bool


class OwnEnd(NamedTuple):
    """This process' end of a part of a copy: ``issue(waits, key)``; ``number``: the part's.

    ``signalled``: what it is, where devices wait for each other.
    """

    issue: Callable[[Sequence[Ticket], int], Ticket]
    number: int
    signalled: Signalled | None


@dataclass(slots=True, eq=False)
class Half:
    """What this process does of a copy each time, in parts.  ``use``: of its own memory."""

    use: Use
    parts: list[OwnEnd] = field(default_factory=list)

    def again(self, name: int) -> None:
        """As in replay ``name``."""
        waits = self.use.waits()
        self.use.by(all_of([part.issue(waits, name + part.number) for part in self.parts]))


class Keys:
    """Numbers of the copies between processes in a recording, by what they were called when it was made."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, name: int) -> int:
        """The copy's number."""
        return self._known.setdefault(name, len(self._known))


class OwnEnds:
    """Writes down this process' ends of copies.  Implements ``CopyEnds``.  ``half``: of which copy."""

    def __init__(self, exchange: Exchange, keys: Keys) -> None:
        self._exchange = exchange
        self._keys = keys
        self.half: Half | None = None

    def _write(
        self,
        key: int,
        issue: Callable[[Sequence[Ticket], int], Ticket],
        signalled: Signalled | None = None,
    ) -> Ticket:
        assert self.half is not None
        self.half.parts.append(OwnEnd(issue, self._keys.of(key), signalled))
        return completed()

    def signals(self, device: Device) -> bool:
        return self._exchange.signals(device)

    def send(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        to: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        send = self._exchange.send
        return self._write(
            key,
            lambda waits, name: send(device, buffer, region, waits, to, name, is_signalled),
            Signalled(device, buffer, region, to, True) if is_signalled else None,
        )

    def send_host(self, host: HostBytes, region: Region, wait: Sequence[Ticket], to: int, key: int) -> Ticket:
        send = self._exchange.send_host
        return self._write(key, lambda waits, name: send(host, region, waits, to, name))

    def receive(
        self,
        device: Device,
        buffer: DeviceBuffer,
        region: Region,
        wait: Sequence[Ticket],
        source: int,
        key: int,
        is_signalled: bool = False,
    ) -> Ticket:
        receive = self._exchange.receive
        return self._write(
            key,
            lambda waits, name: receive(device, buffer, region, waits, source, name, is_signalled),
            Signalled(device, buffer, region, source, False) if is_signalled else None,
        )

    def receive_host(self, host: HostBytes, region: Region, source: int, key: int) -> Ticket:
        raise NotKept("what it brings to the host")


class Writer:
    """Writes down a node's operations.  Implements ``Operations``.

    ``shared_nbytes``: what they copy from the arena.
    """

    def __init__(self, node: RemoteNode, keys: Keys) -> None:
        self.node: Final = node
        self.rank: Final = node.rank
        self.exchange: Final = OwnEnds(node.exchange, keys)
        self.operations: Final[list[tuple[list[KeptRecord], tuple[Use, ...]]]] = []
        self.shared_nbytes = 0
        self._keys = keys
        self._members: Final[dict[int, RemoteDevice]] = {}

    def member(self, device: RemoteDevice) -> RemoteDevice:
        """``device`` as one whose copies are written down."""
        found = self._members.get(device.number)
        if found is None:
            found = self._members[device.number] = device.into(self)
        return found

    def place(self, host: HostBytes) -> int | None:
        return self.node.place(host)

    def copies_host(self, nbytes: int) -> None:
        self.shared_nbytes += nbytes

    def issue(
        self,
        kind: RecordKind,
        member: int,
        fields: Sequence[int],
        wait: Sequence[Ticket],
        tail: bytes = b"",
        name: int = 0,
        lands: Ticket | None = None,
        on_host: bool = False,
    ) -> Ticket:
        if kind not in READING and kind not in WRITING:
            raise NotKept(kind.name)
        number = self._keys.of(name) if kind is RecordKind.SEND else 0
        if kind is RecordKind.RECEIVE:
            fields = (*fields[:-1], self._keys.of(fields[-1]))
        self.operations.append(([KeptRecord(kind, member, number, tuple(fields), tail)], ()))
        return completed()


def writer_of(writers: dict[int, Writer], node: RemoteNode, keys: Keys) -> Writer:
    """The writer of what ``node`` does."""
    found = writers.get(node.rank)
    if found is None:
        found = writers[node.rank] = Writer(node, keys)
    return found
