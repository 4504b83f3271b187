"""Runs a command with the plain driver or with the image, and sees to it that no service outlives it."""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
MARK = "OCL_TEST_RUN"
"""Variable with a value of its own for each run, which all processes of the run inherit."""

DRIVERS = os.environ.get("DRIVERS", "")
"""A folder of .icd files: of the drivers in place of the machine's."""

PLAYER = os.environ.get("SDI_PLAYER", "on")
"""Whether images and sessions replay launches: tests are run without that, too."""

_USER_MODE_ONLY = 1
END_PATIENCE_S = 15.0
WRITES_S = 2.0
"""So long a service may take to write where it stands."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a command ended.  ``returncode`` is None when it was killed for taking too long.

    ``remained``: processes of the run, services above all, that had to be killed ``END_PATIENCE_S`` after it.
    """

    returncode: int | None
    stdout: str
    stderr: str
    seconds: float
    remained: tuple[str, ...]

    def describe(self) -> str:
        """The end of both outputs, for the message of a failing test."""
        ended = "killed: it took too long" if self.returncode is None else f"exit status {self.returncode}"
        return f"{ended} after {self.seconds:.1f} s\n{self.stdout[-3000:]}\n{self.stderr[-3000:]}"


@functools.cache
def vendors() -> str:
    """The directory for OCL_ICD_VENDORS that makes a loader find the image."""
    command = [sys.executable, "-m", "sdi.cli", "env", "--vendors"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return found.stdout.strip()


def answers_faults() -> bool:
    """Whether a process like this one may answer its own page faults, also those of system calls."""
    return _has_userfaultfd(0) or os.access("/dev/userfaultfd", os.R_OK | os.W_OK)


def tells_what_is_written() -> bool:
    """Whether Linux tells a process like this one which of its pages it wrote."""
    release = tuple(int(number) for number in re.findall(r"[0-9]+", platform.release())[:2])
    return release >= (6, 7) and _has_userfaultfd(_USER_MODE_ONLY)


def _has_userfaultfd(flags: int) -> bool:
    number = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
    found = -1 if number is None else ctypes.CDLL(None).syscall(number, os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if found >= 0:
        os.close(found)
    return bool(found >= 0)


def plain_environ() -> dict[str, str]:
    """An environment in which the loader finds the plain drivers."""
    unwanted = ("SDI_", "OCL_ICD_", "OCL_TEST_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    other = {"OCL_ICD_VENDORS": DRIVERS, "SDI_MEMBER_VENDORS": DRIVERS} if DRIVERS else {}
    return environ | {"PYOPENCL_NO_CACHE": "1"} | other


def image_environ(members: int, **settings: str) -> dict[str, str]:
    """An environment in which the loader finds an image of ``members`` members.

    Shares are equal unless a test asks for others: what moves must not depend on how busy the machine is,
    nor on what earlier runs learnt.
    """
    image = {
        "OCL_ICD_VENDORS": vendors(),
        "SDI_NUM_GPUS": str(members),
        "OCL_TEST_PLATFORM": "SDI",
        "SDI_BALANCE": "off",
        "SDI_LEARNT": "off",
        "SDI_PLAYER": PLAYER,
    }
    return plain_environ() | image | settings


def run(
    command: Sequence[str | Path], environ: Mapping[str, str], timeout_s: float, given: str | None = None
) -> Run:
    """Run a command, with this input, from the project's root and wait for everything that it started."""
    mark = uuid.uuid4().hex
    start = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=ROOT,
        env={**environ, MARK: mark},
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    returncode: int | None = None
    try:
        stdout, stderr = process.communicate(given, timeout=timeout_s)
        returncode = process.returncode
    except subprocess.TimeoutExpired:
        ask_services(mark)
        process.kill()
        kill_remaining(mark, patience_s=0.0)
        stdout, stderr = process.communicate()
    seconds = time.monotonic() - start
    return Run(returncode, stdout, stderr, seconds, kill_remaining(mark, END_PATIENCE_S))


def counted(path: Path) -> dict[str, Any]:
    """The counters of a run, from what SDI_STATS names."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def computed(
    programs: Sequence[str], folder: Path, environ: Mapping[str, str], limit_s: float
) -> dict[str, bytes]:
    """What test programs compute, by array; all of them end well."""
    out = folder / "arrays.npz"
    command = [sys.executable, "-m", "tests.programs.runner", "--out", str(out), "--only", *programs]
    ended = run(command, environ, limit_s)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    with np.load(out) as archive:
        return {key: archive[key].tobytes() for key in archive}


def _processes(mark: str) -> Iterator[tuple[int, str]]:
    """Of each process with this mark: a descriptor, open for the moment; its id and command line."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            descriptor = os.pidfd_open(int(folder.name))
        except OSError:
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                name = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                yield descriptor, f"{folder.name}: {name}"
        except OSError:
            continue  # it has just ended, or belongs to somebody else
        finally:
            os.close(descriptor)


def ask_services(mark: str, writes_s: float = WRITES_S) -> None:
    """Have the services of this run write to stderr where their threads stand, each for so long."""
    for descriptor, name in _processes(mark):
        if " sdi.service.main " in name:
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGRTMIN)
                select.select([descriptor], [], [], writes_s)  # it does not end by it


def calls_of_threads() -> Iterator[str]:
    """By thread of this process, the system call that it waits in: its number, arguments, and where it is."""
    for folder in sorted(Path("/proc/self/task").iterdir()):
        with suppress(OSError):
            name, call = ((folder / each).read_text().strip() for each in ("comm", "syscall"))
            yield f"{folder.name} {name}: {call}"


def end_after(limit_s: float) -> Callable[[], None]:
    """End this process, which was started by ``run``, if what is returned is not called in this time.

    Both say where they stand then: this one and its services.
    """

    def end() -> None:
        ask_services(os.environ.get(MARK, ""))
        faulthandler.dump_traceback()
        print(*calls_of_threads(), sep="\n", file=sys.stderr, flush=True)
        os._exit(1)

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(
        limit_s + 2 * WRITES_S, exit=True
    )  # where something holds Python's lock

    def over() -> None:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()

    return over


def kill_remaining(mark: str, patience_s: float) -> tuple[str, ...]:
    """Wait until all processes with this mark have ended; those that take too long are killed and named."""
    deadline = time.monotonic() + patience_s
    remained = []
    for descriptor, name in _processes(mark):
        ended, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not ended:
            remained.append(name)
            with suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    return tuple(remained)
