"""What is remembered of stale bytes is what the directory says of them."""

from __future__ import annotations

import random

import pytest

from sdi.intervals import ByteRange
from sdi.launch.staleness import Stale, stale
from sdi.region import Bytes
from sdi.regions import RegionSet
from sdi.vmem.directory import HOST, Directory

NBYTES = 256


def drawn(choose: random.Random, most: int) -> RegionSet:
    starts = [choose.randrange(NBYTES - 16) for _ in range(choose.randrange(1, most))]
    return RegionSet.of(ByteRange(start, start + choose.randrange(1, 16)) for start in starts)


@pytest.mark.parametrize("seed", range(8))
def test_stale_bytes_are_told_right_whatever_was_asked_before(seed: int) -> None:
    choose = random.Random(seed)
    needs = [drawn(choose, 8) for _ in range(6)]
    directories = [Directory(NBYTES, defined=choose.random() < 0.5) for _ in range(3)]
    for _ in range(200):
        directory = choose.choice(directories)
        if choose.random() < 0.3:
            (over, *_) = drawn(choose, 2).runs()
            choose.choice((directory.wrote, directory.copied))(choose.randrange(4), over)
        memory, ranges = choose.randrange(4), choose.choice(needs)
        if choose.random() < 0.1:
            ranges = drawn(choose, 8)  # new ones may come to lie where others were
        wanted: dict[int, list[Bytes]] = {}
        for part, holders in directory.stale(memory, ranges):
            wanted.setdefault(holders, []).append(part)
        found = stale(directory, memory, ranges)
        assert {each.holders: (each.runs, each.nbytes) for each in found} == {
            holders: (len(RegionSet.of(parts).runs()), sum(part.total_nbytes for part in parts))
            for holders, parts in wanted.items()
        }
        assert all(each.copies <= each.runs for each in found)


def test_runs_of_one_length_at_one_distance_are_rows() -> None:
    directory = Directory(NBYTES)
    directory.wrote(HOST, ByteRange(0, NBYTES))
    rows = RegionSet.of(ByteRange(at, at + 4) for at in (0, 16, 32, 48))
    assert stale(directory, 1, rows) == (Stale(1 << HOST, 1, 4, 16),)
    uneven = RegionSet.of(ByteRange(at, at + 4) for at in (0, 16, 40, 64))
    assert stale(directory, 1, uneven) == (Stale(1 << HOST, 2, 4, 16),)
    directory.wrote(1, ByteRange(0, 20))
    assert stale(directory, 2, rows) == (Stale(1 << 1, 2, 2, 8), Stale(1 << HOST, 2, 2, 8))
    assert stale(directory, 1, rows) == (Stale(1 << HOST, 2, 2, 8),)
