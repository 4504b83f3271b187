"""What remembering and moving strided bytes costs: a buffer written in other ways in turn, and layouts.

``python -m bench.turns [--members 2,4,8] [--launches 1000] [--moved]``

By rows, by columns, a field of records, by planes: each launch reads and writes all of a volume of one buffer
with another split than the one before.  Per number of members: the largest number of entries that the
buffer's directory had, and the service's processor time per launch in the first and last fifth.

``--moved``: for each layout of ``tests/sampling/patterns.py``, whose buffers the members have by equal parts:
bytes moved beside those that were stale, which are what a member reads and lacks, and what it may leave as it
was.  Members do nothing (``bench/launches.py``).
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.launches import Rig, arguments  # noqa: E402
from sdi.commands import Launch  # noqa: E402
from sdi.launch.kernel import LaunchPlan  # noqa: E402
from sdi.ndrange import NDRange  # noqa: E402
from sdi.regions import EMPTY, RegionSet  # noqa: E402
from sdi.sampling import AccessRange, Precision  # noqa: E402
from sdi.vmem.directory import member_memory  # noqa: E402
from tests.sampling.patterns import PATTERNS, Pattern  # noqa: E402

SIDE = 128
TURNS = f"""
#define N {SIDE}
__kernel void columns(__global int *a)
{{
    size_t x = get_global_id(0);
    for (int z = 0; z < N; z++)
        for (int y = 0; y < N; y++)
            a[(z * N + y) * N + x] += 1;
}}

__kernel void fields(__global int *a)
{{
    size_t f = get_global_id(0);
    for (int i = 0; i < N * N * N / 16; i++)
        a[i * 16 + f] += 1;
}}

__kernel void planes(__global int *a)
{{
    size_t y = get_global_id(0);
    for (int z = 0; z < N; z++)
        for (int x = 0; x < N; x++)
            a[(z * N + y) * N + x] += 1;
}}

__kernel void rows(__global int *a)
{{
    size_t z = get_global_id(0);
    for (int i = 0; i < N * N; i++)
        a[z * N * N + i] += 1;
}}
"""
ITEMS = {"rows": SIDE, "columns": SIDE, "fields": 16, "planes": SIDE}
KERNELS = sorted(ITEMS)
EQUAL = "__kernel void equal(__global char *a) { a[get_global_id(0)] = 1; }\n"


def launch(index: int, ndrange: NDRange, *values: int | bytes) -> Launch:
    """A launch of kernel number ``index``."""
    given = arguments(*values)
    record = bytes([index]) + given
    sizes = ndrange.offset, ndrange.global_size, ndrange.local_size
    return Launch(1, index, ndrange.work_dim, *sizes, given, len(values), record=record)


def take_turns(members: int, launches: int) -> tuple[int, float, float]:
    """Most entries of the directory; us per launch in the first and in the last fifth."""
    rig = Rig(members, TURNS)
    try:
        rig.memory.create(1, 4 * SIDE**3, True)
        directory = rig.memory.buffer(1).directory
        entries, times = 0, []
        for number in range(launches):
            kernel = list(ITEMS)[number % len(ITEMS)]
            ndrange = NDRange(1, (0, 0, 0), (ITEMS[kernel], 1, 1), (1, 1, 1))
            command = launch(KERNELS.index(kernel), ndrange, 1)
            start = time.thread_time_ns()
            rig.enqueue(command)
            rig.settle(0)
            times.append((time.thread_time_ns() - start) / 1000)
            entries = max(entries, len(directory._holders))
        assert not rig.failed
        fifth = launches // 5
        return entries, statistics.median(times[:fifth]), statistics.median(times[-fifth:])
    finally:
        rig.close()


def moved_and_stale(pattern: Pattern, members: int) -> tuple[int, int, int]:
    """Bytes of one launch that were moved, that were stale, and that are merged."""
    plan = None
    moved = stale = 0
    for _ in range(2):  # the first time to know how it is cut
        rig = Rig(members, EQUAL + pattern.source)
        try:
            for number, nbytes in enumerate(pattern.buffers, 1):
                rig.memory.create(number, nbytes, True)
                items = NDRange(1, (0, 0, 0), (nbytes, 1, 1), (64, 1, 1))
                rig.enqueue(launch(0, items, number))
                rig.settle(0)
            kernel = rig.launcher._builds[1].kernels[1]
            if plan is not None:
                stale = sum(_stale(rig, plan, pattern))
            before = _moved(rig)
            scalars = [struct.pack("<i", value) for value in pattern.scalars]
            buffers = range(1, len(pattern.buffers) + 1)
            rig.enqueue(launch(1, pattern.ndrange, *buffers, *scalars))
            rig.settle(0)
            assert not rig.failed
            moved = _moved(rig) - before
            (plan,) = kernel._launch_plans.values.values()
        finally:
            rig.close()
    assert plan is not None
    return moved, stale, sum(each.over.nbytes for used in plan.plan.buffers for each in used.merged)


def _moved(rig: Rig) -> int:
    moved = rig.memory.accounting.moved
    return moved.host_to_member + moved.member_to_host + moved.member_to_member


def _stale(rig: Rig, plan: LaunchPlan, pattern: Pattern) -> list[int]:
    """Of each member what it lacks of what it must have."""
    kernel = rig.launcher._builds[1].kernels[1]
    bound = kernel.access.bind(pattern.ndrange, pattern.values, pattern.buffer_nbytes)
    return [
        rig.memory.buffer(each.argument + 1).directory.stale_nbytes(member_memory(member), needed(each))
        for member, box in enumerate(plan.plan.boxes)
        for each in bound.over(box)
    ]


def needed(access: AccessRange) -> RegionSet:
    """What has to be current before."""
    left = EMPTY if access.precision is Precision.EXACT else access.writes
    return access.reads.union(left)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="2,4,8")
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--moved", action="store_true")
    asked = parser.parse_args()
    members = [int(text) for text in asked.members.split(",")]
    if asked.moved:
        print(f"| pattern, {members[-1]} members | moved MiB | stale MiB | moved by stale | merged MiB |")
        print("|---|---|---|---|---|")
        for pattern in PATTERNS:
            moved, stale, merged = moved_and_stale(pattern, members[-1])
            ratio = f"{moved / stale:.2f}" if stale else "-"
            mib = [f"{each / (1 << 20):.2f}" for each in (moved, stale, merged)]
            print(f"| {pattern.name} | {mib[0]} | {mib[1]} | {ratio} | {mib[2]} |", flush=True)
        return 0
    print(f"{asked.launches} launches in turn by {', '.join(ITEMS)}")
    print("| members | most entries | allowed: 8 N^2 | us a launch, first fifth | last fifth |")
    print("|---|---|---|---|---|")
    for count in members:
        entries, first, last = take_turns(count, asked.launches)
        print(f"| {count} | {entries} | {8 * count**2} | {first:.0f} | {last:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
