"""Ways to keep memory of host and members coherent: time and bytes of each, by program (papers/5, section 5).

``python -m bench.protocols [--members 1 2 4] [--size cpu] [--rounds 3] [--only cp ...]``

* batch: before each launch all arrays go to the device, after it all come back; the launch is waited for.
* eager: fine-grained shared virtual memory, no command for any access; the launch is waited for.
* mapped: coarse-grained, mapped where the application reads or writes.
* buffers: copied where the program knows that it has to, launches not waited for.

The programs of Parboil that papers/5 and sdi have in common, and its stencil: every step the application
sets one point, every eighth it writes the volume to a file.  Each run is a process of its own, in turn, on
members that keep copies of fine-grained memory (SDI_FINE_GRAIN).  A table of seconds (medians) and of MiB to
members and to the host.  Ends with 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyopencl as cl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.applications.program import Application, Array, Arrays, Session, load  # noqa: E402

PROGRAMS = ("cp", "mri_q", "rpes", "tpacf", "stencil")
WAYS = ("batch", "eager", "mapped", "buffers")
LIMIT_S = 600.0


class Shared:
    """Memory of one array: ``bytes``, where the application has them, and what kernels get for it."""

    def __init__(self, memory: cl.Buffer | cl.SVMAllocation, found: Array) -> None:
        self.memory = memory
        self.bytes = found


class Coherent(Session):
    """A session whose arrays are the application's and the device's alike, by one of the ways."""

    def __init__(self, device: cl.Device, source: str, way: str) -> None:
        super().__init__(device, source)
        self._way = way
        self._shared: list[Shared] = []
        self._made: dict[str, cl.Kernel] = {}

    def forget(self) -> None:
        """Give all memory back; nothing uses it."""
        self.queue.finish()
        self._shared.clear()

    def empty(self, nbytes: int) -> Any:
        """An array of undefined bytes."""
        flags = cl.svm_mem_flags.READ_WRITE
        if self._way in ("batch", "buffers"):
            memory = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, nbytes)
            shared = Shared(memory, np.zeros(nbytes if self._way == "batch" else 0, np.uint8))
        else:
            flags |= cl.svm_mem_flags.SVM_FINE_GRAIN_BUFFER if self._way == "eager" else 0
            region = cl.SVMAllocation(self.context, nbytes, 0, flags)
            found = (ctypes.c_uint8 * nbytes).from_address(region.svm_ptr)
            shared = Shared(region, np.frombuffer(found, np.uint8))
        self._shared.append(shared)
        return shared

    def upload(self, array: Array) -> Any:
        """An array with these bytes."""
        shared = self.empty(array.nbytes)
        if self._way == "buffers":
            cl.enqueue_copy(self.queue, shared.memory, array, is_blocking=False)
            return shared
        with self.used(shared, cl.map_flags.WRITE_INVALIDATE_REGION) as found:
            found[:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return shared

    def zeros(self, nbytes: int) -> Any:
        """An array of zero bytes."""
        return self.upload(np.zeros(nbytes, np.uint8))

    @contextmanager
    def used(self, shared: Shared, flags: int, start: int = 0, stop: int | None = None) -> Iterator[Array]:
        """The application's view of bytes of an array."""
        part = shared.bytes[start:stop]
        if self._way != "mapped":
            yield part
            return
        with cl.SVM(part).map(self.queue, flags=flags) as found:
            yield found

    def launch(
        self, kernel: str, global_size: Sequence[int], local_size: Sequence[int], *arguments: Any
    ) -> None:
        """Run a kernel."""
        found = self._made.get(kernel)
        if found is None:
            found = self._made[kernel] = cl.Kernel(self.program, kernel)
        found.set_args(*[a.memory if isinstance(a, Shared) else a for a in arguments])
        for shared in self._shared if self._way == "batch" else ():
            cl.enqueue_copy(self.queue, shared.memory, shared.bytes, is_blocking=False)
        cl.enqueue_nd_range_kernel(self.queue, found, tuple(global_size), tuple(local_size))
        for shared in self._shared if self._way == "batch" else ():
            cl.enqueue_copy(self.queue, shared.bytes, shared.memory, is_blocking=False)
        if self._way in ("batch", "eager"):
            self.queue.finish()

    def put(self, shared: Shared, at: int, new: Array) -> None:
        """Set some bytes of an array."""
        if self._way == "buffers":
            cl.enqueue_copy(self.queue, shared.memory, new, dst_offset=at, is_blocking=False)
            return
        with self.used(shared, cl.map_flags.WRITE, at, at + new.nbytes) as found:
            found[:] = new

    def write(self, shared: Shared, nbytes: int, file: IO[bytes]) -> None:
        """Put an array into a file."""
        if self._way == "buffers":
            file.write(self.download(shared, nbytes, np.uint8))
            return
        with self.used(shared, cl.map_flags.READ) as found:
            file.write(found)

    def download(self, buffer: Any, shape: int | tuple[int, ...], dtype: type) -> Array:
        """The first elements of an array, in memory of its own; waits for them."""
        array: Array = np.empty(shape, dtype)
        if self._way == "buffers":
            cl.enqueue_copy(self.queue, array, buffer.memory, is_blocking=True)
            return array
        with self.used(buffer, cl.map_flags.READ, 0, array.nbytes) as found:
            array.reshape(-1).view(np.uint8)[:] = found
        return array


STENCIL = load("stencil3d").SOURCE
SIDES = {"smoke": 32, "cpu": 128, "paper": 384, "gpu": 384}
STEPS, WRITTEN_EVERY = 32, 8


def stencil(session: Coherent, side: int) -> float:
    """Steps with a source of heat that the application sets, and the volume in a file now and then: seconds.

    Raises AssertionError.
    """
    items = [-(-side // part) * part for part in (16, 4, 4)]
    volume = np.zeros((side, side, side), np.float32)
    at = 4 * (((side // 2) * side + side // 2) * side + side // 2)
    begin = time.perf_counter()
    now, after = session.upload(volume), session.upload(volume)
    with tempfile.TemporaryFile() as file:
        for step in range(STEPS):
            heat = np.array([step + 1], np.float32)
            session.put(now, at, heat.view(np.uint8))
            session.launch("relax_box", items, (16, 4, 4), now, after, np.int32(side))
            now, after = after, now
            if (step + 1) % WRITTEN_EVERY == 0:
                file.seek(0)
                session.write(now, volume.nbytes, file)
        took = time.perf_counter() - begin
        file.seek(0)
        found = np.fromfile(file, np.float32).reshape(volume.shape)
    inner = (slice(1, -1),) * 3
    for step in range(STEPS):
        volume.flat[at // 4] = step + 1
        following = volume.copy()
        beside = sum(np.roll(volume, shift, axis) for axis in range(3) for shift in (-1, 1))
        following[inner] = (np.float32(0.4) * volume + np.float32(0.1) * beside)[inner]
        volume = following
    np.testing.assert_allclose(found, volume, rtol=1e-4, atol=1e-5)
    return took


def second_run_s(application: Application, session: Coherent, size: str, inputs: Arrays) -> float:
    """Seconds of the second run in this process.  Raises ``WrongResult``."""
    for _ in range(2):
        session.forget()
        begin = time.perf_counter()
        outputs = application.run(session, application.SIZES[size], inputs)
        session.queue.finish()
        took = time.perf_counter() - begin
    application.check(application.SIZES[size], inputs, outputs)
    return took


def measured(program: str, way: str, size: str) -> float:
    """Seconds of the second run in this process.  Raises ``WrongResult``, or AssertionError."""
    device = cl.create_some_context(interactive=False).devices[0]
    if program == "stencil":
        session = Coherent(device, STENCIL, way)
        return [stencil(session, SIDES[size]) for _ in range(2)][-1]
    application = load(program)
    inputs = application.inputs(application.SIZES[size])
    return second_run_s(application, Coherent(device, application.SOURCE, way), size, inputs)


def run(program: str, way: str, size: str, members: int, folder: Path) -> tuple[float, float, float] | None:
    """Seconds, and MiB to members and to the host, of one process (two runs); None where it failed."""
    stats = folder / "stats.json"
    environ = {
        **os.environ,
        "SDI_FINE_GRAIN": "eager",
        "SDI_SPLIT": "always",
        "SDI_NUM_GPUS": str(members),
        "SDI_STATS": str(stats),
        "PYOPENCL_NO_CACHE": "1",
    }
    command = [sys.executable, "-m", "bench.protocols", "--one", program, way, size]
    inside = (
        command if "OCL_ICD_VENDORS" in environ else [sys.executable, "-m", "sdi.cli", "run", "--", *command]
    )
    done = subprocess.run(
        inside, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if done.returncode:
        print(f"{program} {way}: {done.stderr.strip()[-500:]}", file=sys.stderr)
        return None
    moved = json.loads(stats.read_text())["bytes_moved"]
    runs = 2 << 20
    return float(done.stdout.split()[-1]), moved["host_to_member"] / runs, moved["member_to_host"] / runs


def main() -> int:
    """Run all of them; 1 where one is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, nargs="+", default=[1])
    parser.add_argument("--size", default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=PROGRAMS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(measured(*options.one))
        return 0
    is_wrong = False
    for members in options.members:
        print(f"\n{members} members, size {options.size}: seconds, MiB to members, MiB to the host\n")
        print(f"{'':10}" + "".join(f"{way:>26}" for way in WAYS))
        for program in options.only:
            found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
            with tempfile.TemporaryDirectory() as folder:
                for _ in range(options.rounds):
                    for way in WAYS:
                        one = run(program, way, options.size, members, Path(folder))
                        is_wrong |= one is None
                        found[way] += [one] if one is not None else []
            cells = [_cell(found[way]) for way in WAYS]
            print(f"{program:10}" + "".join(cells), flush=True)
    return is_wrong


def _cell(runs: Sequence[tuple[float, float, float]]) -> str:
    if not runs:
        return f"{'failed':>26}"
    seconds, to_members, to_host = (statistics.median(each) for each in zip(*runs, strict=True))
    return f"{seconds:10.3f} {to_members:7.1f} {to_host:7.1f}"


if __name__ == "__main__":
    sys.exit(main())
