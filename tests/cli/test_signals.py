"""Signals that are waited for come, and nothing else does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from sdi.cli.signals import next_signal

BEGIN = """
import ctypes, os, signal
from sdi.cli.signals import next_signal
WATCHED = (signal.SIGUSR1, signal.SIGUSR2)
signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
"""
"""In processes of their own: others' threads may be given a signal here."""


def test_a_signal_comes_with_who_has_sent_it_and_nothing_comes_where_there_is_none() -> None:
    shows = """
print(next_signal(WATCHED, 0), next_signal(WATCHED, 0.001))
ctypes.CDLL(None).sigqueue(os.getpid(), 12, ctypes.c_void_p())
print(*next_signal(WATCHED, 60), next_signal(WATCHED, 0))
"""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + shows], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("None None\n12 -1 None\n", "")


def test_what_can_not_be_waited_for_is_an_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        next_signal((), -1)


def test_a_process_that_was_stopped_meanwhile_has_got_none() -> None:
    """For longer than it was to wait: Python's own way makes one up then."""
    waits = """
found = []
print('ready', flush=True)
while signal.SIGUSR2 not in found:
    if (got := next_signal(WATCHED, 0.002)) is not None:
        found.append(got.number)
print(*found)
"""
    with subprocess.Popen([sys.executable, "-c", BEGIN + waits], stdout=-1, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for _ in range(10):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            subprocess.run([sys.executable, "-c", ""], check=True)  # which takes longer than that
            process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGUSR2)
        assert process.communicate(timeout=60)[0] == f"{signal.SIGUSR2.value}\n"
