"""How an application starts: its first device query, and builds of programs of many kernels, cold and warm.

``python bench/start.py [--kernels 1,20,200] [--members 1,2] [--rounds 3] [--launches | --source FILE]``

Each round is made of fresh processes, on the plain driver and on images in turn.  **cold**: no cache has
anything, neither sdi's nor the driver's; **warm**: the same source once more; **binary**: the application's
own ``CL_PROGRAM_BINARIES`` of the cold start.  Seconds, medians: ``query`` is the first call that names
devices, ``build`` all from ``clCreateProgramWith...`` until every kernel exists, with
``--launches`` ``first``: the first launches of all kernels.  Imports of the application are not counted.
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
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
LIMIT_S = 600.0


def _elementwise(name: str, k: int) -> str:
    real = ("float", "double", "int")[k % 3]
    terms = " + ".join(f"({real}){1 + (k + j) % 7} * in{j}[i]" for j in range(1 + k % 4))
    inputs = ", ".join(f"__global const {real} *in{j}" for j in range(1 + k % 4))
    return f"""
__kernel void {name}({inputs}, __global {real} *out, int n)
{{
    int i = get_global_id(0);
    if (i >= n)
        return;
    {real} value = {terms};
    out[i] = value > ({real}){k % 5} ? value : ({real})({k % 11} - value);
}}
"""


def _stencil(name: str, k: int) -> str:
    radius = 1 + k % 4
    taps = "\n".join(
        f"    sum += {1.0 / (j * j + 1):.4f}f * (from[at - {j}] + from[at + {j}]"
        f" + from[at - {j} * n] + from[at + {j} * n]);"
        for j in range(1, radius + 1)
    )
    return f"""
__kernel void {name}(__global const float *restrict from, __global float *restrict to, int n)
{{
    int x = get_global_id(0), y = get_global_id(1), at = y * n + x;
    if (x < {radius} || y < {radius} || x >= n - {radius} || y >= n - {radius})
        return;
    float sum = {k % 9}.5f * from[at];
{taps}
    to[at] = sum;
}}
"""


def _product(name: str, k: int) -> str:
    tile, each = (8, 16)[k % 2], 1 + k % 3
    sums = "\n".join(f"            sum{j} += mine[ly][t] * theirs[t][lx] * {j + 1}.0f;" for j in range(each))
    ends = "".join(f" + sum{j}" for j in range(each))
    starts = ", ".join(f"sum{j} = 0.0f" for j in range(each))
    return f"""
__kernel void {name}(__global const float *a, __global const float *b, __global float *c, int n)
{{
    __local float mine[{tile}][{tile}], theirs[{tile}][{tile}];
    int x = get_global_id(0), lx = get_local_id(0) % {tile};
    int y = get_global_id(1), ly = get_local_id(1) % {tile};
    float {starts};
    for (int at = 0; at < n; at += {tile}) {{
        mine[ly][lx] = a[y * n + at + lx];
        theirs[ly][lx] = b[(at + ly) * n + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int t = 0; t < {tile}; t++) {{
{sums}
        }}
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    c[y * n + x] = 0.0f{ends};
}}
"""


def _reduction(name: str, k: int) -> str:
    what = ("a + b", "max(a, b)", "min(a, b)", "a + b * b")[k % 4]
    return f"""
float join_{name}(float a, float b)
{{
    return {what};
}}

__kernel void {name}(__global const float *values, __global float *sums, __local float *shared, int n)
{{
    int i = get_local_id(0);
    float found = {k % 3}.0f;
    for (int at = get_global_id(0); at < n; at += get_global_size(0))
        found = join_{name}(found, values[at]);
    shared[i] = found;
    for (int width = get_local_size(0) / 2; width > 0; width >>= 1) {{
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i < width)
            shared[i] = join_{name}(shared[i], shared[i + width]);
    }}
    if (i == 0)
        sums[get_group_id(0)] = shared[0];
}}
"""


def _butterfly(name: str, k: int) -> str:
    radix = (2, 4, 8)[k % 3]
    loads = "\n".join(f"    float2 v{j} = in[at + {j} * quarter];" for j in range(radix))
    turns = "\n".join(
        f"    v{j} = turned(v{j}, sin({j}.0f * angle), cos({j}.0f * angle));" for j in range(1, radix)
    )
    levels, half = [], radix // 2
    while half:
        for j in range(radix):
            if not j & half:
                levels.append(f"    t = v{j}; v{j} = t + v{j + half}; v{j + half} = t - v{j + half};")
        half //= 2
    stores = "\n".join(f"    out[to + {j} * stride] = v{j};" for j in range(radix))
    return f"""
__kernel void {name}(__global const float2 *in, __global float2 *out, int n, int stride)
{{
    int i = get_global_id(0), quarter = n / {radix};
    if (i >= quarter)
        return;
    int at = i, k = i % stride, to = (i / stride) * stride * {radix} + k;
    float angle = -{6.2831853 / radix:.6f}f * (float)k / (float)stride;
    float2 t;
{loads}
{turns}
{chr(10).join(levels)}
{stores}
}}
"""


def _rows(name: str, k: int) -> str:
    real = ("float", "double")[k % 2]
    return f"""
__kernel void {name}(__global const int *starts, __global const int *columns, __global const {real} *values,
                     __global const {real} *x, __global {real} *y, int rows)
{{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    {real} sum = 0;
    for (int j = starts[row]; j < starts[row + 1]; j += {1 + k % 2})
        sum += values[j] * x[columns[j]];
    y[row] = ({real}){1 + k % 6} * sum + y[row];
}}
"""


def _bodies(name: str, k: int) -> str:
    return f"""
__kernel void {name}(__global const float4 *from, __global float4 *to, __global float4 *speed, int n)
{{
    int i = get_global_id(0);
    if (i >= n)
        return;
    float4 own = from[i], pull = (float4)(0.0f);
    for (int j = 0; j < n; j++) {{
        float4 other = from[j], d = other - own;
        float r2 = d.x * d.x + d.y * d.y + d.z * d.z + {1 + k % 9}e-4f;
        float r = rsqrt(r2);
        pull += d * (other.w * r * r * r);
        {"pull.w += native_exp(-r2);" if k % 2 else "pull.w = fmax(pull.w, r);"}
    }}
    speed[i] += pull * {1 + k % 5}e-3f;
    to[i] = own + speed[i] * {1 + k % 5}e-3f;
}}
"""


def _counts(name: str, k: int) -> str:
    bins = (64, 128, 256)[k % 3]
    return f"""
__kernel void {name}(__global const uint *keys, __global uint *counts, int n)
{{
    __local uint mine[{bins}];
    for (int b = get_local_id(0); b < {bins}; b += get_local_size(0))
        mine[b] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&mine[(keys[i] >> {k % 20}) & {bins - 1}]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int b = get_local_id(0); b < {bins}; b += get_local_size(0))
        atomic_add(&counts[b], mine[b]);
}}
"""


def _hash(name: str, k: int) -> str:
    rounds = "\n".join(
        f"    a = rotate(a + (b ^ c ^ d) + word[{(k + j) % 4}]"
        f" + 0x{(k * 2654435761 + j * 40503) % 2**32:08x}u, {3 + (k + 5 * j) % 23}u) + b;\n"
        f"    d = c; c = b; b = a;"
        for j in range(8 + k % 24)
    )
    return f"""
__kernel void {name}(__global const uint *words, __global uint *digests, int n)
{{
    int i = get_global_id(0);
    if (i >= n)
        return;
    uint word[4], a = 0x67452301u, b = 0xefcdab89u, c = 0x98badcfeu, d = 0x10325476u;
    for (int j = 0; j < 4; j++)
        word[j] = words[4 * i + j];
{rounds}
    digests[4 * i] = a;
    digests[4 * i + 1] = b;
    digests[4 * i + 2] = c;
    digests[4 * i + 3] = d;
}}
"""


def _flow(name: str, k: int) -> str:
    moves = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    loads = "\n".join(
        f"    f[{j}] = from[({j} * n + (y + {n_y + k % 2} + n) % n) * n + (x + {n_x} + n) % n];"
        for j, (n_x, n_y) in enumerate(moves)
    )
    return f"""
__kernel void {name}(__global const float *from, __global float *to, int n)
{{
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= n || y >= n)
        return;
    float f[9], rho = 0.0f;
{loads}
    for (int j = 0; j < 9; j++)
        rho += f[j];
    float ux = (f[1] + f[5] + f[7] - f[2] - f[6] - f[8]) / rho;
    float uy = (f[3] + f[5] + f[6] - f[4] - f[7] - f[8]) / rho;
    for (int j = 0; j < 9; j++) {{
        float along = 3.0f * (ux * (float)(j % 3 - 1) + uy * (float)(j / 3 - 1));
        float rest = rho * (1.0f + along + 0.5f * along * along - 1.5f * (ux * ux + uy * uy)) / 9.0f;
        to[(j * n + y) * n + x] = f[j] + (rest - f[j]) / 0.{6 + k % 4}f;
    }}
}}
"""


FAMILIES: tuple[Callable[[str, int], str], ...] = (
    _elementwise,
    _stencil,
    _product,
    _reduction,
    _butterfly,
    _rows,
    _bodies,
    _counts,
    _hash,
    _flow,
)


def program(num_kernels: int) -> str:
    """A program of that many kernels, no two the same."""
    made = ["#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", _HELPER]
    for k in range(num_kernels):
        family = FAMILIES[k % len(FAMILIES)]
        made.append(family(f"{family.__name__.strip('_')}_{k}", k // len(FAMILIES) * 7 + k))
    return "".join(made)


_HELPER = """
float2 turned(float2 v, float s, float c)
{
    return (float2)(v.x * c - v.y * s, v.x * s + v.y * c);
}
"""


def child(source: Path, binary: Path, is_binary: bool, launches: bool) -> None:
    """Start once on the first platform; the seconds of each step on stdout."""
    import pyopencl as cl

    def now() -> float:
        return time.perf_counter()

    begun = now()
    devices = cl.get_platforms()[0].get_devices()[:1]
    query_s = now() - begun
    context = cl.Context(devices)
    begun = now()
    if is_binary:
        built = cl.Program(context, devices, [binary.read_bytes()]).build()
    else:
        built = cl.Program(context, source.read_text()).build(cache_dir=False)
    kernels = built.all_kernels()
    build_s = now() - begun
    if not is_binary:
        binary.write_bytes(built.get_info(cl.program_info.BINARIES)[0])
    found = {"query": query_s, "build": build_s}
    if launches:
        found["first"] = _launched(context, source.read_text(), kernels)
    print(json.dumps(found))


_KERNEL = re.compile(r"__kernel void (\w+)\(([^)]*)\)")


def _launched(context, text: str, kernels) -> float:  # type: ignore[no-untyped-def]
    """Seconds of one small launch of each kernel."""
    import numpy as np
    import pyopencl as cl

    queue = cl.CommandQueue(context)
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 1 << 16) for _ in range(8)]
    for buffer in buffers:
        cl.enqueue_fill_buffer(queue, buffer, b"\0", 0, 1 << 16)
    queue.finish()
    arguments = {found[1]: found[2].split(",") for found in _KERNEL.finditer(text)}
    begun = time.perf_counter()
    for kernel in kernels:
        name = kernel.function_name
        for j, each in enumerate(arguments[name]):
            if "__global" in each:
                kernel.set_arg(j, buffers[j])
            elif "__local" in each:
                kernel.set_arg(j, cl.LocalMemory(4 * 64))
            else:
                kernel.set_arg(j, np.int32(16))
        is_flat = name.split("_")[0] not in {"stencil", "product", "flow"}
        cl.enqueue_nd_range_kernel(queue, kernel, *(((64,), (16,)) if is_flat else ((16, 16), (8, 8))))
    queue.finish()
    return time.perf_counter() - begun


def _settings(members: int, caches: Path) -> dict[str, str]:
    from sdi.locate import vendors

    found = {name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))}
    found |= {
        "XDG_CACHE_HOME": str(caches / "sdi"),
        "POCL_CACHE_DIR": str(caches / "pocl"),
        "CUDA_CACHE_PATH": str(caches / "cuda"),
        "PYOPENCL_NO_CACHE": "1",
        "PYOPENCL_NO_WARN": "1",
        "PYTHONWARNINGS": "ignore",
    }
    (caches / "pocl").mkdir(parents=True, exist_ok=True)
    if members:
        found |= {"OCL_ICD_VENDORS": os.environ.get("IMAGE", str(vendors())), "SDI_NUM_GPUS": str(members)}
    elif "VENDORS" in os.environ:
        found["OCL_ICD_VENDORS"] = os.environ["VENDORS"]
    return found


def _start(source: Path, members: int, caches: Path, flags: list[str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", str(source), str(caches / "binary")]
    done = subprocess.run(
        [*command, *flags],
        env=_settings(members, caches),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kernels", default="1,20,200")
    parser.add_argument("--members", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", type=Path, help="a program instead of generated ones")
    parser.add_argument("--launches", action="store_true", help="also launch every kernel once")
    parser.add_argument("--child", nargs=2, type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--binary", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        source, binary = given.child
        child(source, binary, given.binary, given.launches)
        return 0
    ways = [0, *map(int, given.members.split(","))]
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f};", end=" ")
    print(f"seconds, medians of {given.rounds}")
    titles = ["plain", *(f"{n} members" if n > 1 else "1 member" for n in ways[1:])]
    print("| program | start | step | " + " | ".join(titles) + " |")
    print("|---" * (len(ways) + 3) + "|")
    with tempfile.TemporaryDirectory(prefix="sdi-start-") as folder:
        sources = {}
        for num in () if given.source else map(int, given.kernels.split(",")):
            sources[f"{num} kernels"] = Path(folder, f"{num}.cl")
            sources[f"{num} kernels"].write_text(program(num))
        if given.source:
            sources[given.source.name] = given.source
        for title, source in sources.items():
            taken: dict[tuple[str, str, int], list[float]] = {}
            for _ in range(given.rounds):
                with tempfile.TemporaryDirectory(dir=folder) as caches:
                    for start in ("cold", "warm", "binary"):
                        flags = ["--binary"] * (start == "binary") + ["--launches"] * given.launches
                        for members in ways:
                            own = Path(caches, str(members))
                            for step, seconds in _start(source, members, own, flags).items():
                                taken.setdefault((start, step, members), []).append(seconds)
            for start, step in dict.fromkeys((start, step) for start, step, _ in taken):
                cells = [f"{statistics.median(taken[start, step, members]):.3f}" for members in ways]
                print(f"| {title} | {start} | {step} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
