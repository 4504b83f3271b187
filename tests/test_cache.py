"""Files in the user's cache folder: right, or as good as absent, whatever befell them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sdi import cache
from tests.image_runs import ROOT


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder; what is kept there of a kind "k" lies in the result."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "sdi" / "k"


def test_what_was_written_is_read_again_by_its_name_and_kind(home: Path) -> None:
    cache.write("k", "one", b"first")
    cache.write("k", "one", b"second")
    cache.write("k", "two", b"")
    assert (cache.read("k", "one"), cache.read("k", "two")) == (b"second", b"")
    assert cache.read("k", "three") is None and cache.read("other", "one") is None
    assert home.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in home.iterdir()) == ["one", "two"], "no scratch file is left"


def test_damaged_files_are_as_good_as_absent(home: Path) -> None:
    cache.write("k", "one", bytes(range(200)))
    whole = (home / "one").read_bytes()
    for data in (
        b"",
        whole[:20],
        whole[:-1],
        whole + b"x",
        whole[:50] + b"?" + whole[51:],
        bytes(len(whole)),
    ):
        (home / "one").write_bytes(data)
        assert cache.read("k", "one") is None
    (home / "one").write_bytes(whole)
    assert cache.read("k", "one") == bytes(range(200))


def test_what_others_may_have_written_is_not_read(home: Path) -> None:
    cache.write("k", "one", b"content")
    (home / "link").symlink_to(home / "one")
    assert cache.read("k", "link") is None
    (home / "one").chmod(0o620)
    assert cache.read("k", "one") is None
    (home / "one").chmod(0o600)
    assert cache.read("k", "one") == b"content"
    home.chmod(0o777)
    assert cache.folder("k") is None and cache.read("k", "one") is None
    cache.write("k", "two", b"content")
    assert not (home / "two").exists()


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
        os.utime(home / str(number), ns=(number, number))
    assert cache.read("k", "0") is not None  # now the most recently used
    cache.write("k", "4", b"content", most=4)
    assert sorted(path.name for path in home.iterdir()) == ["0", "2", "3", "4"]


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
    assert [path.name for path in home.iterdir()] == ["one"]
