"""Runs the demo's programs on the plain OpenCL driver and on images of 1, 2 and 4 devices, and compares.

Both programs are ordinary OpenCL programs.  ``python demo/run.py [--quick]`` exits non-zero when a result
differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUT = HERE / "out"
MEMBERS = (1, 2, 4)
LIMIT_S = 300.0


class DemoError(Exception):
    """Something that the demo needs is missing or failed; the text says what to do."""


@dataclass(frozen=True)
class Program:
    """A program of the demo.  ``raw``: where it stores its result's bytes."""

    title: str
    command: tuple[str, ...]
    raw: Path


@dataclass(frozen=True)
class Result:
    """What one run printed, stored, and how its kernels were run."""

    device: str
    seconds: float
    checksum: str
    work: str
    raw: bytes
    kernels: Mapping[str, Mapping[str, object]]


def programs(folder: Path, quick: bool) -> list[Program]:
    """The C program, compiled, and the Python program, with their arguments."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise DemoError("the demo needs a C compiler: apt install gcc")
    matmul = folder / "matmul"
    build = [compiler, "-O2", str(HERE / "matmul.c"), "-o", str(matmul), "-lOpenCL", "-lm"]
    built = subprocess.run(build, capture_output=True, text=True, check=False)
    if built.returncode:
        raise DemoError(f"{built.stderr}\nthe demo needs: apt install ocl-icd-opencl-dev opencl-headers")
    size, rounds, steps = ("256", "2", "40") if quick else ("768", "4", "300")
    picture = OUT / "terrain.png"
    OUT.mkdir(exist_ok=True)
    raw = folder / "result.raw"
    terrain = (sys.executable, str(HERE / "terrain.py"), "--steps", steps, "--out", str(picture))
    return [
        Program("demo/matmul.c, a C program", (str(matmul), size, rounds, str(raw)), raw),
        Program("demo/terrain.py, a PyOpenCL program", (*terrain, "--raw", str(raw)), raw),
    ]


def plain_environ() -> dict[str, str]:
    """The user's environment, in which the loader finds the plain drivers."""
    return {name: value for name, value in os.environ.items() if name not in ("OCL_ICD_VENDORS", "SDI_STATS")}


def run(program: Program, members: int, folder: Path) -> Result:
    """One run, on the plain driver when ``members`` is 0."""
    stats = folder / "stats.json"
    for old in (stats, program.raw):
        old.unlink(missing_ok=True)
    environ, command = plain_environ(), program.command
    if members:
        # Small programs on few processors are not always worth splitting; here they must be.
        environ = {"SDI_SPLIT": "always"} | environ | {"SDI_STATS": str(stats)}
        command = (sys.executable, "-m", "sdi.cli", "run", "-n", str(members), "--stats", "--", *command)
    try:
        ended = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{program.title} took more than {LIMIT_S:.0f} s") from error
    if ended.returncode:
        raise DemoError(f"{program.title} failed:\n{ended.stdout}{ended.stderr}")
    printed = dict(line.partition(" ")[::2] for line in ended.stdout.splitlines())
    work = re.search(r"^(.*): right$", ended.stdout, re.M)
    return Result(
        device=printed["device"],
        seconds=float(printed["time"]),
        checksum=printed["checksum"],
        work=work[1] if work else "",
        raw=program.raw.read_bytes(),
        kernels=json.loads(stats.read_text())["kernels"] if members else {},
    )


def difference(actual: bytes, expected: bytes) -> str:
    """ "identical", or where the first byte differs."""
    if actual == expected:
        return "identical"
    if len(actual) != len(expected):
        return f"{len(actual)} bytes instead of {len(expected)}"
    first = next(i for i, (a, b) in enumerate(zip(actual, expected, strict=True)) if a != b)
    return f"byte {first}: {actual[first]:#04x} instead of {expected[first]:#04x}"


def how_split(kernel: Mapping[str, object]) -> str:
    """How the launches of one kernel were run: "300 on 4 devices, 25 + 25 + ... % of the work-groups"."""
    split, whole = int(str(kernel["launches_split"])), int(str(kernel["launches_whole"]))
    groups = kernel["groups_per_member"]
    assert isinstance(groups, list)
    parts = []
    if split:
        ends = [round(100 * sum(groups[: k + 1]) / sum(groups)) for k in range(len(groups))]
        shares = [end - start for start, end in zip([0, *ends], ends, strict=False)]
        used = sum(share > 0 for share in shares)
        parts.append(f"{split} on {used} devices, {' + '.join(map(str, shares))} % of the work-groups")
    if whole:
        parts.append(f"{whole} on one device ({kernel['why_whole'] or 'no reason given'})")
    return "; ".join(parts)


def show(program: Program, folder: Path) -> bool:
    """Run one program everywhere and print its table; False when a result differs."""
    print(f"\n{program.title}")
    plain = run(program, 0, folder)
    print(f"  {plain.work}\n")
    print(f"  {'runs on':<18}{'time':>9}  {'checksum':<18}{'result':<12}")
    print(f"  {'plain driver':<18}{plain.seconds:>7.2f} s  {plain.checksum:<18}")
    fine = True
    last: Result | None = None
    for members in MEMBERS:
        last = run(program, members, folder)
        verdict = difference(last.raw, plain.raw)
        fine &= verdict == "identical"
        label = f"SDI, {members} device{'s' * (members > 1)}"
        print(f"  {label:<18}{last.seconds:>7.2f} s  {last.checksum:<18}{verdict}", flush=True)
    assert last is not None
    print(f"\n  launches on {last.device}:")
    for name, kernel in last.kernels.items():
        print(f"    {name:<12}{how_split(kernel)}")
    return fine


def main() -> int:
    """Print a table for each program; 0 when all results are identical."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller problems")
    options = parser.parse_args()
    print(
        "Two ordinary OpenCL programs: first on the plain driver, then on several devices that look like one."
    )
    try:
        with tempfile.TemporaryDirectory(prefix="demo-") as folder:
            fine = [show(program, Path(folder)) for program in programs(Path(folder), options.quick)]
    except DemoError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    print(f"\nThe picture of the landscape is {OUT / 'terrain.png'}")
    if not all(fine):
        print("demo: results differ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
