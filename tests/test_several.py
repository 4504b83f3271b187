"""Each member a device of its own (SDI_IMAGE=off): programs for several devices, and for one of several."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.image_runs import Run, image_environ, plain_environ, run

LIMIT_S = 300.0
OF_ONE = (
    "atomic_results",
    "chained_scan",
    "compile_and_link",
    "fill_and_copy",
    "global_atomics",
    "host_pointers",
    "image_chains",
    "jacobi",
    "late_reads",
    "map_unmap",
    "printing",
    "program_binary",
    "scatter",
    "two_queues",
    "user_events",
    "write_launch_write",
)
"""Of tests/programs: what could differ where a queue says which member does it."""
Arrays = dict[str, np.ndarray[Any, Any]]


def arrays(path: Path) -> Arrays:
    """What a runner stored."""
    with np.load(path) as loaded:
        return {name: loaded[name] for name in loaded.files}


def ran(module: str, out: Path, environ: dict[str, str], *names: str) -> Run:
    """Run a runner's programs; fails the test unless all is well."""
    command = [sys.executable, "-m", module, "--out", str(out), *names]
    done = run(command, environ, LIMIT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    return done


def differing(found: Arrays, expected: Arrays) -> list[str]:
    """The names of arrays of which not all bytes are as expected."""
    assert found.keys() == expected.keys()
    return [name for name in expected if found[name].tobytes() != expected[name].tobytes()]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """What programs for several devices compute on the plain driver, which may have one."""
    out = tmp_path_factory.mktemp("plain") / "out.npz"
    ran("tests.several.runner", out, plain_environ())
    return arrays(out)


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_programs_for_several_devices_use_all_members(members: int, plain: Arrays, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    environ = image_environ(members, SDI_IMAGE="off", SDI_STATS=str(stats))
    done = ran("tests.several.runner", tmp_path / "out.npz", environ)
    assert differing(arrays(tmp_path / "out.npz"), plain) == []
    assert done.stdout.split("\n")[:-1] == [f"device {k}" for k in range(members)] and not done.stderr
    kernels = json.loads(stats.read_text())["kernels"]
    assert all(
        min(kernels[name]["groups_per_member"]) > 0
        for name in ("rows", "step_bodies", "blur", "stage", "turn")
    )
    assert not any(kernel["launches_split"] for kernel in kernels.values())


@pytest.mark.parametrize("members", [2, 3, 5])
def test_the_devices_may_be_of_several_processes(members: int, plain: Arrays, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    nodes = {"SDI_TEST_NODES": "3", "SDI_TEST_FAR": "1"}
    environ = image_environ(members, SDI_IMAGE="off", SDI_STATS=str(stats), **nodes)
    module = ["-m", "tests.several.runner", "--out", str(tmp_path / "out.npz")]
    sdi = [sys.executable, "-m", "sdi.cli", "run", "--", sys.executable]
    done = run([*sdi, *module], environ, LIMIT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    assert differing(arrays(tmp_path / "out.npz"), plain) == []
    assert sorted(done.stdout.split("\n")[:-1]) == [f"device {k}" for k in range(members)]
    assert len(json.loads(stats.read_text())["network"]) >= 2


def test_a_device_of_several_runs_programs_for_one(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    environ = image_environ(3, SDI_IMAGE="off", OCL_TEST_DEVICE="1", SDI_STATS=str(stats))
    ran("tests.programs.runner", tmp_path / "off.npz", environ, "--only", *OF_ONE)
    ran("tests.programs.runner", tmp_path / "plain.npz", plain_environ(), "--only", *OF_ONE)
    assert differing(arrays(tmp_path / "off.npz"), arrays(tmp_path / "plain.npz")) == []
    kernels = json.loads(stats.read_text())["kernels"].values()
    groups = np.sum([kernel["groups_per_member"] for kernel in kernels], axis=0)
    assert groups[1] > 0 and groups[0] == groups[2] == 0


def test_what_is_about_splitting_is_said_to_have_no_effect(tmp_path: Path) -> None:
    environ = image_environ(2, SDI_IMAGE="off", SDI_SPLIT="always")
    done = ran("tests.several.runner", tmp_path / "out.npz", environ, "subsets")
    assert done.stderr == (
        "sdi: WARNING: SDI_SPLIT=always has no effect: with SDI_IMAGE=off each member is a device, "
        "and nothing is split\n"
    )
