"""Whether files have changed."""

from __future__ import annotations

from pathlib import Path

from sdi.clc.preprocess.files_seen import digest_of


def test_files_are_told_apart_by_what_is_in_them(tmp_path: Path) -> None:
    one, other, folder = tmp_path / "one.h", tmp_path / "other.h", tmp_path / "folder"
    one.write_text("#define A")
    other.write_text("#define A")
    folder.mkdir()
    before = digest_of(str(one))
    assert before == digest_of(str(other)) is not None
    one.write_text("#define B")
    assert digest_of(str(one)) not in (None, before)
    assert digest_of(str(folder)) is digest_of(str(tmp_path / "none.h")) is None
