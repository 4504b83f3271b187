"""Programs on real ranks: sdi's own nodes, transports, tree and exchange, with members of known speed.

A member takes the time that is given for kernels and for copies, and computes nothing; what nodes send
each other is really sent, over links that are as slow and as late as is given.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Final

from bench.network import ROOT, environ, mpiexec
from bench.simulation.model import Link
from bench.simulation.programs import CHECKED
from bench.simulation.trace import Runtime
from sdi import __version__
from sdi.cluster.head import Heads
from sdi.cluster.identity import introduction
from sdi.cluster.job import Job
from sdi.cluster.loopback import Loopback, sockets
from sdi.cluster.mixed import MixedTransport
from sdi.cluster.mpi import MpiTransport
from sdi.cluster.node import Node
from sdi.cluster.node_facts import Asked, NodeFacts
from sdi.cluster.start import leave
from sdi.cluster.transport import Receiver, Transport
from sdi.devices.base import BoundArgument, Device, Place
from sdi.devices.capabilities import CPU
from sdi.devices.handles import BoundKernel, DeviceProgram
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import join, united
from sdi.devices.polling import Polling
from sdi.devices.testing.null import NullDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from sdi.region import Region
from tests.devices.testing.due import DueCalls


@dataclass(frozen=True, slots=True)
class Setup:
    """What a run is made of, for all of its ranks.  ``program``: one of CHECKED."""

    program: str
    bytes_per_s: float
    latency_ns: float
    copy_bytes_per_s: float

    @property
    def link(self) -> Link:
        """As the simulation has it: arriving bytes wait for nobody."""
        return Link(self.bytes_per_s, self.latency_ns, limits_arrival=False)


@dataclass(frozen=True, slots=True)
class Measured:
    """``nbytes``: of buffers that went from rank to rank.  ``late_ns``: how much later than asked for
    rank 0's timers rang, which links and members are made of (median).
    """

    seconds: float
    late_ns: float
    nbytes: dict[tuple[int, int], int]


class Timers:
    """Calls that are due, and how late they are made, where that ``counts``: of many messages that leave a
    link at once each is late by those before it, which costs nobody anything.
    """

    late_ns: ClassVar[list[int]] = []

    def __init__(self, name: str, counts: bool) -> None:
        self._counts: Final = counts
        self._due: Final = DueCalls(name)
        self.close: Final = self._due.close

    def at(self, due_ns: int, call: Callable[[], None]) -> None:
        """Make a call at a time."""
        if not self._counts:
            self._due.at(due_ns, call)
            return

        def made() -> None:
            self.late_ns.append(time.monotonic_ns() - due_ns)
            call()

        self._due.at(due_ns, made)


class PacedTransport:
    """``transport``, as if each rank sent at a rate, and each message took ``latency_ns`` more.  Implements
    ``Transport``.
    """

    def __init__(self, transport: Transport, link: Link) -> None:
        self.rank = transport.rank
        self.size = transport.size
        self.is_spare = False
        self.traffic = transport.traffic
        self.deaf = transport.deaf
        self._transport: Final = transport
        self._link: Final = link
        self._free_ns = 0
        self._due: Final = Timers("sdi-net-paced", False)

    def start(self, receiver: Receiver) -> None:
        self._transport.start(receiver)

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        nbytes = len(batch) + (0 if bulk is None else bulk.nbytes)
        gone_ns = max(self._free_ns, time.monotonic_ns()) + int(1e9 * nbytes / self._link.bytes_per_s)
        self._free_ns = gone_ns
        due_ns = gone_ns + int(self._link.latency_ns)
        self._due.at(due_ns, lambda: self._transport.send(to, batch, bulk, sent))

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        self._transport.refuse(rank, why, last)

    def close(self) -> None:
        self._due.close()
        self._transport.close()


class TimedMember(NullDevice):
    """Takes ``group_ns`` for each group of a kernel of that name, one launch at a time, and copies at a rate
    beside that.  Its own thread says when something is over.
    """

    def __init__(self, number: int, setup: Setup, node: int) -> None:
        super().__init__(number, CPU, 1 << 36)
        program = CHECKED[setup.program]
        self.capabilities = replace(self.capabilities, node=node, is_near=node == 0)
        self._group_ns = dict(zip(program.kernel_names(), program.group_ns, strict=True))
        self._copy_ns = 1e9 / setup.copy_bytes_per_s
        self._due = Timers(f"sdi-timed-{number}", True)
        self._free_ns = {"kernels": 0, "copies": 0}

    def _take(self, lane: str, wait: Sequence[Ticket], duration_ns: float) -> Ticket:
        """A ticket that is done when the lane has taken that long for it."""
        ticket = Ticket(self)

        def ready(error: BaseException | None) -> None:
            begin_ns = max(time.monotonic_ns(), self._free_ns[lane])
            end_ns = self._free_ns[lane] = begin_ns + int(duration_ns)
            self._due.at(end_ns, lambda: ticket.complete(error, begin_ns, end_ns))

        join(wait, ready)
        return ticket

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        remote = next((p.device for p in (source, target) if p.device not in (None, self)), None)
        if remote is not None:  # another node's member, from this one's
            return remote.send_to(source, target, region, source_waits, target_waits)  # type: ignore[attr-defined]
        waits = united(source_waits, target_waits)
        ticket = self._take("copies", waits, self._copy_ns * region.total_nbytes)
        return ticket, ticket

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        name = max((name for name in self._group_ns if kernel.startswith(name)), key=len)
        return BoundKernel(name)

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        assert isinstance(bound, str)
        total = groups[0] * groups[1] * groups[2]
        return self._take("kernels", wait, self._group_ns[bound] * total)

    def close(self) -> None:
        super().close()
        self._due.close()


def _serve(transport: Transport, setup: Setup) -> None:
    """Be a rank that is not 0."""

    def opens(tail: bytes, _polling: Polling) -> Sequence[Device]:
        asked = pickle.loads(tail)
        return [TimedMember(number, setup, transport.rank) for _, number, _ in asked.members]

    host, mixed = f"host {transport.rank}", MixedTransport(PacedTransport(transport, setup.link))
    facts = NodeFacts(__version__, host, host, os.getpid(), (("", "", CPU, "", 0),))
    node = Node(mixed, introduction(facts), opens, None)
    mixed.start(node)
    node.left.wait()
    mixed.close()
    node.close()


def _run(transport: Transport, setup: Setup) -> Measured:
    """Be rank 0 of a job with a member on each rank: from the first command to the last one's end."""
    job = Job(PacedTransport(transport, setup.link))
    job.meet()
    asked = {rank: Asked(((0, rank, 1 << 36),)) for rank in range(1, transport.size)}
    program = CHECKED[setup.program]
    runtime = Runtime([TimedMember(0, setup, 0), *job.open(asked)], None, program)
    runtime.launcher.keep_parts(partial(Heads, job))
    Timers.late_ns.clear()
    began_ns = time.monotonic_ns()
    for step in program.steps:
        runtime.enqueue(step.command)
        runtime.settle(step.blocks)
        time.sleep(step.host_ns / 1e9 if step.blocks else 0.0)
    runtime.settle(True)
    took_s = (time.monotonic_ns() - began_ns) / 1e9
    runtime.close()
    sent = {ends: each.bulk_nbytes for ends, each in job.traffic().items() if each.bulk_nbytes}
    job.end_session()
    job.close()
    return Measured(took_s, statistics.median(Timers.late_ns), sent)


def as_rank(arguments: Sequence[str]) -> None:
    """Be a process of a job: over MPI, or RANK and PEER:DESCRIPTOR for each other one."""
    out, given, *named = arguments
    setup = Setup(**json.loads(given))
    sys.setswitchinterval(1e-5)
    if named:
        ends = {
            int(peer): socket.socket(fileno=int(end))
            for peer, _, end in (n.partition(":") for n in named[1:])
        }
        transport: Transport = Loopback(int(named[0]), ends)
    else:
        transport = MpiTransport()
    if transport.rank:
        _serve(transport, setup)
    else:
        Path(out).write_bytes(pickle.dumps(_run(transport, setup)))
    leave(0)


def measure(setup: Setup, ranks: int, over_mpi: bool) -> Measured:
    """One run, by a job of its own."""
    with tempfile.TemporaryDirectory(prefix="sdi-simulation-") as folder:
        out = Path(folder) / "measured"
        rank = [sys.executable, "-m", "bench.simulation", "--rank", str(out), json.dumps(asdict(setup))]
        if over_mpi:
            subprocess.run([*mpiexec(ranks), *rank], cwd=ROOT, env=environ(), check=True)
        else:
            processes = []
            every = sockets(ranks)
            for number, ends in enumerate(every):
                named = [f"{peer}:{end.fileno()}" for peer, end in ends.items()]
                descriptors = [end.fileno() for end in ends.values()]
                command = [*rank, str(number), *named]
                processes.append(subprocess.Popen(command, cwd=ROOT, pass_fds=descriptors))
            for ends in every:
                for end in ends.values():
                    end.close()
            if sum(process.wait() != 0 for process in processes):
                raise SystemExit(f"{setup.program}: a rank ended with an error")
        found = pickle.loads(out.read_bytes())
        assert isinstance(found, Measured)
        return found
