"""What services wrote is read back, also when they were killed while they wrote; anything else is refused."""

import json
import os
import struct
from binascii import b2a_base64
from pathlib import Path

import pytest

from sdi import whole_file
from sdi.devices.ticket import Ticket
from sdi.profile.analyse.model import AssignmentSpan, Command, CopySpan, LaunchSpan, Turn, WorkSpan
from sdi.profile.analyse.stream import ProfileError, read_profile, read_session
from sdi.profile.record.recorder import Recorder
from sdi.wire.api import NUM_SLOTS

OPENING: dict[str, object] = {"application": 9, "members": [{"name": "a", "kind": "cpu"}], "split": "auto"}


def recorded(folder: Path) -> Path:
    """A session with a copy that is done, one that failed and one that never ended."""
    recorder = Recorder(folder, OPENING)
    done, failed, pending = Ticket(), Ticket(), Ticket()
    recorder.arrived(1, 2, "write", 64, 100)
    for ticket, nbytes in ((done, 64), (failed, 65), (pending, 66)):
        recorder.copied(1, 0, 1, nbytes, "write", False, ticket)
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


def logged(what: int, which: int, number: int, began_ns: int = 0, ended_ns: int = 0) -> bytes:
    """A line of the player's."""
    return struct.pack("<IIQQQ", what % (1 << 32), which, number, began_ns, ended_ns)


def test_commands_that_the_player_executed_are_read_as_others_are(tmp_path: Path) -> None:
    command, end, turn = -3, -2, -1
    recorder = Recorder(tmp_path, OPENING)
    copy, work = ("copy", 0, 1, 64, "k: a", False), ("work", "fill", 0, 32, "fill")
    assert recorder.recording("launch", 0, "k", 5, False, [copy, ("piece", 0, 12)]) == 1
    assert recorder.recording("fill", 32, "", 0, False, [work]) == 2
    assert recorder.recording("write", 0, "", 0, True, []) == 3
    recorder.replayed(
        logged(turn, 0, 0, 90, 110)
        + logged(0, 1, 11, 105, 106)
        + logged(1, 1, 11, 107, 120)
        + logged(command, 1, 11, 100, 104)
        + logged(end, 0, 3, 107, 120)
    )
    recorder.replayed(
        logged(0, 2, 12, 130, 131)
        + logged(command, 2, 12, 121, 122)
        + logged(end, 0, 3, 130, 131)
        + logged(command, 3, 13, 140, 142)
        + logged(end, 9, 3, 140, 142)
        + logged(command, 0, 14, 150, 150)  # a marker
        + logged(end, 0, 3, 150, 150)
        + logged(command, 1, 15, 160, 164)  # the service finished it
        + logged(end, 0, 3, 0, 0)
        + logged(1, 1, 15, 166, 170)
    )
    recorder.arrived(15, 3, "launch", 0, 160)
    recorder.finished(15, 160, 180, 180, 0)
    recorder.close({})
    session = read_session(tmp_path / f"service-{os.getpid()}.jsonl")
    assert session is not None
    assert session.commands == (
        Command(11, 3, "launch", 0, 100, 100, 107, 120, 0),
        Command(12, 3, "fill", 32, 121, 121, 130, 131, 0),
        Command(13, 3, "write", 9, 140, 140, 140, 142, 0),
        Command(14, 3, "marker", 0, 150, 150, 150, 150, 0),
        Command(15, 3, "launch", 0, 160, 160, 166, 170, 0),  # as its assignment did
    )
    assert session.launches == (
        LaunchSpan(11, "k", 5, "replay", 100, 100, 104, 0),
        LaunchSpan(15, "k", 5, "replay", 160, 160, 164, 0),
    )
    assert session.assignments == (
        AssignmentSpan(11, 0, 0, 12, 107, 120, 0),
        AssignmentSpan(15, 0, 0, 12, 166, 170, 0),
    )
    assert session.copies == (CopySpan(11, 0, 1, 64, "k: a", False, 105, 106, 0),)
    assert session.works == (
        WorkSpan(12, "fill", 0, 32, "fill", 130, 131, 0),
        WorkSpan(13, "write", -1, 9, "write", 140, 142, 0),
    )
    assert session.turns == (Turn(90, 110, 20),)


def test_what_replays_refer_to_is_written_before_them(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, OPENING)
    for number in range(1, 4):
        assert recorder.recording("fill", 4, "", 0, False, []) == number
        recorder.replayed(logged(-3, number, 10 + number, 1, 2) + logged(-2, 0, 3, 1, 2))
    recorder.close({})
    path = tmp_path / f"service-{os.getpid()}.jsonl"
    lines, found = path.read_bytes().splitlines(keepends=True), set()
    for count in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        session = read_session(path)
        assert session is not None
        found.add(len(session.commands))
    assert found == {0, 1, 2, 3}


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
        *(
            json.dumps(["open", {"version": 2, "pid": 1, "opened_ns": 0, **OPENING}])
            + f'\n["replayed",[["{text}"]]]'
            for text in ("AAAA", "?", b2a_base64(logged(7, 1, 1)).decode().strip())
        ),
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
