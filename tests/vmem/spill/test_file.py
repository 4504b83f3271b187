"""The file: without a name, with room on disk before bytes are written."""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdi.errors import ClError, Status
from sdi.vmem.spill import file as files
from sdi.vmem.spill.file import SpillFile

UNIT = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SpillFile]:
    made = SpillFile(tmp_path, 16 * UNIT)
    made.extend(1 << 30)
    yield made
    made.close()


def blocks(file: SpillFile) -> int:
    return os.fstat(file.fd).st_blocks * 512


def test_it_has_no_name_and_takes_room_for_what_is_reserved_alone(file: SpillFile, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == [] and os.fstat(file.fd).st_mode & 0o777 == 0o600
    assert blocks(file) < UNIT and os.fstat(file.fd).st_size == 1 << 30
    file.reserve(8 * UNIT, 3 * UNIT)
    assert 3 * UNIT <= blocks(file) < 4 * UNIT
    with mmap.mmap(file.fd, UNIT, offset=8 * UNIT) as mapped:
        mapped[:] = b"\1" * UNIT
        file.begin_writing(8 * UNIT, UNIT)
        file.write_out(8 * UNIT, UNIT)
        file.drop(8 * UNIT, UNIT)
        file.fetch(8 * UNIT, UNIT)
        assert mapped[:] == b"\1" * UNIT
        file.release(8 * UNIT, 3 * UNIT)
        assert mapped[:] == bytes(UNIT) and blocks(file) < UNIT
    assert file.most_nbytes == 3 * UNIT


def test_a_file_that_ended_may_be_closed(tmp_path: Path) -> None:
    made = SpillFile(tmp_path, UNIT)
    made.end()
    own = os.open(tmp_path, os.O_RDONLY)  # gets the number that the ledger had
    made.close()
    os.close(own)


def test_folders_in_memory_are_known(file: SpillFile) -> None:
    made = SpillFile(Path("/dev/shm"), UNIT)
    made.close()
    assert made.is_in_memory
    assert not file.is_in_memory or str(file.folder).startswith(("/tmp", "/dev/shm"))


@pytest.mark.logs("of the limit of")
def test_all_files_in_a_folder_have_one_limit(file: SpillFile, tmp_path: Path) -> None:
    other = SpillFile(tmp_path, 16 * UNIT)
    other.extend(1 << 30)
    file.reserve(0, 10 * UNIT)
    with pytest.raises(ClError, match=r"7.0 MiB more asked, 10.0 MiB of the limit of 16.0 MiB") as caught:
        other.reserve(0, 7 * UNIT)
    assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
    other.reserve(0, 6 * UNIT)
    other.close()
    file.reserve(10 * UNIT, 6 * UNIT)


@pytest.mark.logs("no room for")
def test_a_full_disk_is_one_line_and_leaves_what_was_there(
    file: SpillFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = file._fallocate

    def full(mode: int, offset: int, nbytes: int) -> None:
        if mode == files._KEEP_SIZE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(mode, offset, nbytes)

    file.reserve(0, UNIT)
    monkeypatch.setattr(file, "_fallocate", full)
    said = f"files: no room for 2.0 MiB more in {tmp_path} \\(SDI_SPILL\\): No space left on device"
    with pytest.raises(ClError, match=said) as caught:
        file.reserve(UNIT, 2 * UNIT)
    assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
    monkeypatch.undo()
    file.reserve(UNIT, 15 * UNIT)


def test_where_there_is_no_folder_or_files_without_a_name_need_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        SpillFile(tmp_path / "gone", UNIT)
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        SpillFile(tmp_path / "file", UNIT)
    real = os.open

    def old(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return real(path, flags, mode)

    (tmp_path / "file").unlink()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", old)
        made = SpillFile(tmp_path, UNIT)
    assert list(tmp_path.iterdir()) == []
    made.close()
