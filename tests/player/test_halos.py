"""Members that compute in place wait for copies of their own edges, and not for what others compute."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.player.soak import HARNESS, build

HALOS = HARNESS.parent / "halos"


def test_no_member_s_launch_waits_for_another_one_s_of_the_same_command(tmp_path: Path) -> None:
    if shutil.which("cc") is None:
        pytest.skip("needs cc")
    program = build(tmp_path, False, HALOS)
    said = subprocess.run([program, "6"], check=True, capture_output=True, text=True).stdout
    steps = [[line.split() for line in step.splitlines()] for step in said.split("\n\n")[:-1]]
    assert len(steps) == 6
    before: dict[str, set[tuple[int, str, str]]] = {}
    """What is behind each event: the operations that its lane was given before it."""
    given: list[tuple[int, str, str]] = []
    waited: dict[str, set[tuple[int, str, str]]] = {"0": set(), "1": set()}
    for number, step in enumerate(steps):
        for what, lane, *event in step:
            if what == "record":
                before[event[0]] = {each for each in given if each[2] == lane}
            elif what == "wait":
                waited[lane] |= before[event[0]]
            else:
                other = "1" if lane == "0" else "0"
                assert (number, "launch", other) not in waited[lane], f"step {number}: {what} {lane}"
                assert number == 0 or (number - 1, "launch", other) in waited[lane]
                if what == "launch":
                    assert (number, "fetch", other) in waited[lane], "it writes what is yet to be read"
                given.append((number, what, lane))
        assert [what for what, *_ in step if what in ("launch", "fetch")] == ["fetch"] * 2 + ["launch"] * 2
