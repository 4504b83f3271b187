"""What kernels of CUDA members print: taken after the launch, once, and said where it did not fit."""

from __future__ import annotations

import ctypes
import logging
import struct
from collections.abc import Callable

import pytest

from sdi.clc.cuda.translate import CudaProgram
from sdi.clc.printf_text import parse_format
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.printing import SYMBOL, PrintBuffer
from tests.devices.cuda.stand_in import StandIn
from tests.devices.cuda.test_memory import driver

__all__ = ["driver"]  # a fixture

PROGRAM = CudaProgram("", (), True, (parse_format(b"item %d\n"),))
RECORD = struct.Struct("<IIq")
CAPACITY = 10 * RECORD.size


class Module:
    """Loaded code with the pointer that kernels print through."""

    def __init__(self) -> None:
        self.pointer = ctypes.c_uint64()

    def get_global(self, name: str) -> tuple[int, int]:
        assert name == SYMBOL
        return ctypes.addressof(self.pointer), 8

    def kernel(self, items: range) -> Callable[[], None]:
        """A launch that prints as ``_cl_printf`` does."""

        def run() -> None:
            at = self.pointer.value
            for item in items:
                used, lost, capacity, rest = struct.unpack("<4Q", ctypes.string_at(at, 32))
                if used + RECORD.size <= capacity:
                    ctypes.memmove(at + 32 + used, RECORD.pack(RECORD.size, 0, item), RECORD.size)
                else:
                    lost += 1
                ctypes.memmove(at, struct.pack("<4Q", used + RECORD.size, lost, capacity, rest), 32)

        return run


@pytest.fixture
def printing(driver: StandIn) -> tuple[PrintBuffer, Module, CudaContext]:
    context, module = CudaContext(0, "member 0"), Module()
    made = PrintBuffer(context, "member 0", CAPACITY)
    with context.pushed():
        made.serve(module)
    return made, module, context


def test_each_launch_prints_its_own_text_once(
    printing: tuple[PrintBuffer, Module, CudaContext], driver: StandIn, capfd: pytest.CaptureFixture[str]
) -> None:
    made, module, context = printing
    stream = context.new_stream()
    for items in (range(3), range(0), range(5, 7)):
        made.run(module.kernel(items), PROGRAM, "k", stream)
        assert capfd.readouterr().out == "".join(f"item {item}\n" for item in items)
    other = Module()
    with context.pushed():
        made.serve(other)
    assert other.pointer.value == module.pointer.value, "one buffer serves all programs of a member"
    with context.pushed():
        made.close()
    assert not driver.memories


@pytest.mark.logs("calls of printf are lost")
def test_what_is_lost_is_said(
    printing: tuple[PrintBuffer, Module, CudaContext],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    made, module, context = printing
    with caplog.at_level(logging.WARNING):
        made.run(module.kernel(range(12)), PROGRAM, "tell", context.new_stream())
    assert capfd.readouterr().out == "".join(f"item {item}\n" for item in range(10))
    (said,) = caplog.records
    assert said.getMessage() == (
        f"member 0: tell: 2 calls of printf are lost: what was printed before them fills all {CAPACITY} bytes"
    )
    with context.pushed():
        made.close()


def test_a_launch_that_fails_prints_nothing(
    printing: tuple[PrintBuffer, Module, CudaContext], capfd: pytest.CaptureFixture[str]
) -> None:
    made, _, context = printing

    def fails() -> None:
        raise RuntimeError("launch failed")

    with pytest.raises(RuntimeError, match="launch failed"):
        made.run(fails, PROGRAM, "k", context.new_stream())
    assert capfd.readouterr().out == ""
    with context.pushed():
        made.close()
