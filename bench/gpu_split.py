"""Wall time of iterated kernels on the first OpenCL device: Jacobi, n-body, matrix product, Black-Scholes.

An ordinary OpenCL program: run it on a plain driver and on the image (``sdi run -n N``), and compare; what
hand-written code for several GPUs reaches is ``gpu_by_hand.py``.  Data are made on the device.  Prints one
line for each case: name, size, iterations, milliseconds per iteration (best of three), checksum of samples.
``python bench/gpu_split.py [--json FILE] [--scale N] [--only CASE ...]``
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyopencl as cl

# FIRST and MORE are for the hand-written split: the first work-item of dimension FIRST_DIM, as an argument.
SOURCE = """
float noise(uint i) { i *= 2654435761u; i ^= i >> 15; i *= 2246822519u; return (i >> 8) / 16777216.0f; }

__kernel void fill(__global float *out, uint seed MORE) {
    size_t i = get_global_id(0) + FIRST;
    out[i] = noise(i + seed);
}

__kernel void nbody(__global const float4 *in, __global float4 *out, int n MORE)
{
    int i = get_global_id(0) + FIRST;
    float4 me = in[i];
    float3 force = (float3)(0.0f, 0.0f, 0.0f);
    for (int j = 0; j < n; j++) {
        float4 other = in[j];
        float3 d = other.xyz - me.xyz;
        float r = rsqrt(d.x * d.x + d.y * d.y + d.z * d.z + 0.01f);
        force += d * (other.w * r * r * r);
    }
    out[i] = (float4)(me.x + 0.001f * force.x, me.y + 0.001f * force.y, me.z + 0.001f * force.z, me.w);
}

__kernel void jacobi(__global const float *in, __global float *out, int n MORE)
{
    int x = get_global_id(0), y = get_global_id(1) + FIRST;
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1]
                                  + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}

#define TILE 16
__kernel void matmul(__global const float *a, __global const float *b, __global float *c, int n MORE)
{
    __local float at[TILE][TILE], bt[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1), col = get_global_id(0), row = get_global_id(1) + FIRST;
    float sum = 0;
    for (int k = 0; k < n; k += TILE) {
        at[y][x] = a[row * n + k + x];
        bt[y][x] = b[(k + y) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < TILE; j++)
            sum += at[y][j] * bt[j][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + col] = sum;
}

float phi(float d)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
    float c = 0.39894228f * exp(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f
              + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
    return d > 0 ? 1.0f - c : c;
}

__kernel void black_scholes(__global const float *spot, __global const float *strike,
                            __global const float *years, __global float *call, __global float *put,
                            float rate, float volatility MORE)
{
    size_t i = get_global_id(0) + FIRST;
    float s = 5 + 25 * spot[i], x = 1 + 99 * strike[i], t = 0.25f + 9.75f * years[i];
    float root = sqrt(t);
    float d1 = (log(s / x) + (rate + 0.5f * volatility * volatility) * t) / (volatility * root);
    float c1 = phi(d1), c2 = phi(d1 - volatility * root), e = exp(-rate * t);
    call[i] = s * c1 - x * e * c2;
    put[i] = x * e * (1.0f - c2) - s * (1.0f - c1);
}
"""

Int2 = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """``floats``: of each buffer; ``swaps``: the first two buffers change places after each iteration."""

    name: str
    kernel: str
    size: int
    floats: tuple[int, ...]
    values: tuple[np.generic, ...]
    global_size: Int2
    local_size: Int2
    iterations: int
    swaps: bool


def cases(scale: int) -> list[Case]:
    """All cases; sizes of the data are divided by ``scale``."""
    made = []
    for side, iterations in ((32768, 60), (16384, 200), (4096, 1000)):
        n = side // scale
        name = f"jacobi {n}"
        made.append(
            Case(name, "jacobi", n, (n * n,) * 2, (np.int32(n),), (n, n), (64, 4), iterations, swaps=True)
        )
    for bodies, iterations in ((524288, 4), (65536, 20)):
        n = bodies // scale
        name = f"nbody {n}"
        made.append(
            Case(name, "nbody", n, (4 * n,) * 2, (np.int32(n),), (n,), (256,), iterations, swaps=True)
        )
    n = 16384 // scale
    made.append(
        Case(f"matmul {n}", "matmul", n, (n * n,) * 3, (np.int32(n),), (n, n), (16, 16), 2, swaps=False)
    )
    n = (1 << 28) // scale
    prices = (np.float32(0.02), np.float32(0.3))
    made.append(
        Case(f"black_scholes {n}", "black_scholes", n, (n,) * 5, prices, (n,), (128,), 60, swaps=False)
    )
    return made


def samples(array_nbytes: int) -> list[tuple[int, int]]:
    """(offset, bytes) of what the checksum is made of: 16 pieces, the first and the last byte among them."""
    piece = min(1 << 16, array_nbytes // 16)
    return [(k * (array_nbytes - piece) // 15 // 4 * 4, piece) for k in range(16)]


def run(context: cl.Context, queue: cl.CommandQueue, program: cl.Program, case: Case) -> tuple[float, str]:
    """(seconds per iteration, checksum of the first output)."""
    buffers = [cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * floats) for floats in case.floats]
    fill = cl.Kernel(program, "fill")
    for buffer, floats in zip(buffers, case.floats, strict=True):
        fill.set_args(buffer, np.uint32(77))
        cl.enqueue_nd_range_kernel(queue, fill, (floats,), (64,))
    kernel = cl.Kernel(program, case.kernel)
    if not case.swaps:
        kernel.set_args(*buffers, *case.values)

    def iterate(times: int) -> None:
        for _ in range(times):
            if case.swaps:
                kernel.set_args(*buffers, *case.values)
                buffers.reverse()
            cl.enqueue_nd_range_kernel(queue, kernel, case.global_size, case.local_size)
        queue.finish()

    best = best_of(iterate, case.iterations)
    result = buffers[0] if case.swaps else buffers[-1]
    digest = hashlib.sha256()
    for offset, nbytes in samples(result.size):
        piece = np.empty(nbytes, np.uint8)
        cl.enqueue_copy(queue, piece, result, src_offset=offset)
        digest.update(piece.tobytes())
    for buffer in buffers:
        buffer.release()
    return best, digest.hexdigest()[:12]


def best_of(iterate: Callable[[int], None], iterations: int) -> float:
    """Seconds per iteration, best of three; ``iterate(n)`` does n of them and waits."""
    iterate(2)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        iterate(iterations)
        times.append((time.perf_counter() - start) / iterations)
    return min(times)


def asked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of the command line, those of ``measure`` among them."""
    parser.add_argument("--json", type=Path)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[""], metavar="CASE")
    return parser.parse_args()


def measure(options: argparse.Namespace, one: Callable[[Case], tuple[float, str]]) -> None:
    """Print a line for each case that is asked for, with what ``one`` answers for it as ``run`` does."""
    found: dict[str, dict[str, float | str]] = {}
    for case in cases(options.scale):
        if not case.name.startswith(tuple(options.only)):
            continue
        seconds, digest = one(case)
        found[case.name] = {"ms": seconds * 1e3, "sum": digest}
        print(
            f"{case.name:24} {case.iterations:5} iterations {seconds * 1e3:9.4f} ms each  {digest}",
            flush=True,
        )
        if options.json is not None:
            options.json.write_text(json.dumps(found) + "\n")


def main() -> None:
    """Measure the cases that are asked for."""
    options = asked(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build(["-DFIRST=0", "-DMORE="])
    print(device.name, flush=True)
    measure(options, lambda case: run(context, queue, program, case))


if __name__ == "__main__":
    main()
