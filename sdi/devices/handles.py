"""What members hand out, and only they look into."""

from __future__ import annotations

from typing import NewType

HostBytes = memoryview
"""Host memory: contiguous, format "B", writable where an operation writes it."""
DeviceBuffer = NewType("DeviceBuffer", object)
"""Bytes on one member, or the pixels of an image there, laid out as its driver likes."""
BoundKernel = NewType("BoundKernel", object)
"""A kernel with all arguments set, ready to launch many times."""


class DeviceProgram:
    """A program built on one member."""

    __slots__ = ()

    def keep(self) -> None:
        """The application has it as a binary: later runs shall build it as quickly as they can."""
