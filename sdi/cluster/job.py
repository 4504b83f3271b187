"""The nodes of a job as rank 0 sees them: what they have, and the members that a session gets there."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sdi import __version__
from sdi.cluster.exchange import Exchange
from sdi.cluster.records import ALL, DamagedBatch, Kind, packed, records
from sdi.cluster.remote_device import ROOT, Failures, RemoteDevice, RemoteNode
from sdi.cluster.transport import Room, Traffic, Transport, copied
from sdi.devices.base import Device, DeviceFacts
from sdi.devices.discover import MemberSettings
from sdi.devices.pace import PACE
from sdi.errors import DeviceFailed, DeviceLost


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node says of itself once.

    ``host``: its machine's boot id, the same for nodes of one machine; ``hostname``: its name.
    ``pid``: the process.  ``devices``: platform, name, kind, unit and memory in bytes of each device that can
    become a member.
    """

    version: str
    host: str
    hostname: str
    pid: int
    devices: tuple[tuple[str, str, str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """The members that a node is to open.

    ``members``: of each its position among the node's devices, its number, and the bytes of memory it gets.
    """

    members: tuple[tuple[int, int, int], ...]
    settings: MemberSettings = field(default_factory=MemberSettings)


class JobError(RuntimeError):
    """The job can't be used; the text says why."""


class Job:
    """Rank 0's end of the connections to all nodes.  Implements ``Receiver``.

    ``printed`` is told what kernels print on nodes; it may change with the session.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport: Final = transport
        self.exchange: Final = Exchange(transport)
        self.printed: Callable[[bytes], None] = lambda text: None
        failures = Failures()
        self.nodes: Final = {
            rank: RemoteNode(rank, transport, self.exchange, failures, self._print)
            for rank in range(transport.size)
            if rank != ROOT
        }
        self.facts: dict[int, NodeFacts] = {}
        self._before: dict[int, Traffic] = {}
        for node in self.nodes.values():
            PACE.add(node)
        transport.start(self)

    def _print(self, text: bytes) -> None:
        self.printed(text)

    def meet(self) -> None:
        """Ask all nodes what they have.  Raises JobError."""
        asked = [(rank, node.question(Kind.OPEN)) for rank, node in self.nodes.items()]
        for rank, answer in asked:
            try:
                facts = pickle.loads(answer())
            except Exception as error:
                raise JobError(f"rank {rank}: {error}") from error
            if facts.version != __version__:
                raise JobError(
                    f"rank {rank} on {facts.hostname} has sdi {facts.version}, rank 0 has {__version__}: "
                    "all nodes need the same"
                )
            self.facts[rank] = facts
        for node in self.nodes.values():
            node.measure_clock()

    def open(self, asked: dict[int, Asked]) -> list[Device]:
        """The members that nodes are asked for, by rank, in the order of their numbers.  Raises JobError."""
        self._before = copied(self._transport.traffic)
        answers = [
            (rank, members, self.nodes[rank].question(Kind.OPEN, tail=pickle.dumps(members)))
            for rank, members in asked.items()
        ]
        found: list[tuple[int, Device]] = []
        for rank, members, answer in answers:
            try:
                facts: Sequence[DeviceFacts] = pickle.loads(answer())
            except Exception as error:
                raise JobError(f"rank {rank}: {error}") from error
            node = self.nodes[rank]
            found += [
                (number, RemoteDevice(node, position, each))
                for position, (each, (_, number, _)) in enumerate(zip(facts, members.members, strict=True))
            ]
        return [device for _, device in sorted(found, key=lambda each: each[0])]

    def traffic(self) -> dict[tuple[int, int], Traffic]:
        """What each rank that is there sent to others since the session's members were opened."""
        now = self._transport.traffic
        found = {(ROOT, rank): now[rank].since(before) for rank, before in self._before.items()}
        for rank, node in self.nodes.items():
            try:
                sent: dict[int, Traffic] = pickle.loads(node.question(Kind.TRAFFIC)())
            except DeviceFailed:
                continue
            found |= {(rank, to): each for to, each in sent.items()}
        return found

    def end_session(self) -> None:
        """Nodes close their members; what they still had to do is done or failed then."""
        answers = []
        for node in self.nodes.values():
            try:
                answers.append(node.question(Kind.CLOSE, ALL))
            except DeviceLost:
                continue
        for answer in answers:
            try:
                answer()
            except DeviceFailed:
                continue

    def close(self) -> None:
        """Have all nodes leave, and leave."""
        for rank, node in self.nodes.items():
            if node.failure is None:
                self._transport.send(rank, packed(Kind.LEAVE, 0, 0))
        for node in self.nodes.values():
            PACE.remove(node)
        self._transport.close()

    # -- Receiver ---------------------------------------------------------------------------------------

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        room = None
        for record in records(batch):
            if record.kind is Kind.DATA:
                at, nbytes = record.fields
                if nbytes:
                    room = self.exchange.room(source, record.ticket, at, nbytes)
                else:
                    self.exchange.failed(source, record.ticket, record.tail)
            elif source in self.nodes:
                self.nodes[source].heard(record)
            else:
                raise DamagedBatch(f"rank {source} sent {record.kind.name}")
        return room if bulk_nbytes else None

    def lost(self, rank: int, why: str) -> None:
        self.exchange.lost(rank, DeviceFailed(f"rank {rank}", why))
        for other, node in self.nodes.items():
            if other != rank and node.failure is None:
                node.say(packed(Kind.GONE, 0, 0, (rank,)))
                node.flush()
        self.nodes[rank].lost(why)

    def is_busy(self) -> bool:
        return any(node.is_busy for node in self.nodes.values())
