"""Buffers of members on OpenCL drivers."""

from __future__ import annotations

import ctypes
from typing import cast

import numpy as np
import pyopencl as cl

from sdi.dataclass import dataclass, field
from sdi.devices.image import ImageShape

IN_HOST_MEMORY = cast(cl.mem_flags, cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR)
_VIEWS_MAX = 64
_ODD = 64
"""Where bytes begin that are on no page's boundary."""
View = tuple[int, ImageShape]
"""Pixels of a buffer: where the first one is, and how they lie."""


@dataclass(slots=True, eq=False)
class OpenCLBuffer:
    """``host``: the buffer's bytes themselves, where the device computes in host memory; else None.

    ``nbytes``: of the member's own memory.  ``views``: images of its bytes.
    """

    memory: cl.Buffer
    host: memoryview | None
    nbytes: int = 0
    views: dict[View, cl.Image] = field(default_factory=dict)

    def keep_view(self, view: View, image: cl.Image) -> None:
        """Have it for the next time; what was bound to others has them still."""
        if len(self.views) >= _VIEWS_MAX:
            self.views.clear()
        self.views[view] = image

    @property
    def near(self) -> int:
        """Where it begins in this process; 0: elsewhere."""
        if self.host is None or self.host.readonly:
            return 0
        return ctypes.addressof(ctypes.c_char.from_buffer(self.host))

    def release(self) -> None:
        """Give the driver's objects back."""
        self.views.clear()
        self.memory.release()

    def holds(self, offset: int, nbytes: int) -> bool:
        """Whether such a copy is within the buffer; the driver refuses others."""
        return self.host is not None and offset + nbytes <= self.host.nbytes


def is_in_place(context: cl.Context, device: cl.Device) -> bool:
    """Whether the driver's buffers in host memory are these very bytes, whoever writes to them.

    A driver may keep a copy.  Blocks for a moment.
    """
    host = np.zeros(192, np.uint8)
    one, two = (np.full(3, value, np.uint8) for value in (1, 2))
    try:
        queue = cl.CommandQueue(context, device)
        buffer = cl.Buffer(context, IN_HOST_MEMORY, hostbuf=host[_ODD:])
        cl.enqueue_copy(queue, buffer, one, dst_offset=_ODD)
        is_seen = host.nonzero()[0].tolist() == [2 * _ODD, 2 * _ODD + 1, 2 * _ODD + 2]
        host[2 * _ODD : 2 * _ODD + 3] = two
        cl.enqueue_copy(queue, one, buffer, src_offset=_ODD)
    except cl.Error:
        return False
    return is_seen and np.array_equal(one, two)
