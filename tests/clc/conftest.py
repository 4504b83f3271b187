"""Tests of the compilers."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from sdi.devices.cuda.nvrtc import compile_text
from sdi.errors import BuildError


@pytest.fixture(scope="session", autouse=True)
def nvrtc_knows_the_gpu() -> None:
    """Where there is a GPU, the first compilation opens its driver, for the life of the process.

    Before the first module's descriptors are counted: that is nothing that a test leaves behind.
    """
    if Path("/dev/nvidiactl").exists():
        with contextlib.suppress(BuildError):  # no NVRTC: tests that need it skip
            compile_text("", [], (9, 0))
