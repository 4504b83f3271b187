"""The yardstick: the kernels of ``gpu_split.py`` split over GPUs by hand, with pycuda and peer copies.

What a programmer who knows the kernels would write: equal shares of rows or items, one Python thread, one
stream for kernels and one for copies on each GPU, halo rows or shares copied to those that read them.
``python bench/gpu_by_hand.py --gpus N [--json FILE] [--scale N] [--only CASE ...]`` prints the same lines.
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gpu_split import SOURCE, Case, asked, best_of, measure, samples

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.driver import copy_peer, drv, quick
from sdi.devices.cuda.nvrtc import compile_text


class Gpu:
    """One GPU: context, streams, kernels."""

    def __init__(self, number: int) -> None:
        self.context = drv.Device(number).retain_primary_context()
        self.handle = self.context.handle
        self.context.push()
        program = translate("#define FIRST first\n#define MORE , long first\n" + SOURCE, ())
        words = nvrtc_options((), program.contracts)
        code = compile_text(program.text, words, drv.Device(number).compute_capability())
        self.module = drv.module_from_buffer(code)
        self.kernels = {k.name: self.module.get_function(k.symbol) for k in program.kernels}
        self.stream, self.copies = drv.Stream(1), drv.Stream(1)
        self.events = [[drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(2)] for _ in range(4)]
        drv.Context.pop()

    def enter(self) -> None:
        """Make its context current."""
        quick().cuCtxSetCurrent(self.handle)

    def launch(
        self, kernel: str, grid: tuple[int, ...], block: tuple[int, ...], pointers: list[int], rest: bytes
    ) -> None:
        """Launch on the kernel stream; the context is current."""
        groups = (*grid, *(1,) * (3 - len(grid)))
        block = (*block, *(1,) * (3 - len(block)))
        data = struct.pack(f"<{len(pointers)}Q", *(p % (1 << 64) for p in pointers)) + rest
        data += bytes(-len(data) % 8) + struct.pack("<3Q4I", 0, 0, 0, *groups, len(grid))
        self.kernels[kernel]._launch_kernel(groups, block, data, 0, self.stream)


def copy(target: Gpu, to: int, source: Gpu, at: int, nbytes: int, on: Gpu) -> None:
    """A peer copy on ``on``'s copy stream."""
    copy_peer(to, target.handle, at, source.handle, nbytes, on.copies.handle)


def padded(rest: bytes, first: int) -> bytes:
    """Scalars, then the first work-item as a long."""
    return rest + bytes(-len(rest) % 8) + struct.pack("<q", first)


def run(gpus: list[Gpu], case: Case) -> tuple[float, str]:
    """(seconds per iteration, checksum of the first output)."""
    count = len(gpus)
    dim = len(case.global_size) - 1
    groups = case.global_size[dim] // case.local_size[dim]
    cuts = [k * groups // count * case.local_size[dim] for k in range(count + 1)]
    row_nbytes = 4 * case.floats[-1] // case.global_size[dim]  # bytes of output per item of that dimension
    halo = 1 if case.kernel == "jacobi" else 0
    # Which buffers every GPU has whole: what all work-items read.
    whole = {"nbody": (0, 1), "matmul": (1,)}.get(case.kernel, ())
    places: list[list[int]] = []  # by GPU and buffer: where item 0 would be
    memory: list[Any] = []
    for k, gpu in enumerate(gpus):
        gpu.context.push()
        places.append([])
        for number, floats in enumerate(case.floats):
            first, last = max(0, cuts[k] - halo), min(case.global_size[dim], cuts[k + 1] + halo)
            if number in whole:
                first, last = 0, case.global_size[dim]
            memory.append(drv.mem_alloc((last - first) * row_nbytes))
            places[k].append(int(memory[-1]) - first * row_nbytes)
            begin, end = first * row_nbytes // 4, last * row_nbytes // 4
            for at in range(begin, end, 1 << 30):
                size = min(1 << 30, end - at)
                gpu.launch("fill", (size // 64,), (64,), [places[k][-1]], padded(struct.pack("<I", 77), at))
            assert floats * 4 == case.global_size[dim] * row_nbytes
        gpu.stream.synchronize()
        drv.Context.pop()
    rest = b"".join(value.tobytes() for value in case.values)
    grids = [
        (
            *(g // b for g, b in zip(case.global_size[:dim], case.local_size[:dim], strict=True)),
            (cuts[k + 1] - cuts[k]) // case.local_size[dim],
        )
        for k in range(count)
    ]
    rests = [padded(rest, cuts[k]) for k in range(count)]
    exchange = {"jacobi": halos, "nbody": shares}.get(case.kernel)
    turn = 0

    def iterate(times: int) -> None:
        nonlocal turn
        for _ in range(times):
            swapped = case.swaps and turn % 2
            for k, gpu in enumerate(gpus):
                gpu.enter()
                if exchange is not None and count > 1 and turn:
                    arrivals(gpus, k, turn - 1, case.kernel, lambda e, gpu=gpu: gpu.stream.wait_for_event(e))  # type: ignore[misc]
                pointers = places[k][::-1] if swapped else places[k]
                gpu.launch(case.kernel, grids[k], case.local_size, pointers, rests[k])
                gpu.events[0][turn % 2].record(gpu.stream)
            if exchange is not None and count > 1:
                output = 0 if swapped else 1
                for k, gpu in enumerate(gpus):
                    gpu.enter()
                    gpu.copies.wait_for_event(gpu.events[0][turn % 2])
                    exchange(gpus, k, places, output, cuts, row_nbytes, turn)
            turn += 1
        for gpu in gpus:
            gpu.enter()
            gpu.stream.synchronize()
            gpu.copies.synchronize()

    best = best_of(iterate, case.iterations)
    output = 0 if case.swaps and turn % 2 == 0 else 1 if case.swaps else len(case.floats) - 1
    digest = hashlib.sha256()
    for offset, nbytes in samples(4 * case.floats[output]):
        for k, gpu in enumerate(gpus):
            low, high = (
                max(offset, cuts[k] * row_nbytes),
                min(offset + nbytes, cuts[k + 1] * row_nbytes),
            )
            if low < high:
                piece = bytearray(high - low)
                gpu.context.push()
                drv.memcpy_dtoh(piece, places[k][output] + low)
                drv.Context.pop()
                digest.update(piece)
    for k, gpu in enumerate(gpus):
        gpu.context.push()
        for _ in case.floats:
            memory.pop(0).free()
        drv.Context.pop()
        del k
    return best, digest.hexdigest()[:12]


def arrivals(gpus: list[Gpu], k: int, turn: int, kernel: str, wait: Callable[[Any], object]) -> None:
    """Wait for what others sent to GPU ``k``, and for what it sent: that is overwritten next but one."""
    senders = [k - 1, k + 1] if kernel == "jacobi" else [s for s in range(len(gpus)) if s != k]
    for sender in senders:
        if 0 <= sender < len(gpus):
            wait(gpus[sender].events[1][turn % 2])
    wait(gpus[k].events[1][turn % 2])


def halos(
    gpus: list[Gpu], k: int, places: list[list[int]], output: int, cuts: list[int], row: int, turn: int
) -> None:
    """Send the first and the last row to the neighbours."""
    for neighbour, item in ((k - 1, cuts[k]), (k + 1, cuts[k + 1] - 1)):
        if 0 <= neighbour < len(gpus):
            to, at = places[neighbour][output] + item * row, places[k][output] + item * row
            copy(gpus[neighbour], to, gpus[k], at, row, gpus[k])
    gpus[k].events[1][turn % 2].record(gpus[k].copies)


def shares(
    gpus: list[Gpu], k: int, places: list[list[int]], output: int, cuts: list[int], row: int, turn: int
) -> None:
    """Send the whole share to all others, which must be done with what they read there before."""
    at, nbytes = cuts[k] * row, (cuts[k + 1] - cuts[k]) * row
    for step in range(1, len(gpus)):
        other = (k + step) % len(gpus)
        copy(gpus[other], places[other][output] + at, gpus[k], places[k][output] + at, nbytes, gpus[k])
    gpus[k].events[1][turn % 2].record(gpus[k].copies)


def main() -> None:
    """Measure the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, required=True)
    options = asked(parser)
    drv.init()
    gpus = [Gpu(number) for number in range(options.gpus)]
    for gpu in gpus:
        gpu.context.push()
        for other in gpus:
            if other is not gpu:
                drv.Context.enable_peer_access(other.context)
        drv.Context.pop()
    print(f"{options.gpus} GPUs by hand", flush=True)
    measure(options, lambda case: run(gpus, case))
    quick().cuCtxSetCurrent(None)


if __name__ == "__main__":
    main()
