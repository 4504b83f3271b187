"""Programs of papers/2 to 4 as commands: what an application would enqueue, and what its kernels take."""

from __future__ import annotations

import re
import struct
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.applications import black_scholes, matrix_mul, nbody
from sdi.commands import Command, Launch, Migrate
from sdi.ndrange import Int3
from sdi.wire.arguments import ArgumentKind

PAPERS = Path(__file__).parent / "papers.toml"
_CONJUGATE_GRADIENT = """
__kernel void multiply(__global const int *columns, __global const float *values, __global const float *p,
                       __global float *q, int rows, int each)
{
    int row = get_global_id(0);
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int k = 0; k < each; k++)
        sum += values[(size_t)row * each + k] * p[columns[(size_t)row * each + k]];
    q[row] = sum;
}

__kernel void dot(__global const float *a, __global const float *b, __global float *parts,
                  __local float *sums, int n)
{
    int i = get_global_id(0), item = get_local_id(0);
    sums[item] = i < n ? a[i] * b[i] : 0.0f;
    for (int s = get_local_size(0) / 2; s > 0; s >>= 1) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < s)
            sums[item] += sums[item + s];
    }
    if (item == 0)
        parts[get_group_id(0)] = sums[0];
}

__kernel void axpy(__global float *y, __global const float *x, float a, float b, int n)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = b * y[i] + a * x[i];
}
"""
_STENCIL = """
__kernel void relax(__global const float *from, __global float *to, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && x < w - 1 && y > 0 && y < h - 1)
        to[y * w + x] = 0.25f * (from[y * w + x - 1] + from[y * w + x + 1]
                                 + from[(y - 1) * w + x] + from[(y + 1) * w + x]);
}
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A command.  ``blocks``: the application goes on when it is complete, ``host_ns`` later."""

    command: Command
    blocks: bool = False
    host_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Program:
    """``nbytes``: of buffers 1, 2, ..., which the application has filled.  ``group_ns``: by kernel, what a
    work-group takes on a member that has the device for itself.
    """

    name: str
    source: str
    nbytes: tuple[int, ...]
    steps: tuple[Step, ...]
    group_ns: tuple[float, ...]

    def kernel_names(self) -> list[str]:
        """In the order of their numbers."""
        return re.findall(r"__kernel void (\w+)", self.source)

    def kernels_ns(self) -> float:
        """What all launches take one after the other on one member."""
        launches = [step.command for step in self.steps if isinstance(step.command, Launch)]
        return sum(self.group_ns[each.kernel_index] * num_groups(each) for each in launches)

    def scaled(self, kernels_ns: float) -> Program:
        """The same, of which all launches take so long on one member."""
        factor = kernels_ns / self.kernels_ns()
        group_ns = tuple(each * factor for each in self.group_ns)
        return Program(self.name, self.source, self.nbytes, self.steps, group_ns)


def num_groups(launch: Launch) -> int:
    """Work-groups of a launch."""
    assert launch.local_size is not None
    found = 1
    for size, local in zip(launch.global_size, launch.local_size, strict=True):
        found *= size // local
    return found


@dataclass(frozen=True, slots=True)
class _Local:
    nbytes: int


def _arguments(values: Sequence[int | bytes | _Local]) -> bytes:
    """Entries of the wire: buffers' numbers as ints, scalars as bytes."""
    found = bytearray()
    for value in values:
        match value:
            case bytes():
                kind, payload = ArgumentKind.VALUE, value
            case _Local():
                kind, payload = ArgumentKind.LOCAL, struct.pack("<Q", value.nbytes)
            case int():
                kind, payload = ArgumentKind.GLOBAL, struct.pack("<QQQ", value, 0, 0)
        found += struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)
    return bytes(found)


def _launch(
    kernel: int, size: tuple[int, ...], local: tuple[int, ...], *values: int | bytes | _Local
) -> Step:
    def padded(sizes: tuple[int, ...]) -> Int3:
        x, y, z = (*sizes, 1, 1)[:3]
        return x, y, z

    given = _arguments(values)
    record = bytes([kernel]) + given
    shape = padded(size), padded(local)
    return Step(Launch(1, kernel, len(size), (0, 0, 0), *shape, given, len(values), record=record))


def _bring(buffer: int, nbytes: int, host_ns: float = 0.0) -> Step:
    """A blocking read."""
    return Step(Migrate(((buffer, 0, nbytes),)), True, host_ns)


def _i32(value: int) -> bytes:
    return struct.pack("<i", value)


def _f32(value: float) -> bytes:
    return struct.pack("<f", value)


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def matrix(name: str, side: int) -> Program:
    """A product of square matrices; its result is read."""
    nbytes, tile = 4 * side * side, matrix_mul.TILE
    steps = (_launch(0, (side, side), (tile, tile), 3, 1, 2, _i32(side)), _bring(3, nbytes))
    return Program(name, matrix_mul.SOURCE, (nbytes,) * 3, steps, (1.0,))


def bodies(name: str, bodies: int, steps: int, local: int = 256) -> Program:
    """All pairs, in steps of time; positions and speeds are read."""
    nbytes, items = 16 * bodies, _up(bodies, local)
    scalars = _i32(bodies), _f32(nbody.TIME_STEP), _f32(nbody.SOFTENING)
    found, here, there = [], 1, 2
    for _ in range(steps):
        found.append(_launch(0, (items,), (local,), here, there, 3, *scalars, _Local(16 * local)))
        here, there = there, here
    read = _bring(here, nbytes), _bring(3, nbytes)
    return Program(name, nbody.SOURCE, (nbytes,) * 3, (*found, *read), (1.0,))


def options(name: str, options: int) -> Program:
    """Prices of options; they are read."""
    scalars = _i32(options), _i32(100), _f32(black_scholes.SPREAD)
    steps = (_launch(0, (_up(options, 256),), (256,), 1, 2, 3, 4, 5, 6, 7, *scalars), _bring(7, 4 * options))
    return Program(name, black_scholes.SOURCE, (4 * options,) * 7, steps, (1.0,))


def conjugate_gradient(name: str, rows: int, numbers_per_row: int, iterations: int) -> Program:
    """Iterations of conjugate gradients with a sparse matrix of equally long rows; the host adds up what the
    groups leave of two inner products in each.  Kernels take what the bytes that they touch do.
    """
    local = 256
    items, vector, matrix_nbytes = _up(rows, local), 4 * rows, 4 * rows * numbers_per_row
    parts_nbytes, n = 4 * (items // local), _i32(rows)
    columns, values, p, q, r, x, parts = range(1, 8)

    def dot(a: int, b: int) -> list[Step]:
        inner = _launch(1, (items,), (local,), a, b, parts, _Local(4 * local), n)
        return [inner, _bring(parts, parts_nbytes, 0.5 * parts_nbytes)]

    def update(y: int, by: int, a: float, b: float) -> Step:
        return _launch(2, (items,), (local,), y, by, _f32(a), _f32(b), n)

    steps = dot(r, r)
    for number in range(iterations):
        new = 1.0 + number  # the host has computed it just now
        steps.append(_launch(0, (items,), (local,), columns, values, p, q, n, _i32(numbers_per_row)))
        steps += dot(p, q)
        steps += [update(x, p, new, 1.0), update(r, q, -new, 1.0), *dot(r, r), update(p, r, 1.0, new)]
    steps.append(_bring(x, vector))
    nbytes = (matrix_nbytes, matrix_nbytes, vector, vector, vector, vector, parts_nbytes)
    touched = 12.0 * numbers_per_row + 8.0, 8.0, 12.0
    return Program(name, _CONJUGATE_GRADIENT, nbytes, tuple(steps), tuple(local * each for each in touched))


def stencil(name: str, side: int, steps: int) -> Program:
    """Jacobi steps on a square grid, and a read of one row."""
    launches = [
        _launch(0, (side, side), (16, 16), 1 + s % 2, 2 - s % 2, _i32(side), _i32(side)) for s in range(steps)
    ]
    last = 2 - (steps - 1) % 2
    return Program(name, _STENCIL, (4 * side * side,) * 2, (*launches, _bring(last, 4 * side)), (1.0,))


_MAKERS: dict[str, tuple[Callable[..., Program], tuple[str, ...]]] = {
    "matrix": (matrix, ("side",)),
    "nbody": (bodies, ("bodies", "steps")),
    "black_scholes": (options, ("options",)),
    "conjugate_gradient": (conjugate_gradient, ("rows", "numbers_per_row", "iterations")),
}


@dataclass(frozen=True, slots=True)
class PublishedProgram:
    """One of papers.toml.  ``published_s``: on 1, 2, 4, ... devices; empty where the paper has no numbers.

    ``shorter``, ``longer``: of a program that iterates, the same with fewer iterations, and how many times as
    many more than these there are in all as ``program`` has.
    """

    program: Program
    members_per_node: int
    published_s: tuple[float, ...]
    shorter: Program | None = None
    longer: float = 1.0

    def whole(self, took: float, shorter: float) -> float:
        """What all iterations take, by what ``program`` and ``shorter`` do."""
        return shorter + self.longer * (took - shorter)


def papers() -> dict[str, Any]:
    """What papers.toml has."""
    return tomllib.loads(PAPERS.read_text(encoding="utf-8"))


def published() -> list[PublishedProgram]:
    """The programs of papers.toml; their kernels take ``one_node_s`` on one device."""
    found = []
    for each in papers()["program"]:
        make, names = _MAKERS[each["application"]]
        kernels_ns = 1e9 * each["one_node_s"]
        program = make(each["name"], *[each[name] for name in names]).scaled(kernels_ns)
        rest: tuple[Program | None, float] = None, 1.0
        if "all_iterations" in each:
            few = each["iterations"] // 2
            made = make(each["name"], *[each[name] for name in names[:-1]], few)
            factor = kernels_ns / make(each["name"], *[each[name] for name in names]).kernels_ns()
            more = each["iterations"] - few
            rest = made.scaled(factor * made.kernels_ns()), (each["all_iterations"] - few) / more
        times = tuple(each.get("published_s", ()))
        found.append(PublishedProgram(program, each.get("members_per_node", 1), times, *rest))
    return found


CHECKED: dict[str, Program] = {
    each.name: each
    for each in (
        matrix("matrix product 2048", 2048).scaled(4e9),
        bodies("n-body 262144, 4 steps", 262144, 4).scaled(4e9),
        options("Black-Scholes 4194304", 1 << 22).scaled(4e9),
        conjugate_gradient("conjugate gradient 131072 x 32, 10 iterations", 1 << 17, 32, 10).scaled(4e9),
        stencil("Jacobi 2048 x 2048, 100 steps", 2048, 100).scaled(4e9),
    )
}
"""Programs that predictions are compared with measurements of, by name; 4 s of kernels on one member."""
