"""Members on NVIDIA GPUs through the CUDA driver: the only file that knows pycuda.

One primary context per GPU, made when first needed; per member one stream for kernels and what moves on the
device, one per copy direction and one for copies from other GPUs (see ``cuda_lane``).  A context becomes
current on a thread when an operation needs it there and stays so (``cuCtxSetCurrent``); pycuda's own stack,
which must be empty when a thread ends, is used only around the making and freeing of its objects.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import logging
import struct
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, cast

from sdi.clc.cuda import CudaKernel, CudaProgram, nvrtc_options, translate
from sdi.devices import cuda_driver
from sdi.devices.base import (
    BoundArgument,
    BoundKernel,
    Comparison,
    Device,
    DeviceBuffer,
    DeviceFacts,
    DeviceImage,
    DeviceProgram,
    HostBytes,
    KernelFacts,
    Rows,
)
from sdi.devices.bounce import (
    bounce_copy,
    copy_rows_one_by_one,
    download_rows_one_by_one,
    upload_rows_one_by_one,
)
from sdi.devices.comparing import (
    HEADER_NBYTES,
    KERNELS_TEXT,
    changes_nbytes,
    num_runs,
    operation_number,
    values_offset,
)
from sdi.devices.cuda_compare import DIFF_TEXT, GROUP_ITEMS, diff_launch
from sdi.devices.cuda_driver import copy_host_rows, copy_peer, copy_rows
from sdi.devices.cuda_info import CudaAttributes, device_info
from sdi.devices.cuda_lane import Channel, CudaLane, Event, Stream
from sdi.devices.cuda_launch import MAX_GRID_X, offsets_of, packed, parameter_block
from sdi.devices.cuda_memory import CudaBuffer, Fills, blocks_of, check_range, fill_pattern
from sdi.devices.image import ImageShape, Slabs
from sdi.devices.nvrtc import Cache, NvrtcMissing, cache_folder, compile_text, key_of, version
from sdi.devices.page_locks import PAGE_LOCKS, SLAB_NBYTES
from sdi.devices.ticket import Ticket
from sdi.errors import BuildError, ClError, DeviceFailed, Status, require
from sdi.ndrange import Int3

try:
    import pycuda.driver as drv
except (ImportError, OSError) as _missing:
    drv = None
    _why_missing: Exception | None = _missing
else:
    _why_missing = None

_log = logging.getLogger(__name__)
_SHARED_NBYTES = 48 << 10  # more must be asked for, kernel by kernel
_NON_BLOCKING = 1
_APPLY_ITEMS, _APPLY_GROUPS = 64, 1 << 13
_COPIED_AT_ONCE_NBYTES = 64 << 10  # source: CUDA driver API, "API synchronization behavior"


@dataclass(frozen=True, slots=True)
class CudaGpu:
    """A GPU that the CUDA driver shows.  ``unit`` is that of the same GPU in an OpenCL driver."""

    ordinal: int
    name: str
    unit: str
    memory_nbytes: int
    capability: tuple[int, int]
    info: Mapping[int, bytes] = field(repr=False)
    platform: str = "CUDA"
    kind: str = "gpu"


def cuda_devices() -> list[CudaGpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves; none without pycuda, a driver and NVRTC (see the log)."""
    if drv is None:
        _log.info("no CUDA members: %s", _why_missing)
        return []
    try:
        drv.init()
        version()
        return [_gpu(ordinal) for ordinal in range(drv.Device.count())]
    except (drv.Error, NvrtcMissing) as cause:
        _log.info("no CUDA members: %s", cause)
        return []


def _gpu(ordinal: int) -> CudaGpu:
    device, of = drv.Device(ordinal), drv.device_attribute
    domain, bus, slot = device.pci_bus_id().replace(".", ":").split(":")[:3]
    unit = "pci " + struct.pack("<4I", int(domain, 16), int(bus, 16), int(slot, 16), 0).hex()
    major, minor = divmod(drv.get_driver_version(), 1000)

    def attribute(name: str, default: int = 0) -> int:
        wanted = getattr(of, name, None)
        return int(device.get_attribute(wanted)) if wanted is not None else default

    attributes = CudaAttributes(
        name=device.name(),
        driver=f"CUDA {major}.{minor // 10}",
        memory_nbytes=device.total_memory(),
        compute_units=attribute("MULTIPROCESSOR_COUNT"),
        clock_khz=attribute("CLOCK_RATE"),
        max_threads=attribute("MAX_THREADS_PER_BLOCK"),
        max_block=(
            attribute("MAX_BLOCK_DIM_X"),
            attribute("MAX_BLOCK_DIM_Y"),
            attribute("MAX_BLOCK_DIM_Z"),
        ),
        shared_nbytes=_SHARED_NBYTES,
        constant_nbytes=attribute("TOTAL_CONSTANT_MEMORY", 64 << 10),
        cache_nbytes=attribute("L2_CACHE_SIZE"),
        has_ecc=bool(attribute("ECC_ENABLED")),
    )
    info = device_info(attributes)
    return CudaGpu(
        ordinal, attributes.name, unit, attributes.memory_nbytes, device.compute_capability(), info
    )


class _Context(Protocol):
    handle: int

    def push(self) -> None: ...


class _Module(Protocol):
    def get_function(self, name: str) -> _Function: ...


class _Function(Protocol):
    def get_attribute(self, attribute: object) -> int: ...
    def set_attribute(self, attribute: object, value: int) -> None: ...
    def _launch_kernel(
        self, grid: Int3, block: Int3, parameters: bytes, shared_nbytes: int, stream: object
    ) -> None: ...


class _Thread(threading.local):
    """``context``: the one that is current on this thread, as a handle."""

    context: int = 0


_thread = _Thread()


@functools.cache
def _primary_context(ordinal: int) -> _Context:
    """Kept for as long as the process lives: what was made in it may be destroyed late."""
    made: _Context = drv.Device(ordinal).retain_primary_context()
    return made


@dataclass(slots=True, eq=False)
class _Kept:
    """What members on one GPU are done with, for as long as the process lives, like its context.

    pycuda frees an object only where its context is on the thread's stack, and whoever keeps a ticket, an
    exception or a kernel may let the last reference go anywhere.  ``streams`` are used again; ``modules``
    are freed with the next build.
    """

    streams: list[Stream] = field(default_factory=list)
    modules: list[object] = field(default_factory=list)


@functools.cache
def _kept(ordinal: int) -> _Kept:
    made = _Kept()
    atexit.register(_free_kept, ordinal, made)
    return made


def _free_kept(ordinal: int, kept: _Kept) -> None:
    """Before the interpreter goes, when destructors would find no context."""
    if not (kept.streams or kept.modules):
        return
    with contextlib.suppress(drv.Error):
        _primary_context(ordinal).push()
        try:
            kept.streams.clear()
            kept.modules.clear()
        finally:
            drv.Context.pop()


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Program:
    """``flat``: the same, compiled for grids that are launched in x alone, once one was needed."""

    translated: CudaProgram
    options: tuple[str, ...]
    module: _Module
    kernels: dict[str, CudaKernel]
    functions: dict[str, _Function] = field(default_factory=dict)
    flat: _Program | None = None


_Start = Callable[[], None]


@dataclass(slots=True, eq=False)
class _Bound:
    """``parameters``: the block, less the grid at its end; ``offsets``: of groups and of global ids.

    ``error``: why it can't be launched.  ``last``: key and start of the last launch.
    """

    program: _Program
    kernel: str
    parameters: bytes
    shared_nbytes: int
    offsets: tuple[Int3, Int3]
    error: Exception | None = None
    last: tuple[tuple[Int3, Int3, int], _Start] | None = None


class CudaDevice:
    """A member on a GPU.  Implements ``Device``; see there.

    ``memory_nbytes``: its share of the GPU's memory; ``allocate`` never goes beyond.
    """

    def __init__(self, gpu: CudaGpu, number: int, memory_nbytes: int, cache: Cache | None = None) -> None:
        name = f"member {number} ({gpu.name})"
        text = {key: gpu.info[key].rstrip(b"\0").decode() for key in (0x102C, 0x102D)}
        self.facts: DeviceFacts = DeviceFacts(
            name=name,
            kind=gpu.kind,
            vendor=text[0x102C],
            driver=text[0x102D],
            unit=gpu.unit,
            memory_nbytes=memory_nbytes,
            max_work_group_size=int.from_bytes(gpu.info[0x1004], "little"),
            info=gpu.info,
            compares=True,
        )
        self.gpu: Final = gpu
        self._number: Final = number
        self._cache: Final = cache if cache is not None else Cache(cache_folder())
        self._used_nbytes = 0
        self._buffers: set[CudaBuffer] = set()
        self._kept: Final = _kept(gpu.ordinal)
        self._opening = threading.RLock()
        self._context: _Context | None = None
        self._handle = 0
        self._channels: dict[str, Channel] = {}
        self._linked: dict[int, bool] = {}
        self._differ: _Module | None = None
        self._applier: DeviceProgram | None = None
        self._lane: Final = CudaLane(self, name)
        PAGE_LOCKS.use((_register, _unregister))

    # -- contexts and streams ------------------------------------------------------------------------

    def enter(self) -> None:
        """Make the member's context current on this thread."""
        handle = self._handle
        if _thread.context != handle or not handle:
            if not handle:
                self._open()
                handle = self._handle
            cuda_driver.quick().cuCtxSetCurrent(handle)
            _thread.context = handle

    def new_event(self) -> Event:
        """An event with timing."""
        with self._pushed():
            return cast(Event, drv.Event())

    def _open(self) -> None:
        with self._opening:
            if self._context is None:
                try:
                    context = _primary_context(self.gpu.ordinal)
                except drv.Error as cause:
                    raise DeviceFailed(self.facts.name, str(cause)) from cause
                self._handle = context.handle
                self._context = context

    @contextlib.contextmanager
    def _pushed(self) -> Iterator[None]:
        """The context on pycuda's stack: its objects are made and freed only so."""
        self._open()
        assert self._context is not None
        self._context.push()
        try:
            yield
        finally:
            drv.Context.pop()

    def _channel(self, kind: str) -> Channel:
        channel = self._channels.get(kind)
        if channel is None:
            with self._opening:
                channel = self._channels.get(kind)
                if channel is None:
                    with self._pushed():
                        # A closed member refuses every operation before it comes to its stream.
                        try:
                            stream = self._kept.streams.pop()
                        except IndexError:
                            stream = cast(Stream, None if self._lane.is_closed else drv.Stream(_NON_BLOCKING))
                    suffix = "done" if kind == "done" else f"{kind}-done"
                    channel = Channel(self._lane, stream, f"sdi-gpu-{self._number}-{suffix}")
                    self._channels[kind] = channel
        return channel

    # -- memory --------------------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> DeviceBuffer:
        available = self.facts.memory_nbytes - self._used_nbytes
        asked = (
            f"{self.facts.name}: {nbytes} bytes asked, {available} of {self.facts.memory_nbytes} available"
        )
        require(0 < nbytes <= available, Status.MEM_OBJECT_ALLOCATION_FAILURE, asked)
        try:
            with self._pushed():
                memory = drv.mem_alloc(nbytes)
        except drv.Error as cause:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}; {cause}") from cause
        self._used_nbytes += nbytes
        buffer = CudaBuffer(memory, int(memory), nbytes)
        self._buffers.add(buffer)
        return DeviceBuffer(buffer)

    def adopt(self, host: HostBytes) -> DeviceBuffer:
        """``host`` page-locked, wherever it is; kernels reach it over the host link."""
        try:
            address = PAGE_LOCKS.lock(host)
        except DeviceFailed as cause:
            what = f"{self.facts.name}: {cause}"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what) from cause
        buffer = CudaBuffer(None, address, host.nbytes)
        self._buffers.add(buffer)
        return DeviceBuffer(buffer)

    def free(self, buffer: DeviceBuffer) -> None:
        own = cast(CudaBuffer, buffer)
        self._buffers.remove(own)
        if own.memory is None:
            return
        self._used_nbytes -= own.nbytes
        with self._pushed():
            own.memory.free()

    def upload(self, host: HostBytes, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]) -> Ticket:
        channel, own = self._channel("up"), cast(CudaBuffer, buffer)

        def part(start: int, stop: int) -> None:
            drv.memcpy_htod_async(own.address + offset + start, host[start:stop], channel.stream)

        # Of so few bytes the driver takes a copy at once: those of the moment, so nothing may be missing.
        is_small = host.nbytes <= _COPIED_AT_ONCE_NBYTES and all(other.done for other in wait)
        is_small = is_small and PAGE_LOCKS.is_within_slab(host)
        return self._copy_host(channel, host, own, offset, part, wait, is_small)

    def download(self, buffer: DeviceBuffer, offset: int, host: HostBytes, wait: Sequence[Ticket]) -> Ticket:
        channel, own = self._channel("down"), cast(CudaBuffer, buffer)

        def part(start: int, stop: int) -> None:
            drv.memcpy_dtoh_async(host[start:stop], own.address + offset + start, channel.stream)

        return self._copy_host(channel, host, own, offset, part, wait, is_small=False)

    def _copy_host(
        self,
        channel: Channel,
        host: HostBytes,
        buffer: CudaBuffer,
        offset: int,
        part: Callable[[int, int], None],
        wait: Sequence[Ticket],
        is_small: bool,
    ) -> Ticket:
        """Copies of locked memory are given to the driver at once, others by the channel's thread."""
        parts = PAGE_LOCKS.parts(host)
        is_locked = all(each.is_locked for each in parts)

        def start() -> None:
            check_range(host.nbytes, offset, buffer.nbytes)
            if is_small:
                part(0, host.nbytes)
                return
            if is_locked:
                for each in parts:
                    part(each.start, each.stop)
                return
            with PAGE_LOCKS.copying(host) as now:
                for each in now:
                    part(each.start, each.stop)

        return self._lane.issue(channel, start, wait, host, is_blocking=not (is_locked or is_small))

    def copy(
        self,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        channel = self._channel("done")
        from_, to = cast(CudaBuffer, source), cast(CudaBuffer, target)

        def start() -> None:
            check_range(nbytes, source_offset, from_.nbytes)
            check_range(nbytes, target_offset, to.nbytes)
            if from_ is to and abs(source_offset - target_offset) < nbytes:
                raise ValueError(f"{nbytes} bytes at {source_offset} and at {target_offset} overlap")
            drv.memcpy_dtod_async(
                to.address + target_offset, from_.address + source_offset, nbytes, channel.stream
            )

        return self._lane.issue(channel, start, wait)

    def peer_copy(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        nbytes: int,
        wait: Sequence[Ticket],
    ) -> Ticket:
        """Copy from a buffer of another member to one of this member, on this member's peer stream.

        Between CUDA members over the direct link where a checked copy proved that it works, else through the
        host by the driver; from members of other drivers through host memory.
        """
        if not isinstance(source_device, CudaDevice):
            return bounce_copy(
                source_device, source, source_offset, self, target, target_offset, nbytes, wait
            )
        channel = self._channel("peer")
        from_, to = cast(CudaBuffer, source), cast(CudaBuffer, target)

        def start() -> None:
            check_range(nbytes, source_offset, from_.nbytes)
            check_range(nbytes, target_offset, to.nbytes)
            to_address, from_address = to.address + target_offset, from_.address + source_offset
            if self._context is source_device._context:
                drv.memcpy_dtod_async(to_address, from_address, nbytes, channel.stream)
            else:
                # Not pycuda's: it dereferences the context on its own stack, which is empty on this thread.
                stream = channel.stream.handle
                copy_peer(to_address, self._handle, from_address, source_device._handle, nbytes, stream)

        self._links(source_device)
        return self._lane.issue(channel, start, wait)

    def _links(self, other: CudaDevice) -> bool:
        """``link``; False also where trying failed, which the log then says."""
        try:
            return self.link(other)
        except drv.Error as cause:
            self._linked[other.gpu.ordinal] = False
            _log.warning("%s: no direct link to %s: %s", self.facts.name, other.facts.name, cause)
            return False

    def upload_rows(
        self, host: HostBytes, buffer: DeviceBuffer, offset: int, rows: Rows, wait: Sequence[Ticket]
    ) -> Ticket:
        if not self._copies_rows(host, rows):
            return upload_rows_one_by_one(self, host, buffer, offset, rows, wait)
        return self._copy_host_rows(self._channel("up"), host, buffer, offset, rows, wait, to_device=True)

    def download_rows(
        self, buffer: DeviceBuffer, offset: int, host: HostBytes, rows: Rows, wait: Sequence[Ticket]
    ) -> Ticket:
        if not self._copies_rows(host, rows):
            return download_rows_one_by_one(self, buffer, offset, host, rows, wait)
        return self._copy_host_rows(self._channel("down"), host, buffer, offset, rows, wait, to_device=False)

    @staticmethod
    def _copies_rows(host: HostBytes, rows: Rows) -> bool:
        parts = PAGE_LOCKS.parts(host[: rows.extent])
        is_locked = all(part.is_locked for part in parts)
        return is_locked and rows.nbytes <= SLAB_NBYTES and rows.pitch <= cuda_driver.MAX_PITCH

    def _copy_host_rows(
        self,
        channel: Channel,
        host: HostBytes,
        buffer: DeviceBuffer,
        offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
        to_device: bool,
    ) -> Ticket:
        own = cast(CudaBuffer, buffer)
        address = ctypes.addressof(ctypes.c_char.from_buffer(host))
        blocks = blocks_of(rows, [part.stop for part in PAGE_LOCKS.parts(host[: rows.extent])])

        def start() -> None:
            check_range(rows.extent, offset, own.nbytes)
            stream = channel.stream.handle
            for at, block in blocks:
                copy_host_rows(own.address + offset + at, address + at, block, stream, to_device)

        return self._lane.issue(channel, start, wait, host)

    def peer_copy_rows(
        self,
        source_device: Device,
        source: DeviceBuffer,
        source_offset: int,
        target: DeviceBuffer,
        target_offset: int,
        rows: Rows,
        wait: Sequence[Ticket],
    ) -> Ticket:
        is_near = isinstance(source_device, CudaDevice) and self._links(source_device)
        if not is_near or rows.pitch > cuda_driver.MAX_PITCH:
            return copy_rows_one_by_one(
                self, source_device, source, source_offset, target, target_offset, rows, wait
            )
        channel = self._channel("peer")
        from_, to = cast(CudaBuffer, source), cast(CudaBuffer, target)

        def start() -> None:
            check_range(rows.extent, source_offset, from_.nbytes)
            check_range(rows.extent, target_offset, to.nbytes)
            stream = channel.stream.handle
            copy_rows(to.address + target_offset, from_.address + source_offset, rows, stream)

        return self._lane.issue(channel, start, wait)

    def diff(self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket]) -> Ticket:
        channel = self._channel("done")
        own, twin = cast(CudaBuffer, comparison.buffer), cast(CudaBuffer, comparison.twin)
        found = cast(CudaBuffer, changes)

        def start() -> None:
            for buffer, offset in ((own, comparison.offset), (twin, comparison.twin_offset)):
                check_range(comparison.nbytes, offset, buffer.nbytes)
            check_range(changes_nbytes(comparison.nbytes, comparison.unit_nbytes), 0, found.nbytes)
            function = self._comparer(comparison.unit_nbytes)
            groups, parameters = diff_launch(comparison, own.address, twin.address, found.address)
            drv.memset_d32_async(found.address, 0, HEADER_NBYTES // 4, channel.stream)
            function._launch_kernel((groups, 1, 1), (GROUP_ITEMS, 1, 1), parameters, 0, channel.stream)

        return self._lane.issue(channel, start, wait)

    def _comparer(self, unit_nbytes: int) -> _Function:
        """The kernel that compares units of this size; the first call compiles."""
        if self._differ is None:
            code = self._compiled(DIFF_TEXT, nvrtc_options((), contracts=True))
            with self._pushed():
                self._differ = drv.module_from_buffer(code)
        with self._pushed():
            return self._differ.get_function(f"sdi_diff_{unit_nbytes}")

    def apply(self, comparison: Comparison, changes: DeviceBuffer, wait: Sequence[Ticket]) -> Ticket:
        if self._applier is None:
            self._applier = self.build(KERNELS_TEXT, [])
        arguments: list[BoundArgument] = [
            comparison.buffer,
            struct.pack("<Q", comparison.offset),
            comparison.twin,
            struct.pack("<Q", comparison.twin_offset),
            changes,
            struct.pack("<Q", values_offset(comparison.nbytes, comparison.unit_nbytes)),
            struct.pack("<I", 8 * comparison.smallest_nbytes),
            struct.pack("<I", operation_number(comparison)),
        ]
        bound = self.bind(self._applier, f"sdi_apply_{comparison.unit_nbytes}", arguments)
        groups = min(_APPLY_GROUPS, -(-num_runs(comparison.nbytes, comparison.unit_nbytes) // _APPLY_ITEMS))
        return self.launch(bound, (groups, 1, 1), (_APPLY_ITEMS, 1, 1), 1, wait)

    def link(self, other: CudaDevice) -> bool:
        """Whether this member reads ``other``'s memory directly; tried once per pair, with a checked copy."""
        key = other.gpu.ordinal
        known = self._linked.get(key)
        if known is None:
            known = self._linked[key] = key == self.gpu.ordinal or self._try_link(other)
        return known

    def _try_link(self, other: CudaDevice) -> bool:
        other._open()
        mine, theirs = drv.Device(self.gpu.ordinal), drv.Device(other.gpu.ordinal)
        if not mine.can_access_peer(theirs):
            return False
        sent = bytes(range(1, 256)) * 17
        found = bytearray(len(sent))
        with other._pushed():
            there = drv.mem_alloc(len(sent))
            drv.memcpy_htod(there, sent)
        with self._pushed():
            here = drv.mem_alloc(len(sent))
            with contextlib.suppress(drv.LogicError):  # enabled before, by another member in this context
                drv.Context.enable_peer_access(other._context)
            drv.memcpy_peer(here, there, len(sent), self._context, other._context)
            drv.memcpy_dtoh(found, here)
            here.free()
            works = bytes(found) == sent
            if not works:
                drv.Context.disable_peer_access(other._context)
                _log.error("%s: copies from %s arrive damaged", self.facts.name, other.facts.name)
        with other._pushed():
            there.free()
        return works

    def fill(
        self, buffer: DeviceBuffer, offset: int, nbytes: int, pattern: bytes, wait: Sequence[Ticket]
    ) -> Ticket:
        channel, own = self._channel("done"), cast(CudaBuffer, buffer)

        def start() -> None:
            check_range(nbytes, offset, own.nbytes)
            stream = channel.stream
            fills = Fills(
                lambda at, value, count: drv.memset_d8_async(at, value, count, stream),
                lambda at, value, count: drv.memset_d16_async(at, value, count, stream),
                lambda at, value, count: drv.memset_d32_async(at, value, count, stream),
                lambda at, pitch, value, width, height: drv.memset_d2d32_async(
                    at, pitch, value, width, height, stream
                ),
                lambda to, from_, count: drv.memcpy_dtod_async(to, from_, count, stream),
            )
            fill_pattern(fills, own.address + offset, nbytes, pattern)

        return self._lane.issue(channel, start, wait)

    # -- programs ------------------------------------------------------------------------------------

    def create_image(self, shape: ImageShape) -> DeviceImage:
        raise ClError(Status.INVALID_OPERATION, f"{self.facts.name}: CUDA members have no images")

    def free_image(self, image: DeviceImage) -> None:
        raise AssertionError("there is no image")

    def set_pixels(
        self, buffer: DeviceBuffer, offset: int, image: DeviceImage, slabs: Slabs, wait: Sequence[Ticket]
    ) -> Ticket:
        raise AssertionError("there is no image")

    def get_pixels(
        self, image: DeviceImage, slabs: Slabs, buffer: DeviceBuffer, offset: int, wait: Sequence[Ticket]
    ) -> Ticket:
        raise AssertionError("there is no image")

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return DeviceProgram(self._load(translate(text, options), tuple(options), is_flat=False))

    def _load(self, translated: CudaProgram, options: tuple[str, ...], is_flat: bool) -> _Program:
        code = self._compiled(translated.text, nvrtc_options(options, translated.contracts, is_flat))
        try:
            with self._pushed():
                while self._kept.modules:
                    self._kept.modules.pop()
                module = drv.module_from_buffer(code)
        except drv.Error as cause:
            raise BuildError(f"error: {cause}\n") from cause
        kernels = {kernel.name: kernel for kernel in translated.kernels}
        program = _Program(translated, options, module, kernels)
        # A module is freed only while its context is on the stack of the thread that frees it.
        weakref.finalize(program, self._kept.modules.append, module).atexit = False
        return program

    def _compiled(self, text: str, words: tuple[str, ...]) -> bytes:
        """Machine code of CUDA C++ for this GPU, perhaps from the cache.  Raises BuildError."""
        capability = self.gpu.capability
        try:
            compiler = "{}.{}".format(*version())
        except NvrtcMissing as cause:
            raise BuildError(f"error: {cause}\n", Status.COMPILER_NOT_AVAILABLE) from cause
        key = key_of(text, "\n".join(words), "{}.{}".format(*capability), compiler)
        code = self._cache.get(key)
        if code is None:
            code = compile_text(text, words, capability)
            self._cache.put(key, code)
        return code

    def kernel_facts(self, program: DeviceProgram, kernel: str) -> KernelFacts:
        function, of = self._function(cast(_Program, program), kernel), drv.function_attribute
        try:
            with self._pushed():
                return KernelFacts(
                    work_group_size=function.get_attribute(of.MAX_THREADS_PER_BLOCK),
                    preferred_multiple=32,
                    local_mem_nbytes=function.get_attribute(of.SHARED_SIZE_BYTES),
                    private_mem_nbytes=function.get_attribute(of.LOCAL_SIZE_BYTES),
                )
        except drv.Error as cause:
            raise DeviceFailed(self.facts.name, str(cause)) from cause

    def _function(self, program: _Program, name: str) -> _Function:
        function = program.functions.get(name)
        if function is None:
            kernel = program.kernels.get(name)
            if kernel is None:
                what = f"{self.facts.name}: the program has no kernel {name!r}"
                raise ClError(Status.INVALID_KERNEL_NAME, what)
            try:
                with self._pushed():
                    function = program.module.get_function(kernel.symbol)
            except drv.Error as cause:
                raise DeviceFailed(self.facts.name, str(cause)) from cause
            program.functions[name] = function
        return function

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        own = cast(_Program, program)
        self._function(own, kernel)
        try:
            parameters, shared_nbytes = parameter_block(own.kernels[kernel], arguments)
        except ValueError as cause:
            return BoundKernel(_Bound(own, kernel, b"", 0, offsets_of(own.kernels[kernel], ()), cause))
        offsets = offsets_of(own.kernels[kernel], arguments)
        return BoundKernel(_Bound(own, kernel, parameters, shared_nbytes, offsets))

    def launch(
        self, bound: BoundKernel, groups: Int3, local_size: Int3, work_dim: int, wait: Sequence[Ticket]
    ) -> Ticket:
        own = cast(_Bound, bound)
        channel = self._channels.get("done") or self._channel("done")
        key = (groups, local_size, work_dim)
        last = own.last
        if last is None or last[0] != key:
            own.last = last = (key, self._start_of(own, channel, groups, local_size, work_dim))
        return self._lane.issue(channel, last[1], wait, own)

    def _start_of(
        self, bound: _Bound, channel: Channel, groups: Int3, local_size: Int3, work_dim: int
    ) -> _Start:
        """What launches: all that does not change between launches of one shape is done here."""
        program, error = bound.program, bound.error
        grid, parameters = packed(bound.parameters, bound.offsets, groups, local_size, work_dim)
        if grid[0] > MAX_GRID_X:
            error = error or ValueError(f"{groups} work-groups are more than a grid can have")
        try:
            if error is None and grid != groups:
                # Rare enough to compile when the first such launch comes, which then takes its time.
                if program.flat is None:
                    program.flat = self._load(program.translated, program.options, is_flat=True)
                program = program.flat
            function = self._function(program, bound.kernel)
            if bound.shared_nbytes > _SHARED_NBYTES:
                with self._pushed():
                    limit = drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    function.set_attribute(limit, bound.shared_nbytes)
        except (BuildError, DeviceFailed, drv.Error) as cause:
            error = error or cause
        if error is not None:
            return partial(_refuse, error)
        return partial(
            function._launch_kernel, grid, local_size, parameters, bound.shared_nbytes, channel.stream
        )

    # -- the rest ------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Nothing to do: what is given to a stream runs."""

    def memory_in_use(self) -> int:
        return self._used_nbytes

    def close(self) -> None:
        self._lane.close(list(self._channels.values()))
        if self._context is None:
            return
        with contextlib.suppress(drv.Error), self._pushed():
            for buffer in self._buffers:
                if buffer.memory is not None:
                    buffer.memory.free()
            self._buffers.clear()
            self._kept.streams.extend(channel.stream for channel in self._channels.values())
            self._channels.clear()
            self._lane.events.clear()
            self._differ = self._applier = None
            self._kept.modules.clear()


def register_host(host: HostBytes) -> None:
    """Page-lock mapped host memory for all GPUs; copies of it no longer block.

    Blocks (0.07 s per GiB).  Raises DeviceFailed.  It must stay mapped until ``unregister_host``.
    """
    PAGE_LOCKS.use((_register, _unregister))
    PAGE_LOCKS.offer(ctypes.addressof(ctypes.c_char.from_buffer(host)), host.nbytes)
    PAGE_LOCKS.lock(host)


def unregister_host(host: HostBytes) -> None:
    """Undo ``register_host``; no copy of the range may be pending."""
    PAGE_LOCKS.withdraw(ctypes.addressof(ctypes.c_char.from_buffer(host)))


def _register(address: int, nbytes: int) -> None:
    """Lock host pages for all contexts.  Raises DeviceFailed."""
    portable = 1
    with _any_context():
        status = cuda_driver.slow().cuMemHostRegister_v2(address, nbytes, portable)
    cuda_driver.check(status, f"cuMemHostRegister of {nbytes} bytes")


def _unregister(address: int) -> None:
    with _any_context():
        cuda_driver.slow().cuMemHostUnregister(address)


@contextlib.contextmanager
def _any_context() -> Iterator[None]:
    drv.init()
    _primary_context(0).push()
    try:
        yield
    finally:
        drv.Context.pop()


def _refuse(error: Exception) -> None:
    raise error
