"""What copies of narrow columns cost beside the plain driver: one table of ratios.

``python -m bench.columns [--rows N] [--ways 1,2,4] [--rounds N] [--only TEXT]... [--most RATIO]``

The plain driver and an image for each number of members run at the same time, each in a process of its own,
and take turns: every round of a case is made once by each.  A case makes its data, a kernel that is split
over all members writes them there ("members") or the application does ("host"), and then the time of one
copy is taken until it is complete.  A ratio is the median over the rounds of the image's time by that of the
plain driver in the same round; behind it that of the quickest rounds, which other programs on the machine
disturb least.  With ``--most`` it ends with 1 where both are above that.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from operator import truediv

import numpy as np
import pyopencl as cl

from sdi.locate import vendors

SOURCE = """
kernel void write(global int *at, int round)
{
    size_t i = get_global_id(0);
    at[i] = (int)i * 7 + round;
}
"""
UNIT = 4


@dataclass(frozen=True, slots=True)
class Case:
    """A copy of ``rows`` x ``slices`` runs of ``nbytes``.

    ``pitch``: of the rows in a matrix.  ``way``: "gather" (to packed bytes), "scatter" (from packed bytes),
    "between" (of two matrices), "within" (one), "parts" (of two matrices, as sub-buffers), "read" or "write".
    ``where`` the data are before.
    """

    way: str
    where: str
    pitch: int
    rows: int
    slices: int = 1
    nbytes: int = UNIT

    def __str__(self) -> str:
        count = f"{self.rows} x {self.slices}" if self.slices > 1 else str(self.rows)
        return f"{self.way} | {self.where} | {self.pitch} | {count} x {self.nbytes}"


def cases(rows: int) -> list[Case]:
    """All that are measured."""
    ways = ("gather", "scatter", "between", "within", "parts", "read", "write")
    found = [Case(way, where, 64, rows) for where in ("host", "members") for way in ways]
    few = ("gather", "scatter", "within")
    found += [Case(way, "members", pitch, rows) for pitch in (16, 256) for way in few]
    found += [Case(way, "members", 1024, rows) for way in ("gather", "within", "read")]
    found += [Case(way, "members", 64, rows // 500, 500) for way in ways]
    return found


class Device:
    """The only device that is seen, and one case's buffers."""

    def __init__(self) -> None:
        device = cl.get_platforms()[0].get_devices()[0]
        self.name = f"{device.platform.name.strip()}, {device.name.strip()}"
        self.context = cl.Context([device])
        self.queue = cl.CommandQueue(self.context)
        self.kernel = cl.Kernel(cl.Program(self.context, SOURCE).build(), "write")
        self._case: Case | None = None
        self._round = 0

    def measure(self, case: Case) -> float:
        """Seconds of one copy; the first of a case makes its buffers."""
        if case != self._case:
            self._prepare(case)
        self._round += 1
        for buffer in {id(each): each for each in (self.source, self.target)}.values():
            if case.where == "members":
                self.kernel(self.queue, (buffer.size // UNIT,), (64,), buffer, np.int32(self._round))
            else:
                cl.enqueue_copy(self.queue, buffer, self.content[: buffer.size])
        self.queue.finish()
        begin = time.perf_counter()
        self.copy()
        self.queue.finish()
        return time.perf_counter() - begin

    def _prepare(self, case: Case) -> None:
        self._case = case
        count = case.rows * case.slices
        matrix = max(count * case.pitch, 1 << 16)
        packed = max(-(-count * case.nbytes // 256) * 256, 1 << 16)
        self.content = np.arange(matrix // UNIT, dtype=np.int32).view(np.uint8)
        packed_pitches, pitches = (case.nbytes, 0), (case.pitch, case.pitch * case.rows)
        region = (case.nbytes, case.rows, case.slices)

        def buffer(nbytes: int) -> cl.Buffer:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)

        self.source = self.target = buffer(packed if case.way == "scatter" else matrix)
        if case.way in ("gather", "scatter", "between", "parts"):
            self.target = buffer(packed if case.way == "gather" else matrix)
        source, target = self.source, self.target
        # PoCL 3.1 itself crashes when it is to copy rows of sub-buffers.
        if case.way == "parts" and self.name.startswith("SDI"):
            source, target = (one.get_sub_region(0, matrix) for one in (source, target))
        second = (2 * UNIT if case.way in ("between", "within", "parts") else 0, 0, 0)
        if case.way in ("read", "write"):
            host = np.zeros(count * case.nbytes, np.uint8)
            ends = (host, source) if case.way == "read" else (source, host)
            self.copy: Callable[[], object] = lambda: cl.enqueue_copy(
                self.queue,
                *ends,
                buffer_origin=(UNIT, 0, 0),
                host_origin=(0, 0, 0),
                region=region,
                buffer_pitches=pitches,
                host_pitches=packed_pitches,
                is_blocking=True,
            )
            return
        self.copy = lambda: cl.enqueue_copy(
            self.queue,
            target,
            source,
            src_origin=(0 if case.way == "scatter" else UNIT, 0, 0),
            dst_origin=second,
            region=region,
            src_pitches=packed_pitches if case.way == "scatter" else pitches,
            dst_pitches=packed_pitches if case.way == "gather" else pitches,
        )


def serve() -> int:
    """Measure the cases that come in, one a line, and say how long each took."""
    device = Device()
    print(json.dumps(device.name), flush=True)
    for line in sys.stdin:
        print(json.dumps(device.measure(Case(**json.loads(line)))), flush=True)
    return 0


class Way:
    """A process that measures on the plain driver (no ``members``) or on an image."""

    def __init__(self, members: str) -> None:
        environ = {
            name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))
        }
        if members:
            environ |= {"OCL_ICD_VENDORS": str(vendors()), "SDI_NUM_GPUS": members, "SDI_SPLIT": "always"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.columns", "--serve"],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.name: str = self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the measuring process ended with {self._process.wait()}")
        found: str = json.loads(line)
        return found

    def measure(self, case: Case) -> float:
        """Seconds."""
        assert self._process.stdin is not None
        print(json.dumps(asdict(case)), file=self._process.stdin, flush=True)
        return float(self._answer())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main() -> int:
    """Run all cases, a row of the table for each as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--ways", default="1,2,4", help="numbers of members")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--most", type=float)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve()
    plain, images = Way(""), {members: Way(members) for members in given.ways.split(",")}
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}"
    print(f"{plain.name}; {machine}; commit {commit}; median of {given.rounds} rounds\n")
    print("| copy | data | pitch | runs | plain ms | " + " | ".join(f"N={each}" for each in images) + " |")
    print("|---" * (5 + len(images)) + "|")
    worst = 0.0
    for case in cases(given.rows):
        if given.only and not any(text in str(case) for text in given.only):
            continue
        times: list[float] = []
        taken: dict[str, list[float]] = {members: [] for members in images}
        for number in range(given.rounds + 2):  # the first two make buffers and learn
            own = plain.measure(case)
            measured = {members: way.measure(case) for members, way in images.items()}
            if number >= 2:
                times.append(own)
                for members, seconds in measured.items():
                    taken[members].append(seconds)
        typical = [statistics.median(map(truediv, each, times)) for each in taken.values()]
        quickest = [min(each) / min(times) for each in taken.values()]
        worst = max(worst, *map(min, typical, quickest))
        cells = " | ".join(f"{a:.2f} ({b:.2f})" for a, b in zip(typical, quickest, strict=True))
        print(f"| {case} | {1e3 * statistics.median(times):.2f} | {cells} |", flush=True)
    for way in (plain, *images.values()):
        way.close()
    print(f"\nworst ratio: {worst:.2f}")
    return 1 if given.most is not None and worst > given.most else 0


if __name__ == "__main__":
    raise SystemExit(main())
