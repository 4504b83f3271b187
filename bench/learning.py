"""What it costs to find out how launches run best (``SDI_SPLIT=auto``): small programs, from their first
command to their last result, on an image of several CPU members against an image of one.

``python bench/learning.py [--members 2,4] [--rounds 7] [--only TEXT] [--ways never,off,on]`` runs each
program on both images in turn, in fresh processes, and prints per program how many milliseconds more the
image of several took, and what is allowed: 20 ms or 2 %, whichever is larger.  Differences of the shortest
of all runs, which others on the machine disturb least: of time passed, and of processor time of application
and service.  ``off``: nothing is known of earlier runs (``SDI_LEARNT=off``); ``on``: what earlier runs of the
same program kept is used; ``never``: nothing is learnt (``SDI_SPLIT=never``), for comparison.  CPU members
share the machine's cores, so splitting can't gain: what ``off`` takes more than ``never`` is what learning
costs.  With ``IMAGE``, a folder of vendors, the image is found there.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import auto

ROOT = Path(__file__).resolve().parent.parent
LEAST_MS, PART = 20.0, 0.02
SOURCE = (
    auto.SOURCE
    + """
__kernel void scale(__global float *x, float a) { x[get_global_id(0)] *= a; }

__kernel void shift(__global const float *x, __global float *y, int n)
{
    y[get_global_id(0)] = x[(get_global_id(0) + 1) % n];
}

__kernel void scatter(__global const int *at, __global const float *x, __global float *y)
{
    y[at[get_global_id(0)]] = x[get_global_id(0)];
}

__kernel void transpose(__global const float *x, __global float *y, int n)
{
    y[get_global_id(0) * n + get_global_id(1)] = x[get_global_id(1) * n + get_global_id(0)];
}
"""
)
ONCE = "".join(
    f"""
__kernel void once_{k}(__global const float *x, __global const int *at, __global float *y, int n)
{{
    int i = get_global_id(0);
    {("y[i] = x[i] * 1.5f;", "y[at[i]] = x[i] + 1.0f;", "y[i] += x[at[i]];", "y[i] = x[n - 1 - i];")[k % 4]}
}}
"""
    for k in range(20)
)
PROGRAMS = ("short", "scalars", "long", "stencil 64", "stencil 1024", "scatter", "transpose", "twenty")


MARK = "LEARNING_BENCH"
"""Variable that the service of a run inherits."""


def processor_ms(pids: Sequence[int]) -> float:
    """Processor time of all threads of some processes, so far."""
    threads = [task for pid in pids for task in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in threads) / 1e6


def service() -> int:
    """The process id of this process's service."""
    mark = f"{MARK}={os.environ[MARK]}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"sdi.service.main" in (folder / "cmdline").read_bytes() and mark in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                return int(folder.name)
    raise SystemExit("no service")


def run(program: str) -> tuple[float, float]:
    """Milliseconds of the program, after its build: passed, and of processor time."""
    import numpy as np
    import pyopencl as cl

    found = next(p for p in cl.get_platforms() if p.name == "SDI")
    ctx = cl.Context(found.get_devices())
    queue = cl.CommandQueue(ctx)
    title, _, number = program.partition(" ")
    built = cl.Program(ctx, ONCE if title == "twenty" else SOURCE).build()
    kernel = {k.function_name: k for k in built.all_kernels()}
    n = int(number or 0)
    size = {"short": 1 << 12, "scalars": 1 << 14, "long": 4 << 14, "stencil": n * n}.get(title, 1 << 22)
    start = np.random.default_rng(1).random(size, np.float32)
    order = np.random.default_rng(2).permutation(size).astype(np.int32)
    result = np.empty_like(start)
    side = 1 << 11
    pids = (os.getpid(), service())
    processor, began = processor_ms(pids), time.perf_counter()
    a, b = (cl.Buffer(ctx, cl.mem_flags.READ_WRITE, start.nbytes) for _ in range(2))
    at = cl.Buffer(ctx, cl.mem_flags.READ_ONLY, order.nbytes)
    for buffer in (a, b):
        cl.enqueue_copy(queue, buffer, start)
    cl.enqueue_copy(queue, at, order)
    match title:
        case "short":
            for _ in range(2000):
                kernel["axpy"](queue, (size,), (64,), a, b, np.float32(0.5))
                kernel["scale"](queue, (size,), (64,), b, np.float32(0.5))
                kernel["shift"](queue, (size,), (64,), b, a, np.int32(size))
        case "scalars":
            for k in range(1000):
                kernel["axpy"](queue, (size - 64 * (k % 100),), (64,), a, b, np.float32(k))
                queue.finish()
        case "long":
            kernel["nbody"](queue, (size // 4,), (64,), a, b, np.int32(size // 4))
        case "stencil":
            for k in range(2000 if n < 512 else 100):
                x, y = (a, b) if k % 2 == 0 else (b, a)
                kernel["jacobi"](queue, (n, n), (16, 16), x, y, np.int32(n))
        case "scatter":
            for _ in range(30):
                kernel["scatter"](queue, (size,), (64,), at, a, b)
        case "transpose":
            for k in range(30):
                x, y = (a, b) if k % 2 == 0 else (b, a)
                kernel["transpose"](queue, (side, side), (16, 16), x, y, np.int32(side))
        case "twenty":
            for k in range(20):
                x, y = (a, b) if k % 2 == 0 else (b, a)
                kernel[f"once_{k}"](queue, (size,), (64,), x, at, y, np.int32(size))
        case _:
            raise SystemExit(f"no program {program}")
    cl.enqueue_copy(queue, result, b)
    return 1e3 * (time.perf_counter() - began), processor_ms(pids) - processor


def image(members: int, program: str, way: str, cache: str) -> tuple[float, float]:
    """Milliseconds on an image of so many members: passed, and of processor time."""
    sdi = [sys.executable, "-m", "sdi.cli"]
    vendors = os.environ.get("IMAGE", "")
    if not vendors:
        asked = [*sdi, "env", "--vendors"]
        vendors = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
    environ = {
        **os.environ,
        "OCL_ICD_VENDORS": vendors,
        "SDI_NUM_GPUS": str(members),
        "SDI_SPLIT": "never" if way == "never" else "auto",
        "SDI_LEARNT": "on" if way == "on" else "off",
        MARK: uuid.uuid4().hex,
        "XDG_CACHE_HOME": cache,
        "PYOPENCL_NO_CACHE": "1",
    }
    command = [sys.executable, "-W", "ignore", __file__, "--program", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    passed, processor = done.stdout.split()[-2:]
    return float(passed), float(processor)


def main() -> int:
    """Measure and print; 1 where a program took more than is allowed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", default="2,4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", default="never,off,on")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        print(*run(options.program))
        return 0
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    print(
        f"SDI_SPLIT=auto, commit {commit.stdout.strip()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, shortest of {options.rounds} runs"
    )
    print("| program | members | learnt | one, ms (processor) | several | more | allowed, ms |")
    print("|---" * 7 + "|", flush=True)
    is_over = False
    with tempfile.TemporaryDirectory() as cache:
        for program in PROGRAMS:
            if options.only not in program:
                continue
            for members in map(int, options.members.split(",")):
                for way in options.ways.split(","):
                    for warm in (1, members):
                        image(warm, program, way, cache)
                    pairs = [
                        (image(1, program, way, cache), image(members, program, way, cache))
                        for _ in range(options.rounds)
                    ]
                    one, several = ([min(pair[k][m] for pair in pairs) for m in (0, 1)] for k in (0, 1))
                    allowed = max(LEAST_MS, PART * one[0])
                    is_over |= way != "never" and several[0] - one[0] > allowed
                    print(
                        f"| {program} | {members} | {way} | {one[0]:.1f} ({one[1]:.1f}) "
                        f"| {several[0]:.1f} ({several[1]:.1f}) "
                        f"| {several[0] - one[0]:.1f} ({several[1] - one[1]:.1f}) | {allowed:.1f} |",
                        flush=True,
                    )
    return 1 if is_over else 0


if __name__ == "__main__":
    sys.exit(main())
