"""Processes of a user that build the same text take turns; kernel objects are made without writing Python."""

from __future__ import annotations

import fcntl
import linecache
from pathlib import Path
from typing import cast

import numpy as np
import pyopencl as cl
import pytest
from pyopencl import _cl

from sdi.devices.opencl.building import binary_of, build, new_kernel
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


def test_kernel_objects_are_made_without_writing_python(driver: DriverDevice) -> None:
    source = "kernel void never_written(global int *a, int b) { a[0] = b; }"
    program = cl.Program(cl.Context([driver.handle]), source).build()
    before = len(linecache.cache)
    made = [new_kernel(program, "never_written") for _ in range(3)]
    assert len(linecache.cache) == before
    assert len({kernel.int_ptr for kernel in made}) == 3


def test_kernel_objects_of_others_can_be_called(driver: DriverDevice) -> None:
    context = cl.Context([driver.handle])
    program = cl.Program(context, "kernel void called(global int *a, int b) { a[0] = b; }").build()
    with pytest.raises(cl.LogicError):
        new_kernel(program, "none")
    queue = cl.CommandQueue(context)
    found, place = np.zeros(1, np.int32), cl.Buffer(context, cl.mem_flags.READ_WRITE, 4)
    cl.Kernel(program, "called")(queue, (1,), (1,), place, np.int32(7))
    cl.enqueue_copy(queue, found, place)
    assert found.tolist() == [7]


def test_a_binary_makes_the_program_again(driver: DriverDevice) -> None:
    context = cl.Context([driver.handle])
    program = _cl._Program(context, "kernel void kept(global int *a) { a[0] = 1; }")
    build(program, "", "")
    again = _cl._Program(context, [driver.handle], [binary_of(program)])
    build(again, "", "")
    assert new_kernel(again, "kept").get_info(cl.kernel_info.NUM_ARGS) == 1
