"""Writes of more than is staged are made in the arena, and replayed, while no command is under way."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.image_runs import image_environ, run
from tests.player.early_writes import ROUNDS


@pytest.mark.parametrize(("members", "split"), [(1, "auto"), (1, "always"), (2, "always"), (3, "always")])
def test_they_are_replayed_and_no_command_sees_a_part_of_one(
    members: int, split: str, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    environ = image_environ(members, SDI_SPLIT=split, SDI_STATS=str(stats))
    done = run([sys.executable, "-W", "ignore", "-m", "tests.player.early_writes"], environ, 240)
    assert done.returncode == 0, done.describe()
    if split == "always" and members > 1:
        return  # members have memory of their own: something may come home when nobody waits for it
    writes = json.loads(stats.read_text())["records"]["WRITE"]
    assert writes["played"] > ROUNDS // 2, writes
