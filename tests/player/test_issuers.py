"""Threads that issue: each lane gets what it is to get, in order, whoever makes the calls."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.player.soak import ISSUERS, build, run
from tests.seeds import num_seeds


@pytest.mark.parametrize(("in_threads", "count"), [(False, num_seeds(200, 600)), (True, 30)])
def test_calls_are_made_in_order_and_waits_behind_what_they_wait_for(
    tmp_path: Path, in_threads: bool, count: int
) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    try:
        found = run(build(tmp_path, in_threads, ISSUERS), 1, count)
    except subprocess.CalledProcessError as failure:
        raise AssertionError(failure.stderr) from failure
    least = {
        "made": 150 * count,
        "waited": 40 * count,
        "failed": count // 10,
        "slept": count,
        "started": count,
        "alone": count // 4,
    }
    assert {name: found[name] for name, number in least.items() if found[name] < number} == {}
