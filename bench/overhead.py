"""What the image costs beside the plain driver: calls, launches, copies, start and memory of the service.

``python bench/overhead.py [--quick]`` compiles ``calls.c``, runs it in turn on the plain driver and on the
image with 1 and 4 members, and prints one table.  Every figure is the median over rounds in fresh processes;
what is repeated inside a process is its median there.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MARK = "OVERHEAD_OF_SDI"
GIB = 1 << 30
LIMIT_S = 300.0
PLATFORM_ROUNDS = 20


class Failed(Exception):
    """A measurement ended with an error; the text is for the table's foot."""


@dataclass(frozen=True, slots=True)
class Column:
    """One configuration: where to run, by the environment and the platform's name."""

    title: str
    platform: str
    environ: Mapping[str, str]


@dataclass(slots=True)
class Samples:
    """What was measured, by (row, column)."""

    values: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def add(self, row: str, column: Column, value: float) -> None:
        """One more sample."""
        self.values.setdefault((row, column.title), []).append(value)

    def median(self, row: str, column: Column) -> float | None:
        """None when nothing was measured."""
        values = self.values.get((row, column.title))
        return statistics.median(values) if values else None


def main() -> int:
    """Measure and print; 1 when a measurement failed."""
    parser = argparse.ArgumentParser(description="Prints what the image costs beside the plain driver.")
    parser.add_argument("--quick", action="store_true", help="one round, 64 MiB instead of 1 GiB")
    parser.add_argument("--rounds", type=int, default=0, help="rounds (default 5, quick 1)")
    parser.add_argument("--plain-only", action="store_true", help="measure only the plain driver")
    options = parser.parse_args()
    rounds = options.rounds or (1 if options.quick else 5)
    copied_nbytes = GIB // 16 if options.quick else GIB
    launches = 500 if options.quick else 2000

    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as folder:
        scratch = Path(folder)
        calls = compile_calls(scratch)
        os.environ["POCL_CACHE_DIR"] = str(scratch / "pocl")
        os.environ["XDG_CACHE_HOME"] = str(scratch / "cache")
        (scratch / "pocl").mkdir()
        os.environ[MARK] = str(os.getpid())
        plain = plain_column()
        columns = [plain] if options.plain_only else [plain, image_column(1), image_column(4)]
        samples = Samples()
        for number in range(rounds):
            copies = number < 3  # the slowest part
            for column in columns:
                measure(calls, column, samples, launches, copied_nbytes if copies else 0)
            measure_platforms(calls, plain, None if options.plain_only else columns[1], samples)
            print(f"round {number + 1} of {rounds} done", file=sys.stderr)
    print(heading(plain, calls, rounds, launches))
    print(table(columns, samples, copied_nbytes))
    for error in dict.fromkeys(samples.errors):
        print(f"failed: {error}")
    return 1 if samples.errors else 0


def compile_calls(scratch: Path) -> Path:
    """The C program, for the system's loader."""
    target = scratch / "calls"
    flags = ["-O2", "-std=c11", "-D_GNU_SOURCE"]
    source = ROOT / "bench" / "calls.c"
    subprocess.run(["cc", *flags, str(source), "-o", str(target), "-lOpenCL"], check=True)
    return target


def plain_column() -> Column:
    """The first platform that the system's loader finds; sdi is not among them."""
    import pyopencl as cl

    names = [p.name for p in cl.get_platforms() if p.name != "SDI"]
    if not names:
        raise SystemExit("no OpenCL driver found: run tools/prepare.sh")
    return Column("plain driver", names[0], {})


def image_column(members: int) -> Column:
    """The image with ``members`` members; launches are split even where that does not pay."""
    from sdi.locate import image_environ

    environ = {**image_environ(os.environ), "SDI_NUM_GPUS": str(members), "SDI_SPLIT": "always"}
    return Column(f"image, {members} member{'s' * (members > 1)}", "SDI", environ)


def run(calls: Path, column: Column, *arguments: str) -> dict[str, float]:
    """The values that ``calls`` prints.  Raises Failed."""
    command = [str(calls), *arguments]
    what = f"{column.title}: calls {' '.join(arguments)}"
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **column.environ},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{what}: no end after {LIMIT_S:.0f} s") from error
    if done.returncode:
        raise Failed(f"{what}: status {done.returncode}: {' '.join(done.stderr.split())[-300:]}")
    return {key: float(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def measure(calls: Path, column: Column, samples: Samples, launches: int, copied_nbytes: int) -> None:
    """One round of everything for one column; ``copied_nbytes`` 0: no copies in this round."""

    def attempt(action: Callable[[], None]) -> None:
        try:
            action()
        except Failed as error:
            samples.errors.append(str(error))

    def times() -> None:
        found = run(calls, column, "times", column.platform, str(launches))
        for row in ("set_arg", "enqueue", "launch_finish", "sustained"):
            samples.add(row, column, found[row])

    def copies() -> None:
        found = run(calls, column, "copies", column.platform, str(copied_nbytes))
        samples.add("memcpy", column, found["nbytes"] / GIB / found["memcpy"])
        for row in ("write", "read_host", "read_kernel"):
            samples.add(row, column, found["memcpy"] / found[row])

    def first() -> None:
        samples.add("first", column, run(calls, column, "first", column.platform)["first"])

    def memory() -> None:
        before, after = resident(calls, column)
        samples.add("memory_before", column, before)
        samples.add("memory_after", column, after)

    attempt(first)
    attempt(times)
    attempt(memory)
    if copied_nbytes:
        attempt(copies)


def measure_platforms(calls: Path, plain: Column, image: Column | None, samples: Samples) -> None:
    """Wall time of a whole program that only asks for platforms and their names.

    "platforms": each column's own .icd files, as ``sdi run`` sets it.  "beside": sdi's .icd file together
    with the drivers'.  A loader that counts all platforms' devices to sort them is told not to: that would be
    a program that asks for devices.
    """
    drivers = Path(os.environ.get("OCL_ICD_VENDORS") or "/etc/OpenCL/vendors")
    with tempfile.TemporaryDirectory(prefix="sdi-vendors-") as folder:
        both = Path(folder)
        cases = [("platforms", plain, str(drivers)), ("beside", plain, str(drivers))]
        if image is not None:
            own = Path(image.environ["OCL_ICD_VENDORS"])
            for file in (*drivers.glob("*.icd"), *own.glob("*.icd")):
                (both / file.name).write_bytes(file.read_bytes())
            cases += [("platforms", image, str(own)), ("beside", image, str(both))]
        for _ in range(PLATFORM_ROUNDS):
            for row, column, vendors in cases:
                environ = {**column.environ, "OCL_ICD_VENDORS": vendors, "OCL_ICD_PLATFORM_SORT": "none"}
                start = time.perf_counter()
                try:
                    run(calls, Column(column.title, "", environ), "platforms")
                except Failed as error:
                    samples.errors.append(str(error))
                    return
                samples.add(row, column, time.perf_counter() - start)


def resident(calls: Path, column: Column) -> tuple[float, float]:
    """MB resident before the first build and after it: in the service; on the plain driver in the program."""
    with subprocess.Popen(
        [str(calls), "stages", column.platform],
        env={**os.environ, **column.environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        found = []
        for _ in range(2):
            if process.stdout.readline() != "stage\n":
                process.kill()
                raise Failed(f"{column.title}: calls stages ended early")
            pid = process.pid if column.platform != "SDI" else service_of(process.pid)
            found.append(resident_mb(pid))
            process.stdin.write("\n")
            process.stdin.flush()
    return found[0], found[1]


def service_of(application: int) -> int:
    """The service of this bench; one runs at a time.  Raises Failed."""
    mark = f"{MARK}={os.getpid()}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"sdi.service.main" in (folder / "cmdline").read_bytes().split(b"\0") and mark in (
                folder / "environ"
            ).read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue  # ended meanwhile
    if not found:
        raise Failed(f"no service of process {application} is running")
    return max(found)  # an earlier one may still be ending


def resident_mb(pid: int) -> float:
    """Resident memory in 10**6 bytes, touched pages of the arena included."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024 / 1e6


ROWS: tuple[tuple[str, str, str, float, str], ...] = (
    # row, title, unit, factor, aim
    ("set_arg", "set-arg", "µs", 1e6, "<= 0.1"),
    ("enqueue", "enqueue", "µs", 1e6, "<= 1"),
    ("launch_finish", "empty launch + finish", "µs", 1e6, "<= plain + 100"),
    ("sustained", "sustained empty launches", "1/s", 1, ""),
    ("memcpy", "memcpy in the same process", "GiB/s", 1, ""),
    ("write", "write {size}", "% of memcpy", 100, ">= 80"),
    ("read_host", "read {size}, host current", "% of memcpy", 100, ">= 80"),
    ("read_kernel", "read {size}, written by a kernel", "% of memcpy", 100, ""),
    ("first", "first clGetDeviceIDs", "ms", 1e3, "<= 600"),
    ("memory_before", "resident before the first build", "MB", 1, "<= 200"),
    ("memory_after", "resident after it", "MB", 1, "<= plain's growth + 150"),
    ("platforms", "program that only asks for platforms", "ms", 1e3, ""),
    ("beside", "the same, .icd files of both", "ms", 1e3, "<= plain + 5"),
)


def table(columns: list[Column], samples: Samples, copied_nbytes: int) -> str:
    """The table for people."""
    size = f"{copied_nbytes / GIB:g} GiB" if copied_nbytes >= GIB else f"{copied_nbytes >> 20} MiB"
    lines = [["", "unit", *(column.title for column in columns), "aim (1 member)"]]
    for row, title, unit, factor, aim in ROWS:
        cells = []
        for column in columns:
            value = samples.median(row, column)
            cells.append("-" if value is None else number(value * factor))
        lines.append([title.format(size=size), unit, *cells, aim])
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    shown = []
    for line in lines:
        cells = [
            cell.ljust(width) if at in {0, 1, len(line) - 1} else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append("  ".join(cells).rstrip())
    return "\n".join(shown)


def number(value: float) -> str:
    """Three digits that count, without an exponent."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


def heading(plain: Column, calls: Path, rounds: int, launches: int) -> str:
    """Machine, driver, commit, repetitions."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB
    cores = len(os.sched_getaffinity(0))
    return "\n".join(
        [
            f"machine: {model}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}",
            f"driver: {plain.platform}; Python {platform.python_version()}; commit {commit or 'unknown'};"
            f" {time.strftime('%Y-%m-%d')}",
            f"repetitions: medians over {rounds} fresh processes (copies: {min(rounds, 3)}, 5 times each);",
            f"  in each 1,000,000 set-arg, {launches:,} enqueues, {launches:,} launches + finish,"
            f" {5 * launches:,} sustained launches of 8 work-groups",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
