"""What a launch costs where members hold columns, by how many rows these have: one table.

``python -m bench.residency [--members 1,2,4] [--rounds N] [--launches N]``

Each work-item adds to one column of a matrix, so that every member holds a part of each row, as one region.
Two matrices, of so many rows and of one more, take turns on the same image: a round is some launches on one
and the wait for them, then as many on the other.  The ratio is the median over the rounds of the time with
one row more by that without; times grow as the rows do.
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

import numpy as np
import pyopencl as cl

from sdi.locate import vendors

SOURCE = """
kernel void add(global int *matrix, int rows)
{
    size_t x = get_global_id(0), width = get_global_size(0);
    for (int y = 0; y < rows; y++)
        matrix[y * width + x] += 1;
}
"""
COLUMNS, GROUP = 256, 64


def measure(rows: list[int], launches: int, rounds: int) -> dict[int, list[float]]:
    """Milliseconds per launch by rows, a number for each round; checks what is left."""
    context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
    queue = cl.CommandQueue(context)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "add")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    matrices = {
        count: cl.Buffer(context, flags, hostbuf=np.zeros((count, COLUMNS), np.int32)) for count in rows
    }
    found: dict[int, list[float]] = {count: [] for count in rows}
    for number in range(rounds + 1):  # in the first it is learnt what is to be known
        for count, matrix in matrices.items():
            begin = time.perf_counter()
            for _ in range(launches):
                kernel(queue, (COLUMNS,), (GROUP,), matrix, np.int32(count))
            queue.finish()
            if number:
                found[count].append(1e3 * (time.perf_counter() - begin) / launches)
    for count, matrix in matrices.items():
        left = np.empty((count, COLUMNS), np.int32)
        cl.enqueue_copy(queue, left, matrix)
        assert (left == launches * (rounds + 1)).all()
    return found


def main() -> int:
    """Measure with each number of members, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--members", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--launches", type=int, default=20)
    parser.add_argument("--rows", default="64,256,999,9999")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    counts = [int(text) for text in given.rows.split(",")]
    if given.serve:
        print(json.dumps([measure([count, count + 1], given.launches, given.rounds) for count in counts]))
        return 0
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} CPUs, load {os.getloadavg()[0]:.1f}"
    rounds = f"median of {given.rounds} rounds of {given.launches} launches"
    print(f"{machine}; commit {commit}; {rounds}; ms a launch\n")
    print("| members | rows | ms | one row more | ratio |\n|---|---|---|---|---|")
    for members in given.members.split(","):
        environ = {
            name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))
        }
        environ |= {"OCL_ICD_VENDORS": str(vendors()), "SDI_NUM_GPUS": members, "SDI_SPLIT": "always"}
        options = ["--serve", "--rounds", str(given.rounds), "--launches", str(given.launches)]
        command = [sys.executable, "-m", "bench.residency", *options, "--rows", given.rows]
        ran = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
        for count, found in zip(counts, json.loads(ran.stdout), strict=True):
            few, more = found[str(count)], found[str(count + 1)]
            ratio = statistics.median(b / a for a, b in zip(few, more, strict=True))
            cells = f"{statistics.median(few):.2f} | {statistics.median(more):.2f} | {ratio:.1f}"
            print(f"| {members} | {count} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
