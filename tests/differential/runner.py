"""Runs random programs on the first device of a platform and writes what they leave in memory.

``python -m tests.differential.runner --out FILE FIRST COUNT`` writes one line per program: its number and a
digest of each written buffer after each launch, or the error.  ``OCL_TEST_PLATFORM`` names the platform.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import sys
from pathlib import Path

import numpy as np
import pyopencl as cl

from tests.differential.expressions import INTS, PIXELS
from tests.differential.writer import COUNTERS, ITEMS, Program, generate
from tests.image_runs import end_after
from tests.programs.runner import choose_device

PAIR = struct.pack("<hhii", 3, 5, 7, 2)
SPARE = 128
"""Work-items' slots begin at raw ids in some layouts: offsets need room."""


def room_of(slots: int) -> int:
    """Bytes of a buffer in which each work-item owns ``slots`` ints."""
    return -(-4 * slots * (ITEMS + SPARE) // 1024) * 1024


def run(program: Program, seed: int, context: cl.Context, queue: cl.CommandQueue) -> list[bytes]:
    """The bytes of the written buffers after each launch."""
    random = np.random.default_rng(seed)
    flags = cl.mem_flags
    kernel = cl.Kernel(cl.Program(context, program.source).build(cache_dir=False), "k")
    ints = random.integers(-100, 1000, INTS + 64).astype(np.int32)
    read = cl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=ints)
    small = cl.Buffer(
        context,
        flags.READ_ONLY | flags.COPY_HOST_PTR,
        hostbuf=random.integers(0, 256, 3 * INTS).astype(np.uint8),
    )
    sizes = [room_of(slots) for slots in program.slots]
    held: list[cl.Buffer] = []
    if seed % 3 == 0:  # parts of one buffer
        root = cl.Buffer(context, flags.READ_WRITE, sum(sizes) + 4096)
        starts = np.cumsum([1024, *sizes])
        written = [root.get_sub_region(int(a), size) for a, size in zip(starts, sizes, strict=False)]
        held = [root]
    else:
        written = held = [cl.Buffer(context, flags.READ_WRITE, size) for size in sizes]
    counters = cl.Buffer(context, flags.READ_WRITE, 4 * COUNTERS)
    held = [*held, counters]
    images: list[cl.Image] = []
    pixels = cl.ImageFormat(cl.channel_order.RGBA, cl.channel_type.UNSIGNED_INT8)
    for _ in range(2 * program.has_images):
        images.append(cl.Image(context, flags.READ_WRITE, pixels, shape=(PIXELS, PIXELS)))
        data = random.integers(0, 256, (PIXELS, PIXELS, 4)).astype(np.uint8)
        cl.enqueue_copy(queue, images[-1], data, origin=(0, 0), region=(PIXELS, PIXELS))
    for buffer in held:
        data = random.integers(-1000, 1000, buffer.size // 4).astype(np.int32)
        cl.enqueue_copy(queue, buffer, data)
    found: list[bytes] = []
    for launch in program.launches:
        kernel.set_args(
            read,
            small,
            *written,
            counters,
            np.int32(launch.n),
            np.uint32(launch.m),
            np.frombuffer(PAIR, np.uint8),
            *images,
        )
        images.reverse()  # the next launch reads what this one writes
        cl.enqueue_nd_range_kernel(queue, kernel, launch.global_size, launch.local_size, launch.offset)
        if launch.n % 3 == 0 and launch is not program.launches[-1]:
            continue  # the next launch finds this one's bytes where they are
        for buffer in held:
            data = np.empty(buffer.size, np.uint8)
            cl.enqueue_copy(queue, data, buffer)
            found.append(data.tobytes())
        for image in images:
            data = np.empty((PIXELS, PIXELS, 4), np.uint8)
            cl.enqueue_copy(queue, data, image, origin=(0, 0), region=(PIXELS, PIXELS))
            found.append(data.tobytes())
    return found


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that one program may take")
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    context = cl.Context([choose_device()])
    queue = cl.CommandQueue(context)
    with options.out.open("w") as out:
        for seed in range(options.first, options.first + options.count):
            over = end_after(options.limit)
            out.write(f"{seed} ")
            out.flush()
            try:
                left = run(generate(seed), seed, context, queue)
                out.write(" ".join(hashlib.sha1(each).hexdigest() for each in left) + "\n")
            except cl.Error as error:
                out.write(f"error {error.code}\n")
                print(f"program {seed}: {str(error)[-1500:]}", file=sys.stderr)
            over()
            out.flush()


if __name__ == "__main__":
    main()
