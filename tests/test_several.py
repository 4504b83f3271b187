"""Each member a device of its own (SDI_IMAGE=off): programs for several devices, and for one of several."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.image_runs import Run, image_environ, plain_environ, run
from tests.several.stays_on_devices import COUNT

LIMIT_S = 300.0
RUN = (sys.executable, "-m", "sdi.cli", "run", "--")
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
pytestmark = pytest.mark.timeout(LIMIT_S + 60)  # kernels of many types are built where none are kept
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
    done = run([*RUN, sys.executable, *module], environ, LIMIT_S)
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


@pytest.mark.parametrize("members", [2, 3, 5])
def test_collective_commands_leave_what_numpy_computes_on_three_ranks(members: int, tmp_path: Path) -> None:
    environ = image_environ(members, SDI_IMAGE="off", SDI_TEST_NODES="3", SDI_TEST_FAR="1")
    module = ["-m", "tests.several.runner", "--out", str(tmp_path / "out.npz"), "all_collectives"]
    done = run([*RUN, sys.executable, *module], environ, LIMIT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    assert len(arrays(tmp_path / "out.npz")) == 10


@pytest.mark.parametrize("image", ["on", "off"])
def test_collective_commands_are_the_same_on_one_machine(image: str, tmp_path: Path) -> None:
    ran("tests.several.runner", tmp_path / "out.npz", image_environ(2, SDI_IMAGE=image), "all_collectives")
    assert len(arrays(tmp_path / "out.npz")) == 10


def test_every_operation_on_every_type_is_what_numpy_computes(tmp_path: Path) -> None:
    ran("tests.several.runner", tmp_path / "out.npz", image_environ(2, SDI_IMAGE="off"), "all_operations")
    assert len(arrays(tmp_path / "out.npz")) == 8 * 10 + 2 * 4


SENT = {
    "Broadcast": 1,
    "Scatter": 2 / 3,
    "Gather": 1 / 3,
    "AllGather": 2 / 3,
    "AlltoAll": 2 / 3,
    "Reduce": 1,
    "AllReduce": 4 / 3,
    "ReduceScatter": 2 / 3,
    "Scan": 1,
}
"""The most that a rank sends of what its device has, where three ranks have a device each."""


@pytest.mark.parametrize("name", SENT)
def test_collective_commands_send_no_byte_through_the_host_and_none_twice(name: str, tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    nodes = {"SDI_TEST_NODES": "3", "SDI_TEST_FAR": "1", "OCL_TEST_COLLECTIVE": name}
    environ = image_environ(3, SDI_IMAGE="off", SDI_STATS=str(stats), **nodes)
    module = ["-m", "tests.several.runner", "--out", str(tmp_path / "out.npz"), "stays_on_devices"]
    done = run([*RUN, sys.executable, *module], environ, LIMIT_S)
    assert done.returncode == 0 and not done.remained, f"{done.remained} {done.describe()}"
    counted = json.loads(stats.read_text())
    moved = counted["bytes_moved"]
    assert (moved["host_to_member"], moved["member_to_host"]) == (0, 64)
    sent = [0] * 3
    for link in counted["network"]:
        sent[link["from"]] += link["bulk_nbytes"]
    assert 0 < max(sent) <= SENT[name] * 4 * COUNT + 4096, sent
