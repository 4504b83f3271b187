"""What the access analysis costs: per kernel at a build, and per launch with new scalars.

``python bench/analysis.py [--quick]`` prints one table; with ``--patterns`` what it answers for layouts in
``tests/sampling/patterns.py``, with ``--waits`` how long other threads wait for it meanwhile.  Times are
medians of the thread's processor time.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import platform
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from sdi.clc.preprocess.macros import MacroError  # noqa: E402
from sdi.ndrange import GroupBox, NDRange  # noqa: E402
from sdi.sampling import AccessRange, KernelAccess, Precision, analyse  # noqa: E402
from sdi.sampling.parametric import Parametric  # noqa: E402
from sdi.service.main import COLLECTIONS  # noqa: E402
from tests.sampling.patterns import PATTERNS, Pattern  # noqa: E402
from tests.sampling.sources import kernels_of, tree_of  # noqa: E402

MEMBERS = 4

LU = """
__kernel void lu(__global float *a, int n, int k)
{
    int x = k + 1 + get_global_id(0), y = k + 1 + get_global_id(1);
    if (x < n && y < n)
        a[y * n + x] -= a[y * n + k] * a[k * n + x];
}
"""
STENCIL = """
__kernel void stencil(__global const float *a, __global float *b, int w, int h, int step)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        b[y * w + x] = step + a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x];
}
"""
NBODY = """
__kernel void nbody(__global const float4 *from, __global float4 *to, __global float4 *speed, int n, float dt)
{
    int i = get_global_id(0);
    float4 p = from[i], f = (float4)(0.0f);
    for (int j = 0; j < n; j++) {
        float4 d = from[j] - p;
        f += d * rsqrt(dot(d, d) + 0.01f);
    }
    speed[i] += f * dt;
    to[i] = p + speed[i] * dt;
}
"""
MATMUL = """
#define TILE 16
__kernel void matmul(__global const float *a, __global const float *b, __global float *c, int m, int n, int k)
{
    __local float at[TILE][TILE], bt[TILE][TILE];
    int lx = get_local_id(0), ly = get_local_id(1), x = get_global_id(0), y = get_global_id(1);
    float sum = 0.0f;
    for (int t = 0; t < k; t += TILE) {
        at[ly][lx] = y < m && t + lx < k ? a[y * k + t + lx] : 0.0f;
        bt[ly][lx] = x < n && t + ly < k ? b[(t + ly) * n + x] : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; ++i)
            sum += at[ly][i] * bt[i][lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (x < n && y < m)
        c[y * n + x] = sum;
}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A kernel and its launches: ``values(step)`` are the arguments of launch number ``step``."""

    title: str
    source: str
    ndrange: NDRange
    buffers: tuple[int | None, ...]
    values: Callable[[int], tuple[bytes | None, ...]]


def i32(*values: int | None) -> tuple[bytes | None, ...]:
    """Ints as argument bytes; None for a buffer."""
    return tuple(None if v is None else struct.pack("<i", v) for v in values)


SIDE = 4096
SQUARE = 4 * SIDE * SIDE
GRID = NDRange(2, (0, 0, 0), (SIDE, SIDE, 1), (16, 16, 1))
CASES = (
    Case(
        "matmul 4096^2, k",
        MATMUL,
        GRID,
        (SQUARE,) * 3,
        lambda s: i32(*(None,) * 3, SIDE, SIDE, SIDE - s % 64),
    ),
    Case("stencil 4096^2, step", STENCIL, GRID, (SQUARE,) * 2, lambda s: i32(*(None,) * 2, SIDE, SIDE, s)),
    Case(
        "n-body 262144, n",
        NBODY,
        NDRange(1, (0, 0, 0), (1 << 18, 1, 1), (256, 1, 1)),
        (1 << 22,) * 3,
        lambda s: i32(*(None,) * 3, (1 << 18) - s % 64, 0),
    ),
    Case("LU 4096^2, k", LU, GRID, (SQUARE,), lambda s: i32(None, SIDE, s)),
)


def slabs(ndrange: NDRange) -> list[GroupBox]:
    """One slab per member along the last dimension."""
    dim = ndrange.work_dim - 1
    found = []
    for k in range(MEMBERS):
        start, stop = [0, 0, 0], list(ndrange.num_groups)
        start[dim], stop[dim] = stop[dim] * k // MEMBERS, stop[dim] * (k + 1) // MEMBERS
        found.append(GroupBox((start[0], start[1], start[2]), (stop[0], stop[1], stop[2])))
    return found


def median_us(action: Callable[[int], object], repetitions: int) -> float:
    """Median processor time of ``action(step)``."""
    times = []
    for step in range(repetitions):
        start = time.thread_time_ns()
        action(step)
        times.append(time.thread_time_ns() - start)
    return statistics.median(times) / 1e3


def extraction_ms() -> list[float]:
    """Milliseconds per kernel of tests/programs and tests/kernels."""
    sources: list[str] = [p.read_text() for p in sorted((ROOT / "tests" / "kernels").glob("*.cl"))]
    for path in sorted((ROOT / "tests" / "programs").glob("*.py")):
        if not path.name.startswith("_") and path.stem != "runner":
            source = getattr(importlib.import_module(f"tests.programs.{path.stem}"), "SOURCE", None)
            sources += [source] if isinstance(source, str) else []
    found: list[float] = []
    for source in sources:
        try:
            tree = tree_of(source, "-DTILE=8")
        except (ValueError, MacroError):
            continue  # it needs the program's own options
        for function in kernels_of(tree).values():
            found.append(median_us(lambda _, t=tree, f=function: analyse(t, f), 3) / 1e3)  # type: ignore[misc]
    return found


def per_launch(analysis: KernelAccess, case: Case, boxes: Sequence[GroupBox], exact: bool, n: int) -> float:
    """Microseconds to bind new scalars and ask for every box."""

    def action(step: int) -> None:
        bound = analysis.bind(case.ndrange, case.values(step), buffers)
        for box in boxes:
            _ = bound.over(box) if exact else bound.bounds(box)

    buffers = (*case.buffers, *(None,) * (len(case.values(0)) - len(case.buffers)))
    return median_us(action, n)


def described(pattern: Pattern, repetitions: int) -> str:
    """One line: how precise the answer for what the first written argument gets is, and what it costs.

    Bytes that two of the boxes may both write are those that the members would have to merge.
    """
    tree = tree_of(pattern.source)
    analysis = analyse(tree, kernels_of(tree)["k"])
    boxes = pattern.slabs(MEMBERS)

    def answers(_: int) -> list[AccessRange]:
        bound = analysis.bind(pattern.ndrange, pattern.values, pattern.buffer_nbytes)
        found = [bound.over(box) for box in boxes]
        number = next(each.argument for each in found[0] if each.writes)
        return [each for one in found for each in one if each.argument == number]

    found = answers(0)
    precision = max((each.precision for each in found), key=list(Precision).index)
    both = sum(a.writes.intersection(b.writes).nbytes for a, b in combinations(found, 2))
    ranges = sum(len(each.writes.regions) for each in found)
    ms = median_us(answers, repetitions) / 1e3
    return f"| {pattern.name} | {precision.name} | {ranges} | {both / (1 << 20):.0f} | {ms:.2f} |"


def longest_wait_ms(pattern: Pattern, repetitions: int, kept: list[object]) -> float:
    """The longest that a thread which does nothing else waited for the interpreter's lock.

    In processor time of the thread that analyses, so that other processes don't count where a processor is
    idle.  ``kept`` gets the answers, as the service keeps them.
    """
    tree = tree_of(pattern.source)
    analysis, boxes = analyse(tree, kernels_of(tree)["k"]), pattern.slabs(MEMBERS)
    clock, waits, ended = time.pthread_getcpuclockid(threading.get_ident()), [0.0], threading.Event()

    def tick() -> None:
        last = time.clock_gettime(clock)
        while not ended.is_set():
            time.sleep(0)
            now = time.clock_gettime(clock)
            waits[0], last = max(waits[0], now - last), now

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(repetitions):
        bound = analysis.bind(pattern.ndrange, pattern.values, pattern.buffer_nbytes)
        kept.append([bound.over(box) for box in boxes])
    ended.set()
    thread.join()
    return waits[0] * 1e3


def print_waits(repetitions: int) -> None:
    """With the service's settings, a line per pattern."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    sys.setswitchinterval(1e-5)
    kept: list[object] = []
    for pattern in PATTERNS:
        print(f"{pattern.name:32} {longest_wait_ms(pattern, repetitions, kept):6.1f} ms")


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--patterns", action="store_true", help="answers for layouts of what is written")
    parser.add_argument("--waits", action="store_true", help="the longest that another thread waits")
    asked = parser.parse_args()
    if asked.waits:
        print_waits(5)
        return 0
    repetitions = 20 if asked.quick else 200
    if asked.patterns:
        print(f"| pattern | writes | ranges of {MEMBERS} members | MiB that two may write | ms |")
        print("|---|---|---|---|---|")
        for pattern in PATTERNS:
            print(described(pattern, 3))
        return 0
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    print(
        f"access analysis, commit {commit}, {platform.processor() or platform.machine()}, "
        f"Python {platform.python_version()}, {repetitions} repetitions"
    )
    times = extraction_ms()
    rank = sorted(times)
    print(
        f"\nextraction of {len(times)} kernels: median {statistics.median(times):.2f} ms, "
        f"95 % below {rank[int(0.95 * len(rank))]:.2f} ms, longest {rank[-1]:.2f} ms"
    )
    print(
        f"\n{'bind and ' + str(MEMBERS) + ' boxes, µs':28}"
        "  repeated: bounds  exact  first: bounds    exact   ranges"
    )
    for case in CASES:
        tree = tree_of(case.source)
        analysis = analyse(tree, next(iter(kernels_of(tree).values())))
        boxes = slabs(case.ndrange)
        buffers = (*case.buffers, *(None,) * (len(case.values(0)) - len(case.buffers)))
        bound = analysis.bind(case.ndrange, case.values(1), buffers)
        ranges = sum(len(r.writes.runs()) for box in boxes for r in bound.over(box))
        few = per_launch(analysis, case, boxes, False, repetitions)
        many = per_launch(analysis, case, boxes, True, repetitions)
        maps = Parametric(analysis)
        per_launch(maps, case, boxes, False, 60)  # until it answers by straight code
        again = per_launch(maps, case, boxes, False, repetitions)
        per_launch(maps, case, boxes, True, 60)
        exact = per_launch(maps, case, boxes, True, repetitions)
        print(f"  {case.title:26}  {again:16.0f} {exact:6.0f}  {few:13.0f}  {many:7.0f}   {ranges}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
