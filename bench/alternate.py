"""Programs beside the plain driver: each runs on it and on images, in turn, and medians are compared.

``python bench/alternate.py LIST [--ways 1:always,2:auto,4:auto] [--rounds 5] [--only TEXT]...``

LIST: a file with a program per line: name, folder to run it in and command, divided by ``|``.  Each way is a
number of members and ``SDI_SPLIT``.  Before the rounds every program runs once each way, so that compiled
kernels are in the caches of drivers; programs for which that takes less than ``--shortest`` seconds on the
plain driver are left out.  Per way: the ratio to the plain driver of seconds passed, and of processor seconds
of the application and its service together (user and system), which other programs on the machine disturb
least.  Ends with 1 when a program fails that runs on the plain driver, or when an image takes more than
``--most`` times the plain driver's time by both ratios.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sdi.locate import vendors

LIMIT_S = 600.0
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Program:
    """One line of the list."""

    name: str
    folder: Path
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds passed, processor seconds of all processes of the run, and how the application ended."""

    wall_s: float
    cpu_s: float
    status: int


def adopt_orphans() -> None:
    """Become the parent of services, which leave their application: then what they used is known here."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run(program: Program, settings: dict[str, str]) -> Run:
    """Run it; return when all processes that it left behind have ended too (not part of ``wall_s``)."""
    begin = time.monotonic()
    started = subprocess.Popen(
        ["timeout", str(LIMIT_S), *program.command],
        cwd=program.folder,
        env=settings,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall_s = cpu_s = 0.0
    while True:
        try:
            pid, status, used = os.wait4(-1, 0)
        except ChildProcessError:
            return Run(wall_s, cpu_s, started.returncode)
        cpu_s += used.ru_utime + used.ru_stime
        if pid == started.pid:
            wall_s = time.monotonic() - begin
            started.returncode = os.waitstatus_to_exitcode(status)


def settings_of(way: str) -> dict[str, str]:
    """For ``plain``, or members and split as ``2:auto``."""
    found = {name: text for name, text in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))}
    if way != "plain":
        members, _, split = way.partition(":")
        found |= {"OCL_ICD_VENDORS": str(vendors()), "SDI_NUM_GPUS": members, "SDI_SPLIT": split}
    return found


def programs_in(path: Path) -> list[Program]:
    """The programs of a list; empty lines and lines that begin with ``#`` say nothing."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            name, folder, command = (part.strip() for part in line.split("|", 2))
            found.append(Program(name, (path.parent / folder).resolve(), tuple(shlex.split(command))))
    return found


def main(arguments: list[str]) -> int:
    """Run everything, a row of the table per program as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("--ways", default="1:always,2:auto,4:auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--shortest", type=float, default=0.5)
    parser.add_argument("--most", type=float)
    given = parser.parse_args(arguments)
    ways = ["plain", *given.ways.split(",")]
    settings = {way: settings_of(way) for way in ways}
    adopt_orphans()
    machine = f"{platform.machine()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    print(f"{machine}; medians of {given.rounds}")
    print("| program | plain s (cpu s) | " + " | ".join(f"{way} (cpu)" for way in ways[1:]) + " |")
    print("|---" * (len(ways) + 1) + "|")
    is_bad = False
    for program in programs_in(given.list):
        if given.only and not any(text in program.name for text in given.only):
            continue
        first = {way: run(program, settings[way]) for way in ways}
        failed = [way for way in ways if first[way].status]
        if failed:
            ended = ", ".join(f"{way} ended with {first[way].status}" for way in failed)
            print(f"| {program.name} | {ended} |", flush=True)
            is_bad |= not first["plain"].status
            continue
        if first["plain"].wall_s < given.shortest:
            continue
        runs: dict[str, list[Run]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way in ways:
                runs[way].append(run(program, settings[way]))
        wall = {way: statistics.median(each.wall_s for each in runs[way]) for way in ways}
        cpu = {way: statistics.median(each.cpu_s for each in runs[way]) for way in ways}
        cells = [f"{wall[way] / wall['plain']:.2f} ({cpu[way] / cpu['plain']:.2f})" for way in ways[1:]]
        print(
            f"| {program.name} | {wall['plain']:.2f} ({cpu['plain']:.2f}) | {' | '.join(cells)} |", flush=True
        )
        if given.most is not None:
            is_bad |= any(
                min(wall[way] / wall["plain"], cpu[way] / cpu["plain"]) > given.most for way in ways[1:]
            )
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
