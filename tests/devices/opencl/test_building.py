"""Processes of a user that build the same text take turns."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import cast

import pytest
from pyopencl import _cl

from sdi.devices.opencl.building import build


class Program:
    """What a driver builds; ``options`` of each build, and whether another process would have had to wait."""

    def __init__(self, locks: Path) -> None:
        self._locks = locks
        self.built: list[tuple[bytes, bool]] = []

    def _build(self, options: bytes) -> None:
        (path,) = self._locks.iterdir()
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_locked = False
            except BlockingIOError:
                is_locked = True
        self.built.append((options, is_locked))


def test_nobody_else_builds_the_same_text_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = Program(tmp_path / "sdi" / "builds")
    for _ in range(2):
        build(cast(_cl._Program, program), "kernel void f() {}", "-DN=1")
    assert program.built == [(b"-DN=1", True)] * 2
