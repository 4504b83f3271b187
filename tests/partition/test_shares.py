"""Shares of whole programs: members that are slow, and work-groups that cost more than others, get less.

CPU members share the machine's cores with whatever else runs, so what is asserted leaves much room; how well
and how fast shares adapt is in ``tests/partition/test_balance.py``, on simulated members.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from sdi.profile.analyse.stream import read_profile
from tests.devices.testing.hooks import hooks
from tests.image_runs import image_environ, plain_environ, run

LAUNCHES = 16
MEMBERS = 3


def groups_of_launches(folder: Path, *options: str, **settings: str) -> list[list[int]]:
    """Work-groups of each launch, member by member; the program's result is that of the plain driver."""
    results = []
    for environ in (
        plain_environ(),
        image_environ(MEMBERS, SDI_SPLIT="always", SDI_PROFILE=str(folder / "profile"), **settings),
    ):
        out = folder / f"out{len(results)}.npy"
        command = [sys.executable, "-W", "ignore", "tests/uneven_program.py", str(LAUNCHES), out, *options]
        ended = run(command, environ, 300.0)
        assert ended.returncode == 0 and not ended.remained, ended.describe()
        results.append(np.load(out))
    assert np.array_equal(*results)
    found: defaultdict[int, dict[int, int]] = defaultdict(dict)
    (session,) = read_profile(folder / "profile").sessions
    for assignment in session.assignments:
        found[assignment.command][assignment.member] = assignment.groups
    launches = [[groups[member] for member in sorted(groups)] for _, groups in sorted(found.items())]
    assert len(launches) == LAUNCHES and all(sum(groups) == 1024 for groups in launches)
    return launches


def test_a_slow_member_gets_less(tmp_path: Path) -> None:
    found = groups_of_launches(tmp_path, "--even", SDI_BALANCE="auto", SDI_TEST_MEMBERS=hooks(slowed=(1, 5)))
    assert found[0] == [341, 341, 342]
    assert all(groups[1] < 200 for groups in found[5:]), found


def test_costly_work_groups_are_fewer(tmp_path: Path) -> None:
    found = groups_of_launches(tmp_path, SDI_BALANCE="auto")
    # The loop says so before anything is measured: group k has k times as much to do.
    assert found[0][0] > 550 and found[0][2] < 210
    assert all(groups[0] > 430 and groups[2] < 280 for groups in found[8:]), found


def test_shares_stay_equal_when_asked_to(tmp_path: Path) -> None:
    found = groups_of_launches(tmp_path, SDI_BALANCE="off", SDI_TEST_MEMBERS=hooks(slowed=(1, 2)))
    assert found == [[341, 341, 342]] * LAUNCHES


@pytest.mark.parametrize("seed", [1, 2])
def test_random_shares_compute_the_same(tmp_path: Path, seed: int) -> None:
    found = groups_of_launches(tmp_path, SDI_BALANCE=f"random:{seed}")
    assert len({tuple(groups) for groups in found}) >= 4
