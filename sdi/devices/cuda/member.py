"""Members on NVIDIA GPUs through the CUDA driver.

Per member one stream for kernels and what moves on the device, one per copy direction and one for copies
from other GPUs (see ``cuda_lane``).  The files ``cuda_*`` are the only ones that know pycuda.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final, cast

from sdi.clc.preprocess.compiler import Ask
from sdi.clc.preprocess.nvidia_dialect import nvidia_answers, nvidia_name
from sdi.devices.base import BoundArgument, Comparison, KernelFacts, MergeStep, Place, SubGroupQuery
from sdi.devices.capabilities import Capabilities
from sdi.devices.comparing import (
    HEADER_NBYTES,
    changes_nbytes,
    num_runs,
    operation_number,
    values_offset,
)
from sdi.devices.copying import bounce, by, in_parts, is_rows, run_by_run
from sdi.devices.cuda import copies as cuda_copies
from sdi.devices.cuda.channel import Channel, Stream
from sdi.devices.cuda.compare import GROUP_ITEMS, diff_launch
from sdi.devices.cuda.context import CudaContext, use_page_locks
from sdi.devices.cuda.driver import MAX_PITCH, drv
from sdi.devices.cuda.fetch import FETCHER, is_fetched
from sdi.devices.cuda.gpu import CudaGpu
from sdi.devices.cuda.images import CudaImage, image_formats
from sdi.devices.cuda.info import PLATFORM, VENDOR
from sdi.devices.cuda.lane import CudaLane
from sdi.devices.cuda.links import CudaLinks, PeerRoute
from sdi.devices.cuda.memory import CudaBuffer, DeviceMemory, OwnHostMemory, check_range
from sdi.devices.cuda.native import CudaNative
from sdi.devices.cuda.programs import CudaBoundKernel, CudaMemberProgram, CudaPrograms
from sdi.devices.cuda.signals import CudaSignals, signals_of
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import united
from sdi.devices.memory_share import MemoryShare
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.polling import Polling
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, DeviceLost, Status
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.wire.opencl import DeviceInfo

_log = logging.getLogger(__name__)
_APPLY_ITEMS, _APPLY_GROUPS = 64, 1 << 13


class CudaDevice:
    """A member on a GPU.  Implements ``Device``; see there.

    ``memory_nbytes``: its share of the GPU's memory; ``allocate`` never goes beyond.  ``polling``: the
    session's; none: nobody polls, its threads complete operations.
    """

    def __init__(self, gpu: CudaGpu, number: int, memory_nbytes: int, polling: Polling | None = None) -> None:
        name = f"member {number} ({gpu.name})"
        self.capabilities: Capabilities = Capabilities(
            name=name,
            kind=gpu.kind,
            vendor=VENDOR,
            driver=gpu.info[DeviceInfo.DRIVER_VERSION].rstrip(b"\0").decode(),
            unit=gpu.unit,
            memory_nbytes=memory_nbytes,
            info=gpu.info,
            compares=True,
            formats=image_formats(),
            has_linear_images=True,
            platform_vendor=VENDOR,
            platform_name=PLATFORM,
            compiler=nvidia_name(),
        )
        self.gpu: Final = gpu
        self._number: Final = number
        self.memory: MemoryShare = MemoryShare(name, memory_nbytes)
        self.ask: Ask = nvidia_answers
        self._buffers: set[CudaBuffer] = set()
        self._unfreed: list[DeviceMemory] = []
        self._opening: Final = threading.Lock()
        self._context: Final = CudaContext(gpu.ordinal, name)
        self._channels: dict[str, Channel] = {}
        self._links: Final = CudaLinks(gpu.ordinal, self._context, name)
        self._programs: Final = CudaPrograms(self._context, gpu.capability, name)
        self._lane: Final = CudaLane(self._context, name, polling or Polling())
        self.native: Final = CudaNative(
            name, self._context, self._kernels, self._lane, self._programs, self._links
        )
        use_page_locks()

    def _channel(self, kind: str) -> Channel:
        channel = self._channels.get(kind)
        if channel is None:
            with self._opening:
                channel = self._channels.get(kind)
                if channel is None:
                    # A closed member refuses every operation before it comes to its stream, and on one
                    # whose driver gives none every operation fails, each with its ticket.
                    stream = cast(Stream, None)
                    if not self._lane.hold.is_closed:
                        with contextlib.suppress(drv.Error, DeviceFailed):
                            stream = self._context.new_stream()
                    suffix = "done" if kind == "done" else f"{kind}-done"
                    channel = Channel(self._lane, stream, f"sdi-gpu-{self._number}-{suffix}")
                    self._channels[kind] = channel
        return channel

    @functools.cached_property
    def signals(self) -> CudaSignals | None:
        """See ``Device``; found out when it is first asked for."""
        return signals_of(self.gpu.ordinal, self._lane, self._channel)

    def _kernels(self) -> Channel:
        return self._channel("done")

    # -- memory --------------------------------------------------------------------------------------

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, memoryview):
            return self._map_host(wanted)
        if not isinstance(wanted, int):
            return DeviceBuffer(CudaImage(self._allocate(wanted.nbytes), wanted))
        return self._allocate_on_host(wanted) if on_host else DeviceBuffer(self._allocate(wanted))

    def _allocate(self, nbytes: int) -> CudaBuffer:
        asked = self.memory.asked(nbytes)
        try:
            with self._context.pushed():
                if self._unfreed and not self._may_wait():
                    self._free_all()
                try:
                    memory = drv.mem_alloc(nbytes)
                except drv.Error:
                    if not self._unfreed:
                        raise
                    self._free_all()
                    memory = drv.mem_alloc(nbytes)
        except drv.Error as cause:
            if self.is_lost():
                raise DeviceLost(self.capabilities.name, str(cause)) from cause
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}; {cause}") from cause
        self.memory.take(nbytes)
        buffer = CudaBuffer(memory, int(memory), nbytes)
        self._buffers.add(buffer)
        return buffer

    def _map_host(self, host: HostBytes) -> DeviceBuffer:
        """``host`` page-locked, wherever it is; kernels reach it over the host link."""
        try:
            address = PAGE_LOCKS.lock(host)
        except DeviceFailed as cause:
            what = f"{self.capabilities.name}: {cause}"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what) from cause
        buffer = CudaBuffer(None, address, host.nbytes)
        self._buffers.add(buffer)
        return DeviceBuffer(buffer)

    def _allocate_on_host(self, nbytes: int) -> DeviceBuffer:
        try:
            host = OwnHostMemory(nbytes)
        except OSError as cause:
            what = f"{self.capabilities.name}: {nbytes} bytes of host memory: {cause}"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what) from cause
        try:
            buffer = self._map_host(host.bytes)
        except ClError:
            host.free()
            raise
        cast(CudaBuffer, buffer).host = host
        return buffer

    def free(self, buffer: DeviceBuffer) -> None:
        made = cast(CudaBuffer | CudaImage, buffer)
        own = made.buffer if isinstance(made, CudaImage) else made
        self._buffers.remove(own)
        if own.host is not None:
            own.host.free()
        if own.memory is None:
            return
        self.memory.give(own.nbytes)
        self._unfreed.append(own.memory)
        if self._may_wait():
            return
        try:
            with self._context.pushed():
                self._free_all()
        except drv.Error as cause:
            # Of a lost member nothing can be freed; what is wrong otherwise shows in what comes next.
            _log.debug("%s: a buffer is not freed: %s", self.capabilities.name, cause)

    def _may_wait(self) -> bool:
        """Whether the driver would wait for another process before it frees anything."""
        return "signals" in self.__dict__ and self.signals is not None and self.signals.may_wait()

    def _free_all(self) -> None:
        """Give back what is not used any more."""
        while self._unfreed:
            self._unfreed.pop().free()

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return None

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        if source.device is not None and target.device is not None and source.device is not target.device:
            return self._copy_peer(source, target, region, source_waits, target_waits, timing)
        wait = united(source_waits, target_waits)
        if target.device is None:
            return self._copy_host(target, source, region, wait, timing, to_device=False)
        if source.device is None:
            return self._copy_host(source, target, region, wait, timing, to_device=True)
        channel = self._channel("done")
        there, here = source.memory, target.memory
        if isinstance(here, CudaImage) or isinstance(there, CudaImage):
            start = cuda_copies.pixels(source, target, region, channel.stream)
        else:
            assert isinstance(there, CudaBuffer) and isinstance(here, CudaBuffer)
            places = (there, source.here(region)), (here, target.here(region))
            start = cuda_copies.own_copy(*places, channel.stream)
        ticket = self._lane.issue(channel, start, wait, timing)
        return ticket, ticket

    def _copy_host(
        self,
        outside: Place,
        inside: Place,
        region: Region,
        wait: Sequence[Ticket],
        timing: Timing,
        to_device: bool,
    ) -> tuple[Ticket, Ticket]:
        """Between host memory and a buffer of this member."""
        ends = (outside, inside) if to_device else (inside, outside)
        if not is_rows(outside, inside, region):
            return in_parts(by(self, wait, (), timing), *ends, region)
        host = outside.host(region.span_nbytes, outside.offset + region.base)
        channel = self._channel("up" if to_device else "down")
        place = (cast(CudaBuffer, inside.memory), inside.offset + region.base)
        if region.levels:
            start = cuda_copies.host_rows(host, place, region.at(0), channel.stream, to_device)
            if start is None:
                return run_by_run(by(self, wait, (), timing), *ends, region)
            ticket = self._lane.issue(channel, start, wait, timing, host)
            return ticket, ticket
        # Of so few bytes the driver takes a copy at once: those of the moment, so nothing may be missing.
        is_small = to_device and host.nbytes <= cuda_copies.COPIED_AT_ONCE_NBYTES
        is_at_once = is_small and all(other.done for other in wait) and PAGE_LOCKS.is_within_slab(host)
        start, blocks = cuda_copies.host_copy(host, place, channel.stream, to_device, is_at_once)
        ticket = self._lane.issue(channel, start, wait, timing, host, is_blocking=blocks)
        ticket.is_typical = not blocks
        return ticket, ticket

    def _copy_peer(
        self,
        source: Place,
        target: Place,
        region: Region,
        leave: Sequence[Ticket],
        arrive: Sequence[Ticket],
        timing: Timing,
    ) -> tuple[Ticket, Ticket]:
        """Copy from a buffer of another member to one of this member, on this member's peer stream.

        Between CUDA members over the direct link where a checked copy proved that it works, else through the
        host by the driver, if that was proved; otherwise, as from members of other drivers, by us.
        """
        other = source.device
        if not isinstance(other, CudaDevice) or self._links.way(other._links) is PeerRoute.HOST:
            return bounce(source, target, region, leave, arrive, timing)
        if (start := self._fetching(source, target, region, other)) is not None:
            ticket = self._lane.issue(self._channel("peer"), start, united(leave, arrive), timing)
            ticket.is_typical = False  # of the link: it is what pieces take
            return ticket, ticket
        if not is_rows(source, target, region):
            return in_parts(by(self, leave, arrive, timing), source, target, region)
        if region.levels and not (self.link(other) and region.levels[0][0] <= MAX_PITCH):
            return run_by_run(by(self, leave, arrive, timing), source, target, region)
        channel = self._channel("peer")
        there = cast(CudaBuffer, source.memory), source.offset + region.base
        here = cast(CudaBuffer, target.memory), target.offset + region.base
        if region.levels:
            start = cuda_copies.peer_rows(there, here, region, channel.stream)
        else:
            contexts = other._context, self._context
            start = cuda_copies.peer_copy(there, here, region.nbytes, contexts, channel.stream)
        ticket = self._lane.issue(channel, start, united(leave, arrive), timing)
        return ticket, ticket

    def _fetching(
        self, source: Place, target: Place, region: Region, other: CudaDevice
    ) -> Callable[[], None] | None:
        """What has a kernel bring runs of few bytes; None where the driver's copies do."""
        there, here = source.memory, target.memory
        if not (isinstance(there, CudaBuffer) and isinstance(here, CudaBuffer) and region.levels):
            return None
        if not is_fetched([region]) or not self._links.reads(other._links):
            return None
        kernel = self._programs.fetcher(FETCHER)
        if kernel is None:
            return None
        ends = (there, source.offset + region.base), (here, target.offset + region.base)
        return cuda_copies.fetched(*ends, region, kernel, self._channel("peer").stream)

    def link(self, other: CudaDevice) -> bool:
        """Whether this member reads ``other``'s memory directly; tried once per pair, with a checked copy."""
        return self._links.way(other._links) is PeerRoute.DIRECT

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        if step is MergeStep.DIFF:
            return self._diff(comparison, changes, wait, timing)
        return self._apply(comparison, changes, wait, timing)

    def _diff(
        self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket], timing: Timing
    ) -> Ticket:
        channel = self._channel("done")
        own, twin = cast(CudaBuffer, comparison.buffer), cast(CudaBuffer, comparison.twin)
        found = cast(CudaBuffer, changes)

        def start() -> None:
            for buffer, offset in ((own, comparison.offset), (twin, comparison.twin_offset)):
                check_range(comparison.nbytes, offset, buffer.nbytes)
            check_range(changes_nbytes(comparison.nbytes, comparison.unit_nbytes), 0, found.nbytes)
            function = self._programs.comparer(comparison.unit_nbytes)
            groups, parameters = diff_launch(comparison, own.address, twin.address, found.address)
            drv.memset_d32_async(found.address, 0, HEADER_NBYTES // 4, channel.stream)
            function._launch_kernel((groups, 1, 1), (GROUP_ITEMS, 1, 1), parameters, 0, channel.stream)

        return self._lane.issue(channel, start, wait, timing)

    def _apply(
        self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket], timing: Timing
    ) -> Ticket:
        channel = self._channel("done")
        arguments: list[BoundArgument] = [
            comparison.buffer,
            struct.pack("<Q", comparison.offset),
            comparison.twin,
            struct.pack("<Q", comparison.twin_offset),
            changes,
            struct.pack("<Q", values_offset(comparison.nbytes, comparison.unit_nbytes)),
            struct.pack("<I", 8 * comparison.smallest_nbytes),
            struct.pack("<I", operation_number(comparison.update)),
        ]
        groups = min(_APPLY_GROUPS, -(-num_runs(comparison.nbytes, comparison.unit_nbytes) // _APPLY_ITEMS))

        def start() -> None:
            kernel = f"sdi_apply_{comparison.unit_nbytes}"
            bound = self._programs.bind(self._programs.applier(), kernel, arguments)
            self._programs.start_of(bound, channel.stream, (groups, 1, 1), (_APPLY_ITEMS, 1, 1), 1)()

        return self._lane.issue(channel, start, wait, timing)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        channel, place = self._channel("done"), (cast(CudaBuffer, buffer), offset)
        return self._lane.issue(
            channel, cuda_copies.fill(place, nbytes, pattern, channel.stream), wait, timing
        )

    # -- programs ------------------------------------------------------------------------------------

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._programs.build(text, options)

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        if asked is not None:
            raise ClError(Status.INVALID_OPERATION, f"{self.capabilities.name} has no sub-groups of OpenCL C")
        return self._programs.kernel_facts(cast(CudaMemberProgram, program), kernel)

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        return BoundKernel(self._programs.bind(cast(CudaMemberProgram, program), kernel, arguments))

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        own = cast(CudaBoundKernel, bound)
        channel = self._channels.get("done") or self._channel("done")
        last = own.last
        if last is None or last[0] != groups or last[1] != local_size or last[2] != work_dim:
            start = self._programs.start_of(own, channel.stream, groups, local_size, work_dim)
            own.last = last = (groups, local_size, work_dim, start)
        return self._lane.issue(channel, last[3], wait, timing, own, own.prints)

    # -- the rest ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Nothing to do: what is given to a stream runs."""

    def is_lost(self) -> bool:
        return self._context.is_dead()

    def close(self) -> None:
        self._lane.close()
        if not self._context.is_open:
            return
        # A GPU that is lost takes nothing back, and there is nothing else that could be done.
        with contextlib.suppress(drv.Error), self._context.pushed():
            for buffer in list(self._buffers):
                self.free(DeviceBuffer(buffer))
            # A channel that was wanted after the member was closed has no stream.
            streams = [channel.stream for channel in self._channels.values()]
            self._context.kept.streams.extend(stream for stream in streams if stream is not None)
            self._context.kept.streams.extend(self.native.sides)
            self.native.sides.clear()
            self._channels.clear()
            self._lane.drop()
            self._programs.close()
            self._context.kept.unload()
