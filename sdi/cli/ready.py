"""A process that becomes a service sooner than one that is started (``service/ready.py``)."""

from __future__ import annotations

import ctypes
import logging
import os
import secrets
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sdi.locate import service_python

_log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
_BACKLOG = 64
_NVIDIA = Path("/proc/driver/nvidia")
"""Where it is, nobody has tried yet what a process that has loaded CUDA's driver can do after a fork."""
_HIDDEN = ("PYTHON", "LD_PRELOAD", "OCL_ICD_")
"""Beginnings of names that services do not get: see ``client/link/service.c``."""


class ReadyService:
    """The process, if there is one: from here on until ``close``.

    There is none where a Python or a service is named, where the application has one core, and beside
    NVIDIA's driver.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._name = ""
        self._process: subprocess.Popen[bytes] | None = None
        python = service_python(environ)
        is_named = environ.get("SDI_PYTHON") or environ.get("SDI_SERVICE")
        has_core = len(os.sched_getaffinity(0)) > 1
        if is_named or python is None or not has_core or _NVIDIA.exists():
            return
        name = f"sdi-ready-{secrets.token_hex(16)}"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
                listener.bind(f"\0{name}")  # no file: each end looks who the other one is
                listener.listen(_BACKLOG)
                self._process = _start(python, listener.fileno(), environ)
        except OSError as error:
            _log.info("no service is made ready: %s", error)
        else:
            self._name = name

    def environ(self) -> dict[str, str]:
        """What the application finds it by."""
        return {"_SDI_READY": self._name} if self._name else {}

    def close(self) -> None:
        """End it; the services that it has become go on."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = None


def _start(python: Path, listener: int, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Raises OSError."""
    given = {name: value for name, value in environ.items() if not name.startswith(_HIDDEN)}
    prctl = ctypes.CDLL(None).prctl
    return subprocess.Popen(
        [python, "-I", "-m", "sdi.service.main", "ready", str(listener)],
        env=given | {"SDI_IN_SERVICE": "1"},
        cwd="/",
        pass_fds=[listener],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # noqa: PLW1509
    )
