"""What a launch costs rank 0 where members are on other nodes: its processor time per repeated launch.

``python -m bench.cluster_root [--nodes 4,16,64] [--members 1] [--launches 2000] [--flat] [--profile CASE]
[--mpi] [--out FILE]``

Rank 0's runtime is this process; all other ranks are threads of a second one, connected by sockets as
loopback jobs are.  They answer replays at once and do nothing.  Times are of all threads of this process.

``--mpi``: over the MPI that is installed beside this Python instead: each rank is a process that its
mpiexec starts, for each case anew, and all of them as if on machines of their own.  As many as the machine's
cores stand: those that rank 0 tells nothing sleep.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pickle
import pstats
import queue
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.launches import CASES, SOURCE, Case, _launch, i32  # noqa: E402
from bench.network import environ, mpiexec  # noqa: E402
from sdi import __version__  # noqa: E402
from sdi.cluster.head import Heads  # noqa: E402
from sdi.cluster.identity import introduction  # noqa: E402
from sdi.cluster.job import Job  # noqa: E402
from sdi.cluster.loopback import Loopback  # noqa: E402
from sdi.cluster.mixed import MixedTransport  # noqa: E402
from sdi.cluster.mpi import MpiTransport  # noqa: E402
from sdi.cluster.node import Node  # noqa: E402
from sdi.cluster.node_facts import Asked, NodeFacts  # noqa: E402
from sdi.cluster.records import NodeRecord, RecordKind, packed, records  # noqa: E402
from sdi.cluster.start import leave  # noqa: E402
from sdi.cluster.transport import Room, Transport  # noqa: E402
from sdi.cluster.tree import parent  # noqa: E402
from sdi.commands import Launch, Read, Rectangle  # noqa: E402
from sdi.devices.base import Device  # noqa: E402
from sdi.devices.capabilities import GPU  # noqa: E402
from sdi.devices.polling import Polling  # noqa: E402
from sdi.devices.testing.null import NullDevice  # noqa: E402
from sdi.launch.counters import Counters  # noqa: E402
from sdi.launch.launcher import Launcher, SplitMode  # noqa: E402
from sdi.launch.programs.builds import Target, build  # noqa: E402
from sdi.runtime.command_graph import CommandNode, SchedulerCore  # noqa: E402
from sdi.runtime.engine import Engine  # noqa: E402
from sdi.runtime.virtual_device import VirtualDevice  # noqa: E402
from sdi.vmem.arena import Arena  # noqa: E402
from sdi.vmem.host import HostWorker  # noqa: E402
from sdi.vmem.memory import VirtualMemory  # noqa: E402

IN_FLIGHT = 64
MEASURED = (
    "axpy, the same arguments",
    "Jacobi, ping-pong",
    "axpy, a new scalar each time",
    "sums, read each time",
)
READ_NBYTES = 4 << 10
READS = {"sums, read each time": Read(2, Rectangle(0, (READ_NBYTES, 1, 1), 0, 0), True)}
"""What is read after each launch, by a case's title; the application waits for it."""
SUMS = Case(
    "sums, read each time",
    lambda s: _launch("axpy", (READ_NBYTES // 4, 1, 1), (4, 1, 1), 1, 2, i32(0)),
    (READ_NBYTES,) * 2,
)
Ends = list[dict[int, socket.socket]]


def connected(ranks: int) -> Ends:
    """Sockets from rank 0 to all, and between all; of very many, between neighbours alone."""
    found: Ends = [{} for _ in range(ranks)]

    def connect(one: int, other: int) -> None:
        if one != other and other not in found[one]:
            found[one][other], found[other][one] = socket.socketpair()

    for rank in range(1, ranks):
        connect(0, rank)
        connect(rank, parent(rank))
        for other in range(rank + 1, ranks if ranks < 80 else min(rank + 2, ranks)):
            connect(rank, other)
    return found


def open_null(tail: bytes, _polling: Polling) -> Sequence[Device]:
    """What a node opens: members that do nothing."""
    asked = pickle.loads(tail)
    assert isinstance(asked, Asked)
    return [NullDevice(number) for _, number, _ in asked.members]


class NullNode(Node):
    """Answers replays at once, also for those whom it should tell."""

    def __init__(self, transport: MixedTransport, facts: bytes) -> None:
        super().__init__(transport, facts, open_null, None)
        self._branch._done = 1 << 62  # nothing waits for a replay: most are not told of any

    def _replay(self, record: NodeRecord) -> None:
        done = packed(RecordKind.DONE, 0, record.ticket, (1, 2, 0))
        self._told.append((self._messages, [record.ticket]))
        self._messages += 1
        self._transport.send(0, done)

    def received(self, source: int, batch: memoryview, bulk_nbytes: int) -> Room | None:
        for record in records(batch):
            if record.kind is not RecordKind.SPREAD:
                return super().received(source, batch, bulk_nbytes)
            number, *_ = record.fields
            self._transport.send(0, packed(RecordKind.SUMMED, 0, 0, (number, 1, 2, 0)))
        return None


def null_node(transport: Transport, is_whole: bool) -> tuple[MixedTransport, Node]:
    """One on ``transport``, which is not started yet.  ``is_whole``: it does all that it is told, on members
    that do nothing.
    """
    host, mixed = f"host {transport.rank}", MixedTransport(transport)
    facts = NodeFacts(__version__, host, host, os.getpid(), (("", "", GPU, "", 0),))
    told = introduction(facts)
    return mixed, Node(mixed, told, open_null, None) if is_whole else NullNode(mixed, told)


def serve(arguments: Sequence[str]) -> None:
    """Be all ranks but 0, until rank 0 has gone: ``whole`` or ``null`` nodes, each given as
    RANK:PEER=DESCRIPTOR,...
    """
    served = []
    kind, *nodes = arguments
    for each in nodes:
        rank, _, ends = each.partition(":")
        named = dict(end.split("=") for end in ends.split(","))
        sockets = {int(peer): socket.socket(fileno=int(fd)) for peer, fd in named.items()}
        transport = Loopback(int(rank), sockets, f"sdi-net-{rank}")
        transport.size = len(nodes) + 1  # though it is not connected to all
        served.append(null_node(transport, kind == "whole"))
    gc.freeze()
    for mixed, node in served:
        mixed.start(node)
    for _, node in served:
        node.left.wait()
    for mixed, node in served:
        mixed.close()
        node.close()


def over_sockets(nodes: int, title: str) -> tuple[Transport, subprocess.Popen[bytes]]:
    """Rank 0's transport to so many nodes for a case, and their process."""
    ends = connected(nodes + 1)
    named = [
        f"{rank}:{','.join(f'{peer}={end.fileno()}' for peer, end in ends[rank].items())}"
        for rank in range(1, nodes + 1)
    ]
    descriptors = [end.fileno() for each in ends[1:] for end in each.values()]
    command = [
        sys.executable,
        "-m",
        "bench.cluster_root",
        "--serve",
        "whole" if title in READS else "null",
        *named,
    ]
    process = subprocess.Popen(command, cwd=ROOT, pass_fds=descriptors)
    for each in ends[1:]:
        for end in each.values():
            end.close()
    return Loopback(0, ends[0]), process


class Rig:
    """The runtime of a session whose members are on the other ranks of a job, ``members`` on each."""

    def __init__(
        self, transport: Transport, members: int, keeps: bool = True, split: SplitMode = "always"
    ) -> None:
        """``keeps``: nodes keep their parts of recordings."""
        self.job = Job(transport)
        self.job.meet()
        asked = {
            rank: Asked(tuple((0, (rank - 1) * members + k, 1 << 34) for k in range(members)))
            for rank in range(1, transport.size)
        }
        devices = self.job.open(asked)
        self.calls: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.arena = Arena(1 << 34, 1 << 20)
        self.host = HostWorker(1)
        nodes = [self.job.memory_of(rank, 1 << 34) for rank in asked]
        self.memory = VirtualMemory(self.arena, devices, self.host, self.calls.put, nodes=nodes)
        self.counters = counters = Counters(
            len(devices), self.memory.accounting, self.memory.transfers.links, split, 1e4
        )
        self.launcher = Launcher(self.memory, split, counters)
        if keeps:
            self.launcher.keep_parts(partial(Heads, self.job))
        self.core = SchedulerCore()
        self.core.create_queue(1, in_order=True)
        self.engine = Engine(self.core, VirtualDevice(self.memory, self.launcher), self, self.calls.put)
        self.target = Target(devices)
        start = time.monotonic()
        self.launcher.add(1, build(SOURCE, "", "", self.target))
        self.build_s = time.monotonic() - start
        self.failed = self.done = self.issued = 0

    def submitted(self, node: CommandNode) -> None: ...

    def start_transfer(self, node: CommandNode) -> None:
        self.calls.put(partial(self.engine.transfer_done, node.id, 0))  # the application has copied

    def finished(self, node: CommandNode) -> None:
        self.done += 1
        self.failed += node.status < 0

    def enqueue(self, command: Launch | Read) -> None:
        self.issued += 1
        self.engine.enqueue(1, 100 + self.issued, 0, command, ())

    def settle(self, keep: int) -> None:
        """Do what was posted until no more than ``keep`` commands are under way."""
        while True:
            is_waiting = self.issued - self.done > keep
            try:
                call = self.calls.get(is_waiting)
            except queue.Empty:
                return
            assert callable(call)
            call()

    def close(self) -> None:
        self.settle(0)
        self.host.close()
        self.job.end_session()
        self.job.close()
        self.arena.close()


def measure(rig: Rig, case: Case, launches: int, profile: cProfile.Profile | None = None) -> dict[str, float]:
    """us of processor time per launch, ms of the first and of plans, messages per launch by all ranks."""
    for number, nbytes in enumerate(case.nbytes, 1):
        rig.memory.create(number, nbytes, True)
    commands = iter([case.launch(step) for step in range(40 + launches)])
    begin = time.thread_time_ns()
    rig.enqueue(next(commands))
    rig.settle(0)
    plan_ms = sum(each.plan_ns for each in rig.counters._kernels.values()) / 1e6
    first_ms = (time.thread_time_ns() - begin) / 1e6
    read = READS.get(case.title)

    def step(keep: int) -> None:
        rig.enqueue(next(commands))
        if read is not None:
            rig.enqueue(read)
        rig.settle(keep)

    for _ in range(39):
        step(0)
    before = sum(each.messages for each in rig.job.traffic().values())
    batches, own = [], []
    if profile is not None:
        profile.enable()
    for _ in range(8):
        start, own_start = time.process_time_ns(), time.thread_time_ns()
        for _ in range(launches // 8):
            step(IN_FLIGHT if read is None else 0)
        batches.append((time.process_time_ns() - start) / (launches // 8) / 1000)
        own.append((time.thread_time_ns() - own_start) / (launches // 8) / 1000)
    if profile is not None:
        profile.disable()
    rig.settle(0)
    assert not rig.failed, f"{case.title}: {rig.failed} launches failed"
    messages = sum(each.messages for each in rig.job.traffic().values()) - before
    return {
        "launch_us": statistics.median(batches),
        "issue_us": statistics.median(own),
        "first_ms": first_ms,
        "plan_ms": plan_ms,
        "messages": messages / launches,
    }


def measured(transport: Transport, options: argparse.Namespace, title: str) -> dict[str, float | int | str]:
    """A row of the table, which is printed: one case on the nodes that ``transport`` reaches."""
    sys.setswitchinterval(1e-5)
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    (case,) = (case for case in (*CASES, SUMS) if case.title == title)
    nodes = transport.size - 1
    rig = Rig(transport, options.members, not options.flat)
    profile = None if options.profile is None else cProfile.Profile()
    try:
        found = measure(rig, case, options.launches, profile)
    finally:
        rig.close()
    print(
        f"{nodes:4} nodes of {options.members}  {title:32}"
        f"{found['launch_us']:9.1f} us a launch ({found['issue_us']:.1f} to issue),"
        f" first {found['first_ms']:7.1f} ms ({found['plan_ms']:.1f} its plan),"
        f" {found['messages']:.1f} messages",
        flush=True,
    )
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    return {"nodes": nodes, "members": options.members, "case": title, **found}


def as_rank(options: argparse.Namespace) -> int:
    """Be a rank of a job of MPI: rank 0 measures, all others do nothing."""
    transport = MpiTransport()
    if transport.rank:
        mixed, node = null_node(transport, options.rank in READS)
        gc.freeze()
        mixed.start(node)
        node.left.wait()
        mixed.close()
        node.close()
    else:
        row = measured(transport, options, options.rank)
        options.out.write_text(json.dumps({**row, "library": transport.library}))
    leave(0)
    return 0


def over_mpi(nodes: int, title: str, arguments: Sequence[str]) -> dict[str, float | int | str]:
    """As ``measured``, by a job of its own."""
    with tempfile.TemporaryDirectory(prefix="sdi-root-") as folder:
        out = Path(folder) / "row.json"
        rank = [sys.executable, "-m", "bench.cluster_root", *arguments, "--rank", title, "--out", str(out)]
        subprocess.run([*mpiexec(nodes + 1), *rank], cwd=ROOT, env=environ(), check=True)
        found: dict[str, float | int | str] = json.loads(out.read_text())
        return found


def main() -> int:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--nodes", default="4,16,64")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--launches", type=int, default=2000)
    parser.add_argument("--profile", metavar="CASE")
    parser.add_argument("--flat", action="store_true", help="rank 0 issues every operation of every member")
    parser.add_argument("--mpi", action="store_true", help="nodes are ranks that mpiexec starts")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank is not None:
        return as_rank(options)
    rows = []
    for nodes in [int(each) for each in options.nodes.split(",")]:
        for title in MEASURED:
            if options.profile is not None and options.profile not in title:
                continue
            if options.mpi:
                rows.append(over_mpi(nodes, title, sys.argv[1:]))
                continue
            transport, process = over_sockets(nodes, title)
            rows.append(measured(transport, options, title))
            process.wait(60)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
