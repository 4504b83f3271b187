"""Handing an application to a service that runs already."""

from __future__ import annotations

import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sdi.service import handover
from sdi.service.handover import HandoverError, hand_over, listen, peer_of, take_over


def test_a_service_gets_the_sockets_the_arguments_and_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDI_NUM_GPUS", "3")
    monkeypatch.setenv("OTHERS", "are none of its business")
    path = str(tmp_path / "service")
    commands, application = socket.socketpair()
    notices, other = socket.socketpair()
    with listen(path) as service, ThreadPoolExecutor(1) as pool, application, other:
        ended = pool.submit(hand_over, path, [commands, notices], ["--one", "two"])
        handed = take_over(service.accept()[0])
        with handed.connection, handed.commands, handed.notices:
            assert handed.arguments == ("--one", "two")
            assert handed.environ["SDI_NUM_GPUS"] == "3" and "OTHERS" not in handed.environ
            assert peer_of(handed.connection)[1] == Path(path).stat().st_uid
            handed.commands.sendall(b"commands")
            handed.notices.sendall(b"notices")
            assert (application.recv(8), other.recv(7)) == (b"commands", b"notices")
            handed.connection.sendall(b"\0")
        assert ended.result() == 0
    assert commands.fileno() == notices.fileno() == -1, "they are the service's"


def test_a_service_that_goes_away_is_told_from_one_that_says_that_it_ended(tmp_path: Path) -> None:
    path = str(tmp_path / "service")
    pairs = [socket.socketpair() for _ in range(2)]
    with listen(path) as service, ThreadPoolExecutor(1) as pool:
        ended = pool.submit(hand_over, path, [pair[0] for pair in pairs], [])
        handed = take_over(service.accept()[0])
        for each in (handed.commands, handed.notices, handed.connection):
            each.close()
        assert ended.result() == 1
    for _, other in pairs:
        other.close()


def test_where_there_is_no_service_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(HandoverError, match="no service at SDI_SERVICE="):
        hand_over(str(tmp_path / "none"), [], [])


WRONG = {
    "no text": (struct.pack("<I", 3) + b"{}}", 2, "can't be read"),
    "other settings": (struct.pack("<I", 2) + b"[]", 2, "can't be read"),
    "very long ones": (struct.pack("<I", 1 << 30), 2, "settings of"),
    "one socket": (struct.pack("<I", 2) + b"{}", 1, "1 sockets instead"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_application_is_refused(what: str) -> None:
    data, count, why = WRONG[what]
    sender, receiver = socket.socketpair()
    pairs = [socket.socketpair() for _ in range(count)]
    with sender, receiver:
        socket.send_fds(sender, [data[:4]], [pair[0].fileno() for pair in pairs])
        sender.sendall(data[4:])
        with pytest.raises(HandoverError, match=why):
            take_over(receiver)
    for pair in pairs:
        for end in pair:
            end.close()


def test_other_users_are_not_talked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = socket.socketpair()
    with one, other:
        handover.check_peer(one)
        monkeypatch.setattr("os.geteuid", lambda: 4711)
        with pytest.raises(HandoverError, match="not to 4711"):
            handover.check_peer(one)
