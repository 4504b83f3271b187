"""Figures from what was measured: medians, spreads, speed-ups, bytes.  Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.figures.setups import Setup

Measured = Mapping[str, Any]
"""One application in the raw figures."""


@dataclass(frozen=True, slots=True)
class Times:
    """Median and extremes in ns of some runs; ``runs`` is never 0."""

    median: float
    least: float
    most: float
    runs: int

    @property
    def spread(self) -> float:
        """From the fastest to the slowest, relative to the median."""
        return (self.most - self.least) / self.median


def errors(measured: Measured) -> list[str]:
    """What went wrong in which setup."""
    return [
        f"{label}: {s['error']}" for label, found in measured["setups"].items() for s in found if "error" in s
    ]


def _runs(measured: Measured, setup: Setup) -> list[Mapping[str, Any]]:
    """All runs that count: not the first of a process, which compiles."""
    samples = measured["setups"].get(setup.label, [])
    return [run for sample in samples if "error" not in sample for run in sample["runs"][1:]]


def _times(measured: Measured, setup: Setup, of: Callable[[Mapping[str, Any]], float]) -> Times | None:
    values = [of(run) for run in _runs(measured, setup)]
    return Times(statistics.median(values), min(values), max(values), len(values)) if values else None


def wall(measured: Measured, setup: Setup) -> Times | None:
    """From the first buffer to the last result; None when no run succeeded."""
    return _times(measured, setup, lambda run: run["wall_ns"])


def kernels(measured: Measured, setup: Setup) -> Times | None:
    """Time of all launches, from each one's first assignment to the end of its last one and of its merges."""
    return _times(measured, setup, lambda run: sum(run["kernel_ns"].values()))


def parallel_fraction(measured: Measured) -> float | None:
    """Kernel time in the run time of the plain driver: column E, and Amdahl's parallel fraction."""
    values = [sum(run["kernel_ns"].values()) / run["wall_ns"] for run in _runs(measured, Setup(0))]
    return min(1.0, statistics.median(values)) if values else None


def ideal(fraction: float, members: int) -> float:
    """Amdahl's speed-up."""
    return 1 / (1 - fraction + fraction / members)


def ratio(over: Times | None, under: Times | None) -> float | None:
    """How many times faster ``under`` is."""
    return over.median / under.median if over and under and under.median else None


def same_bytes(measured: Measured, one: Setup, other: Setup) -> bool | None:
    """Whether all runs of two setups computed the same; None when one of them never ran."""
    digests = []
    for setup in (one, other):
        samples = measured["setups"].get(setup.label, [])
        digests.append([s["digests"] for s in samples if "error" not in s])
    if not all(digests):
        return None
    return all(each == digests[0][0] for found in digests for each in found)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of one run, on average over all runs: copied by kind of link, and compared with twins."""

    host_to_member: float
    member_to_host: float
    member_to_member: float
    merged: float

    @property
    def total(self) -> float:
        """All that is copied."""
        return self.host_to_member + self.member_to_host + self.member_to_member


def traffic(measured: Measured, setup: Setup) -> Traffic | None:
    """What the service counted."""
    found = [s for s in measured["setups"].get(setup.label, []) if s.get("counters")]
    runs = sum(len(s["runs"]) for s in found)
    if not runs:
        return None
    moved = [s["counters"]["bytes_moved"] for s in found]
    merged = sum(s["counters"]["memory"]["twin_nbytes"] for s in found)
    return Traffic(
        sum(m["host_to_member"] for m in moved) / runs,
        sum(m["member_to_host"] for m in moved) / runs,
        sum(m["member_to_member"] for m in moved) / runs,
        merged / runs,
    )


@dataclass(frozen=True, slots=True)
class Spans:
    """Medians over the runs that count, in ns: see ``spans.py``.  ``kernel_ns``: by member."""

    kernel_ns: tuple[float, ...]
    copy_ns: float
    application_ns: float
    merge_ns: float

    @property
    def mean_kernel_ns(self) -> float:
        """Kernel time per member."""
        return sum(self.kernel_ns) / len(self.kernel_ns)

    @property
    def imbalance(self) -> float:
        """How much less the mean member computes than the busiest."""
        return 1 - self.mean_kernel_ns / max(self.kernel_ns) if max(self.kernel_ns) else 0.0


def spans(measured: Measured, setup: Setup) -> Spans | None:
    """What members did in a run; None where no profile tells."""
    samples = measured["setups"].get(setup.label, [])
    runs = [run for sample in samples for run in sample.get("spans", [])[1:]]
    if not runs:
        return None
    members = list(zip(*(run["kernel_ns"] for run in runs), strict=True))
    copies, application, merges = (
        statistics.median(run[name] for run in runs) for name in ("copy_ns", "application_ns", "merge_ns")
    )
    return Spans(tuple(statistics.median(found) for found in members), copies, application, merges)


def planning_share(measured: Measured, setup: Setup) -> float | None:
    """Access ranges and choice of cuts at launch, as a part of the median run time; None: never ran."""
    found = [s for s in measured["setups"].get(setup.label, []) if s.get("counters")]
    runs = sum(len(s["runs"]) for s in found)
    plan_ns = sum(kernel["plan_ns"] for s in found for kernel in s["counters"]["kernels"].values())
    usual = wall(measured, setup)
    return plan_ns / runs / usual.median if runs and usual else None


def planning_spans(measured: Measured, setup: Setup) -> tuple[float, float, float] | None:
    """Parts of the run time: planning in the first runs of processes, in the median of the others, and what
    of that went on while members had nothing to do; None where no profile tells.
    """
    first, later, idle = [], [], []
    for sample in measured["setups"].get(setup.label, []):
        for number, (run, span) in enumerate(
            zip(sample.get("runs", []), sample.get("spans", []), strict=False)
        ):
            if "plan_ns" not in span:
                return None
            if number:
                later.append(span["plan_ns"] / run["wall_ns"])
                idle.append(span["plan_idle_ns"] / run["wall_ns"])
            else:
                first.append(span["plan_ns"] / run["wall_ns"])
    if not (first and later):
        return None
    return statistics.median(first), statistics.median(later), statistics.median(idle)


def communicates(measured: Measured, setup: Setup) -> bool:
    """Column F: whether members fetched from others what kernels had written."""
    written = _written_buffers(measured)
    names = {access["kernel"]: access["arguments"] for access in measured["accesses"]}
    fetched: set[tuple[str, str]] = set()
    for sample in measured["setups"].get(setup.label, []):
        causes = (sample.get("counters") or {}).get("memory", {}).get("causes", {})
        for cause, links in causes.items():
            kernel, _, arguments = cause.partition(": ")
            if kernel in names and any("host" not in link for link in links):
                fetched |= {(kernel, argument) for argument in arguments.split(", ")}
    return any(
        (launch["kernel"], name) in fetched and value in written
        for launch in measured["launches"]
        for name, value in zip(names[launch["kernel"]], launch["arguments"], strict=True)
        if isinstance(value, int)
    )


def _written_buffers(measured: Measured) -> set[int]:
    """The numbers of the buffers that some kernel writes."""
    written = {access["kernel"]: set(access["written"]) for access in measured["accesses"]}
    names = {access["kernel"]: access["arguments"] for access in measured["accesses"]}
    return {
        value
        for launch in measured["launches"]
        for name, value in zip(names[launch["kernel"]], launch["arguments"], strict=True)
        if isinstance(value, int) and name in written[launch["kernel"]]
    }


def ran_whole(measured: Measured, setup: Setup) -> list[str]:
    """A line for each kernel some of whose launches ran whole, over all processes, with the last reason."""
    found: dict[str, tuple[int, int, str]] = {}
    for sample in measured["setups"].get(setup.label, []):
        for name, kernel in (sample.get("counters") or {}).get("kernels", {}).items():
            whole, all_launches, why = found.get(name, (0, 0, ""))
            whole, all_launches = whole + kernel["launches_whole"], all_launches + kernel["launches_whole"]
            all_launches += kernel["launches_split"]
            found[name] = (whole, all_launches, kernel["why_whole"] or why)
    return [
        f"{name}: {whole} of {all_launches} launches whole ({why})"
        for name, (whole, all_launches, why) in found.items()
        if whole
    ]


def merging(measured: Measured, setup: Setup) -> list[str]:
    """The kernels some of whose launches needed twins."""
    counted = [s["counters"]["kernels"] for s in measured["setups"].get(setup.label, []) if s.get("counters")]
    return sorted(
        {name for kernels in counted for name, kernel in kernels.items() if kernel["plans_merging"]}
    )


def grids(measured: Measured) -> list[tuple[str, str, int]]:
    """For each kernel its name, its largest grid of work-groups, and how often it is launched in a run."""
    found: dict[str, tuple[int, str, int]] = {}
    for launch in measured["launches"]:
        sizes: Sequence[tuple[int, int]] = list(zip(launch["global_size"], launch["local_size"], strict=True))
        groups, text = 1, ":".join(str(size // local) for size, local in sizes)
        for size, local in sizes:
            groups *= size // local
        most, known, times = found.get(launch["kernel"], (0, "", 0))
        if groups > most:
            most, known = groups, text
        found[launch["kernel"]] = (most, known, times + launch["times"])
    return [(name, text, times) for name, (_, text, times) in found.items()]
