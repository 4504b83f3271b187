"""``Device.merge`` on an OpenCL driver's device."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyopencl as cl
from pyopencl import _cl

from sdi.devices.base import Comparison
from sdi.devices.comparing import HEADER_NBYTES, KERNELS_TEXT, num_runs, operation_number, values_offset
from sdi.devices.opencl.building import build, new_kernel

_LOCAL_ITEMS = 64


class Comparer:
    """The kernels of one context, for all members in it, built when first used: issuing that takes 0.1 s.

    Any thread: ``_lock`` makes setting arguments and enqueueing one step.  ``width``: work-items of each
    launch; always the same, so that pocl may run them side by side.
    """

    width: Final = 1 << 14

    def __init__(self, context: cl.Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._kernels: dict[str, cl.Kernel] = {}

    def key(self, name: str, comparison: Comparison) -> tuple[object, ...]:
        """What drivers may share between members."""
        return (KERNELS_TEXT, name, comparison.unit_nbytes, _LOCAL_ITEMS)

    def diff(
        self,
        queue: cl.CommandQueue,
        comparison: Comparison,
        own: cl.Buffer,
        twin: cl.Buffer,
        found: cl.Buffer,
    ) -> cl.Event:
        """Enqueue the DIFF of ``Device.merge``."""
        with self._lock:
            kernel = self._kernel(f"sdi_diff_{comparison.unit_nbytes}")
            cl.enqueue_fill_buffer(queue, found, b"\0", 0, HEADER_NBYTES)
            given = (
                own,
                np.uint64(comparison.offset),
                twin,
                np.uint64(comparison.twin_offset),
                np.uint32(comparison.nbytes // comparison.unit_nbytes),
                np.uint32(num_runs(comparison.nbytes, comparison.unit_nbytes)),
                found,
                np.uint64(values_offset(comparison.nbytes, comparison.unit_nbytes)),
            )
            return self._enqueue(queue, kernel, given)

    def apply(
        self,
        queue: cl.CommandQueue,
        comparison: Comparison,
        own: cl.Buffer,
        twin: cl.Buffer,
        found: cl.Buffer,
    ) -> cl.Event:
        """Enqueue its APPLY."""
        with self._lock:
            kernel = self._kernel(f"sdi_apply_{comparison.unit_nbytes}")
            given = (
                own,
                np.uint64(comparison.offset),
                twin,
                np.uint64(comparison.twin_offset),
                found,
                np.uint64(values_offset(comparison.nbytes, comparison.unit_nbytes)),
                np.uint32(8 * comparison.smallest_nbytes),
                np.uint32(operation_number(comparison.update)),
            )
            return self._enqueue(queue, kernel, given)

    def _kernel(self, name: str) -> cl.Kernel:
        if not self._kernels:
            program = _cl._Program(self._context, KERNELS_TEXT)
            build(program, KERNELS_TEXT, "")
            names = [f"sdi_{what}_{unit}" for what in ("diff", "apply") for unit in (1, 2, 4, 8)]
            self._kernels = {name: new_kernel(program, name) for name in names}
        return self._kernels[name]

    def _enqueue(
        self, queue: cl.CommandQueue, kernel: cl.Kernel, given: Sequence[cl.Buffer | np.generic]
    ) -> cl.Event:
        for index, value in enumerate(given):
            kernel.set_arg(index, value)
        return cl.enqueue_nd_range_kernel(queue, kernel, (self.width,), (_LOCAL_ITEMS,))
