"""Processes of a user that build the same text take turns; kernel objects are made without writing Python."""

from __future__ import annotations

import fcntl
import linecache
from pathlib import Path
from typing import cast

import pyopencl as cl
import pytest
from pyopencl import _cl

from sdi.devices.opencl.building import build, new_kernel
from sdi.devices.opencl.member import DriverDevice


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


def test_of_all_kernel_objects_of_a_function_only_the_first_writes_python(driver: DriverDevice) -> None:
    source = "kernel void written_once(global int *a, int b) { a[0] = b; }"
    program = cl.Program(cl.Context([driver.handle]), source).build()
    new_kernel(program, "written_once")
    before = len(linecache.cache)
    made = [new_kernel(program, "written_once") for _ in range(3)]
    assert len(linecache.cache) == before
    assert len({kernel.int_ptr for kernel in made}) == 3
