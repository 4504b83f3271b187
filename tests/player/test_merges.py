"""The player merges what members wrote as the host does, and launches that merge little need no Python."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.atomics import Operation, Update
from sdi.devices.comparing import operation_number
from sdi.player import library as c
from sdi.player.load import loaded
from sdi.profile.analyse.model import HOST, Profile
from sdi.profile.analyse.stream import read_session
from sdi.profile.analyse.tables import make_tables
from sdi.vmem.merging.host import MergeResult, merge_diffs, merge_updates
from tests.devices.testing.hooks import hooks
from tests.image_runs import counted, image_environ, plain_environ, run

Bytes = npt.NDArray[np.uint8]
OPERATIONS: list[Operation] = ["add", "xor", "and", "or", "min", "max"]


def merged(target: Bytes, copies: list[Bytes], unit: int, smallest: int, update: Update | None) -> list[int]:
    """Merge them in C; conflicts, and bytes that members changed."""
    stride = -(-target.size // 8) * 8
    room = np.zeros(stride * len(copies), np.uint8)
    for k, copy in enumerate(copies):
        room[k * stride : k * stride + copy.size] = copy
    watched = c.PlayerWatched(target.ctypes.data, room.ctypes.data, target.size)
    watched.num_copies, watched.element_nbytes, watched.smallest_nbytes = len(copies), unit, smallest
    watched.operation = operation_number(update)
    loaded()[1].sdi_player_merge(watched)
    return [watched.conflicts, watched.changed_nbytes]


writes = st.lists(
    st.lists(st.tuples(st.integers(0, 199), st.integers(0, 3)), max_size=12), min_size=1, max_size=8
)


@given(st.integers(1, 200), st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), writes)
def test_stores_are_merged_as_on_the_host(
    nbytes: int, unit: int, smallest: int, stores: list[list[tuple[int, int]]]
) -> None:
    smallest = min(unit, smallest)
    before = (np.arange(nbytes) % 3).astype(np.uint8)
    copies = [before.copy() for _ in stores]
    for copy, each in zip(copies, stores, strict=True):
        for at, value in each:
            copy[at % nbytes] = value
    expected, target = before.copy(), before.copy()
    found = merge_diffs(expected, copies, unit, smallest)
    conflicts, changed_nbytes = merged(target, copies, unit, smallest, None)
    assert target.tobytes() == expected.tobytes()
    assert MergeResult(changed_nbytes // unit, conflicts) == found


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    st.sampled_from(OPERATIONS),
    st.booleans(),
    st.sampled_from([4, 8]),
    st.lists(
        st.lists(st.tuples(st.integers(0, 39), st.integers(-(2**63), 2**63 - 1)), max_size=8),
        min_size=1,
        max_size=8,
    ),
)
def test_updates_are_merged_as_on_the_host(
    values: list[int], operation: Operation, signed: bool, unit: int, updates: list[list[tuple[int, int]]]
) -> None:
    kind = np.dtype(f"{'i' if signed else 'u'}{unit}")
    update = Update(operation, unit, signed and operation in ("min", "max"))
    before = np.array(values, np.int64).astype(kind)
    copies = [before.copy() for _ in updates]
    for copy, each in zip(copies, updates, strict=True):
        for at, value in each:
            copy[at % before.size] = np.int64(value).astype(kind)
    expected, target = before.copy().view(np.uint8), before.copy().view(np.uint8)
    found = merge_updates(expected, [copy.view(np.uint8) for copy in copies], update)
    conflicts, changed_nbytes = merged(target, [copy.view(np.uint8) for copy in copies], unit, unit, update)
    assert target.tobytes() == expected.tobytes()
    assert MergeResult(changed_nbytes // unit, conflicts) == found


def repeated(environ: dict[str, str], *arguments: str) -> str:
    """What the program printed."""
    command = [sys.executable, "-m", "tests.player.repeated_merges", *arguments]
    done = run(command, environ, 200.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    return done.stdout


@pytest.mark.parametrize("members", [2, 3, 5, 8])
@pytest.mark.parametrize("apart", [False, True], ids=["near", "apart"])
def test_what_is_launched_again_leaves_what_one_device_leaves(
    tmp_path: Path, members: int, apart: bool
) -> None:
    stats = tmp_path / "stats.json"
    more = {"SDI_TEST_MEMBERS": hooks(apart=True)} if apart else {}
    image = image_environ(members, SDI_SPLIT="always", SDI_STATS=str(stats), **more)
    assert repeated(image, str(members), "120") == repeated(plain_environ(), str(members), "120")
    found = counted(stats)
    assert found["records"]["NDRANGE"]["played"] > 150
    assert all(each["launches_whole"] == 0 for each in found["kernels"].values())


def test_what_is_counted_is_the_same_without_the_player(tmp_path: Path) -> None:
    found = []
    for player in ("on", "off"):
        stats = tmp_path / f"{player}.json"
        repeated(image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats), SDI_PLAYER=player), "1", "40")
        counts = counted(stats)
        memory = counts["memory"]
        found.append((memory["twins"], memory["diff_nbytes"], counts["races"]))
    assert found[0] == found[1] and found[0][2]


@pytest.mark.parametrize("apart", [False, True], ids=["near", "apart"])
def test_profiles_tell_of_merges_as_without_the_player(tmp_path: Path, apart: bool) -> None:
    more = {"SDI_TEST_MEMBERS": hooks(apart=True)} if apart else {}
    found, replays = [], []
    for player in ("on", "off"):
        folder = tmp_path / player
        folder.mkdir()
        environ = image_environ(3, SDI_SPLIT="always", SDI_PROFILE=str(folder), SDI_PLAYER=player, **more)
        repeated(environ, "1", "120")
        (file,) = folder.glob("service-*.jsonl")
        session = read_session(file)
        assert session is not None
        rows = make_tables(Profile((session,))).kernels
        found.append([(row.name, row.launches, row.merges, row.merged_nbytes) for row in rows])
        replays.append(sum(row.replays for row in rows if row.merges))
        copies = Counter(copy.cause for copy in session.copies if copy.target == HOST)
        works = [work for work in session.works if work.what == "merge"]
        assert all(work.member == -1 and work.end_ns > work.start_ns for work in works)
        merges = Counter(work.cause for work in works)
        assert len(works) == 6 * 120 and all(copies[cause] >= 3 * merges[cause] for cause in merges), copies
    assert found[0] == found[1] and replays[0] > 100 and not replays[1]


def beside(environ: dict[str, str], stats: Path, *arguments: str) -> dict[str, int]:
    """What became of the launches of a program whose kernel takes long."""
    command = [sys.executable, "-m", "tests.player.merges_beside", *arguments]
    done = run(command, {**environ, "SDI_STATS": str(stats)}, 200.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    assert done.stdout == run(command, plain_environ(), 200.0).stdout
    return dict(counted(stats)["records"]["NDRANGE"])


def test_what_takes_long_does_not_hold_up_other_queues(tmp_path: Path) -> None:
    image, stats = image_environ(2, SDI_SPLIT="always"), tmp_path / "stats.json"
    assert beside(image, stats, "30000", "20", "2")["lanes"] > 10
    assert beside(image, stats, "30000", "20", "1")["played"] > 10
    assert beside(image, stats, "1", "600", "2")["played"] > 100  # a busy machine makes some long


def test_what_is_much_is_merged_by_python(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    image = image_environ(2, SDI_SPLIT="always", SDI_STATS=str(stats))
    assert repeated(image, "1", "20", "20000") == repeated(plain_environ(), "1", "20", "20000")
    assert counted(stats)["memory"]["twin_nbytes"] > 20 * 4 * 20000
