"""What a service leaves of the signal that ends it (``client/link/ending.c``)."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sdi.locate import library

TELL = """
import ctypes, faulthandler, mmap, os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
{before}
told = mmap.mmap(os.open(sys.argv[2], os.O_RDWR), 4096)
ctypes.CDLL(sys.argv[1]).sdi_tell_signals(ctypes.byref(ctypes.c_uint32.from_buffer(told)))
{end}
"""
FAULT, SENT, CHILD = (
    "ctypes.string_at(1)",
    "os.kill(os.getpid(), signal.SIG{})",
    "os.fork() or os.abort()\nos.wait()",
)


def ended(folder: Path, end: str, before: str = "") -> tuple[int, int, str]:
    """How the process ended; what it left; its stderr."""
    told = folder / "told"
    told.write_bytes(bytes(4096))
    code = TELL.format(before=before, end=end)
    done = subprocess.run(
        [sys.executable, "-c", code, library(), told], capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, int.from_bytes(told.read_bytes()[:4], "little"), done.stderr


@pytest.mark.parametrize(
    ("end", "number"),
    [
        (FAULT, signal.SIGSEGV),
        ("os.abort()", signal.SIGABRT),
        *(
            (SENT.format(name), signal.Signals[f"SIG{name}"])
            for name in ("SEGV", "BUS", "ILL", "FPE", "ABRT")
        ),
    ],
)
def test_a_process_leaves_the_signal_that_ends_it(end: str, number: signal.Signals, tmp_path: Path) -> None:
    assert ended(tmp_path, end) == (-number, number, "")


@pytest.mark.parametrize("end", ["", CHILD, SENT.format("KILL"), SENT.format("TERM")])
def test_other_ends_and_those_of_children_leave_nothing(end: str, tmp_path: Path) -> None:
    status, left, said = ended(tmp_path, end)
    assert (left, said) == (0, "") and (status == 0) == (end in ("", CHILD))


@pytest.mark.parametrize("end", [FAULT, "os.abort()", SENT.format("SEGV")])
def test_who_had_the_signal_before_gets_it_too(end: str, tmp_path: Path) -> None:
    status, left, said = ended(tmp_path, end, "faulthandler.enable()")
    assert left == -status and said.startswith("Fatal Python error: ")


def test_who_carries_on_after_a_division_by_zero_does(tmp_path: Path) -> None:
    found = ended(tmp_path, SENT.format("FPE"), "signal.signal(signal.SIGFPE, lambda *_: None)")
    assert found == (0, 0, "")
