"""The nodes of a job as rank 0 sees them: what they have, and the members that a session gets there."""

from __future__ import annotations

import itertools
import logging
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from sdi.cluster.exchange import Exchange
from sdi.cluster.heartbeat import Silence, Ticking
from sdi.cluster.identity import Stranger, introduced
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.near import NearListener
from sdi.cluster.node_facts import Asked, NodeFacts
from sdi.cluster.records import ALL, NODE_MEMORY, DamagedBatch, RecordKind, packed, records
from sdi.cluster.remote_device import RemoteDevice
from sdi.cluster.remote_node import ROOT, Failures, RemoteNode
from sdi.cluster.shared import Pool
from sdi.cluster.transport import Room, Traffic, Transport, copied
from sdi.cluster.tree import ReplayTree
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU, Capabilities
from sdi.devices.polling import Polling
from sdi.errors import DeviceFailed, DeviceLost
from sdi.vmem.arena import Arena

_log = logging.getLogger("sdi.job")
_CLOCK_ROUNDS = 5
_OWN_MEMORY = replace(CPU, name="node", host_ns_per_byte=0.0)
"""What a node's own memory costs: a copy takes what it takes the member at the other end."""


class JobError(RuntimeError):
    """The job can't be used; the text says why."""


class Job:
    """Rank 0's end of the connections to all nodes.  Implements ``Receiver`` and ``Pollable``.

    ``losses``: so many nodes were lost.  ``recordings``, ``replays``: numbers of those that nodes keep and of
    what they replay, never used again in another session.
    ``printed`` is told what kernels print on nodes; it may change with the session.  ``timeout_s``: a node
    that owes something and says nothing for so long is refused; None: none is.
    """

    def __init__(self, transport: Transport, timeout_s: float | None = None) -> None:
        self._transport: Final = MixedTransport(transport)
        self.exchange: Final = Exchange(self._transport)
        self._controls: dict[int, socket.socket] = {}
        self.losses = 0
        self.recordings: Final = itertools.count(1)
        self.replays: Final = itertools.count(1)
        self.printed: Callable[[bytes], None] = lambda text: None
        self.polling: Final = Polling()
        """Of the session, one at a time, that has members of the job."""
        failures = Failures()
        self.nodes: Final = {
            rank: RemoteNode(rank, self._transport, self.exchange, failures, self._print, self.polling)
            for rank in range(transport.size)
            if rank != ROOT
        }
        self.tree: Final = ReplayTree(self._transport, self.nodes, failures.of)
        for node in self.nodes.values():
            node.tree = self.tree
        self.facts: dict[int, NodeFacts] = {}
        self._before: dict[int, Traffic] = {}
        self._members: list[RemoteDevice] = []
        self._transport.pace(lambda: self.polling.is_busy, None)
        self.polling.add(self)
        for node in self.nodes.values():
            self.polling.add(node)
        self._timeout_s: Final = timeout_s
        self._silence: Final = Silence(timeout_s or 0.0)
        self.refused: Final[set[int]] = set()
        """Ranks that did not answer in time."""
        self._listening: Ticking | None = None
        self._transport.start(self)

    def _listen(self) -> None:
        """Refuse nodes that are silent for too long; what they owe they have been asked for."""
        self.exchange.mailboxes.end_waits()
        heard = self._transport.heard()
        owing = [rank for rank, node in self.nodes.items() if node.is_busy]
        for rank in owing:
            self.nodes[rank].flush()
        if self.tree.is_busy:  # who has not heard of a replay, since another one hangs, answers this
            owing = [rank for rank, node in self.nodes.items() if node.failure is None]
            for rank in owing:
                self._transport.send(rank, packed(RecordKind.BEAT, 0, 0))
        for rank in self._silence.tick(owing, heard):
            if rank not in self.refused:
                self.refused.add(rank)
                _log.error("rank %d did not answer for %g s: it is refused", rank, self._timeout_s)
                self._transport.refuse(
                    rank, f"it did not answer for {self._timeout_s:g} s", packed(RecordKind.REFUSED, 0, 0)
                )

    def _print(self, text: bytes) -> None:
        self.printed(text)

    def meet(self, host: str | None = None) -> None:
        """Ask all nodes what they have.  Raises JobError.

        ``host``: of this machine, whose nodes are to share memory with rank 0; None: none is.
        """
        asked = [(rank, node.question(RecordKind.OPEN)) for rank, node in self.nodes.items()]
        for rank, answer in asked:
            try:
                self.facts[rank] = introduced(rank, answer())
            except Stranger as error:
                raise JobError(str(error)) from error
            except Exception as error:
                raise JobError(f"rank {rank}: {error}") from error
        near = [rank for rank, each in self.facts.items() if each.host == host]
        if near:
            self._set_members_near(near)
        for note in self.idle_notes():
            _log.warning("%s", note)
        self._set_clocks()
        if self._timeout_s:
            self._listening = Ticking("sdi-heartbeat", self._listen)

    def _set_clocks(self) -> None:
        """Find out what all nodes' clocks say.  Raises JobError.

        All are asked at once, in each round beginning with others: the answers of those that come late wait
        for the first ones to be read.
        """
        ranks = list(self.nodes)
        for number in range(_CLOCK_ROUNDS):
            first = number * len(ranks) // _CLOCK_ROUNDS
            asked = []
            for rank in (*ranks[first:], *ranks[:first]):
                with self._named(rank):
                    asked.append((rank, self.nodes[rank].ask_clock()))
            for rank, note in asked:
                with self._named(rank):
                    note()
        for node in self.nodes.values():
            node.tell_offset()

    @contextmanager
    def _named(self, rank: int) -> Iterator[None]:
        """Raises JobError where a node does not answer."""
        try:
            yield
        except DeviceFailed as error:
            raise JobError(f"rank {rank}: {error}") from error

    def idle_notes(self) -> list[str]:
        """For people: the ranks that nothing wakes for messages, and why."""
        ranks: dict[str, list[str]] = {}
        for rank, why in self._transport.deaf.items():
            ranks.setdefault(why, []).append(str(rank))
        return [
            f"rank {', '.join(known)}, idle, looks for messages over and over (2 to 3 % of a core): {why}"
            for why, known in ranks.items()
        ]

    def _set_members_near(self, ranks: Sequence[int]) -> None:
        """Let nodes of this machine and rank 0 share memory, and talk over sockets.  Raises JobError."""
        try:
            door = NearListener()
            try:
                pool = Pool()
            except OSError:
                door.close()
                raise
        except OSError as error:
            _log.warning("processes of this machine share no memory, bytes go as messages: %s", error)
            return
        try:
            asked = {rank: self.nodes[rank].asked(RecordKind.NEAR, tail=door.invitation) for rank in ranks}
            came = door.wait(ranks, lambda rank: asked[rank].is_there)
            met, self._controls = door.introduce(pool)
            self.exchange.meet(pool, met.pools)
            self._transport.meet(met)
            for rank in met.ends:
                asked[rank].wait()
                self.nodes[rank].is_near = True
        except (OSError, DeviceFailed) as error:
            raise JobError(f"processes of this machine can't share memory: {error}") from error
        finally:
            door.close()
        for rank in set(ranks) - set(met.ends):
            why = door.refusals.get(rank, "it does not answer")
            if rank not in door.refusals and (rank in came or asked[rank].is_there):
                try:
                    asked[rank].wait()
                except DeviceFailed as error:
                    why = str(error)
            _log.warning(
                "rank %d is on this machine and shares no memory, bytes go as messages: %s", rank, why
            )

    def share(self, arena: Arena) -> None:
        """Give the arena of a session to the nodes that are near.

        Members of one that can't map it are not near in this session; nobody has used their facts yet.
        """
        asked = []
        file = arena.file
        descriptors = [arena.fd] if file is None else [arena.fd, file.fd]
        fields = arena.nbytes, arena.file_offset
        for rank, node in self.nodes.items():
            if node.is_near and node.failure is None:
                with suppress(BrokenPipeError, ConnectionResetError, DeviceLost):  # it is dead or about to be
                    socket.send_fds(self._controls[rank], [b"\0"], descriptors)
                    asked.append((node, node.question(RecordKind.SHARE, fields=fields)))
        for node, answer in asked:
            try:
                node.shares(arena, bool(answer()[0]))
            except DeviceFailed as error:
                _log.warning(
                    "rank %d has not the application's memory, bytes go as messages: %s", node.rank, error
                )
                for member in self._members:
                    if member.node is node:
                        member.capabilities = replace(member.capabilities, is_near=False)

    def open(self, asked: dict[int, Asked]) -> list[Device]:
        """The members that nodes are asked for, by rank, in the order of their numbers.  Raises JobError."""
        self._before = copied(self._transport.traffic)
        for node in self.nodes.values():
            node.lost_members.clear()
        answers = [
            (rank, members, self.nodes[rank].question(RecordKind.OPEN, tail=pickle.dumps(members)))
            for rank, members in asked.items()
        ]
        found: list[tuple[int, RemoteDevice]] = []
        for rank, members, answer in answers:
            try:
                facts: Sequence[Capabilities] = pickle.loads(answer())
            except Exception as error:
                raise JobError(f"rank {rank}: {error}") from error
            node = self.nodes[rank]
            for position, (each, (_, number, _)) in enumerate(zip(facts, members.members, strict=True)):
                told = replace(each, node=rank, is_near=node.is_near, hop_ns=node.hop_ns)
                found.append((number, RemoteDevice(node, position, told)))
        self.exchange.believe()
        self._members = [device for _, device in sorted(found, key=lambda each: each[0])]
        return [*self._members]

    def memory_of(self, rank: int, nbytes: int) -> RemoteDevice:
        """What copies to and from a node's own memory, of which it has so much; it is no member."""
        name = f"memory of node {rank}"
        facts = Capabilities(name, _OWN_MEMORY, "", "", name, nbytes, {}, node=rank, is_near=False)
        return RemoteDevice(self.nodes[rank], NODE_MEMORY, facts)

    def traffic(self) -> dict[tuple[int, int], Traffic]:
        """What each rank that is there sent to others since the session's members were opened."""
        now = self._transport.traffic
        found = {(ROOT, rank): now[rank].since(before) for rank, before in self._before.items()}
        answers = []
        for rank, node in self.nodes.items():
            with suppress(DeviceLost):
                answers.append((rank, node.question(RecordKind.TRAFFIC)))
        for rank, answer in answers:
            with suppress(DeviceFailed):
                sent: dict[int, Traffic] = pickle.loads(answer())
                found |= {(rank, to): each for to, each in sent.items()}
        return found

    def end_session(self) -> None:
        """Nodes close their members; what they still had to do is done or failed then."""
        self._answers(RecordKind.CLOSE, ALL)
        for node in self.nodes.values():
            node.shares(None)

    def left_behind(self) -> list[str]:
        """For people: processes on other machines that were refused and may still be there."""
        ranks = sorted(rank for rank in self.refused if not self.nodes[rank].is_near)
        return [f"rank {r} (process {self.facts[r].pid} on {self.facts[r].hostname})" for r in ranks]

    def _answers(self, kind: RecordKind, member: int = 0) -> None:
        """Wait until all nodes that were met and are there have answered."""
        answers = []
        for rank in self.facts:
            with suppress(DeviceLost):
                answers.append(self.nodes[rank].question(kind, member))
        for answer in answers:
            with suppress(DeviceFailed):
                answer()

    def close(self) -> None:
        """Have all nodes leave, and leave; one that does not answer is not waited for."""
        if self._listening is not None:
            self._answers(RecordKind.CLOCK)
            self._listening.close()
        self._transport.part()
        for rank, node in self.nodes.items():
            if node.failure is None:
                self._transport.send(rank, packed(RecordKind.LEAVE, 0, 0))
        self.polling.remove(self)
        for node in self.nodes.values():
            self.polling.remove(node)
        self._transport.close()
        self.exchange.close()
        for control in self._controls.values():
            control.close()

    # -- Pollable: what has come over sockets is received by who issues, while it is busy -------------------

    def ask(self) -> None:
        """See ``complete``."""

    def complete(self) -> bool:
        """Act on what nodes of this machine have told; whether anything is left that they will tell."""
        self._transport.poll()
        return self.is_busy()

    def arm(self) -> None:
        """Have a thread wait for what they tell."""
        self._transport.watch()

    # -- Receiver ---------------------------------------------------------------------------------------

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        room = None
        for record in records(batch):
            if record.kind in (RecordKind.DATA, RecordKind.RETURN):
                room = self.exchange.received(source, record)
            elif record.kind is RecordKind.SUMMED:
                self.tree.heard(source, record)
            elif source in self.nodes:
                self.nodes[source].heard(record)
            else:
                raise DamagedBatch(f"rank {source} sent {record.kind.name}")
        return room if bulk_nbytes else None

    def lost(self, rank: int, why: str) -> None:
        self.losses += 1
        self.exchange.lost(rank, DeviceFailed(f"rank {rank}", why))
        for other, node in self.nodes.items():
            if other != rank and node.failure is None:
                self._transport.send(other, packed(RecordKind.GONE, 0, 0, (rank,)))
        self.nodes[rank].lost(why)
        self.tree.lost(rank, self.nodes[rank].failure or DeviceLost(f"rank {rank}", why))

    def is_busy(self) -> bool:
        return self.tree.is_busy or any(node.is_busy for node in self.nodes.values())
