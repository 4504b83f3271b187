"""Jobs whose nodes are threads of this process: rank 0 and others, connected by sockets."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sdi import __version__
from sdi.cluster import start
from sdi.cluster.identity import introduction
from sdi.cluster.job import Job
from sdi.cluster.local import start_nodes
from sdi.cluster.loopback import Loopback, sockets
from sdi.cluster.members import host_id
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.node import Node
from sdi.cluster.node_facts import Asked, JobDevice, NodeFacts
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU
from sdi.devices.discover import memory_shares
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice, driver_devices
from sdi.devices.polling import Polling
from tests.image_runs import plain_environ


class Spied(Loopback):
    """Remembers what was sent (``sent``: to whom and the batch), and can hold it back."""

    def __init__(self, rank: int, ends: dict[int, socket.socket]) -> None:
        super().__init__(rank, ends, f"sdi-net-{rank}")
        self.sent: list[tuple[int, bytes]] = []
        self._ends = ends
        self._held: dict[int, list[Callable[[], None]]] = {}
        self._holding = threading.Lock()

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        with self._holding:
            self.sent.append((to, batch))
            if to in self._held:
                self._held[to].append(lambda: super(Spied, self).send(to, batch, bulk, sent))
                return
        super().send(to, batch, bulk, sent)

    def hold(self, to: int) -> None:
        """What is sent to ``to`` from now on stays here."""
        with self._holding:
            self._held[to] = []

    def let_go(self, to: int) -> None:
        """Send all that was held back."""
        with self._holding:
            held = self._held.pop(to)
        for send in held:
            send()

    def cut(self) -> None:
        """End all connections, as if the process had died."""
        for end in self._ends.values():
            end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Threads:
    """A job in this process.  ``root``, ``others``: transports of rank 0 and of the ranks above."""

    job: Job
    root: Spied
    others: list[Spied]
    nodes: list[Node]


def open_here(tail: bytes, _polling: Polling) -> Sequence[Device]:
    """What a node opens: members on the CPU device."""
    asked = pickle.loads(tail)
    assert isinstance(asked, Asked)
    device = next(each for each in driver_devices() if each.kind is CPU)
    found: list[OpenCLDevice] = []
    for _, number, nbytes in asked.members:
        found.append(OpenCLDevice(device, number, nbytes, found[0].shared if found else None))
    return found


@contextmanager
def threads(nodes: int) -> Iterator[Threads]:
    """Rank 0 of a job with so many other ranks."""
    root, *others = [Spied(rank, ends) for rank, ends in enumerate(sockets(nodes + 1))]
    device = JobDevice("", "", CPU, "cpu", 0, {}, 0)
    facts = introduction(NodeFacts(__version__, "here", "localhost", 0, (device,)))
    mixed = [MixedTransport(transport) for transport in others]
    served = [Node(transport, facts, open_here, None) for transport in mixed]
    for node, transport in zip(served, mixed, strict=True):
        transport.start(node)
    job = Job(root)
    try:
        job.meet()
        yield Threads(job, root, others, served)
        job.end_session()
    finally:
        job.close()
        for node, transport in zip(served, mixed, strict=True):
            node.left.wait()
            transport.close()
            node.close()


@contextmanager
def threaded_job(nodes: int) -> Iterator[Job]:
    """The same, where only the job matters."""
    with threads(nodes) as made:
        yield made.job


@contextmanager
def local_job(
    nodes: int, host: str | None, killed: Collection[int] = (), room: Mapping[int, int] | None = None
) -> Iterator[Job]:
    """Rank 0 of a job with so many other processes.  ``host``: see ``Job.meet``.

    ``killed``: the ranks that do not survive.  ``room``: bytes of address space that some ranks have.
    """
    transport, processes = start_nodes(nodes + 1, plain_environ())
    for rank, nbytes in (room or {}).items():
        resource.prlimit(processes[rank - 1].pid, resource.RLIMIT_AS, (nbytes, nbytes))
    job = Job(transport)
    try:
        job.meet(host)
        yield job
    finally:
        job.close()
        for rank, process in enumerate(processes, 1):
            assert process.wait(60) == (-signal.SIGKILL if rank in killed else 0)


@contextmanager
def process_job(nodes: int) -> Iterator[Job]:
    """The same, sharing memory."""
    with local_job(nodes, host_id()) as job:
        yield job


@contextmanager
def job_of(ranks: int, host: str | None) -> Iterator[Job]:
    """Rank 0 of the MPI job of so many processes that this one is started in, or of one that it starts.

    ``host``: see ``Job.meet``.
    """
    place = start.place(os.environ)
    if place is None:
        with local_job(ranks - 1, host) as job:
            yield job
        return
    assert place == start.RankPlace(0, ranks), place
    from sdi.cluster.mpi import MpiTransport

    job = Job(MpiTransport(ranks))
    try:
        job.meet(host)
        yield job
    finally:
        job.close()


def open_on_nodes(job: Job, driver: DriverDevice, count: int) -> list[Device]:
    """Members on all nodes in turn."""
    nbytes = memory_shares([driver] * count)[0]
    cpu = {rank: [device.kind for device in facts.devices].index(CPU) for rank, facts in job.facts.items()}
    ranks = list(job.nodes)
    asked: dict[int, list[tuple[int, int, int]]] = {}
    for number in range(count):
        rank = ranks[number % len(ranks)]
        asked.setdefault(rank, []).append((cpu[rank], number, nbytes))
    return job.open({rank: Asked(tuple(members)) for rank, members in asked.items()})
