"""Programs whose data is twice what members have: bytes through rank 0 with nodes' own memory, and without.

``python -m bench.node_memory [--ranks 3,5] [--rounds 3] [--delay-us 0,1000] [--out FILE]``

Each rank has one member and counts as a machine of its own.  The program has 8 buffers of 4 MiB, and steps
``b[k] = 3 b[k] + b[k - 1]`` through all of them, so that each step needs what was given up to make room for
the one before; it writes all buffers once and reads them once.  With and without (SDI_NODE_MEMORY=0) in turn.
Bytes are those of the transports; milliseconds of a step in the median of all rounds.  ``--delay-us``: what a
message between nodes takes more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.network import environ  # noqa: E402
from sdi.sizes import size  # noqa: E402

BUFFERS, NBYTES, TURNS = 8, 4 << 20, 6
SOURCE = """
kernel void advance(global const int *a, global int *b) {
    int i = get_global_id(0);
    b[i] = 3 * b[i] + a[i];
}
"""


def program() -> float:
    """The application: ms of a step but for those of the first turn.  Asserts that the bytes are right."""
    import numpy as np
    import pyopencl as cl

    device = next(p for p in cl.get_platforms() if p.name == "SDI").get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    data = [np.arange(NBYTES // 4, dtype=np.int32) + number for number in range(BUFFERS)]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(context, flags, hostbuf=each) for each in data]
    kernel = cl.Program(context, SOURCE).build().advance
    began = 0.0
    for turn in range(TURNS):
        for number in range(BUFFERS):
            kernel(queue, (NBYTES // 4,), (64,), buffers[number - 1], buffers[number])
            data[number] = 3 * data[number] + data[number - 1]
        queue.finish()
        began = began if turn else time.perf_counter()
    took = time.perf_counter() - began
    found = np.empty_like(data[0])
    for buffer, wanted in zip(buffers, data, strict=True):
        cl.enqueue_copy(queue, found, buffer)
        assert np.array_equal(found, wanted)
    return 1000 * took / (TURNS - 1) / BUFFERS


@dataclass(frozen=True, slots=True)
class Measured:
    """``sent``, ``got``: bytes of buffers from and to rank 0; ``between``: of other ranks."""

    step_ms: float
    sent: int
    got: int
    between: int
    spilled: int
    filled: int


def measure(ranks: int, delay_us: int, has_memory: bool) -> Measured:
    """One run."""
    settings = {"SDI_TEST_NODES": str(ranks), "SDI_NUM_GPUS": str(ranks), "SDI_TEST_FAR": "1"}
    settings["SDI_MEMBER_MEMORY"] = str(BUFFERS * NBYTES // ranks // 2)
    settings |= {} if has_memory else {"SDI_NODE_MEMORY": "0"}
    settings |= {"SDI_TEST_TRANSPORT": f"{ROOT}/tests/cluster/late.py:{delay_us}"} if delay_us else {}
    with tempfile.TemporaryDirectory() as folder:
        settings["SDI_STATS"] = f"{folder}/stats"
        command = [sys.executable, "-m", "sdi.cli", "run", "--", sys.executable, __file__, "--program"]
        ended = subprocess.run(command, env=environ(**settings), cwd=ROOT, stdout=subprocess.PIPE, check=True)
        stats = json.loads(Path(folder, "stats").read_text())
    links = {(each["from"], each["to"]): each["bulk_nbytes"] for each in stats["network"]}
    memory = stats["memory"]
    return Measured(
        json.loads(ended.stdout),
        sum(nbytes for (source, _), nbytes in links.items() if source == 0),
        sum(nbytes for (_, target), nbytes in links.items() if target == 0),
        sum(nbytes for ends, nbytes in links.items() if 0 not in ends),
        memory["node_spilled_nbytes"],
        memory["node_filled_nbytes"],
    )


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="What nodes' own memory saves.")
    parser.add_argument("--ranks", default="3,5")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delay-us", default="0,1000")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program:
        print(json.dumps(program()), flush=True)
        return 0
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {load:.1f}; {given.rounds} rounds")
    print(f"{'ranks':>5} {'delay':>8}  {'own memory':10} {'from rank 0':>11} {'to rank 0':>10} {'step':>9}")
    rows: list[dict[str, object]] = []
    for ranks in map(int, given.ranks.split(",")):
        wanted = BUFFERS * NBYTES * (ranks - 1) // ranks
        print(f"{ranks:5} what the program writes and reads: {size(wanted)} each")
        for delay_us in map(int, given.delay_us.split(",")):
            runs: dict[bool, list[Measured]] = {True: [], False: []}
            for _ in range(given.rounds):
                for has_memory, found in runs.items():
                    found.append(measure(ranks, delay_us, has_memory))
            for has_memory, found in runs.items():
                step_ms, last = statistics.median(each.step_ms for each in found), found[-1]
                print(
                    f"{ranks:5} {delay_us:5} us  {'yes' if has_memory else 'no':10} {size(last.sent):>11} "
                    f"{size(last.got):>10} {step_ms:6.2f} ms",
                    flush=True,
                )
                told = {"ranks": ranks, "delay_us": delay_us, "own_memory": has_memory}
                rows.append(told | {"runs": [asdict(each) for each in found]})
    if given.out is not None:
        about = {"machine": platform.machine(), "processors": os.cpu_count(), "load": load}
        given.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
