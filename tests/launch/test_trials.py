"""Launches that use results of atomics are carried out by the player, and are right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sdi.profile.analyse.stream import read_profile
from sdi.profile.analyse.tables import make_tables
from tests.image_runs import counted, image_environ, plain_environ, run


def repeated(seed: int, steps: int, environ: dict[str, str]) -> str:
    """What the program printed once all that its kernels left was right."""
    done = run([sys.executable, "-m", "tests.launch.repeated_appends", str(seed), str(steps)], environ, 200.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    return done.stdout


@pytest.mark.parametrize("members", [2, 3, 5, 8])
def test_what_is_launched_again_leaves_what_one_device_leaves(tmp_path: Path, members: int) -> None:
    stats = tmp_path / "stats.json"
    image = image_environ(members, SDI_SPLIT="always", SDI_STATS=str(stats))
    for seed in (members, 100 + members):
        assert repeated(seed, 40, image) == repeated(seed, 40, plain_environ())
        found = counted(stats)
        assert found["records"]["NDRANGE"]["played"] > 40
        split = {name: each["launches_split"] for name, each in found["kernels"].items()}
        assert min(split["every"], split["pairs"], split["search"]) > 0 and sum(split.values()) > 100


def claims(environ: dict[str, str], *arguments: str) -> str:
    """What a program of searches printed once all that these left was right."""
    done = run([sys.executable, "-m", "tests.launch.claiming", *arguments], environ, 200.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    return done.stdout


@pytest.mark.parametrize("members", [2, 3, 5])
def test_searches_that_store_what_they_find_leave_what_one_device_leaves(
    tmp_path: Path, members: int
) -> None:
    stats = tmp_path / "stats.json"
    image = image_environ(members, SDI_SPLIT="always", SDI_STATS=str(stats))
    played = undone = 0
    for seed in ("1", str(members)):
        assert claims(image, seed, "30") == claims(plain_environ(), seed, "30")
        found = counted(stats)
        played += found["records"]["NDRANGE"]["played"]
        undone += sum(each["attempts_undone"] for each in found["kernels"].values())
        split = {name: each["launches_split"] for name, each in found["kernels"].items()}
        assert min(split[name] for name in ("first", "listed", "marked", "smallest")) > 12
    assert played > 80 and undone > 4


def test_a_search_that_stores_what_it_finds_needs_no_python(tmp_path: Path) -> None:
    """But for the first times: no launch of it merges anything."""
    stats = tmp_path / "stats.json"
    claims(image_environ(2, SDI_SPLIT="always", SDI_STATS=str(stats)), "1", "0")
    found = counted(stats)
    assert {name: each["launches_split"] for name, each in found["kernels"].items()} == dict.fromkeys(
        ("first", "listed", "marked", "smallest"), 12
    )
    assert found["records"]["NDRANGE"]["played"] >= 24


def test_the_user_is_told_what_counts_with_the_flags(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    claims(image_environ(2, SDI_SPLIT="always", SDI_STATS=str(stats), SDI_EXPLAIN="1"), "1", "0", "1")
    assert (
        "  writes hits only where it uses these results: what several members may write there counts with "
        "them, where it is little"
    ) in counted(stats)["kernels"]["first"]["explain"]["text"]


def test_what_is_found_may_be_anywhere_in_a_buffer(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    claims(image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats)), "1", "scattered")
    found = counted(stats)
    kernel = found["kernels"]["scattered"]
    assert (kernel["launches_split"], kernel["attempts_undone"]) == (36, 0)
    assert found["records"]["NDRANGE"]["played"] >= 24


@pytest.mark.parametrize("player", ["on", "off"])
def test_what_is_watched_counts_as_one(tmp_path: Path, player: str) -> None:
    """One member has changed the flag, having read the results, and another one the other way round."""
    stats = tmp_path / "stats.json"
    environ = image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats), SDI_PLAYER=player)
    claims(environ, "1", "crossed")
    found = counted(stats)
    kernel = found["kernels"]["crossed"]
    assert (kernel["launches_split"], kernel["attempts_undone"]) == (36, 4)
    assert (found["records"].get("NDRANGE", {}).get("undone", 0) > 0) == (player == "on")


@pytest.mark.parametrize("how", ["1", "warn"])
def test_searches_are_verified_but_for_what_one_member_found(tmp_path: Path, how: str) -> None:
    stats = tmp_path / "stats.json"
    claims(image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats), SDI_VERIFY=how), "3", "12")
    kernels = counted(stats)["kernels"].values()
    assert sum(each["launches_verified"] for each in kernels) == sum(
        each["launches_split"] for each in kernels
    )
    assert sum(each["launches_split"] for each in kernels) > 36


def test_what_does_not_count_runs_again_once(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    repeated(3, 40, image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats)))
    found = counted(stats)
    undone = sum(each["attempts_undone"] for each in found["kernels"].values())
    assert 0 < found["records"]["NDRANGE"]["undone"] <= undone


@pytest.mark.parametrize(
    ("how", "members", "undone", "played"),
    [("grown", 2, 1, 0), ("beside", 2, 0, 50), ("columns", 7, 0, 50), ("columns", 8, 0, 0)],
)
def test_what_grows_or_is_too_much_is_left_to_python(
    tmp_path: Path, how: str, members: int, undone: int, played: int
) -> None:
    stats = tmp_path / "stats.json"
    program = [sys.executable, "-m", "tests.launch.growing_appends", how]
    done = run(program, image_environ(members, SDI_SPLIT="always", SDI_STATS=str(stats)), 100.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    found = counted(stats)
    assert found["kernels"]["keep"]["attempts_undone"] == undone
    assert found["kernels"]["keep"]["launches_split"] == 60
    assert found["records"]["NDRANGE"].get("played", 0) >= played


def test_without_the_player_it_is_the_same(tmp_path: Path) -> None:
    stats = tmp_path / "stats.json"
    image = image_environ(3, SDI_SPLIT="always", SDI_PLAYER="off", SDI_STATS=str(stats))
    assert repeated(7, 25, image) == repeated(7, 25, plain_environ())
    assert "played" not in counted(stats)["records"].get("NDRANGE", {})


def test_a_profile_knows_what_was_carried_out_without_python(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    repeated(11, 40, image_environ(3, SDI_SPLIT="always", SDI_PROFILE=str(profile)))
    found = make_tables(read_profile(profile))
    rows = {row.name: row for row in found.kernels}
    assert {"every", "below", "pairs", "search"} <= set(rows)
    assert sum(rows[name].replays for name in ("every", "below", "pairs", "search")) > 20
    asked_ns = found.wall_ns - found.lost_ns("application")
    assert found.lost_ns("unexplained") <= 0.05 * asked_ns
