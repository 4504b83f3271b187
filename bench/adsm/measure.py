"""Runs, each in a process of its own: seconds, bytes and faults."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.adsm.programs import Parts

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600.0
UPDATES = ("batch", "eager", "lazy", "rolling")


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of run, of several processes: medians.  Bytes and faults: of one of a process's two runs."""

    run: str
    arguments: tuple[str | int, ...]
    update: str
    """``buffers``: no fine-grained memory; else as in SDI_FINE_GRAIN."""
    members: int
    parts: Parts
    to_members: int
    to_host: int
    faults: int
    faults_s: float


@dataclass(frozen=True, slots=True)
class Bench:
    """How often, and where.

    ``inputs``: a folder that keeps what the runs begin with.  ``without``: updates to leave out.
    """

    rounds: int
    members: int
    inputs: Path
    without: frozenset[str] = frozenset()

    def measure(self, run: str, arguments: Sequence[str | int], updates: Sequence[str]) -> list[Measured]:
        """The updates in turn, ``rounds`` times.  Raises RuntimeError where one fails."""
        found: dict[str, list[Measured]] = {update: [] for update in updates if update not in self.without}
        for _ in range(self.rounds):
            for update in found:
                found[update].append(self._one(run, tuple(arguments), update))
        return [_median(runs) for runs in found.values()]

    def _one(self, run: str, arguments: tuple[str | int, ...], update: str) -> Measured:
        way = "buffers" if update == "buffers" else "eager"
        with tempfile.TemporaryDirectory() as folder:
            stats = Path(folder) / "stats.json"
            environ = {
                **os.environ,
                "SDI_FINE_GRAIN": "eager" if update == "buffers" else update,
                "SDI_SPLIT": "always",
                "SDI_NUM_GPUS": str(self.members),
                "SDI_STATS": str(stats),
                "PYOPENCL_NO_CACHE": "1",
                "BENCH_INPUTS": str(self.inputs),
            }
            asked = json.dumps([run, way, *arguments])
            command = [sys.executable, "-m", "bench.adsm", "--one", asked]
            inside = [] if "OCL_ICD_VENDORS" in environ else [sys.executable, "-m", "sdi.cli", "run", "--"]
            done = subprocess.run(
                [*inside, *command],
                env=environ,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
            if done.returncode:
                raise RuntimeError(f"{asked}, {update}: {done.stderr.strip()[-800:]}")
            counters = json.loads(stats.read_text())
        moved, memory = counters["bytes_moved"], counters["memory"]
        return Measured(
            run,
            arguments,
            update,
            self.members,
            json.loads(done.stdout.splitlines()[-1]),
            moved["host_to_member"] // 2,
            moved["member_to_host"] // 2,
            memory["host_faults"] // 2,
            memory["host_faults_ns"] / 2e9,
        )


def _median(runs: Sequence[Measured]) -> Measured:
    first = runs[0]
    return Measured(
        first.run,
        first.arguments,
        first.update,
        first.members,
        {part: statistics.median(run.parts[part] for run in runs) for part in first.parts},
        int(statistics.median(run.to_members for run in runs)),
        int(statistics.median(run.to_host for run in runs)),
        int(statistics.median(run.faults for run in runs)),
        statistics.median(run.faults_s for run in runs),
    )


def to_json(found: Sequence[Measured]) -> list[dict[str, object]]:
    """As a file has it."""
    return [asdict(each) for each in found]


def from_json(found: Sequence[dict[str, object]]) -> list[Measured]:
    """From a file."""
    return [Measured(**{**each, "arguments": tuple(each["arguments"])}) for each in found]  # type: ignore[arg-type]
