"""Loops of random commands, each repeated some times: ``repeated_program FIRST COUNT`` prints what is read.

Launches that are cut and whole ones, copies between members, small writes, fills and reads: what nodes keep
as parts of recordings, mixed with what they are told one by one.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Callable

import numpy as np
import pyopencl as cl

SOURCE = """
kernel void stencil(global const uint *a, global uint *b, uint n)
{
    uint i = get_global_id(0);
    b[i] = 3 * a[i] + (i ? a[i - 1] : 7) + (i + 1 < n ? a[i + 1] : 9);
}
kernel void mirror(global const uint *a, global uint *b, uint n)
{
    uint i = get_global_id(0);
    b[i] ^= a[n - 1 - i] * 5;
}
kernel void shift(global uint *a, uint by) { a[get_global_id(0)] += by; }
kernel void whole(global const uint *a, global uint *b, uint n)
{
    uint i = get_global_id(0), sum = 0;
    for (uint k = 0; k < n; k += 97)
        sum = sum * 31 + a[k];
    b[i] += sum;
}
kernel void single(global uint *a, uint n) { for (uint i = 0; i < n; i += 33) a[i] = a[i] * 3 + 1; }
kernel void gather(global const uint *a, global uint *b, uint n)
{
    uint i = get_global_id(0);
    atomic_add(&b[a[i] % n], i);
}
"""
ITEMS, GROUP = 1 << 11, 32
Step = Callable[[int], None]


class Program:
    """One loop after the other on three buffers."""

    def __init__(self, context: cl.Context, seed: int) -> None:
        self.random = random.Random(seed)
        self.queue = cl.CommandQueue(context)
        built = cl.Program(context, SOURCE).build()
        self.kernels = {kernel.function_name: kernel for kernel in built.all_kernels()}
        start = np.random.default_rng(seed).integers(0, 1 << 32, (3, ITEMS), dtype=np.uint32)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        self.buffers = [cl.Buffer(context, flags, hostbuf=row) for row in start]
        self.digest = hashlib.sha256()

    def step(self) -> Step:
        """A command; the same with each call, but for a scalar or bytes that are written."""
        two = self.random.sample(self.buffers, 2)
        by, at = self.random.randrange(1 << 20), 4 * self.random.randrange(ITEMS - 64)
        n, queue = np.uint32(ITEMS), self.queue
        wide, single = ((ITEMS,), (GROUP,)), ((1,), (1,))

        def launch(name: str, shape: tuple[tuple[int], tuple[int]], *arguments: object) -> None:
            self.kernels[name](queue, *shape, *arguments)

        def read(_: int) -> None:
            found = np.empty(64, np.uint32)
            cl.enqueue_copy(queue, found, two[0], src_offset=at)
            self.digest.update(found.tobytes())

        def write(turn: int) -> None:
            values = np.full(48, by + turn, np.uint32)
            cl.enqueue_copy(queue, two[0], values, dst_offset=at, is_blocking=False)
            queue.flush()

        def fill(turn: int) -> None:
            cl.enqueue_fill_buffer(queue, two[0], np.uint32(by + turn), at, 256)

        kinds: list[Step] = [
            lambda turn: launch("stencil", wide, *two, n),
            lambda turn: launch("stencil", wide, *two, n),
            lambda turn: launch("mirror", wide, *two, n),
            lambda turn: launch("shift", wide, two[0], np.uint32(by)),
            lambda turn: launch("shift", wide, two[0], np.uint32(by + turn)),
            lambda turn: launch("whole", wide, *two, n),
            lambda turn: launch("single", single, two[0], n),
            lambda turn: launch("gather", wide, *two, n),
            lambda turn: cl.enqueue_copy(queue, two[1], two[0], byte_count=4 * ITEMS),
            read,
            write,
            fill,
        ]
        weights = [4, 4, 3, 3, 4, 2, 2, 1, 1, 2, 2, 1]
        return self.random.choices(kinds, weights)[0]

    def run(self) -> str:
        """The digest of all that was read."""
        for _ in range(6):
            steps = [self.step() for _ in range(self.random.randint(1, 5))]
            for turn in range(self.random.randint(2, 12)):
                for step in steps:
                    step(turn)
                if self.random.random() < 0.2:
                    self.queue.finish()
        for buffer in self.buffers:
            found = np.empty(ITEMS, np.uint32)
            cl.enqueue_copy(self.queue, found, buffer)
            self.digest.update(found.tobytes())
        return self.digest.hexdigest()


def main(first: int, count: int) -> None:
    """Run the programs with these seeds."""
    devices = cl.get_platforms()[0].get_devices()
    context = cl.Context(devices[:1])
    for seed in range(first, first + count):
        print(seed, Program(context, seed).run(), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
