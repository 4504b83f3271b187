"""What ``SDI_SPLIT=auto`` makes of programs, against an image of one member: no program may lose.

``python bench/auto.py [--members 3] [--rounds 5]`` runs each program on an image of one CPU member and on one
of several, in turn, in fresh processes, and prints one table.  A ratio above 1 says that the image of several
was faster; members share this machine's cores, so long kernels can't gain either.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = """
__kernel void empty(int k) {}

__kernel void axpy(__global const float *x, __global float *y, float a)
{
    y[get_global_id(0)] += a * x[get_global_id(0)];
}

__kernel void jacobi(__global const float *from, __global float *to, int n)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        to[y * n + x] = 0.25f * (from[y * n + x - 1] + from[y * n + x + 1]
                                 + from[(y - 1) * n + x] + from[(y + 1) * n + x]);
}

__kernel void lu_column(__global float *a, int n, int k)
{
    int y = k + 1 + get_global_id(0);
    if (y < n)
        a[y * n + k] /= a[k * n + k];
}

__kernel void lu_update(__global float *a, int n, int k)
{
    int x = k + 1 + get_global_id(0), y = k + 1 + get_global_id(1);
    if (x < n && y < n)
        a[y * n + x] -= a[y * n + k] * a[k * n + x];
}

__kernel void nbody(__global const float4 *from, __global float4 *to, int n)
{
    float4 p = from[get_global_id(0)], f = (float4)(0.0f);
    for (int j = 0; j < n; j++) {
        float4 d = from[j] - p;
        f += d * rsqrt(dot(d, d) + 0.01f);
    }
    to[get_global_id(0)] = p + 1e-4f * f;
}
"""
PROGRAMS = ("empty", "axpy", "jacobi 64", "jacobi 512", "lu 256", "nbody 4096")


def run(program: str) -> float:
    """Seconds of the program in this process, after its build and two launches of each kernel."""
    import numpy as np
    import pyopencl as cl

    found = next(p for p in cl.get_platforms() if p.name == "SDI")
    ctx = cl.Context(found.get_devices())
    queue = cl.CommandQueue(ctx)
    built = cl.Program(ctx, SOURCE).build()
    kernel = {k.function_name: k for k in built.all_kernels()}
    title, _, number = program.partition(" ")
    n = int(number or 0)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    size = {"axpy": 1 << 12, "jacobi": n * n, "lu": n * n, "nbody": 4 * n}.get(title, 1)
    start = np.ones(size, np.float32)
    if title == "lu":
        start = (np.eye(n, dtype=np.float32) * n + 1).reshape(-1)
    a, b = (cl.Buffer(ctx, flags, hostbuf=start) for _ in range(2))

    def launches(first: int, count: int) -> None:
        for k in range(first, first + count):
            x, y = (a, b) if k % 2 == 0 else (b, a)
            match title:
                case "empty":
                    kernel["empty"](queue, (64,), (16,), np.int32(k))
                case "axpy":
                    kernel["axpy"](queue, (size,), (64,), a, b, np.float32(k))
                case "jacobi":
                    kernel["jacobi"](queue, (n, n), (16, 16), x, y, np.int32(n))
                case "lu":
                    kernel["lu_column"](queue, (n,), (64,), a, np.int32(n), np.int32(k % n))
                    kernel["lu_update"](queue, (n, n), (16, 16), a, np.int32(n), np.int32(k % n))
                case _:
                    kernel["nbody"](queue, (n,), (64,), x, y, np.int32(n))
        queue.finish()

    count = {"empty": 8000, "axpy": 6000, "lu": 3 * n}.get(
        title, 4000 if n == 64 else 600 if title == "jacobi" else 40
    )
    launches(0, 2)
    began = time.perf_counter()
    launches(2, count)
    return time.perf_counter() - began


def image(members: int, program: str) -> float:
    """Seconds on an image of so many members."""
    sdi = [sys.executable, "-m", "sdi.cli"]
    vendors = subprocess.run([*sdi, "env", "--vendors"], capture_output=True, text=True, check=True, cwd=ROOT)
    environ = {
        **os.environ,
        "OCL_ICD_VENDORS": vendors.stdout.strip(),
        "SDI_NUM_GPUS": str(members),
        "SDI_SPLIT": "auto",
        "PYOPENCL_NO_CACHE": "1",
    }
    command = [sys.executable, "-W", "ignore", __file__, "--program", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return float(done.stdout.split()[-1])


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        print(run(options.program))
        return 0
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    print(
        f"SDI_SPLIT=auto, commit {commit.stdout.strip()}, {os.cpu_count()} cores of {platform.machine()}, "
        f"median of {options.rounds} pairs"
    )
    print(f"\n{'':14}{'one, s':>9}{f'{options.members}, s':>9}{'ratio':>9}   of pairs")
    for program in PROGRAMS:
        pairs = [(image(1, program), image(options.members, program)) for _ in range(options.rounds)]
        ratios = sorted(a / b for a, b in pairs)
        one, several = (statistics.median(pair[k] for pair in pairs) for k in (0, 1))
        print(
            f"{program:14}{one:9.2f}{several:9.2f}{statistics.median(ratios):9.2f}"
            f"   {ratios[0]:.2f}-{ratios[-1]:.2f}",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
