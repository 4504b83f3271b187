"""All figures within a given time: what matters most first, and what no longer fits is left out, with a note.

For a machine that is there for minutes.  Inputs are made beforehand, all at once; setups that need different
GPUs run side by side (the host's memory and its links are then shared: short runs suffer most); one setup's
results are checked in the background.  Every application gets the plain driver and all numbers of members
before any gets the protocol through the host.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.applications import NAMES
from bench.figures.measure import BEYOND, BEYOND_SHARE, Raw, analyse, measure_links, progress
from bench.figures.setups import ROOT, Host, Setup

_RESERVE_S = 6.0
"""Left for writing what was measured."""
_LEAST_S = 12.0
"""No process is begun with less."""
_SMALLER = {"gpu": "paper"}
"""The size that an application gets when it is too slow for the one asked for."""
PAPER = NAMES[:11]
FIRST = ("correlator", "eigenvalue", "rpes", "mri_q", "nbody", "black_scholes", "cp", "tpacf")
"""The four that the paper found poor, then what is likely to be quick."""


@dataclass(slots=True)
class Budget:
    """Measures until ``deadline`` (``time.monotonic``).  ``store``: called with all of it, time and again."""

    host: Host
    size: str
    members: Sequence[int]
    repeat: int
    gpus: int
    deadline: float
    raw: Raw
    store: Callable[[Raw], None]
    checks: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def left_s(self) -> float:
        """Time for processes."""
        return self.deadline - time.monotonic() - _RESERVE_S

    def measure(self, names: Sequence[str]) -> None:
        """Everything, in order of importance."""
        paper = sorted((n for n in names if n in PAPER), key=lambda n: (n not in FIRST, _place(n)))
        others = [name for name in names if name not in PAPER]
        made = self._prepare([*paper, *others])
        slow = [name for name in paper if not self._side_by_side(name, self.size, made)]
        for name in slow:
            if self.size in _SMALLER:
                self.raw["applications"].pop(name, None)
                self._side_by_side(name, _SMALLER[self.size], made)
        if self.left_s() > _LEAST_S:
            self.raw["links"] = measure_links(self.host, max(self.members), 1 << 28, self.left_s())
        most = max(self.members)
        for name in paper if most > 1 else []:
            self._one(name, Setup(most, "host"))
        for name in others:
            self._side_by_side(name, self.size, made)
        self._beyond([name for name in names if name in BEYOND])
        for name in [*others, *paper] if most > 1 else []:
            for number in self.members:
                if 1 < number < most or (number == most and name in others):
                    self._one(name, Setup(number, "host"))
        self._checked()
        progress("")

    def _prepare(self, names: Sequence[str]) -> dict[str, subprocess.Popen[bytes]]:
        """Make all inputs, in processes beside each other."""
        assert self.host.inputs is not None
        self.host.inputs.mkdir(parents=True, exist_ok=True)
        found = {}
        for name in names:
            for size in (self.size, _SMALLER.get(self.size)) if name in FIRST[:4] else (self.size,):
                if size is not None:
                    found[f"{name}-{size}"] = self._background(name, size, "--prepare")
        return found

    def _background(self, name: str, size: str, *options: str) -> subprocess.Popen[bytes]:
        assert self.host.inputs is not None
        command = ["nice", sys.executable, "-m", "bench.applications", name, "--size", size]
        command += [
            "--inputs",
            str(self.host.inputs),
            "--results",
            str(self.host.inputs / "results"),
            *options,
        ]
        threads = {f"{library}_NUM_THREADS": "4" for library in ("OMP", "OPENBLAS")}
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | threads,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def _side_by_side(self, name: str, size: str, made: dict[str, subprocess.Popen[bytes]]) -> bool:
        """The plain driver and all members of one application; whether it was quick enough for that."""
        found: Raw = {"size": size, "members": list(self.members), "setups": {}}
        if self.left_s() < _LEAST_S:
            self._skip(name, "no time was left for it")
            return True
        if (maker := made.get(f"{name}-{size}")) is not None:
            self._step(f"{name}: inputs")
            try:
                maker.wait(self.left_s())
            except subprocess.TimeoutExpired:
                maker.kill()
                self._skip(name, "its inputs took too long")
                return True
        groups = _groups([Setup(0), *map(Setup, self.members)], self.gpus)
        for group in groups:
            limit_s = min(self.host.limit_s, self.left_s())
            if limit_s < _LEAST_S:
                self._skip(name, f"no time was left for {', '.join(setup.label for setup, _ in group)}")
                break
            self._step(f"{name}: {', '.join(setup.label for setup, _ in group)}, {self.left_s():.0f} s left")
            with ThreadPoolExecutor(len(group)) as pool:
                jobs = [pool.submit(self._run, name, size, *job, limit_s) for job in group]
                samples = [job.result() for job in jobs]
            for (setup, _), sample in zip(group, samples, strict=True):
                for key in ("title", "buffers", "launches"):
                    if key in sample:
                        found[key] = sample.pop(key)
                found["setups"].setdefault(setup.label, []).append(sample)
                if setup == _checked_setup(self.members) and "error" not in sample:
                    self.checks[name] = self._background(name, size, "--check-results")
            if all("took more than" in sample.get("error", "") for sample in samples):
                self.raw["applications"][name] = found
                return False
        if "launches" in found:
            analyse(name, found, max(self.members))
        self.raw["applications"][name] = found
        self.store(self.raw)
        return True

    def _run(self, name: str, size: str, setup: Setup, gpus: Sequence[int], limit_s: float) -> Raw:
        settings = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if self.gpus else {}
        check = setup == _checked_setup(self.members)
        return self.host.run(setup, name, size, self.repeat + 1, check, limit_s, settings)

    def _one(self, name: str, setup: Setup) -> None:
        """One more setup of an application that was measured."""
        found = self.raw["applications"].get(name, {})
        if "launches" not in found:
            return
        limit_s = min(self.host.limit_s, self.left_s())
        if limit_s < _LEAST_S:
            self._skip(name, f"no time was left for {setup.label}")
            return
        self._step(f"{name}: {setup.label}, {self.left_s():.0f} s left")
        sample = self._run(name, found["size"], setup, range(setup.members), limit_s)
        for key in ("title", "buffers", "launches"):
            sample.pop(key, None)
        found["setups"].setdefault(setup.label, []).append(sample)
        self.store(self.raw)

    def _beyond(self, names: Sequence[str]) -> None:
        """Figure 15, at a size that is done in time."""
        for name in names:
            measured = self.raw["applications"].get(name, {})
            if "buffers" not in measured:
                continue
            limit = int(sum(measured["buffers"]) * BEYOND_SHARE)
            found: Raw = {"size": measured["size"], "limit_nbytes": limit, "setups": {}}
            found["needed_nbytes"] = sum(measured["buffers"])
            for number in sorted({1, *self.members}):
                if self.left_s() < 2 * _LEAST_S:
                    self._skip(name, f"no time was left for figure 15 with {number}")
                    continue
                setup = Setup(number, memory_nbytes=limit)
                self._step(f"{name}: members of {limit >> 20} MiB, {setup.label}, {self.left_s():.0f} s left")
                limit_s = min(self.host.limit_s, self.left_s())
                found["setups"][setup.label] = [
                    self._run(name, measured["size"], setup, range(number), limit_s)
                ]
            if found["setups"]:
                self.raw["beyond"][name] = found
                self.store(self.raw)

    def _checked(self) -> None:
        """How the results of one setup compare with the host's own computation."""
        for name, process in self.checks.items():
            self._step(f"{name}: check")
            try:
                _, said = process.communicate(timeout=max(1.0, self.left_s()))
                lines = said.decode(errors="replace").strip().splitlines()
                checked = "right" if process.returncode == 0 else (lines or ["failed"])[-1]
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                checked = "not checked: no time was left"
            self.raw["applications"][name]["checked"] = checked
        self.store(self.raw)

    def _step(self, what: str) -> None:
        """Say what is done now, on a terminal, and when it began, in the raw figures."""
        progress(what)
        self.raw.setdefault("steps", []).append(what)

    def _skip(self, name: str, why: str) -> None:
        self.raw.setdefault("skipped", []).append(f"{name}: {why}")


def _place(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST) + NAMES.index(name)


def _checked_setup(members: Sequence[int]) -> Setup:
    return Setup(max(members))


def _groups(setups: Sequence[Setup], gpus: int) -> list[list[tuple[Setup, range]]]:
    """Setups that run at the same time, each with GPUs of its own; one at a time without GPUs."""
    groups: list[list[tuple[Setup, range]]] = []
    used = gpus
    for setup in setups:
        count = max(1, setup.members)
        if not groups or used + count > gpus:
            groups.append([])
            used = 0
        groups[-1].append((setup, range(used, used + count)))
        used += count
    return groups


def prepared() -> Path:
    """A new folder for inputs and results: in memory if there is room, else where temporary files are."""
    shared = "/dev/shm"
    try:
        found = os.statvfs(shared)
        has_room = found.f_bavail * found.f_frsize > 64 << 30
    except OSError:
        has_room = False  # there is no such file system
    return Path(tempfile.mkdtemp(prefix="sdi-figures-", dir=shared if has_room else None))
