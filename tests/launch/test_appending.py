"""Members that append: what each has appended comes behind the others', or they run one after the other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.devices.testing.hooks import hooks
from tests.image_runs import image_environ, plain_environ, run
from tests.seeds import num_seeds

N = 4096


def kept(tmp_path: Path, members: int, limits: list[int], **settings: str) -> dict[str, Any]:
    """Counters of the kernel, once its results were right."""
    stats = tmp_path / "stats.json"
    environ = image_environ(members, SDI_STATS=str(stats), **{"SDI_SPLIT": "always", **settings})
    program = [sys.executable, "-m", "tests.launch.appending_program", *map(str, limits)]
    done = run(program, environ, 100.0)
    assert done.returncode == 0, done.describe()
    assert done.stdout.splitlines() == [f"{N // 2} True"] * len(limits)
    found: dict[str, Any] = json.loads(stats.read_text())["kernels"]["keep"]
    return found


@pytest.mark.parametrize("members", [2, 3, 5])
def test_launches_below_their_limit_are_split(tmp_path: Path, members: int) -> None:
    counted = kept(tmp_path, members, [N, N // 2, N + 7])
    assert (counted["members_used"], counted["attempts_undone"]) == ({str(members): 3}, 0)


def test_launches_that_reach_their_limit_run_one_member_after_the_other(tmp_path: Path) -> None:
    counted = kept(tmp_path, 3, [N, N // 2 - 1, 100, N])
    assert (counted["members_used"], counted["attempts_undone"]) == ({"3": 4}, 2)


def test_a_kernel_that_reaches_its_limits_too_often_runs_whole(tmp_path: Path) -> None:
    counted = kept(tmp_path, 3, [100] * 39 + [N])
    assert counted["members_used"] == {"3": 1, "1": 39}
    assert counted["attempts_undone"] == 1
    assert counted["why_whole"] == "of 1 launches that were split 1 had to run again"


def test_what_the_user_is_told(tmp_path: Path) -> None:
    counted = kept(tmp_path, 3, [N, N, 100], SDI_EXPLAIN="1")
    lines = counted["explain"]["text"]
    assert (
        "  line 6: size hands out places in out: what members append there is put together, in any order; "
        "where a limit is reached members run one after the other"
    ) in lines
    assert "  3 launches were split at a risk, 1 of them had to run again" in lines


@pytest.mark.parametrize("how", ["1", "warn"])
def test_what_is_determined_is_verified(tmp_path: Path, how: str) -> None:
    counted = kept(tmp_path, 3, [N, 100, N], SDI_VERIFY=how)
    assert (counted["launches_split"], counted["launches_verified"]) == (3, 3)


def test_programs_that_append_are_seldom_undone(tmp_path: Path) -> None:
    """Only where a limit is crossed, or several members found what is searched."""
    stats = tmp_path / "stats.json"
    environ = image_environ(3, SDI_STATS=str(stats), SDI_SPLIT="always")
    runner = [sys.executable, "-m", "tests.programs.runner", "--out", str(tmp_path / "out.npz")]
    done = run([*runner, "--only", "appends", "seldom"], environ, 100.0)
    assert done.returncode == 0, done.describe()
    kernels = json.loads(stats.read_text())["kernels"]
    assert {name: of["attempts_undone"] for name, of in kernels.items() if of["attempts_undone"]} == {
        "ap_limited": 2,
        "ap_runs": 1,
        "ap_bins": 1,
        "se_first": 1,
        "se_list": 1,
        "ap_converted": 1,
        "ap_named": 1,
        "ap_far": 1,
        "ap_wrapped": 1,
    }


@pytest.mark.parametrize("operations", [3, 8, 14, 20, 27])
def test_a_member_that_is_lost_takes_one_launch_with_it(operations: int) -> None:
    environ = image_environ(3, SDI_SPLIT="always", SDI_TEST_MEMBERS=hooks(lost=(1, operations)))
    program = [sys.executable, "-m", "tests.launch.appending_program", *[str(N)] * 6]
    done = run(program, environ, 100.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    assert sorted(done.stdout.splitlines()) == [*[f"{N // 2} True"] * 5, "failed"]


@pytest.mark.parametrize("members", [2, 3, 5])
def test_kernels_written_at_random_leave_what_the_plain_driver_leaves(tmp_path: Path, members: int) -> None:
    count, stats = num_seeds(8, 16), tmp_path / "stats.json"
    environs = plain_environ(), image_environ(members, SDI_SPLIT="always", SDI_STATS=str(stats))
    found = []
    for number, environ in enumerate(environs):
        path = tmp_path / f"{number}.npz"
        program = [sys.executable, "-m", "tests.launch.appends_at_random", str(1000 * members), str(count)]
        done = run([*program, str(path)], environ, 200.0)
        assert done.returncode == 0, done.describe()
        with np.load(path) as archive:
            found.append(dict(archive))
    plain, image = found
    for name, array in plain.items():
        number, what = name.split()
        if what != "out":
            assert np.array_equal(image[name], array), name
        elif plain[f"{number} counters"].max() <= plain[f"{number} room"]:
            assert np.array_equal(_rows(image[name]), _rows(array)), name
    counted = json.loads(stats.read_text())["kernels"]["append"]
    assert (counted["launches_split"], counted["launches_whole"]) == (count, 0)
    assert 0 < counted["attempts_undone"] < count / 2


def _rows(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """In an order that does not depend on where they were."""
    return array[np.lexsort(array.T)]
