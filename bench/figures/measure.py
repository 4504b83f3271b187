"""Runs everything: setups in turn, round after round, for each application."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from bench.applications.program import load
from bench.figures.accesses import application_accesses
from bench.figures.setups import ROOT, Host, Setup

BEYOND = ("black_scholes", "matrix_mul")
"""The applications of figure 15."""
BEYOND_SHARE = 0.6
"""In figure 15 a member has this part of what the application's buffers need in all."""

Raw = dict[str, Any]
"""All that was measured, as the JSON file has it."""


def setups_for(members: Sequence[int]) -> list[Setup]:
    """The plain driver, one member, N members, and N with results through the host."""
    numbers = sorted({1, *members})
    return [Setup(0), *map(Setup, numbers), *(Setup(n, "host") for n in numbers if n > 1)]


def machine(host: Host) -> Raw:
    """What the figures belong to."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    driver = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpus = subprocess.run(driver, capture_output=True, text=True, check=False).stdout.strip().split("\n")
    except FileNotFoundError:
        gpus = []
    return {
        "commit": os.environ.get("SDI_BENCH_COMMIT", commit),
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "cpus": len(os.sched_getaffinity(0)),
        "cpu": platform.processor() or platform.machine(),
        "gpus": gpus,
        "split": host.split,
    }


def measure_application(
    host: Host, name: str, size: str, members: Sequence[int], rounds: int, repeat: int
) -> Raw:
    """All setups of one application in turn, ``rounds`` times; the first run of a process never counts."""
    setups = setups_for(members)
    samples: dict[str, list[Raw]] = {setup.label: [] for setup in setups}
    found: Raw = {"size": size, "members": list(members), "setups": samples}
    for number in range(rounds):
        for setup in setups:
            progress(f"{name}: round {number + 1} of {rounds}, {setup.label}")
            sample = host.run(setup, name, size, repeat + 1, check=number == 0)
            for key in ("title", "buffers", "launches"):
                if key in sample:
                    found[key] = sample.pop(key)
            samples[setup.label].append(sample)
    if "launches" in found:
        analyse(name, found, max(members))
    return found


def analyse(name: str, found: Raw, members: int) -> None:
    """Have the analysis say what the application's launches access."""
    progress(f"{name}: access analysis")
    found["accesses"] = application_accesses(load(name).SOURCE, found["launches"], found["buffers"], members)


def measure_beyond(host: Host, name: str, size: str, members: Sequence[int], needed_nbytes: int) -> Raw:
    """Figure 15: members that are too small for the whole problem; one spills, several share it."""
    limit = int(needed_nbytes * BEYOND_SHARE)
    samples = {}
    for number in sorted({1, *members}):
        setup = Setup(number, memory_nbytes=limit)
        progress(f"{name}: members of {limit / 2**20:.0f} MiB, {setup.label}")
        samples[setup.label] = [host.run(setup, name, size, 3, check=True)]
    return {"size": size, "limit_nbytes": limit, "needed_nbytes": needed_nbytes, "setups": samples}


def measure_links(host: Host, members: int, most_nbytes: int, limit_s: float = 300.0) -> Raw:
    """Figure 7, in a process with the members' own drivers; ``{"error": text}`` when that goes wrong."""
    progress("links")
    environ = os.environ | {"SDI_IN_SERVICE": "1"}
    command = [sys.executable, "-m", "bench.figures.links"]
    command += ["--members", str(min(members, 2)), "--most", str(most_nbytes)]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {limit_s:.0f} s"}
    if ended.returncode:
        return {"error": ended.stderr[-500:]}
    found: Raw = json.loads(ended.stdout)
    return found


def progress(text: str) -> None:
    """Say on stderr what is going on: on a terminal in one line, else not at all."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
