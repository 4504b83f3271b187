"""Damaged records, made from what real programs told their services: refused, never obeyed, never waited for.

The seeds are fixed; ``make soak-wire`` does the same for as long as one likes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.image_runs import plain_environ, run
from tests.service import recorded, soak
from tests.service.mutations import damage_all

NUM_RECORDS = 5000
NUM_SESSIONS = 8
LIMIT_S = 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With what a program told its service."""
    made = tmp_path_factory.mktemp("recorded")
    soak.record(made, 0, 0)
    return made


def test_programs_that_are_recorded_have_every_kind_of_record(folder: Path) -> None:
    (stream,) = recorded.streams(folder)
    assert recorded.kinds(stream) >= recorded.WANTED


def test_damaged_records_are_refused_or_stay_in_their_bounds(folder: Path) -> None:
    (stream,) = recorded.streams(folder)
    fared = damage_all(stream, 1, NUM_RECORDS)
    assert fared.total() >= NUM_RECORDS
    assert {what.partition(":")[0] for what in fared} == {op.name for op in recorded.KINDS}


def test_damaged_streams_end_live_services_by_one_line(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.service.live", folder, "1", str(NUM_SESSIONS), str(LIMIT_S)]
    ended = run(command, plain_environ(), LIMIT_S)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
