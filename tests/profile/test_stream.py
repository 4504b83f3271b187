"""What services wrote is read back, also when they were killed while they wrote; anything else is refused."""

import json
import os
import struct
from pathlib import Path

import pytest

from sdi import whole_file
from sdi.devices.ticket import Ticket
from sdi.icd.api import NUM_SLOTS
from sdi.profile.recorder import Recorder
from sdi.profile.stream import ProfileError, read_profile, read_session

OPENING: dict[str, object] = {"application": 9, "members": [{"name": "a", "kind": "cpu"}], "split": "auto"}


def recorded(folder: Path) -> Path:
    """A session with a copy that is done, one that failed and one that never ended."""
    recorder = Recorder(folder, OPENING)
    done, failed, pending = Ticket(), Ticket(), Ticket()
    recorder.arrived(1, 2, "write", 64, 100)
    recorder.command = 1
    for ticket, nbytes in ((done, 64), (failed, 65), (pending, 66)):
        recorder.copied(0, 1, nbytes, "write", False, ticket)
    done.complete(None, 110, 120)
    failed.complete(ValueError("no"), 0, 0)
    recorder.finished(1, 101, 110, 120, 0)
    recorder.arrived(2, 2, "read", 8, 130)
    recorder.close({"link_ns": [[0, 1, 0.5]], "events": {"twins": 1}, "explained": {}})
    recorder.close({})  # once is enough
    return folder / f"service-{os.getpid()}.jsonl"


def test_everything_that_was_recorded_is_read(tmp_path: Path) -> None:
    session = read_session(recorded(tmp_path))
    assert session is not None and session.is_complete and session.application == 9
    copies = {copy.nbytes: (copy.start_ns, copy.end_ns, copy.status) for copy in session.copies}
    assert copies == {64: (110, 120, 0), 65: (0, 0, -1), 66: (0, 0, 0)}
    first, second = session.commands
    assert (first.id, first.kind, first.nbytes, first.queued_ns, first.end_ns) == (1, "write", 64, 100, 120)
    assert (second.id, second.submitted_ns, second.end_ns) == (2, 0, 0)
    assert session.link_ns == {(0, 1): 0.5} and session.events == {"twins": 1}


def test_a_stream_cut_anywhere_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    text = path.read_bytes()
    for end in range(0, len(text), 7):
        path.write_bytes(text[:end])
        session = read_session(path)
        assert (session is None) == (b"\n" not in text[:end])
        assert session is None or (not session.is_complete and session.closed_ns >= session.opened_ns)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "{",
        '["open",{"version":0}]',
        '["open",[]]',
        '["open",{"version":1}]',
        json.dumps(["open", {"version": 1, "pid": 1, "opened_ns": 0, **OPENING}]) + '\n["copy",[[1,2]]]',
        json.dumps(["open", {"version": 1, "pid": 1, "opened_ns": 0, **OPENING}]) + '\n["shape",[[1]]]',
    ],
)
def test_anything_else_is_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "service-1.jsonl").write_text(line + "\n")
    with pytest.raises(ProfileError) as caught:
        read_profile(tmp_path)
    assert "service-1.jsonl" in str(caught.value) and "\n" not in str(caught.value)


def test_calls_of_another_version_are_one_line(tmp_path: Path) -> None:
    recorded(tmp_path)
    (tmp_path / "calls-1.bin").write_bytes(b"SDICALL9" + bytes(100))
    with pytest.raises(ProfileError, match=r"calls-1\.bin: not the calls of this version"):
        read_profile(tmp_path)
    (tmp_path / "calls-1.bin").write_bytes(b"SDICALL1" + struct.pack("<IIQQQQ", 1, NUM_SLOTS, 1, 1, 9, 3))
    with (tmp_path / "calls-1.bin").open("ab") as file:
        file.write(bytes(1000))
    with pytest.raises(ProfileError, match=r"calls-1\.bin: 1048 bytes of at least"):
        read_profile(tmp_path)
    (tmp_path / "calls-1.bin").write_bytes(bytes(100))  # its process was killed while it made the file
    assert read_profile(tmp_path).applications == ()


def test_a_folder_that_cannot_be_written_to_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_file, "open_new", lambda _path: os.open("/dev/full", os.O_WRONLY))
        with pytest.raises(OSError, match="No space left on device"):
            Recorder(tmp_path, OPENING)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Recorder(tmp_path / "file", OPENING)
