"""Members on CUDA GPUs, as the player issues their operations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi.devices.cuda.channel import Channel, Stream
from sdi.devices.cuda.context import CudaContext
from sdi.devices.cuda.driver import drv
from sdi.devices.cuda.fetch import FETCH_ITEMS, FetchPart, fetch_launch, is_fetched
from sdi.devices.cuda.lane import CudaLane
from sdi.devices.cuda.links import CudaLinks, PeerRoute
from sdi.devices.cuda.memory import CudaBuffer
from sdi.devices.cuda.programs import CudaBoundKernel, CudaPrograms
from sdi.devices.handles import BoundKernel, DeviceBuffer, HostBytes
from sdi.devices.issue import MEASURED
from sdi.devices.native import DriverKind, NativeLane, NativeLaunch, NativeMember, NativePart, NativePlace
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from sdi.ndrange import Int3

_log = logging.getLogger(__name__)
_FILLS_NBYTES = frozenset({1, 2, 4})


def _nothing() -> None:
    """An operation that is done when those before it are."""


class CudaNative:
    """Implements ``NativeMember``; see there.  ``channel()``: that of kernels."""

    def __init__(
        self,
        name: str,
        context: CudaContext,
        channel: Callable[[], Channel],
        lane: CudaLane,
        programs: CudaPrograms,
        links: CudaLinks,
    ) -> None:
        self.sides: Final[list[Stream]] = []
        self._name: Final = name
        self._context: Final = context
        self._channel: Final = channel
        self._lane: Final = lane
        self._programs: Final = programs
        self._links: Final = links

    def lane(self) -> NativeLane | None:
        stream: Stream | None = self._channel().stream  # which it may lack: see there
        if stream is None:
            return None
        self._context.open()
        return self._native(stream)

    def side(self) -> NativeLane | None:
        try:
            stream = self._context.new_stream()
        except (drv.Error, DeviceFailed) as cause:
            _log.info("%s: queues of the application share a stream: %s", self._name, cause)
            return None
        self.sides.append(stream)
        return self._native(stream)

    def _native(self, stream: Stream) -> NativeLane:
        return NativeLane(DriverKind.CUDA, self._context.handle, stream.handle, True, _FILLS_NBYTES)

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int
    ) -> NativeLaunch | None:
        known = cast(CudaBoundKernel, bound)
        return self._programs.native_launch(known, groups, local_size, work_dim, bool(self.sides))

    def place(self, buffer: DeviceBuffer, offset: int) -> NativePlace | None:
        own = cast(CudaBuffer, buffer)
        return NativePlace(0, own.address + offset) if own.memory is not None else None

    def host(self, host: HostBytes, is_large: bool = False) -> bool:
        try:
            if not is_large:
                PAGE_LOCKS.lock(host)
        except DeviceFailed as cause:
            _log.debug("%s: %s", self._name, cause)
            return False
        parts = PAGE_LOCKS.parts(host)
        return len(parts) == 1 and parts[0].is_locked

    def peer(self, source: NativeMember | None) -> bool:
        return isinstance(source, CudaNative) and self._links.way(source._links) is not PeerRoute.HOST

    def may_begin(self, bound: BoundKernel, groups: Int3, local_size: Int3) -> bool:
        return True

    def fetch(self, source: NativeMember, parts: Sequence[NativePart]) -> NativeLaunch | None:
        links = cast(CudaNative, source)._links
        if not is_fetched([part.runs for part in parts]) or not self._links.reads(links):
            return None
        found = [FetchPart(part.to.at, part.from_.at, part.runs) for part in parts]
        name, groups, block = fetch_launch(found)
        kernel = self._programs.fetcher(name)
        if kernel is None:
            return None
        return NativeLaunch(kernel.handle, groups, (FETCH_ITEMS, 1, 1), 2, block=block, keep=kernel)

    def marker(self) -> Ticket:
        return self._lane.issue(self._channel(), _nothing, (), MEASURED)

    def launched(self, launch: NativeLaunch, ticket: Ticket) -> None:
        """CUDA minds no order."""

    def is_idle(self) -> bool:
        return self._lane.is_idle()
