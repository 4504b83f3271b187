"""Loops of short kernels whose members get bytes of each other, where the device is a split image.

``OCL_ICD_VENDORS=folder python bench/exchanges.py``: on the first device there is;
``SDI_SPLIT=always sdi run -n 2 --stats -- python bench/exchanges.py``: split, with how much is replayed.
Microseconds of a round, the median of several stretches, and a digest of what is computed.  Needs pyopencl.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void relax(global float *to, global const float *from, int n)
{
    int i = get_global_id(1), j = get_global_id(0);
    if (i > 0 && j > 0 && i < n - 1 && j < n - 1)
        to[i * n + j] = 0.25f * (from[i * n + j - 1] + from[i * n + j + 1] + from[(i - 1) * n + j]
                                 + from[(i + 1) * n + j]);
}

kernel void turn_over(global float *to, global const float *from, int n)
{
    int i = get_global_id(1), j = get_global_id(0);
    to[j * n + i] = from[i * n + j];
}

kernel void multiply(global const int *first, global const int *column, global const float *value,
                     global const float *x, global float *y)
{
    int i = get_global_id(0);
    float sum = 0;
    for (int k = first[i]; k < first[i + 1]; k++)
        sum += value[k] * x[column[k]];
    y[i] = sum;
}

kernel void add(global float *y, global const float *x, float a)
{
    y[get_global_id(0)] += a * x[get_global_id(0)];
}

kernel void pull(global const float4 *place, global float4 *force, int n)
{
    float4 own = place[get_global_id(0)], sum = 0;
    for (int j = 0; j < n; j++) {
        float4 away = place[j] - own;
        sum += away / (dot(away, away) + 0.1f);
    }
    force[get_global_id(0)] = sum;
}

kernel void count(global const uint *seen, global uint *bins)
{
    atomic_inc(&bins[seen[get_global_id(0)] & 255]);
}

kernel void sort_out(global const uint *seen, global uint *found, uint wanted)
{
    uint value = seen[get_global_id(0)];
    if (value % 512 == wanted)
        found[value / 512 % 1024] = value;
}

kernel void move(global float4 *place, global const float4 *force)
{
    place[get_global_id(0)] += 1e-4f * force[get_global_id(0)];
}
"""
SIDE, ROWS, ENTRIES, BODIES, SEEN = 256, 4096, 4, 512, 1 << 16
STRETCHES, ROUNDS, IN_FLIGHT = 9, 100, 20


class Loops:
    """The loops by name, and their buffers."""

    def __init__(self, queue: cl.CommandQueue) -> None:
        self.queue, random = queue, np.random.default_rng(1)
        program = cl.Program(queue.context, SOURCE).build()
        self.kernels = {kernel.function_name: kernel for kernel in program.all_kernels()}
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR

        def buffer(values: np.ndarray) -> cl.Buffer:
            return cl.Buffer(queue.context, flags, hostbuf=values)

        image = random.random((SIDE, SIDE), np.float32)
        self.images = [buffer(image), buffer(image)]
        self.first = buffer(np.arange(0, ENTRIES * ROWS + 1, ENTRIES, dtype=np.int32))
        self.column = buffer(random.integers(0, ROWS, ENTRIES * ROWS).astype(np.int32))
        self.value = buffer(random.random(ENTRIES * ROWS, np.float32) / ENTRIES)
        self.x, self.y = (buffer(random.random(ROWS, np.float32)) for _ in range(2))
        self.seen = buffer(random.integers(0, 1 << 30, SEEN, np.uint32))
        self.bins, self.found = (buffer(np.zeros(size, np.uint32)) for size in (256, 1024))
        self.place, self.force = (buffer(random.random((BODIES, 4), np.float32)) for _ in range(2))

    def _launch(self, name: str, size: tuple[int, ...], group: tuple[int, ...], *arguments: object) -> None:
        self.kernels[name](self.queue, size, group, *arguments)

    def rows(self) -> None:
        """Neighbours' rows, there and back."""
        for to, from_ in (self.images, self.images[::-1]):
            self._launch("relax", (SIDE, SIDE), (16, 16), to, from_, np.int32(SIDE))

    def tiles(self) -> None:
        """Each member gets a part of what each other one has."""
        for to, from_ in (self.images, self.images[::-1]):
            self._launch("turn_over", (SIDE, SIDE), (16, 16), to, from_, np.int32(SIDE))

    def vector(self) -> None:
        """All of a vector, which all change then."""
        arguments = self.first, self.column, self.value, self.x, self.y
        self._launch("multiply", (ROWS,), (64,), *arguments)
        self._launch("add", (ROWS,), (64,), self.x, self.y, np.float32(-1e-3))

    def bodies(self) -> None:
        """All places, which all change then."""
        self._launch("pull", (BODIES,), (64,), self.place, self.force, np.int32(BODIES))
        self._launch("move", (BODIES,), (64,), self.place, self.force)

    def bins_of_all(self) -> None:
        """A histogram, twice: all count in the same bins."""
        for _ in range(2):
            self._launch("count", (SEEN,), (64,), self.seen, self.bins)

    def results(self) -> None:
        """What is seldom found, stored where the data say."""
        for wanted in (3, 5):
            self._launch("sort_out", (SEEN,), (64,), self.seen, self.found, np.uint32(wanted))

    def digest(self) -> str:
        """Of all that was computed."""
        found = hashlib.sha256()
        for buffer in (*self.images, self.x, self.y, self.bins, self.place, self.force):
            data = np.empty(buffer.size, np.uint8)
            cl.enqueue_copy(self.queue, data, buffer)
            found.update(data)
        return found.hexdigest()[:16]


def took_us(queue: cl.CommandQueue, once: Callable[[], None]) -> float:
    """Microseconds of a round."""
    found = []
    for _ in range(STRETCHES):
        begin = time.perf_counter()
        for number in range(ROUNDS):
            once()
            if number % IN_FLIGHT == IN_FLIGHT - 1:
                queue.finish()
        found.append((time.perf_counter() - begin) * 1e6 / ROUNDS)
    return median(found[2:])


def main() -> None:
    """Print a line for each loop."""
    device = cl.get_platforms()[0].get_devices()[0]
    queue = cl.CommandQueue(cl.Context([device]))
    loops = Loops(queue)
    print(device.name)
    loops_of_all = (loops.rows, loops.tiles, loops.vector, loops.bodies, loops.bins_of_all, loops.results)
    for once in loops_of_all:
        print(f"{once.__name__:>11}: {took_us(queue, once):8.1f} us a round of 2 launches", flush=True)
    print(loops.digest())


if __name__ == "__main__":
    main()
