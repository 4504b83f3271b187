"""Members on OpenCL drivers, as the player issues their operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

import pyopencl as cl

from sdi.devices.handles import BoundKernel, DeviceBuffer, HostBytes
from sdi.devices.lane import Lane
from sdi.devices.native import DriverKind, NativeLane, NativeLaunch, NativeMember, NativePart, NativePlace
from sdi.devices.opencl.memory import OpenCLBuffer
from sdi.devices.opencl.pocl_order import POCL_ORDER, grid_width
from sdi.devices.opencl.programs import OpenClBoundKernel
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3


class OpenCLNative:
    """Implements ``NativeMember``; see there.  ``are_copies_done``: those that go beside the queue."""

    def __init__(
        self,
        queue: cl.CommandQueue,
        lane: Lane[cl.Event],
        are_copies_done: Callable[[], bool],
        is_pocl: bool,
    ) -> None:
        self._queue: Final = queue
        self._lane: Final = lane
        self._are_copies_done: Final = are_copies_done
        self._is_pocl: Final = is_pocl

    def lane(self) -> NativeLane | None:
        return NativeLane(DriverKind.OPENCL, 0, self._queue.int_ptr)

    def side(self) -> NativeLane | None:
        return None

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int
    ) -> NativeLaunch | None:
        own = cast(OpenClBoundKernel, bound)
        kernel = own.arguments.on_own_kernel(own.kernel.handle)
        scalars = dict(zip(own.arguments.values[::2], own.arguments.values[::2], strict=True))
        return NativeLaunch(
            kernel.int_ptr,
            groups,
            local_size,
            work_dim,
            scalars=cast(Mapping[int, int], scalars),
            keep=(kernel, own),
            order=((own.key, local_size), grid_width(groups, local_size)),
        )

    def place(self, buffer: DeviceBuffer, offset: int) -> NativePlace | None:
        own = cast(OpenCLBuffer, buffer)
        return NativePlace(own.memory.int_ptr, offset, own.near)

    def host(self, host: HostBytes, is_large: bool = False) -> bool:
        return not is_large

    def peer(self, source: NativeMember | None) -> bool:
        return False

    def may_begin(self, bound: BoundKernel, groups: Int3, local_size: Int3) -> bool:
        key = cast(OpenClBoundKernel, bound).key, local_size
        return not self._is_pocl or POCL_ORDER.has_had(key, grid_width(groups, local_size))

    def fetch(self, source: NativeMember, parts: Sequence[NativePart]) -> NativeLaunch | None:
        return None

    def marker(self) -> Ticket:
        return self._lane.issue(partial(cl.enqueue_marker, self._queue), ())

    def launched(self, launch: NativeLaunch, ticket: Ticket) -> None:
        if self._is_pocl:
            POCL_ORDER.launched(launch.order[0], ticket)

    def is_idle(self) -> bool:
        return self._lane.is_idle() and self._are_copies_done()
