"""What an application sends to a process that is ready, and which ones it serves."""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import struct
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sdi.service.handover import HandoverError
from sdi.service.ready import Applicant, _is_awaited, _next_application, is_like, receive

TEXT = b"4096\x00200000000000\x00A=1\x00B=x=y\x00=C\x00D\x00"
_PR_SET_NO_NEW_PRIVS = 38


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection."""
    pair = socket.socketpair()
    pair[1].settimeout(0.2)
    yield pair
    for end in pair:
        end.close()


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def send(end: socket.socket, text: bytes, outputs: int, count: int, nbytes: int | None = None) -> None:
    head = struct.pack("<QII", len(text) if nbytes is None else nbytes, outputs, 0)
    socket.send_fds(end, [head], [end.fileno()] * count)
    end.sendall(text)


@pytest.mark.parametrize(("outputs", "numbers"), [(0, [3, 4]), (4, [3, 4, 2]), (6, [3, 4, 1, 2])])
def test_it_gets_arguments_environment_and_descriptors(
    ends: tuple[socket.socket, socket.socket], outputs: int, numbers: list[int]
) -> None:
    before = descriptors()
    send(ends[0], TEXT, outputs, len(numbers))
    found = receive(ends[1])
    assert (found.pid, found.arguments) == (os.getpid(), ["4096", "200000000000"])
    assert found.environ == {"A": "1", "B": "x=y"}
    assert list(found.descriptors) == numbers
    assert all(
        os.path.samestat(os.fstat(each), os.fstat(ends[0].fileno())) for each in found.descriptors.values()
    )
    found.close()
    assert descriptors() == before


def test_an_environment_may_be_large(ends: tuple[socket.socket, socket.socket]) -> None:
    text = TEXT + b"".join([b"V%d=%d\0" % (number, number) for number in range(100_000)])
    with ThreadPoolExecutor(1) as beside:
        sent = beside.submit(send, ends[0], text, 0, 2)
        found = receive(ends[1])
        sent.result()
    assert len(found.environ) == 100_002 and found.environ["V99999"] == "99999"
    found.close()


@pytest.mark.parametrize(
    ("text", "outputs", "count", "nbytes"),
    [
        (TEXT, 6, 2, None),
        (TEXT, 0, 3, None),
        (TEXT[:-1], 0, 2, None),
        (b"4096\0", 0, 2, None),
        (b"", 0, 2, None),
        (TEXT, 0, 2, len(TEXT) + 1),
        (b"", 0, 2, 1 << 40),
    ],
    ids=["few", "many", "no end", "one argument", "nothing", "less than said", "too much"],
)
def test_what_makes_no_sense_is_refused_and_nothing_of_it_stays_open(
    ends: tuple[socket.socket, socket.socket], text: bytes, outputs: int, count: int, nbytes: int | None
) -> None:
    before = descriptors()
    send(ends[0], text, outputs, count, nbytes)
    with pytest.raises((HandoverError, OSError)):
        receive(ends[1])
    assert descriptors() == before


def test_who_says_nothing_is_refused(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].shutdown(socket.SHUT_WR)
    with pytest.raises(HandoverError):
        receive(ends[1])


@pytest.mark.parametrize(("sees_less", "expected"), [(False, True), (True, False)])
def test_a_process_with_other_rights_is_not_like_this_one(sees_less: bool, expected: bool) -> None:
    prctl = ctypes.CDLL(None).prctl

    def prepare() -> None:
        if sees_less:
            prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, preexec_fn=prepare) as process:  # noqa: PLW1509
        assert is_like(process.pid) is expected
        process.communicate()
    assert not is_like(process.pid), "it has ended"


APPLICANT = """
import resource, socket, struct, sys
if sys.argv[2] == "limited":
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
end.connect("\\0" + sys.argv[1])
text = b"4096\\x00" + sys.argv[2].encode() + b"\\x00"
socket.send_fds(end, [struct.pack("<QII", len(text), 0, 0)], [2, 2])
end.sendall(text)
if sys.argv[2] == "away":
    end.close()
    print(flush=True)
    sys.stdin.read()
elif sys.argv[2] != "gone":
    end.recv(1)
"""


@pytest.fixture
def place() -> Iterator[tuple[socket.socket, int, list[str]]]:
    """Where applicants ask, what ends who waits there, and the command that asks."""
    name = f"sdi-test-{secrets.token_hex(8)}"
    ends, here = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        yield listener, ends, [sys.executable, "-I", "-c", APPLICANT, name]
    os.close(ends)
    os.close(here)


EARLY = {"OPENBLAS_NUM_THREADS": "1"}


def let_go(asked: Applicant, answer: int) -> None:
    """It waits no longer."""
    asked.close()
    os.close(answer)


def test_who_no_longer_waits_is_passed_over(place: tuple[socket.socket, int, list[str]]) -> None:
    """It has a service of its own meanwhile."""
    listener, ends, command = place
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "away"], env={}, **pipes) as away:  # type: ignore[call-overload]
        assert away.stdout is not None and away.stdout.readline()
        with subprocess.Popen([*command, "free"], env={}) as applicant:
            asked, answer = _next_application(listener, ends, EARLY, lambda: False)
            assert asked.pid == applicant.pid
            let_go(asked, answer)
        away.communicate()


def test_the_driver_is_begun_once_nobody_asks(place: tuple[socket.socket, int, list[str]]) -> None:
    """Who had asked before waits no longer for it than for one of its own."""
    listener, ends, command = place
    subprocess.run([*command, "gone"], env={}, timeout=60, check=True)
    begun: list[subprocess.Popen[bytes]] = []

    def begin() -> bool:
        begun.append(subprocess.Popen([*command, "free"], env={}))
        return True

    asked, answer = _next_application(listener, ends, EARLY, begin)
    assert [each.pid for each in begun] == [asked.pid]
    let_go(asked, answer)
    for each in begun:
        each.wait()


def test_who_has_gone_before_its_turn_is_passed_over(place: tuple[socket.socket, int, list[str]]) -> None:
    listener, ends, command = place
    subprocess.run([*command, "gone"], env={}, timeout=60, check=True)
    with subprocess.Popen([*command, "free"], env={}) as applicant:
        asked, answer = _next_application(listener, ends, EARLY, lambda: True)
        assert asked.pid == applicant.pid
        let_go(asked, answer)


@pytest.mark.parametrize("has_cuda", [False, True])
def test_who_has_few_addresses_gets_none_that_has_cudas_driver(
    place: tuple[socket.socket, int, list[str]], has_cuda: bool
) -> None:
    listener, ends, command = place
    begun = threading.Event()

    def begin() -> bool:
        begun.set()
        return has_cuda

    with ThreadPoolExecutor(1) as beside:
        found = beside.submit(_next_application, listener, ends, EARLY, begin)
        assert begun.wait(60)
        if has_cuda:
            subprocess.run([*command, "limited"], env={}, timeout=60, check=True)  # until it is refused
        with subprocess.Popen([*command, "free" if has_cuda else "limited"], env={}) as applicant:
            asked, answer = found.result()
            assert (asked.pid, asked.arguments[0]) == (applicant.pid, "4096")
            let_go(asked, answer)


@pytest.mark.parametrize(("word", "expected"), [(b"y", True), (b"", False)])
def test_the_application_says_that_it_is_served(
    ends: tuple[socket.socket, socket.socket], word: bytes, expected: bool
) -> None:
    before = descriptors()
    answer = os.dup(ends[1].fileno())
    if word:
        ends[0].send(word)
    else:
        ends[0].shutdown(socket.SHUT_RDWR)
    assert _is_awaited(answer) is expected
    assert descriptors() == before


def test_one_that_waits_ends_with_who_made_it() -> None:
    code = """
    import os, socket
    from sdi.service.ready import _next_application
    ends, here = os.pipe()
    os.close(here)
    _next_application(socket.socket(), ends, {}, lambda: False)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60, check=False)
    assert done.returncode == 0
