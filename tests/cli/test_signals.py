"""Signals that are waited for come, and nothing else does."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sdi.cli.signals import Signal, next_signal

WATCHED = (signal.SIGUSR1, signal.SIGUSR2)
_SI_QUEUE = -1


@pytest.fixture(autouse=True)
def blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_signal_comes_with_who_has_sent_it_and_nothing_comes_where_there_is_none() -> None:
    assert next_signal(WATCHED, 0) is None and next_signal(WATCHED, 0.001) is None
    ctypes.CDLL(None).sigqueue(os.getpid(), int(signal.SIGUSR2), ctypes.c_void_p())
    assert next_signal(WATCHED, 60) == Signal(signal.SIGUSR2, _SI_QUEUE)
    assert next_signal(WATCHED, 0) is None


def test_what_can_not_be_waited_for_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        next_signal(WATCHED, -1)


def test_a_process_that_was_stopped_meanwhile_has_got_none() -> None:
    """For longer than it was to wait: Python's own way makes one up then."""
    waits = (
        "import signal, sys; from sdi.cli.signals import next_signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2}); found = []\n"
        "print('ready', flush=True)\n"
        "while signal.SIGUSR2 not in found:\n"
        "    if (got := next_signal((signal.SIGUSR1, signal.SIGUSR2), 0.002)) is not None:\n"
        "        found.append(got.number)\n"
        "print(*found)"
    )
    with subprocess.Popen([sys.executable, "-c", waits], stdout=-1, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for _ in range(10):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            subprocess.run([sys.executable, "-c", ""], check=True)  # which takes longer than that
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGUSR2)
        assert process.communicate(timeout=60)[0] == f"{signal.SIGUSR2.value}\n"
