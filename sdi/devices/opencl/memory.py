"""Buffers of members on OpenCL drivers."""

from __future__ import annotations

from dataclasses import dataclass

import pyopencl as cl


@dataclass(slots=True, eq=False)
class OpenCLBuffer:
    """``host``: the buffer's bytes themselves, where the device computes in host memory; else None."""

    memory: cl.Buffer
    nbytes: int
    host: memoryview | None

    def holds(self, offset: int, nbytes: int) -> bool:
        """Whether such a copy is within the buffer; the driver refuses others."""
        return self.host is not None and offset + nbytes <= self.host.nbytes
