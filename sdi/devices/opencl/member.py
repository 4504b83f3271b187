"""Members on any installed OpenCL driver: only this folder knows pyopencl.

One in-order queue per member; members that share a driver device share its context and programs too.  Nothing
here waits for the device except ``build``, ``kernel_info`` and ``close``, and copies of arrays of rows of
pixels where the driver has none (``images``).
"""

from __future__ import annotations

import ctypes
import logging
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, cast

from sdi.dataclass import dataclass, field

# Or each kernel object goes through a database on disk that all processes share.
os.environ.setdefault("PYOPENCL_NO_CACHE", "1")

import pyopencl as cl
from pyopencl import _cl

from sdi.clc.preprocess.compiler import Ask
from sdi.devices.base import (
    BoundArgument,
    Comparison,
    KernelFacts,
    LocalBytes,
    MergeStep,
    Place,
    SubGroupQuery,
)
from sdi.devices.capabilities import CPU, GPU, Capabilities, MemberKind
from sdi.devices.copying import bounce, by, in_parts, is_rows
from sdi.devices.handles import BoundKernel, DeviceBuffer, DeviceProgram, HostBytes
from sdi.devices.host_copy import BESIDE_KERNELS_NBYTES, HostCopy
from sdi.devices.image import ImageShape, LinearImage, Sampler
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.join import all_of, united
from sdi.devices.lane import Lane
from sdi.devices.memory_share import MemoryShare
from sdi.devices.native import NativeMember
from sdi.devices.opencl.context import DriverContext
from sdi.devices.opencl.copies import copy_bytes, copy_region, copy_rows, fits
from sdi.devices.opencl.images import MemberImage, copy_pixels, linear_image, new_image
from sdi.devices.opencl.memory import IN_HOST_MEMORY, OpenCLBuffer
from sdi.devices.opencl.native import OpenCLNative
from sdi.devices.opencl.pocl_order import POCL_ORDER, grid_width
from sdi.devices.opencl.programs import Given, OpenClBoundKernel, OpenClMemberProgram, OpenCLPrograms, launch
from sdi.devices.ticket import Ticket
from sdi.errors import ClError, DeviceFailed, Status, require
from sdi.ndrange import Int3
from sdi.region import Region
from sdi.wire.opencl import DeviceInfo, DeviceType

_log = logging.getLogger(__name__)
OWN_EXTENSION = "cl_sdi_collectives"
"""Of the image's own platform, which is never a member; its name may be any."""

_HANDLES = frozenset({DeviceInfo.PLATFORM, DeviceInfo.PARENT_DEVICE})
"""They mean nothing elsewhere."""
_COMPILERS = (
    *(DeviceInfo.VENDOR, DeviceInfo.NAME, DeviceInfo.DRIVER_VERSION),
    *(DeviceInfo.VERSION, DeviceInfo.OPENCL_C_VERSION, DeviceInfo.EXTENSIONS),
)
"""What tells compilers apart."""
_LIMITS = (DeviceInfo.MAX_WORK_GROUP_SIZE, DeviceInfo.LOCAL_MEM_SIZE, DeviceInfo.MAX_COMPUTE_UNITS)
"""Those that kernels' limits may follow from, which users can set."""
_PLAIN = (bytes, LocalBytes, Sampler)
"""Arguments that are no object of the driver's."""
_PROFILING_START, _PROFILING_END = cl.profiling_info.START, cl.profiling_info.END


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """A device of an installed driver.  ``unit``, ``compiler``: see ``Capabilities``."""

    platform: str
    name: str
    kind: MemberKind
    unit: str
    memory_nbytes: int
    info: Mapping[int, bytes] = field(repr=False)
    handle: cl.Device = field(repr=False, compare=False)
    platform_vendor: str = ""
    platform_version: str = ""
    compiler: str = ""
    node: int = 0


def driver_devices() -> list[DriverDevice]:
    """CPUs and GPUs of all platforms but our own, in the loader's order."""
    found = []
    try:
        platforms = cl.get_platforms()
    except cl.Error as cause:
        _tell("the loader's platforms", cause)
        return []
    for platform in platforms:
        if OWN_EXTENSION in platform.extensions.split():
            continue
        try:
            handles = platform.get_devices()
        except cl.Error as cause:
            _tell(f"the devices of {platform.name}", cause)
            continue
        for position, handle in enumerate(handles):
            info = _device_info(handle)
            device_type = int.from_bytes(info[DeviceInfo.TYPE], "little")
            if not device_type & (DeviceType.CPU | DeviceType.GPU):
                continue
            kind = GPU if device_type & DeviceType.GPU else CPU
            if kind.is_host_processor:
                unit = "cpu"  # whatever its driver, a CPU device is this host
            elif DeviceInfo.PCI_BUS_INFO_KHR in info:
                unit = "pci " + info[DeviceInfo.PCI_BUS_INFO_KHR].hex()
            elif DeviceInfo.UUID_KHR in info:
                unit = "uuid " + info[DeviceInfo.UUID_KHR].hex()
            else:
                unit = f"{platform.name} {position}"
            memory_nbytes = int.from_bytes(info[DeviceInfo.GLOBAL_MEM_SIZE], "little")
            known = [_text(info, parameter) for parameter in _COMPILERS]
            compiler = " ".join([platform.version, *known])
            found.append(
                DriverDevice(
                    platform.name,
                    _text(info, DeviceInfo.NAME),
                    kind,
                    unit,
                    memory_nbytes,
                    info,
                    handle,
                    platform.vendor.strip(),
                    platform.version.partition(" ")[2].partition(" ")[2].strip(),
                    compiler,
                )
            )
    return found


class OpenCLDevice:
    """A member on a driver device.  Implements ``Device``; see there.

    ``memory_nbytes``: this member's share of the device's memory; ``allocate`` never goes beyond.
    ``shared``: the context of another member on the same device.
    """

    def __init__(
        self, device: DriverDevice, number: int, memory_nbytes: int, shared: DriverContext | None = None
    ) -> None:
        name = f"member {number} ({device.name})"
        info = device.info
        is_pocl = device.platform == "Portable Computing Language"
        try:
            self.shared: Final = shared or DriverContext(
                device.handle, any(info.get(DeviceInfo.IMAGE_SUPPORT, b""))
            )
            self._context: Final = self.shared.handle
            self._queue = cl.CommandQueue(
                self._context, properties=cl.command_queue_properties.PROFILING_ENABLE
            )
        except cl.Error as cause:
            raise DeviceFailed(name, str(cause)) from cause
        self.capabilities: Capabilities = Capabilities(
            name=name,
            kind=device.kind,
            vendor=_text(info, DeviceInfo.VENDOR),
            driver=_text(info, DeviceInfo.DRIVER_VERSION),
            unit=device.unit,
            memory_nbytes=memory_nbytes,
            info=info,
            compares=True,
            is_host_memory=device.kind.is_host_processor,
            formats=self.shared.formats,
            has_linear_images=self.shared.are_views,
            maps_host=self.shared.is_in_place,
            platform_vendor=device.platform_vendor,
            platform_name=device.platform.strip(),
            platform_version=device.platform_version,
            compiler=device.compiler,
        )
        self._device: Final = device.handle
        self._comparer: Final = self.shared.comparer
        self.memory: MemoryShare = MemoryShare(name, memory_nbytes)
        self._programs: Final = OpenCLPrograms(self.shared, device.handle, number, name, _compiler_of(device))
        self.ask: Ask = self._programs.answers
        self._is_pocl: Final = is_pocl
        self._lane: Final[Lane[cl.Event]] = Lane(self, name, _times, f"sdi-gpu-{number}-done")
        self._copies: Final[Lane[HostCopy]] = Lane(object(), name, HostCopy.times, f"sdi-gpu-{number}-copy")
        self.signals: Final = None
        self.native: Final[NativeMember] = OpenCLNative(
            self._queue, self._lane, self._copies.is_idle, self._is_pocl
        )

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, memoryview):
            return self._map_host(wanted)
        if isinstance(wanted, int) and on_host:
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            memory, host = self._memory(wanted, flags, f"{self.memory.name}: {wanted} bytes of host memory")
            return DeviceBuffer(OpenCLBuffer(memory, host))
        nbytes = wanted if isinstance(wanted, int) else wanted.nbytes
        asked = self.memory.asked(nbytes)
        made: OpenCLBuffer | MemberImage
        if isinstance(wanted, int):
            made = OpenCLBuffer(*self._memory(nbytes, cl.mem_flags.READ_WRITE, asked), nbytes)
        else:
            made = self._image(wanted, asked)
        self.memory.take(nbytes)
        return DeviceBuffer(made)

    def _image(self, shape: ImageShape, asked: str) -> MemberImage:
        try:
            return new_image(self._context, shape)
        except (cl.Error, MemoryError) as cause:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}; {cause}") from cause

    def _memory(self, nbytes: int, flags: int, asked: str) -> tuple[cl.Buffer, memoryview | None]:
        """A new buffer of the driver's, and its bytes where it computes in host memory.  Raises ClError."""
        try:
            if not self.shared.is_in_place:
                return cl.Buffer(self._context, flags, nbytes), None
            # It computes in the memory it is given: so other members can copy from there directly.
            host = memoryview(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            return cl.Buffer(self._context, IN_HOST_MEMORY, hostbuf=host), host
        except (cl.Error, MemoryError, OSError) as cause:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}; {cause}") from cause

    def _map_host(self, host: HostBytes) -> DeviceBuffer:
        asked = f"{self.capabilities.name}: {host.nbytes} bytes of host memory"
        # Elsewhere the driver may keep a copy of its own, which others would not see.
        is_shared = self.shared.is_in_place
        require(is_shared, Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}: the driver can't share them")
        try:
            memory = cl.Buffer(self._context, IN_HOST_MEMORY, hostbuf=host)
        except (cl.Error, MemoryError) as cause:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"{asked}; {cause}") from cause
        return DeviceBuffer(OpenCLBuffer(memory, host))

    def free(self, buffer: DeviceBuffer) -> None:
        own = cast(OpenCLBuffer | MemberImage, buffer)
        own.release()
        self.memory.give(own.nbytes)

    def host_bytes(self, buffer: DeviceBuffer) -> HostBytes | None:
        return cast(OpenCLBuffer, buffer).host

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        wait = united(source_waits, target_waits)
        if source.device is target.device:
            ticket = self._copy_within(source, target, region, wait)
        elif target.device is None:
            return self._copy_host(target, source, region, wait, to_device=False)
        elif source.device is None:
            return self._copy_host(source, target, region, wait, to_device=True)
        else:
            # [M] pocl 3.1, 64 MiB: 10.7 GB/s directly, 7.0 through a bounce buffer, 5.4 through the arena.
            host = source.memory.host if isinstance(source.memory, OpenCLBuffer) else None
            if host is None:
                return bounce(source, target, region, source_waits, target_waits, timing)
            there = Place(host, source.offset, None, source.levels)
            return self._copy_host(there, target, region, wait, to_device=True)
        return ticket, ticket

    def _copy_host(
        self, outside: Place, inside: Place, region: Region, wait: Sequence[Ticket], to_device: bool
    ) -> tuple[Ticket, Ticket]:
        """Between host memory and a buffer of this member."""
        if not is_rows(outside, inside, region):
            ends = (outside, inside) if to_device else (inside, outside)
            return in_parts(by(self, wait, ()), *ends, region)
        own, host = cast(OpenCLBuffer, inside.memory), cast(HostBytes, outside.memory)
        at, start, nbytes = inside.offset + region.base, outside.offset + region.base, region.nbytes
        if region.levels and not fits(region, own.memory):
            last = region.counts[-1] - 1
            parts = region.part(0, last), region.part(last, last + 1)
            ticket = all_of([self._copy_host(outside, inside, part, wait, to_device)[0] for part in parts])
        elif region.levels:
            ticket = self._lane.issue(
                partial(copy_rows, self._queue, own.memory, at, host, start, region, to_device), wait, host
            )
        elif own.host is not None and self._is_beside(own, at, host, start, nbytes):
            here, there = own.host[at : at + nbytes], outside.host(nbytes, start)
            to, from_ = (here, there) if to_device else (there, here)
            ticket = self._copies.issue(partial(HostCopy, to, from_), wait, own)
        else:
            start_copy = partial(copy_bytes, self._queue, own.memory, at, outside, start, nbytes, to_device)
            ticket = self._lane.issue(start_copy, wait, host)
        return ticket, ticket

    @staticmethod
    def _is_beside(own: OpenCLBuffer, at: int, host: HostBytes, start: int, nbytes: int) -> bool:
        """Whether a copy is made beside kernels; what goes past an end the driver refuses."""
        return nbytes >= BESIDE_KERNELS_NBYTES and own.holds(at, nbytes) and start + nbytes <= host.nbytes

    def _copy_within(self, source: Place, target: Place, region: Region, wait: Sequence[Ticket]) -> Ticket:
        there, here = source.memory, target.memory
        if isinstance(here, MemberImage) or isinstance(there, MemberImage):
            return self._copy_pixels(source, target, region, wait)
        assert isinstance(there, OpenCLBuffer) and isinstance(here, OpenCLBuffer)
        from_, to = source.here(region), target.here(region)
        if region.levels and there.host is not None and here.host is not None:
            is_large = max(from_.span_nbytes, to.span_nbytes) >= BESIDE_KERNELS_NBYTES
            # PoCL takes some rows that share no byte for overlapping.
            if (is_large or there is here) and _reaches(there, from_) and _reaches(here, to):
                copy = partial(HostCopy, here.host, there.host, (to, from_))
                return self._copies.issue(copy, wait, (there, here))
        return self._lane.issue(partial(copy_region, self._queue, here.memory, there.memory, to, from_), wait)

    def _copy_pixels(self, source: Place, target: Place, region: Region, wait: Sequence[Ticket]) -> Ticket:
        to_image = isinstance(target.memory, MemberImage)
        picture, linear = (target, source) if to_image else (source, target)
        image, memory = cast(MemberImage, picture.memory), cast(OpenCLBuffer, linear.memory).memory
        slabs = image.shape.slabs_of(region.bounds)
        start = partial(copy_pixels, self._queue, image, slabs, memory, linear.offset, to_image)
        return self._lane.issue(start, wait)

    def merge(
        self,
        step: MergeStep,
        comparison: Comparison,
        changes: DeviceBuffer,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        work = self._comparer.diff if step is MergeStep.DIFF else self._comparer.apply
        own, twin, found = _memories(comparison.buffer, comparison.twin, changes)
        start = partial(work, self._queue, comparison, own, twin, found)
        return self._run(start, self._comparer.key(step.name, comparison), self._comparer.width, wait)

    def fill(
        self,
        buffer: DeviceBuffer,
        offset: int,
        nbytes: int,
        pattern: bytes,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        start = partial(
            cl.enqueue_fill_buffer, self._queue, cast(OpenCLBuffer, buffer).memory, pattern, offset, nbytes
        )
        return self._lane.issue(start, wait)

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        return self._programs.build(text, options)

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        return self._programs.kernel_facts(cast(OpenClMemberProgram, program), kernel, asked)

    def bind(self, program: DeviceProgram, kernel: str, arguments: Sequence[BoundArgument]) -> BoundKernel:
        found = list(map(self._given, arguments))
        return BoundKernel(self._programs.bind(cast(OpenClMemberProgram, program), kernel, found))

    def _given(self, argument: BoundArgument) -> Given:
        if argument is None or isinstance(argument, _PLAIN):
            return argument
        if not isinstance(argument, LinearImage):
            return cast(OpenCLBuffer | MemberImage, argument).memory
        try:
            return linear_image(self._context, argument)
        except cl.Error as cause:
            what = f"{self.capabilities.name}: an image of {argument.shape.nbytes} bytes; {cause}"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what) from cause

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        own = cast(OpenClBoundKernel, bound)
        start = partial(launch, self._queue, own, groups[:work_dim], local_size[:work_dim])
        return self._run(start, (own.key, local_size), grid_width(groups, local_size), wait)

    def _run(
        self, start: Callable[[], cl.Event], key: tuple[object, ...], width: int, wait: Sequence[Ticket]
    ) -> Ticket:
        """Issue a kernel; see ``pocl_order``."""
        if not self._is_pocl:
            return self._lane.issue(start, wait)
        return self._lane.issue(start, wait, in_the_way=partial(POCL_ORDER.enter, key, width))

    def flush(self) -> None:
        try:
            self._queue.flush()
        except cl.Error as cause:
            raise DeviceFailed(self.capabilities.name, str(cause)) from cause

    def is_lost(self) -> bool:
        # NVIDIA's driver refuses every command after a kernel that went astray; others may lack room once.
        return not self._device.available or not (self._answers() or self._answers())

    def _answers(self) -> bool:
        try:
            cl.enqueue_marker(self._queue)
            self._queue.flush()
        except cl.Error:
            return False
        return True

    def close(self) -> None:
        self._copies.close()
        self.shared.ahead.close()
        self._lane.close()  # the queue and the context go with the last reference to what is in them


def _compiler_of(device: DriverDevice) -> str:
    """All that what is known of a built kernel depends on besides its program."""
    limits = [device.info.get(limit, b"").hex() for limit in _LIMITS]
    return " ".join([device.platform, device.compiler, *limits])


def _memories(*buffers: DeviceBuffer) -> list[cl.Buffer]:
    return [cast(OpenCLBuffer, buffer).memory for buffer in buffers]


def _reaches(buffer: OpenCLBuffer, region: Region) -> bool:
    return buffer.holds(region.base, region.span_nbytes)


def _times(event: cl.Event) -> tuple[int, int]:
    start, end = event.get_profiling_info(_PROFILING_START), event.get_profiling_info(_PROFILING_END)
    assert isinstance(start, int) and isinstance(end, int)
    return start, end


def _tell(of: str, cause: cl.Error) -> None:
    """Unless there are none, or the platform is one of other kinds of devices."""
    if getattr(cause, "code", None) not in (Status.PLATFORM_NOT_FOUND_KHR, Status.DEVICE_NOT_FOUND):
        _log.warning("%s can't be listed: %s", of, cause)


def _device_info(device: cl.Device) -> dict[int, bytes]:
    """Raw bytes of every parameter that the driver knows, through the loader that pyopencl is linked to."""
    get_info = ctypes.CDLL(_cl.__file__).clGetDeviceInfo
    get_info.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    get_info.restype = ctypes.c_int32
    info = {}
    for parameter in {*map(int, DeviceInfo)} - _HANDLES:
        nbytes = ctypes.c_size_t()
        if get_info(device.int_ptr, parameter, 0, None, ctypes.byref(nbytes)):
            continue
        value = ctypes.create_string_buffer(nbytes.value)
        if not nbytes.value or not get_info(device.int_ptr, parameter, nbytes.value, value, None):
            info[parameter] = value.raw
    return info


def _text(info: Mapping[int, bytes], parameter: int) -> str:
    return info.get(parameter, b"").rstrip(b"\0").decode(errors="replace").strip()
