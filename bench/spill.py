"""Buffers twice what members and host may have together: what lies in files, against files' sequential speed.

``python -m bench.spill [--folder DIR] [--members 2] [--member-mib 128] [--host-mib 256] [--rounds 3]``

A product of a tall matrix with a small one and a five-point stencil that goes from one buffer to another and
back, 6 steps; buffers are twice what members and the host are given.  The application writes its data and
reads the results in parts of 4 MiB.  ``x allowed``: time, as a multiple of what it takes to write what has no
room, and read it again, once for each time that all of it is used, at the speed at which a file of that size
is written and read in pieces of 8 MiB past the kernel's cache, measured before each run.  ``x moved``: of the
same for the bytes that really went to files and came from there.  ``in memory``: the same program without
limits, which is what computing and the application take; ``x both``: of the sum of that and what is allowed.
``processors``: time of the service and the application, with limits and in memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.network import environ  # noqa: E402

PART_NBYTES, PIECE_NBYTES = 4 << 20, 8 << 20
STEPS, WIDTH, COLUMNS = 6, 4096, 16
SOURCE = """
kernel void stencil(global const float *from, global float *to, int width, int height) {
    int x = get_global_id(0), y = get_global_id(1), at = y * width + x;
    float sum = from[at];
    if (x > 0) sum += from[at - 1];
    if (x < width - 1) sum += from[at + 1];
    if (y > 0) sum += from[at - width];
    if (y < height - 1) sum += from[at + width];
    to[at] = 0.2f * sum;
}
kernel void product(global const float *a, global const float *b, global float *c, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[y * n + k] * b[k * n + x];
    c[y * n + x] = sum;
}
"""


def application(what: str, nbytes: int) -> dict[str, object]:
    """One program with buffers of ``nbytes`` in all: seconds to write, compute and read, and a digest."""
    import numpy as np
    import pyopencl as cl

    device = next(p for p in cl.get_platforms() if p.name == "SDI").get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, SOURCE).build()
    flags = cl.mem_flags.READ_WRITE
    one, other = (cl.Buffer(context, flags, nbytes // 2) for _ in range(2))
    part = np.arange(PART_NBYTES // 4, dtype=np.float32) % 251
    cpu, began = processor_s(), time.perf_counter()
    for at in range(0, nbytes // 2, PART_NBYTES):
        cl.enqueue_copy(queue, one, part[: (nbytes // 2 - at) // 4] + at // PART_NBYTES, dst_offset=at)
    queue.finish()
    written = time.perf_counter()
    if what == "stencil":
        stencil, height = program.stencil, nbytes // 8 // WIDTH
        for step in range(STEPS):
            ends = (one, other) if step % 2 == 0 else (other, one)
            stencil(queue, (WIDTH, height), None, *ends, np.int32(WIDTH), np.int32(height))
        found = one
    else:
        small = np.arange(COLUMNS * COLUMNS, dtype=np.float32) % 7
        factor = cl.Buffer(context, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=small)
        rows = nbytes // 8 // COLUMNS
        program.product(queue, (COLUMNS, rows), None, one, factor, other, np.int32(COLUMNS))
        found = other
    queue.finish()
    computed = time.perf_counter()
    digest = hashlib.blake2b()
    result = np.empty(PART_NBYTES // 4, np.float32)
    for at in range(0, nbytes // 2, PART_NBYTES):
        here = result[: (nbytes // 2 - at) // 4]
        cl.enqueue_copy(queue, here, found, src_offset=at)
        digest.update(here)
    took = time.perf_counter()
    return {
        "write_s": written - began,
        "compute_s": computed - written,
        "read_s": took - computed,
        "cpu_s": processor_s() - cpu,
        "digest": digest.hexdigest()[:16],
    }


def processor_s() -> float:
    """What this process and those that it started, the service, have had."""
    ticks, service = 0, json.loads(Path(os.environ["SDI_STATS"]).read_text())["pid"]
    for process in ("self", str(service)):
        fields = Path("/proc", process, "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def sequential(folder: Path, nbytes: int) -> tuple[float, float]:
    """Bytes per second written to a file of so many bytes, and read from it."""
    memory = mmap.mmap(-1, PIECE_NBYTES)
    memory[:] = b"\1" * PIECE_NBYTES
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    try:
        os.posix_fallocate(file, 0, nbytes)

        def timed(act: Callable[[int], object]) -> float:
            began = time.perf_counter()
            for at in range(0, nbytes, PIECE_NBYTES):
                act(at)
            os.fdatasync(file)
            return nbytes / (time.perf_counter() - began)

        written = timed(lambda at: os.pwrite(file, memory, at))
        return written, timed(lambda at: os.preadv(file, [memory], at))
    finally:
        os.close(file)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds, of processors ``cpu_s``; bytes; bytes per second."""

    write_s: float
    compute_s: float
    read_s: float
    cpu_s: float
    digest: str
    file_read: int
    file_written: int
    speed_written: float
    speed_read: float

    @property
    def took_s(self) -> float:
        return self.write_s + self.compute_s + self.read_s

    def files_s(self, written: float, read: float) -> float:
        """What so many bytes take at the files' speed."""
        return written / self.speed_written + read / self.speed_read


@dataclass(frozen=True, slots=True)
class Limits:
    """What members have, each, and the host: bytes."""

    members: int
    member_nbytes: int
    host_nbytes: int

    @property
    def nbytes(self) -> int:
        """Of the buffers: twice all of it, in whole rows."""
        return 2 * (self.members * self.member_nbytes + self.host_nbytes) >> 20 << 20

    def allowed(self, what: str) -> tuple[float, float]:
        """What has to be written to files, and read: half of all buffers does not fit.

        Of what has no room half is read and half written each time that all of it is used.
        """
        outside = self.nbytes / 2
        turns = STEPS if what == "stencil" else 1
        return outside / 2 + turns * outside / 2, turns * outside / 2 + outside / 2


def measure(what: str, limits: Limits, folder: Path, is_limited: bool) -> Measured:
    """One run."""
    speeds = sequential(folder, limits.nbytes)
    settings = {"SDI_NUM_GPUS": str(limits.members), "SDI_SPLIT": "always"}
    if is_limited:
        settings["SDI_MEMBER_MEMORY"] = str(limits.member_nbytes)
        settings |= {"SDI_SPILL": f"{folder}:{4 * limits.nbytes}", "SDI_HOST_MEMORY": str(limits.host_nbytes)}
    with tempfile.TemporaryDirectory() as stats:
        settings["SDI_STATS"] = f"{stats}/stats"
        program = [sys.executable, __file__, "--program", what, "--nbytes", str(limits.nbytes)]
        command = [sys.executable, "-m", "sdi.cli", "run", "--", *program]
        ended = subprocess.run(command, env=environ(**settings), cwd=ROOT, stdout=subprocess.PIPE, check=True)
        while not (told := json.loads(Path(stats, "stats").read_text()))["finished"]:
            time.sleep(0.05)
    memory = told["memory"]
    found = json.loads(ended.stdout)
    return Measured(**found, file_read=memory["file_read_nbytes"], file_written=memory["file_written_nbytes"],
                    speed_written=speeds[0], speed_read=speeds[1])  # fmt: skip


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description="Buffers twice what members and host have.")
    parser.add_argument("--folder", type=Path, default=Path("build"))
    parser.add_argument("--members", type=int, default=2)
    parser.add_argument("--member-mib", type=int, default=128)
    parser.add_argument("--host-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--nbytes", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program:
        print(json.dumps(application(given.program, given.nbytes)), flush=True)
        return 0
    limits = Limits(given.members, given.member_mib << 20, given.host_mib << 20)
    folder, load = given.folder.resolve(), os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} processors, load {load:.1f}; {given.rounds} rounds; "
          f"{limits.nbytes >> 20} MiB of buffers, {limits.members} members of {given.member_mib} MiB, "
          f"{given.host_mib} MiB of the host")  # fmt: skip
    names = ("program", "in memory", "write", "compute", "read", "in all", "to files", "from files",
             "processors", "in memory", "x allowed", "x moved", "x both")  # fmt: skip
    print(("{:8} {:>9}" + " {:>10}" * 11).format(*names))
    rows: list[dict[str, object]] = []
    for what in ("product", "stencil"):
        free: list[Measured] = []
        runs: list[Measured] = []
        for _ in range(given.rounds):
            free.append(measure(what, limits, folder, False))
            runs.append(measure(what, limits, folder, True))
        assert len({each.digest for each in (*free, *runs)}) == 1, "the same bytes"
        middle = sorted(runs, key=lambda each: each.took_s)[len(runs) // 2]
        allowed = [each.took_s / each.files_s(*limits.allowed(what)) for each in runs]
        moved = [each.took_s / each.files_s(each.file_written + 1, each.file_read) for each in runs]
        both = [
            each.took_s / (each.files_s(*limits.allowed(what)) + other.took_s)
            for each, other in zip(runs, free, strict=True)
        ]
        times = (statistics.median(each.took_s for each in free), middle.write_s, middle.compute_s,
                 middle.read_s, middle.took_s)  # fmt: skip
        print(
            f"{what:8} {times[0]:7.2f} s" + "".join(f" {each:8.2f} s" for each in times[1:])
            + f" {middle.file_written >> 20:6} MiB {middle.file_read >> 20:6} MiB"
            + f" {middle.cpu_s:8.2f} s {statistics.median(each.cpu_s for each in free):8.2f} s"
            + "".join(f" {statistics.median(each):10.2f}" for each in (allowed, moved, both)),
            flush=True,
        )  # fmt: skip
        told = {"in_memory": [asdict(each) for each in free], "runs": [asdict(each) for each in runs]}
        rows.append({"program": what, "allowed": allowed, "moved": moved, "both": both} | told)
    if given.out is not None:
        about = {"machine": platform.machine(), "processors": os.cpu_count(), "load": load}
        about |= {"limits": asdict(limits), "rows": rows}
        given.out.write_text(json.dumps(about, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
