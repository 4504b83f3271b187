"""A D3Q19 lattice-Boltzmann gas in place, an array for each direction, in halves: the time of a step.

``python -m bench.in_place [--side N]... [--steps N] [--platform TEXT]``

As solvers for one GPU are written: cells have one number (``get_global_id(0)``), neighbours come from it by
division, populations are stored as halves, and the application waits for each step.  On several members
each step brings five planes of each neighbour, ten in all, which are far apart.  The time of a step is the
median over ten runs of ``steps``; behind it the most, and a checksum of all bytes, which are the same on
any image and on the plain driver.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import time

import numpy as np
import pyopencl as cl

from bench.applications.lattice_boltzmann import WAYS, WEIGHTS

RELAXATION = 1.2
GROUP = 64


def _each(line: str) -> str:
    """``line`` for every direction: I and O are the numbers of it and of its opposite, X, Y, Z its steps."""
    found = []
    for way, step in enumerate(WAYS):
        opposite = WAYS.index((-step[0], -step[1], -step[2]))
        words = {"I": way, "O": opposite, "X": step[0], "Y": step[1], "Z": step[2], "W": f"{WEIGHTS[way]}f"}
        found.append("".join(str(words.get(letter, letter)) for letter in line))
    return "\n".join(f"    {each};" for each in found)


SOURCE = f"""
#define cells ((ulong)side * side * side)
ulong at(uint n, int x, int y, int z, uint side)
{{
    uint i = n % side, j = n / side % side, k = n / (side * side);
    i = (i + side + x) % side;
    j = (j + side + y) % side;
    k = (k + side + z) % side;
    return i + (ulong)(j + k * side) * side;
}}

void collide(float *f, float relaxation)
{{
    float d = 0.0f, x = 0.0f, y = 0.0f, z = 0.0f;
{_each("d += f[I], x += X * f[I], y += Y * f[I], z += Z * f[I]")}
    x /= d, y /= d, z /= d;
    float rest = 1.0f - 1.5f * (x * x + y * y + z * z), a;
{_each("a = 3.0f * (X * x + Y * y + Z * z), f[I] += relaxation * (W * d * (rest + a + 0.5f * a * a) - f[I])")}
}}

kernel void begin_gas(global half *to, uint side)
{{
    uint n = get_global_id(0);
    float density = 1.0f + 0.01f * (n % 17);
{_each("vstore_half(density * W, I * cells + n, to)")}
}}

kernel void step_gas(global half *gas, uint side, uint odd, float relaxation)
{{
    uint n = get_global_id(0);
    float f[19];
    if (odd) {{
{_each("f[I] = vload_half(O * cells + at(n, -(X), -(Y), -(Z), side), gas)")}
        collide(f, relaxation);
{_each("vstore_half(f[I], I * cells + at(n, X, Y, Z, side), gas)")}
    }} else {{
{_each("f[I] = vload_half(I * cells + n, gas)")}
        collide(f, relaxation);
{_each("vstore_half(f[I], O * cells + n, gas)")}
    }}
}}
"""


def main() -> None:
    """Print a line for each side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--side", type=int, action="append", help="cells in each dimension (256)")
    parser.add_argument("--steps", type=int, default=40, help="of each of ten runs (40)")
    parser.add_argument("--platform", default="", help="a word of its name")
    options = parser.parse_args()
    platform = next(each for each in cl.get_platforms() if options.platform in each.name)
    context = cl.Context(platform.get_devices()[:1])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    for side in options.side or [256]:
        gas = cl.Buffer(context, cl.mem_flags.READ_WRITE, 2 * 19 * side**3)
        step, count, relaxation = cl.Kernel(program, "step_gas"), 0, np.float32(RELAXATION)
        cl.Kernel(program, "begin_gas")(queue, (side**3,), (GROUP,), gas, np.uint32(side))
        runs = []
        for _ in range(12):
            start = time.perf_counter()
            for _ in range(options.steps):
                odd = np.uint32(count % 2)
                step(queue, (side**3,), (GROUP,), gas, np.uint32(side), odd, relaxation)
                queue.finish()
                count += 1
            runs.append((time.perf_counter() - start) / options.steps * 1e3)
        digest, piece = hashlib.sha256(), np.empty(2 * side**3, np.uint8)
        for way in range(19):
            cl.enqueue_copy(queue, piece, gas, src_offset=way * piece.nbytes)
            digest.update(piece)
        name = f"{platform.name}, {side}^3"
        print(
            f"{name}: first {runs[0]:.3f} ms, then {statistics.median(runs[2:]):.3f},"
            f" at most {max(runs[2:]):.3f}; {digest.hexdigest()[:16]}"
        )
        gas.release()


if __name__ == "__main__":
    main()
