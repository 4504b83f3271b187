"""Files in the user's cache folder: right, or as good as absent, whatever befell them."""

from __future__ import annotations

import fcntl
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sdi import cache
from tests.image_runs import ROOT

OTHER_UID = 4321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; what is kept there of a kind "k" lies in the result."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sdi" / "k"


def file_of(home: Path, name: str) -> Path:
    """Where ``name`` is kept, which has been written."""
    before = {path.name: path.stat().st_mtime_ns for path in home.iterdir()}
    content = cache.read("k", name)
    assert content is not None
    (found,) = [path for path in home.iterdir() if path.stat().st_mtime_ns != before[path.name]]
    return found


def test_what_was_written_is_read_again_by_its_name_and_kind(home: Path) -> None:
    cache.write("k", "one", b"first")
    cache.write("k", "one", b"second")
    cache.write("k", "two", b"")
    assert (cache.read("k", "one"), cache.read("k", "two")) == (b"second", b"")
    assert cache.read("k", "three") is None and cache.read("other", "one") is None
    assert home.stat().st_mode & 0o777 == home.parent.stat().st_mode & 0o777 == 0o700
    assert len(list(home.iterdir())) == 2, "no scratch file is left"


def test_damaged_files_are_as_good_as_absent(home: Path) -> None:
    cache.write("k", "one", bytes(range(200)))
    one = file_of(home, "one")
    whole = one.read_bytes()
    for data in (
        b"",
        whole[:20],
        whole[:-1],
        whole + b"x",
        whole[:50] + b"?" + whole[51:],
        bytes(len(whole)),
    ):
        one.write_bytes(data)
        assert cache.read("k", "one") is None
    one.write_bytes(whole)
    assert cache.read("k", "one") == bytes(range(200))


def test_a_file_under_anothers_name_or_of_another_kind_is_not_read(home: Path) -> None:
    for name in ("one", "two"):
        cache.write("k", name, name.encode())
    one, two = file_of(home, "one"), file_of(home, "two")
    two.rename(one)
    assert cache.read("k", "one") is None
    cache.write("other", "one", b"of another kind")
    (other,) = (home.parent / "other").iterdir()
    other.rename(home / other.name)
    other_kind = home.parent / "other"
    other_kind.rmdir()
    home.rename(other_kind)
    assert cache.read("other", "one") == b"of another kind", "back in its own folder"
    assert cache.read("other", "two") is None


def _foreign(path: Path, _away: Path) -> None:
    os.chown(path, OTHER_UID, OTHER_UID)


def _group_writes(path: Path, _away: Path) -> None:
    path.chmod(0o660)


def _all_write(path: Path, _away: Path) -> None:
    path.chmod(0o602)


def _link(path: Path, away: Path) -> None:
    path.rename(away)
    path.symlink_to(away)


def _second_name(path: Path, away: Path) -> None:
    os.link(path, away)


def _fifo(path: Path, _away: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _folder(path: Path, _away: Path) -> None:
    path.unlink()
    path.mkdir(0o700)


def _sparse_giant(path: Path, _away: Path) -> None:
    os.truncate(path, 1 << 43)


Spoil = Callable[[Path, Path], None]
POISONED: list[object] = [_group_writes, _all_write, _link, _second_name, _fifo, _folder, _sparse_giant]
POISONED.append(pytest.param(_foreign, marks=as_root))


@pytest.mark.parametrize("poison", POISONED)
def test_a_file_that_others_may_have_made_is_not_read_and_makes_way(
    home: Path, tmp_path: Path, poison: Spoil
) -> None:
    cache.write("k", "one", b"content")
    poison(file_of(home, "one"), tmp_path / "away")
    assert cache.read("k", "one") is None
    cache.write("k", "one", b"again")
    if poison is not _folder:
        assert cache.read("k", "one") == b"again"
    if (tmp_path / "away").exists():
        assert (tmp_path / "away").read_bytes().endswith(b"content"), "nothing was written through a link"


@pytest.mark.parametrize("poison", [_group_writes, _all_write, _link, pytest.param(_foreign, marks=as_root)])
@pytest.mark.parametrize("depth", ["kind", "sdi"])
def test_a_folder_that_others_may_write_to_is_not_used(
    home: Path, tmp_path: Path, poison: Spoil, depth: str
) -> None:
    cache.write("k", "one", b"content")
    folder = home if depth == "kind" else home.parent
    names = sorted(home.iterdir())
    poison(folder, tmp_path / "away")
    assert cache.read("k", "one") is None
    with pytest.raises(cache.NoCache):
        cache.folder("k")
    cache.write("k", "two", b"content")
    assert sorted(home.iterdir()) == names


def test_a_folder_that_others_only_look_into_is_closed_to_them(home: Path) -> None:
    home.mkdir(parents=True, mode=0o755)
    cache.write("k", "one", b"content")
    assert home.stat().st_mode & 0o777 == home.parent.stat().st_mode & 0o777 == 0o700
    assert cache.read("k", "one") == b"content"


def test_what_leads_to_the_folder_is_the_users_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "real").chmod(0o1777)  # as /tmp
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "link"))
    cache.write("k", "one", b"content")
    assert cache.read("k", "one") == b"content"
    assert (tmp_path / "real" / "sdi" / "k").is_dir()


def test_a_user_without_a_home_has_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # as where no one knows the user
    monkeypatch.chdir(tmp_path)
    cache.write("k", "one", b"content")
    assert cache.read("k", "one") is None
    assert list(tmp_path.iterdir()) == [], "no folder called ~"
    with pytest.raises(cache.NoCache, match="no home"):
        cache.base()


def test_only_files_that_the_cache_named_are_removed(home: Path, tmp_path: Path) -> None:
    for number in range(6):
        cache.write("k", str(number), b"content")
    unlike = [home / name for name in ("notes.txt", "a" * 63, "A" * 64, "b" * 64 + ".part", "c" * 65)]
    for path in unlike:
        path.write_text("mine")
        os.utime(path, ns=(0, 0))
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (home / ("d" * 64)).symlink_to(victim)
    (home / ("e" * 64)).mkdir()
    cache.write("k", "last", b"content", most=1)
    assert all(path.exists() for path in [*unlike, victim, home / ("d" * 64), home / ("e" * 64)])
    assert cache.read("k", "last") == b"content" and cache.read("k", "0") is None
    assert len(list(home.iterdir())) == len(unlike) + 3


def test_trimming_in_a_folder_that_is_swapped_removes_nothing_elsewhere(home: Path, tmp_path: Path) -> None:
    cache.write("k", "one", b"content")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for letter in "abc":
        (elsewhere / (letter * 64)).write_text("precious")
    home.rename(tmp_path / "away")
    home.symlink_to(elsewhere)
    cache.write("k", "two", b"content", most=1)
    assert len(list(elsewhere.iterdir())) == 3


def test_what_was_left_by_writers_that_were_killed_goes_with_age(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_LOOK_AFTER", 1)
    cache.write("k", "one", b"content")
    left = home / ("a" * 64 + ".0123456789abcdef")
    left.write_bytes(b"half")
    os.utime(left, ns=(0, 0))
    cache.write("k", "two", b"content", most=2)
    assert not left.exists() and cache.read("k", "one") is not None


def test_without_a_folder_nothing_is_kept_and_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    cache.write("k", "one", b"content")
    assert cache.read("k", "one") is None


def test_files_used_longest_ago_go_first(home: Path) -> None:
    for number in range(4):
        cache.write("k", str(number), b"content", most=4)
        os.utime(file_of(home, str(number)), ns=(number, number))
    assert cache.read("k", "0") is not None  # now the most recently used
    cache.write("k", "4", b"content", most=4)
    assert [number for number in range(5) if cache.read("k", str(number))] == [0, 2, 3, 4]


def test_no_more_bytes_are_kept_than_may_be(home: Path) -> None:
    for number in range(8):
        cache.write("k", str(number), bytes(1000), most_nbytes=5000)
        os.utime(file_of(home, str(number)), ns=(number + 1, number + 1))
        cache.read("k", "0")
    assert [number for number in range(8) if cache.read("k", str(number))] == [0, 5, 6, 7]
    cache.write("k", "large", bytes(65 << 20))
    assert cache.read("k", "large") is None


def test_processes_that_write_at_once_leave_a_file_that_is_whole(home: Path) -> None:
    code = """
import sys
from sdi import cache
for round in range(200):
    cache.write("k", "one", sys.argv[1].encode() * 5000)
    found = cache.read("k", "one")
    assert found is not None and len(set(found)) == 1, found
"""
    command = [sys.executable, "-c", code]
    started = [subprocess.Popen([*command, letter], cwd=ROOT) for letter in "abc"]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(list(home.iterdir())) == 1


def test_a_process_that_plants_things_all_the_time_is_never_believed(home: Path, tmp_path: Path) -> None:
    """Another one puts in a file's place whatever it can while it is read, written and trimmed."""
    cache.write("k", "one", b"content")
    planted = file_of(home, "one")
    victim = tmp_path / "victim"
    victim.write_bytes(planted.read_bytes()[:32] + b"evil")
    code = """
import contextlib, os, random, sys
planted, victim, dice = sys.argv[1], sys.argv[2], random.Random(7)
while True:
    with contextlib.suppress(OSError):
        scratch = f"{victim}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(scratch)
        what = dice.randrange(4)
        if what == 0:
            os.symlink(victim, scratch)
        elif what == 1:
            os.mkfifo(scratch)
        elif what == 2:
            os.link(victim, scratch)
        else:
            open(scratch, "wb").write(b"evil" * 20)
        os.rename(scratch, planted)
"""
    before = victim.read_bytes()
    with subprocess.Popen([sys.executable, "-c", code, planted, victim]) as planter:
        try:
            dice, seen = random.Random(1), set()
            for _ in range(1500):
                if dice.random() < 0.3:
                    cache.write("k", "one", b"content", most=1)
                seen.add(cache.read("k", "one"))
        finally:
            planter.kill()
    assert seen <= {None, b"content"} and b"content" in seen
    assert victim.read_bytes() == before


def test_what_has_one_name_is_done_in_turns(home: Path) -> None:
    def locked() -> int:
        found = 0
        for path in home.iterdir():
            with path.open() as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found += 1
        return found

    with cache.turn("k", "one"):
        assert locked() == 1
        with cache.turn("k", "two"):
            assert locked() == 2, "another name does not wait"
    with cache.turn("k", "one"):
        assert locked() == 1
    assert locked() == 0 and len(list(home.iterdir())) == 2


def test_without_a_cache_there_are_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    with cache.turn("k", "one"), cache.turn("k", "one"):
        pass


def test_what_is_kept_is_listed_by_kind_the_last_used_first_and_removed(home: Path) -> None:
    assert cache.kinds() == []
    for number, name in enumerate(("one", "two", "damaged")):
        cache.write("k", name, name.encode())
        for path in home.iterdir():
            if path.read_bytes().endswith(name.encode()):
                os.utime(path, (number, number))
                if name == "damaged":
                    path.write_bytes(b"x")
                    os.utime(path, (number, number))
    (home / "of another").write_text("")
    found = cache.entries("k")
    assert [(entry.content, entry.used_s) for entry in found] == [(None, 2.0), (b"two", 1.0), (b"one", 0.0)]
    assert cache.entries("k") == found, "to list them is no use of them"
    cache.write("other", "one", b"content")
    assert cache.kinds() == ["k", "other"]
    assert cache.clear("k") == (3, sum(entry.nbytes for entry in found))
    assert [path.name for path in home.iterdir()] == ["of another"]
    assert cache.read("other", "one") == b"content"


def test_a_folder_is_looked_at_when_there_may_be_too_much_and_now_and_then(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at thousands of files for each one that is written would take longer than to make it anew."""
    looks = 0

    def counting(where: int, most: int, most_nbytes: int) -> tuple[int, int]:
        nonlocal looks
        looks += 1
        return remove_oldest(where, most, most_nbytes)

    remove_oldest = cache._remove_oldest
    monkeypatch.setattr(cache, "_remove_oldest", counting)
    for number in range(100):
        cache.write("k", str(number), b"content", most=90)
    assert 10 < looks < 15, "first, once more within 90, and each time from then on"
    assert sum(cache.read("k", str(number)) is not None for number in range(100)) == 90
