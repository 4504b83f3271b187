"""Buffers of members on OpenCL drivers."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import pyopencl as cl


@dataclass(slots=True, eq=False)
class OpenCLBuffer:
    """``host``: the buffer's bytes themselves, where the device computes in host memory; else None.

    ``nbytes``: of the member's own memory.
    """

    memory: cl.Buffer
    host: memoryview | None
    nbytes: int = 0

    @property
    def near(self) -> int:
        """Where it begins in this process; 0: elsewhere."""
        if self.host is None or self.host.readonly:
            return 0
        return ctypes.addressof(ctypes.c_char.from_buffer(self.host))

    def release(self) -> None:
        """Give the driver's object back."""
        self.memory.release()

    def holds(self, offset: int, nbytes: int) -> bool:
        """Whether such a copy is within the buffer; the driver refuses others."""
        return self.host is not None and offset + nbytes <= self.host.nbytes
