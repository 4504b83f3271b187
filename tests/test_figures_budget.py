"""What ``bench figures --budget`` measures where time is short, on a host that only pretends."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from bench.applications import NAMES, kept
from bench.applications.program import load
from bench.figures import budget as budget_module
from bench.figures.budget import FIRST, PAPER, Budget, _groups
from bench.figures.report import report
from bench.figures.setups import Host, Setup


class Pretender:
    """Answers what processes would, at once; ``slow``: (application, size) that take too long."""

    def __init__(self, folder: Path, slow: set[tuple[str, str]]) -> None:
        self.inputs, self.limit_s, self.slow = folder, 30.0, slow
        self.asked: list[tuple[str, str, str]] = []

    def run(
        self,
        setup: Setup,
        name: str,
        size: str,
        repeat: int,
        check: bool,
        limit_s: float,
        settings: Mapping[str, str],
    ) -> dict[str, Any]:
        self.asked.append((name, size, setup.label))
        if (name, size) in self.slow:
            return {"error": f"took more than {limit_s:.0f} s"}
        runs = [{"wall_ns": 100, "kernel_ns": {"k": 80}}] * repeat
        found = {"device": "d", "runs": runs, "digests": {"out": "1"}, "title": name, "buffers": [8]}
        return found | {"launches": [], "gpus": settings.get("CUDA_VISIBLE_DEVICES")}


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No processes: neither inputs nor checks nor links nor analysis."""
    monkeypatch.setattr(Budget, "_prepare", lambda self, names: {})
    monkeypatch.setattr(Budget, "_checked", lambda self: None)
    monkeypatch.setattr(budget_module, "measure_links", lambda *_: {"seconds": {}})
    monkeypatch.setattr(budget_module, "analyse", lambda *_: None)
    monkeypatch.setattr(Budget, "_background", lambda *_: None)


def measured(tmp_path: Path, seconds: float, slow: set[tuple[str, str]]) -> tuple[Pretender, dict[str, Any]]:
    host = Pretender(tmp_path, slow)
    raw: dict[str, Any] = {"applications": {}, "beyond": {}, "links": {}, "skipped": []}
    raw["machine"] = {"commit": "c", "date": "d", "cpus": 2, "gpus": ["g"] * 4, "split": "auto"}
    deadline = time.monotonic() + seconds
    Budget(
        cast(Host, host), "gpu", [1, 2, 4], 2, 4, deadline, raw, lambda raw: json.dumps(raw) and None
    ).measure(NAMES)
    return host, raw


def test_gpus_are_shared_out_and_never_shared() -> None:
    setups = [Setup(0), Setup(1), Setup(2), Setup(4)]
    groups = _groups(setups, 4)
    assert [[setup.members for setup, _ in group] for group in groups] == [[0, 1, 2], [4]]
    assert [list(gpus) for _, gpus in groups[0]] == [[0], [1], [2, 3]]
    assert [[setup.members for setup, _ in group] for group in _groups(setups[:3], 2)] == [[0, 1], [2]]
    assert [len(group) for group in _groups(setups, 0)] == [1, 1, 1, 1]


@pytest.mark.usefixtures("quiet")
def test_the_eleven_come_first_then_the_host_protocol_then_the_others(tmp_path: Path) -> None:
    host, raw = measured(tmp_path, 1000.0, set())
    names = list(dict.fromkeys(name for name, _, _ in host.asked))
    assert names[:4] == list(FIRST[:4]) and set(names[:11]) == set(PAPER) and set(names) == set(NAMES)
    labels = [label for _, _, label in host.asked]
    assert "through the host" not in " ".join(labels[:44]) and "through the host" in labels[44]
    assert list(raw["applications"]["nbody"]["setups"])[:4] == ["plain", "1 member", "2 members", "4 members"]
    assert raw["skipped"] == [] and set(raw["beyond"]) == {"black_scholes", "matrix_mul"}


@pytest.mark.usefixtures("quiet")
def test_what_is_too_slow_is_tried_at_a_smaller_size(tmp_path: Path) -> None:
    host, raw = measured(tmp_path, 1000.0, {("eigenvalue", "gpu")})
    assert raw["applications"]["eigenvalue"]["size"] == "paper"
    assert [label for name, size, label in host.asked if (name, size) == ("eigenvalue", "gpu")] == [
        "plain",
        "1 member",
        "2 members",
    ]


@pytest.mark.usefixtures("quiet")
def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    host, raw = measured(tmp_path, 10.0, set())
    assert host.asked == [] and len(raw["skipped"]) == len(NAMES)
    raw["budget"] = 10.0
    text = report(raw, "gpu", [])
    assert "* left out: correlator: no time was left for it" in text


def test_inputs_and_results_are_kept_in_files(tmp_path: Path) -> None:
    application = load("nbody")
    made = application.inputs(application.SIZES["smoke"])
    for _ in range(2):
        found = kept.inputs(application, "nbody", "smoke", tmp_path)
        assert list(found) == list(made)
        assert all((found[name] == made[name]).all() for name in made)
    assert (
        kept.digest(made["positions"]) == kept.digest(found["positions"]) != kept.digest(made["velocities"])
    )
