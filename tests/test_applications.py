"""The applications of ``bench/`` at their smallest size: own references, and the plain driver's bytes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.applications import NAMES
from bench.applications.program import load
from tests.image_runs import Run, image_environ, plain_environ, run
from tests.test_programs import first_difference

RUN_LIMIT_S = 300.0
MEMBERS = (1, 2, 3, 5, 8)


@dataclass(frozen=True, slots=True)
class Pass:
    """All applications in one process: arrays by "application/array", what it reported and counted."""

    arrays: dict[str, np.ndarray[Any, Any]]
    reports: dict[str, dict[str, Any]]
    counters: dict[str, Any]
    ended: Run


def run_all(folder: Path, environ: dict[str, str]) -> Pass:
    """Run every application once, with its check."""
    out, report, stats = folder / "out.npz", folder / "report.json", folder / "stats.json"
    command = [sys.executable, "-W", "error", "-m", "bench.applications", "--size", "smoke"]
    command += ["--out", str(out), "--report", str(report)]
    ended = run(
        command, environ | ({"SDI_STATS": str(stats)} if "SDI_NUM_GPUS" in environ else {}), RUN_LIMIT_S
    )
    assert ended.returncode in (0, 1), ended.describe()
    assert not ended.remained
    with np.load(out) as archive:
        arrays = dict(archive)
    counters = json.loads(stats.read_text()) if stats.exists() else {}
    return Pass(arrays, json.loads(report.read_text())["applications"], counters, ended)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What the applications compute on the plain driver."""
    return run_all(tmp_path_factory.mktemp("plain"), plain_environ())


@pytest.fixture(scope="module", params=MEMBERS, ids=lambda members: f"N{members}")
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What they compute on an image that splits whatever it can."""
    folder = tmp_path_factory.mktemp(f"image{request.param}")
    return run_all(folder, image_environ(request.param, SDI_SPLIT="always"))


@pytest.mark.parametrize("name", NAMES)
def test_plain_driver_computes_what_the_reference_says(name: str, plain: Pass) -> None:
    assert "error" not in plain.reports[name], plain.reports[name]["error"]


@pytest.mark.parametrize("name", NAMES)
def test_image_computes_what_the_reference_says_and_the_bytes_of_the_plain_driver(
    name: str, plain: Pass, image: Pass
) -> None:
    assert "error" not in image.reports[name], image.reports[name]["error"]
    wanted = {key: array for key, array in plain.arrays.items() if key.startswith(f"{name}/")}
    assert wanted
    assert {key for key in image.arrays if key.startswith(f"{name}/")} == set(wanted)
    for key, array in wanted.items():
        difference = first_difference(image.arrays[key], array)
        assert not difference, f"{key}: {difference}"


@pytest.mark.parametrize("name", NAMES)
def test_every_launch_is_split_over_as_many_members_as_it_has_groups_for(name: str, image: Pass) -> None:
    members = image.counters["members"]
    assert image.reports[name]["launches"]
    for launch in image.reports[name]["launches"]:
        counted = image.counters["kernels"][launch["kernel"]]
        sizes = zip(launch["global_size"], launch["local_size"], strict=True)
        groups = int(np.prod([size // local for size, local in sizes]))
        used = {int(k) for k in counted["launch_groups"][str(groups)]}
        assert used == {min(members, groups)}, (launch["kernel"], groups, used, counted["why_whole"])


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_is_made_once_for_launches_that_are_alike(name: str, image: Pass) -> None:
    different: dict[str, int] = {}
    for launch in image.reports[name]["launches"]:
        different[launch["kernel"]] = different.get(launch["kernel"], 0) + 1
    for kernel, launches in different.items():
        counted = image.counters["kernels"][kernel]
        assert counted["plans"] == launches, kernel
        assert counted["plan_ns"] > 0


def test_no_kernel_needs_twins_but_that_of_the_lattice(image: Pass) -> None:
    # Cells on both sides of a plane write different bytes of it, in more ranges than are worth looking after.
    merging = {name for name, kernel in image.counters["kernels"].items() if kernel["plans_merging"]}
    assert merging <= {"odd_step"}


def test_kernels_of_different_applications_have_different_names() -> None:
    # The counters are by name.
    owners: dict[str, str] = {}
    for name in NAMES:
        source = load(name).SOURCE
        for part in source.split("__kernel void ")[1:]:
            assert owners.setdefault(part.split("(")[0], name) == name
