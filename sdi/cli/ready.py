"""A process that becomes a service sooner than one that is started (``service/ready.py``)."""

from __future__ import annotations

import ctypes
import logging
import os
import select
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sdi.locate import service_python

_log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl
_BACKLOG = 64
_END_S = 5
_HIDDEN = ("PYTHON", "LD_PRELOAD", "OCL_ICD_")
"""Beginnings of names that services do not get: see ``client/link/service.c``."""


def end_with_parent() -> None:
    """For a new process before it runs its program: who kills who started it ends it, too."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def can_be_ready() -> bool:
    """Whether there is a core beside the application's."""
    return len(os.sched_getaffinity(0)) > 1


class ReadyService:
    """The process, if there is one: from here on until ``close``.

    There is none where a Python or a service is named, and where the application has one core.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._name = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._alive = -1
        python = service_python(environ)
        is_named = environ.get("SDI_PYTHON") or environ.get("SDI_SERVICE")
        if is_named or python is None or not can_be_ready():
            return
        name = f"sdi-ready-{os.urandom(16).hex()}"
        self._alive, alive = os.pipe()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(f"\0{name}")  # no file: each end looks who the other one is
                listener.listen(_BACKLOG)
                self._process = _start(python, listener.fileno(), alive, environ)
        except OSError as error:
            _log.info("no service is made ready: %s", error)
        else:
            self._name = name
        finally:
            os.close(alive)

    def environ(self) -> dict[str, str]:
        """What the application finds it by."""
        return {"_SDI_READY": self._name} if self._name else {}

    def close(self) -> None:
        """End it, and who waits; the services that it has become go on."""
        if self._process is not None:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)  # who waits may be busy with a driver
                self._process.wait()
            select.select([self._alive], [], [], _END_S)
        self._process = None
        if self._alive >= 0:
            os.close(self._alive)
        self._alive = -1


def _start(python: Path, listener: int, alive: int, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    given = {name: value for name, value in environ.items() if not name.startswith(_HIDDEN)}
    return subprocess.Popen(
        [python, "-I", "-m", "sdi.service.main", "ready", str(listener), str(alive)],
        env=given | {"SDI_IN_SERVICE": "1"},
        cwd="/",
        pass_fds=[listener, alive],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=end_with_parent,  # noqa: PLW1509
    )
