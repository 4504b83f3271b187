"""What members of other processes cost: a step of a stencil over a slow network, and nodes that are idle.

``python bench/network.py [--transports loopback,mpi] [--ranks 3] [--seconds 10] [--rounds 1] [--no-stencil]
[--json FILE]``: one table.

*stencil*: a step of a 512 x 512 stencil over ``--ranks`` members, each on a rank of its own; also where every
message between two nodes takes 5 ms more: with loopback by SDI_TEST_TRANSPORT, with MPI in namespaces with
a network of their own between them (``tests/cluster/machines.py``).  *idle*: processor time of
the ranks of a job whose members do nothing, in percent of a core; and how long the first message takes one
way after a second of that, ``--rounds`` times, in turn.  All ranks are on this machine, and have one clock;
with MPI also as if each were on a machine of its own, where idle ones are woken by rings, and where not.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.cluster import start  # noqa: E402
from sdi.cluster.job import Job  # noqa: E402
from sdi.cluster.local import start_nodes  # noqa: E402
from sdi.cluster.members import host_id  # noqa: E402
from sdi.cluster.records import RecordKind  # noqa: E402
from sdi.cluster.transport import Transport  # noqa: E402
from sdi.locate import show_only_real_drivers, vendors  # noqa: E402

MPIEXEC = Path(sys.executable).parent / "mpiexec"
SIDE, WARM_STEPS, STEPS, BATCHES = 512, 40, 200, 5
DELAY_US = 5000
IDLE_ROUNDS = 20
STENCIL = """
kernel void relax(global const float *from, global float *to, int w, int h) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        to[y * w + x] = 0.25f * (from[y * w + x - 1] + from[y * w + x + 1]
                                 + from[(y - 1) * w + x] + from[(y + 1) * w + x]);
}
"""


def mpiexec(ranks: int) -> list[str]:
    """Starts so many ranks on this machine."""
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, check=False).stdout
    is_open = "Open MPI" in version or "prterun" in version
    return [str(MPIEXEC), *(["--oversubscribe", "--bind-to", "none"] if is_open else []), "-n", str(ranks)]


def environ(**settings: str) -> dict[str, str]:
    """For an image of a job."""
    found = {name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))}
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    image = {"OCL_ICD_VENDORS": str(vendors()), "SDI_SPLIT": "always", "SDI_BALANCE": "off"}
    return found | allowed | image | settings


def stencil() -> list[float]:
    """The application: ms of a step, of each batch of steps."""
    import numpy as np
    import pyopencl as cl

    device = next(p for p in cl.get_platforms() if p.name == "SDI").get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    data = np.random.default_rng(1).random((SIDE, SIDE), np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=data) for _ in range(2)]
    kernel = cl.Program(context, STENCIL).build().relax
    found = []
    for steps in (WARM_STEPS, *[STEPS] * BATCHES):
        began = time.perf_counter()
        for _ in range(steps):
            kernel(queue, (SIDE, SIDE), (16, 16), *buffers, np.int32(SIDE), np.int32(SIDE))
            buffers.reverse()
        queue.finish()
        found.append(1000 * (time.perf_counter() - began) / steps)
    return found[1:]


def measured_stencil(transport: str, ranks: int, delay_us: int) -> list[float]:
    """What ``stencil`` says on that many ranks."""
    from tests.cluster import machines  # not in ranks: it loads the drivers

    settings = {"SDI_NUM_GPUS": str(ranks)}
    if transport == "loopback":
        settings["SDI_TEST_NODES"] = str(ranks)
        settings |= {"SDI_TEST_TRANSPORT": f"{ROOT}/tests/cluster/late.py:{delay_us}"} if delay_us else {}
    here = [sys.executable, __file__, "--stencil"]
    under = [] if transport == "loopback" else mpiexec(ranks)
    command = [*under, sys.executable, "-m", "sdi.cli", "run", "--", *here]
    if transport != "loopback" and delay_us:
        settings |= machines.OVER_TCP
        command = [*machines.APART, sys.executable, "-m", "tests.cluster.machines", str(ranks)]
        command += [f"{delay_us}us", *here]
    ended = subprocess.run(
        command, check=False, env=environ(**settings), cwd=ROOT, capture_output=True, text=True
    )
    if ended.returncode:
        raise SystemExit(ended.stderr)
    said = re.search(r"^\[\d.*\]$", ended.stdout + ended.stderr, re.MULTILINE)
    assert said is not None, ended.stderr
    found: list[float] = json.loads(said.group())
    return found


def processor_s(pid: int) -> float:
    """Processor time of a process so far."""
    fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def idle(transport: Transport, seconds: float, is_far: bool) -> dict[str, list[float]]:
    """Percent of a core that each rank takes, rank 0 first, and us of each first message after a second."""
    job = Job(transport)
    try:
        job.meet(None if is_far else host_id())
        pids = [os.getpid(), *(facts.pid for facts in job.facts.values())]
        time.sleep(1)
        before, began = [processor_s(pid) for pid in pids], time.monotonic()
        time.sleep(seconds)
        took = time.monotonic() - began
        percent = [100 * (processor_s(pid) - b) / took for pid, b in zip(pids, before, strict=True)]
        message_us = []
        for _ in range(IDLE_ROUNDS):
            time.sleep(1)
            sent_ns = time.monotonic_ns()
            there_ns = int.from_bytes(job.nodes[1].question(RecordKind.CLOCK)(), "little")
            message_us.append((there_ns - sent_ns) / 1000)
        return {"idle_percent": percent, "first_message_us": message_us}
    finally:
        job.close()


@dataclass(frozen=True, slots=True)
class Idle:
    """``is_far``: as if each rank were on a machine of its own.  ``rings``: see MpiTransport."""

    name: str
    is_far: bool = False
    rings: bool = True


WAYS = {
    "loopback": (Idle("loopback"),),
    "mpi": (
        Idle("mpi"),
        Idle("mpi, as on other machines", is_far=True),
        Idle("mpi, as on other machines, without rings", is_far=True, rings=False),
    ),
}


def measured_idle(transport: str, ranks: int, seconds: float, way: Idle) -> dict[str, list[float]]:
    """What ``idle`` says on that many ranks."""
    if transport == "loopback":
        show_only_real_drivers()
        made, processes = start_nodes(ranks, environ())
        found = idle(made, seconds, way.is_far)
        for process in processes:
            process.wait()
        return found
    asked = ["--seconds", str(seconds), *(["--far"] if way.is_far else [])]
    asked += [] if way.rings else ["--no-rings"]
    here = [sys.executable, __file__, *asked]
    command = [*mpiexec(1), *here, "--idle", ":", "-n", str(ranks - 1), *here, "--node"]
    ended = subprocess.run(command, env=environ(), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    measured: dict[str, list[float]] = json.loads(ended.stdout)
    return measured


def _as_rank(given: argparse.Namespace) -> None:
    """What one process of ``measured_idle`` does."""
    from sdi.cluster.mpi import MpiTransport

    place = start.place(os.environ)
    assert place is not None
    show_only_real_drivers()
    transport = MpiTransport(place.size, given.rings)
    if given.node:
        start.leave(0 if start.run_node(transport) else 1)
    print(json.dumps(idle(transport, given.seconds, given.far)), flush=True)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="What members of other processes cost.")
    parser.add_argument("--transports", default="loopback,mpi")
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--no-stencil", dest="steps", action="store_false")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--stencil", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--idle", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--node", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--far", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-rings", dest="rings", action="store_false", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.stencil:
        print(json.dumps(stencil()), flush=True)
        return 0
    if given.idle or given.node:
        _as_rank(given)
        return 0
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {load:.1f}, {given.ranks} ranks")
    rows: list[dict[str, object]] = []
    for transport in given.transports.split(","):
        if given.steps:
            rows += _stencils(transport, given.ranks)
        rows += _idles(transport, given)
    if given.json is not None:
        about = {"machine": platform.machine(), "processors": os.cpu_count(), "load": load}
        given.json.write_text(json.dumps(about | {"ranks": given.ranks, "rows": rows}, indent=1) + "\n")
    return 0


def _stencils(transport: str, ranks: int) -> list[dict[str, object]]:
    """Print and return the steps of a stencil, with and without delay."""
    from tests.cluster import machines

    rows: list[dict[str, object]] = []
    for delay_us in (0, DELAY_US):
        if delay_us and transport != "loopback" and (why := machines.why_not()):
            print(f"{transport}, {delay_us / 1000:.0f} ms one way: not measured: {why}")
            continue
        steps = measured_stencil(transport, ranks, delay_us)
        rows.append({"transport": transport, "delay_us": delay_us, "stencil_step_ms": steps})
        late = f", {delay_us / 1000:.0f} ms one way" if delay_us else ""
        spread = f"{min(steps):.2f} to {max(steps):.2f}"
        print(
            f"{transport}{late}: a step of the stencil {statistics.median(steps):.2f} ms ({spread})",
            flush=True,
        )
    return rows


def _idles(transport: str, given: argparse.Namespace) -> list[dict[str, object]]:
    """Print and return what idle ranks take, of each way all rounds."""
    found: dict[Idle, list[dict[str, list[float]]]] = {way: [] for way in WAYS[transport]}
    for _ in range(given.rounds):
        for way, measured in found.items():
            measured.append(measured_idle(transport, given.ranks, given.seconds, way))
    rows: list[dict[str, object]] = []
    for way, measured in found.items():
        percents = list(zip(*(each["idle_percent"] for each in measured), strict=True))
        message = [us for each in measured for us in each["first_message_us"]]
        rows.append({"transport": transport, **asdict(way), "rounds": measured})
        percent = " ".join(f"{statistics.median(of_rank):.2f}" for of_rank in percents)
        print(f"{way.name}: idle ranks take {percent} % of a core")
        print(
            f"{way.name}: first message after a second {statistics.median(message):.0f} us one way "
            f"({min(message):.0f} to {max(message):.0f})",
            flush=True,
        )
    return rows


if __name__ == "__main__":
    sys.exit(main())
