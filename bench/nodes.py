"""What processes cost beside one: the members of this machine in one process, and each in a rank of its own.

``python bench/nodes.py [--members 4] [--size gpu|cpu] [--rounds 3] [--mpiexec "mpirun --bind-to none"]
[--ways local,ranks,far] [--only n-body,jacobi] [--out FILE.json]``

Each way is a process that lives as long as the benchmark and does one run when it is asked: so runs
alternate, each between its neighbours of the other ways, and no run pays for a start.  The first run of each
is a warm-up of which the results are compared, byte for byte.  ``local``: ``sdi run`` with so many members;
``ranks``: as many ranks of a job with a member each; ``far``: the same, as if each rank was on a machine of
its own.  Without ``--mpiexec`` ranks are processes connected by sockets (SDI_TEST_NODES).

Of each application the median of the runs, and the speed relative to ``local``: that is 100 % where there is
nothing to pay.  Jacobi's times are per step.  What went between ranks in all comes behind the table.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PATIENCE_S = 300.0
STEPS = 200
APPLICATIONS: dict[str, tuple[str, dict[str, tuple[object, ...]]]] = {
    # name: application, and by size the arguments of its Size
    "n-body": ("nbody", {"gpu": (1 << 20, 3), "cpu": (6000, 4, 64)}),
    "Black-Scholes": ("black_scholes", {"gpu": (1 << 26, 10000), "cpu": (1 << 20, 100)}),
    "Jacobi, small": ("stencil2d", {"gpu": (4096, 4096, STEPS), "cpu": (512, 512, STEPS)}),
    "Jacobi, large": ("stencil2d", {"gpu": (16384, 16384, STEPS), "cpu": (2048, 2048, STEPS)}),
    "Jacobi, largest": ("stencil2d", {"gpu": (32768, 32768, STEPS), "cpu": (4096, 4096, STEPS)}),
    "matrix product": ("matrix_mul", {"gpu": (32768,), "cpu": (768,)}),
}


@dataclass(slots=True)
class Way:
    """A process that runs applications when it is asked.  ``stats``: where it leaves its counters."""

    name: str
    process: subprocess.Popen[bytes]
    connection: socket.socket
    stats: Path
    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def ask(self, what: str, application: str, size: str) -> None:
        """To ``prepare`` for runs, or to do one."""
        self.connection.sendall(json.dumps([what, application, size]).encode() + b"\n")

    def run(self, application: str, size: str) -> dict[str, Any]:
        """One run."""
        self.ask("run", application, size)
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line of the process."""
        data = b""
        while not data.endswith(b"\n"):
            more = self.connection.recv(1 << 16)
            if not more:
                raise SystemExit(f"{self.name}: the process has ended")
            data += more
        found: dict[str, Any] = json.loads(data)
        return found


def work(path: str) -> None:
    """What the process of a way does: run what is asked for, until nobody asks."""
    from bench.applications import kept
    from bench.applications.__main__ import choose_device
    from bench.applications.program import Session, load

    end = socket.socket(socket.AF_UNIX)
    end.connect(path)
    device = choose_device()
    with end, end.makefile("rw") as lines:
        print(json.dumps({"device": device.name}), file=lines, flush=True)
        for line in lines:
            what, name, size = json.loads(line)
            if what == "prepare":
                module, sizes = APPLICATIONS[name]
                application = load(module)
                made = type(next(iter(application.SIZES.values())))(*sizes[size])
                inputs, session = application.inputs(made), Session(device, application.SOURCE)
                is_first = True
                print("{}", file=lines, flush=True)
                continue
            outputs, trace = session.run(application, made, inputs)
            found: dict[str, object] = {
                "wall_ms": (trace.stop_ns - trace.start_ns) / 1e6,
                "kernels_ms": sum(trace.kernel_ns().values()) / 1e6,
            }
            if is_first:
                found["digests"] = {array: kept.digest(values) for array, values in outputs.items()}
            is_first = False
            del outputs
            print(json.dumps(found), file=lines, flush=True)


def start(name: str, members: int, mpiexec: str, split: str, folder: Path) -> Way:
    """Start the process of a way."""
    from sdi.locate import image_environ

    stats = folder / f"{name}.json"
    environ = {k: v for k, v in os.environ.items() if not k.startswith("SDI_TEST")}
    environ |= image_environ(environ)
    environ |= {"SDI_NUM_GPUS": str(members), "SDI_SPLIT": split, "OCL_TEST_PLATFORM": "SDI"}
    environ |= {"SDI_STATS": str(stats), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    before: list[str] = []
    if name != "local":
        if mpiexec:
            before = [*shlex.split(mpiexec), "-n", str(members)]
        else:
            environ["SDI_TEST_NODES"] = str(members)
        if name == "far":
            environ["SDI_TEST_FAR"] = "1"
    path = str(folder / f"{name}.socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(1.0)
        worker = [sys.executable, str(Path(__file__).resolve()), "--worker", path]
        command = [*before, sys.executable, "-m", "sdi.cli", "run", "--", *worker]
        process = subprocess.Popen(command, cwd=ROOT, env=environ, stdin=subprocess.DEVNULL)
        while process.poll() is None:
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                break
        else:
            raise SystemExit(f"{name}: ended with {process.returncode}")
    connection.settimeout(PATIENCE_S)
    way = Way(name, process, connection, stats)
    print(f"{name}: {way.answer()['device']}", flush=True)
    return way


def measure(ways: Sequence[Way], name: str, size: str, rounds: int) -> list[str]:
    """A row of the table, and which results differ from those of the first way."""
    digests = []
    for way in ways:
        way.ask("prepare", name, size)
    for way in ways:
        way.answer()
    for way in ways:
        found = way.run(name, size)
        digests.append(found.pop("digests"))
        way.runs[name] = []
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            way.runs[name].append(way.run(name, size))
    each = STEPS if name.startswith("Jacobi") else 1
    medians = [statistics.median(run["wall_ms"] for run in way.runs[name]) / each for way in ways]
    cells = [name]
    for way, median in zip(ways, medians, strict=True):
        spread = [run["wall_ms"] / each for run in way.runs[name]]
        kernels = statistics.median(run["kernels_ms"] for run in way.runs[name]) / each
        text = f"{median:.2f} ({min(spread):.2f}-{max(spread):.2f}), kernels {kernels:.2f}"
        cells.append(text if way is ways[0] else f"{text}, {100 * medians[0] / median:.0f} %")
    print("| " + " | ".join(cells) + " |", flush=True)
    return [
        f"{name}: {array} of {way.name} differs from that of {ways[0].name}"
        for way, found in zip(ways[1:], digests[1:], strict=True)
        for array, digest in found.items()
        if digest != digests[0][array]
    ]


def report(way: Way) -> None:
    """What its ranks sent each other, and how kernels were split."""
    if not way.stats.exists():
        print(f"{way.name}: no counters")
        return
    counters = json.loads(way.stats.read_text())
    for name, kernel in counters["kernels"].items():
        why = f", {kernel['why_whole']}" if kernel["why_whole"] else ""
        counts = f"split {kernel['launches_split']}, whole {kernel['launches_whole']}"
        print(f"{way.name}: {name}: {counts}, members used {kernel['members_used']}{why}")
    for sent in counters["network"]:
        print(
            f"{way.name}: {sent['from']} to {sent['to']}: {sent['messages']} messages, "
            f"{sent['bulk_nbytes'] / 1e6:.1f} MB of buffers in them, "
            f"{sent['shared_nbytes'] / 1e6:.1f} in shared memory"
        )


def main() -> int:
    """Run everything; 1 where results differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", type=int, default=4)
    parser.add_argument("--size", choices=["gpu", "cpu"], default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mpiexec", default="")
    parser.add_argument("--ways", default="local,ranks")
    parser.add_argument("--split", default="auto", choices=["auto", "always"])
    parser.add_argument("--only", default="", help="parts of names, with commas")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker)
        return 0
    wanted = [text.lower() for text in given.only.split(",")]
    names = [name for name in APPLICATIONS if any(text in name.lower() for text in wanted)]
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {given.rounds} runs each, ms")
    different: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sdi-nodes-") as folder:
        ways = [
            start(name, given.members, given.mpiexec, given.split, Path(folder))
            for name in given.ways.split(",")
        ]
        print("| | " + " | ".join(way.name for way in ways) + " |", flush=True)
        print("|---" * (len(ways) + 1) + "|")
        for name in names:
            different += measure(ways, name, given.size, given.rounds)
        for way in ways:
            way.connection.close()
            if way.process.wait(PATIENCE_S):
                different.append(f"{way.name} ended with {way.process.returncode}")
        for way in ways:
            report(way)
        if given.out:
            given.out.write_text(json.dumps({way.name: way.runs for way in ways}))
    print("\n".join(different) or "the same bytes each way")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
