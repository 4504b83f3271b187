"""Files that are replaced whole, in folders where others can plant links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sdi import whole_file


def test_a_reader_sees_the_old_file_or_the_new_one_and_nothing_is_left(tmp_path: Path) -> None:
    path = tmp_path / "stats.json"
    whole_file.check(path)
    assert list(tmp_path.iterdir()) == []
    whole_file.replace(path, "first")
    with path.open() as old:
        whole_file.replace(path, "second")
        assert (old.read(), path.read_text()) == ("first", "second")
    whole_file.check(path)
    assert [each.name for each in tmp_path.iterdir()] == ["stats.json"]
    assert path.stat().st_mode & 0o111 == 0


@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_nothing_is_written_through_a_link(tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_text("precious")
    path = tmp_path / "stats.json"
    path.symlink_to(tmp_path / target)
    whole_file.replace(path, "text")
    assert path.read_text() == "text" and not path.is_symlink()
    path.unlink()
    path.symlink_to(tmp_path / target)
    os.close(whole_file.open_new(path))
    assert not path.is_symlink()
    assert (tmp_path / "victim").read_text() == "precious" and not (tmp_path / "nowhere").exists()


def test_names_of_files_in_the_making_cannot_be_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def noted(path: Path, replaces: Path) -> None:
        made.append(Path(path).name)
        real(path, replaces)

    real = os.replace
    monkeypatch.setattr(os, "replace", noted)
    for _ in range(20):
        whole_file.replace(tmp_path / "stats.json", "text")
    assert len(set(made)) == 20


@pytest.mark.parametrize("what", ["fifo", "folder", "missing", "read-only"])
def test_what_cannot_be_replaced_is_known_before(tmp_path: Path, what: str) -> None:
    path = tmp_path / "stats.json"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "missing":
        path = tmp_path / "missing" / "stats.json"
    else:
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        tmp_path.chmod(0o500)
    with pytest.raises(OSError, match=r"regular file|No such file|denied"):
        whole_file.check(path)
