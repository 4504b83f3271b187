"""What ``clGetDeviceInfo`` says of the image, combined from what the members' drivers say.

Source: OpenCL 3.0 API specification, table of device queries.  Sizes and counts that a kernel relies on are
those of the weakest member; what the image does not do is reported as absent.
"""

from __future__ import annotations

import functools
import operator
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from sdi import __version__
from sdi.clc.base_header import NVIDIA_QUERY
from sdi.devices.base import Device
from sdi.icd.vendors import Vendors, vendors_of
from sdi.icd.wire import FACT_IMAGE_FORMATS, FACT_PLATFORM_VENDOR, FORMAT_ENTRY, layout
from sdi.runtime.language import common_formats, image_language

TYPE, VENDOR_ID, COMPUTE_UNITS = 0x1000, 0x1001, 0x1002
MAX_ALLOC, GLOBAL_MEM, NAME, DRIVER_EXTENSIONS = 0x1010, 0x101F, 0x102B, 0x1030
MAX_WORK_ITEM_SIZES = 0x1005

_FORMAT = layout(FORMAT_ENTRY)

# How members' numbers are combined, by the type of the answer.
_LEAST_U32 = (
    0x1003,  # MAX_WORK_ITEM_DIMENSIONS
    *range(0x1006, 0x100D),  # PREFERRED_VECTOR_WIDTH_..., MAX_CLOCK_FREQUENCY
    *(0x101C, 0x1021, 0x1022, 0x1024),  # cache type, MAX_CONSTANT_ARGS, LOCAL_MEM_TYPE, ERROR_CORRECTION
    *(0x1026, 0x1034, *range(0x1036, 0x103D)),  # ENDIAN_LITTLE, vector widths
)
_LEAST_U64 = (
    *(0x1004, 0x1017, 0x1020, 0x1023),  # MAX_WORK_GROUP_SIZE, MAX_PARAMETER_SIZE, constant and local memory
    *(0x101E, 0x1049),  # GLOBAL_MEM_CACHE_SIZE, PRINTF_BUFFER_SIZE
)
_MOST_U32 = (0x1019, 0x101A, 0x101D)  # MEM_BASE_ADDR_ALIGN, MIN_DATA_TYPE_ALIGN_SIZE, cache line
_MOST_U64 = (0x1025, 0x1067)  # PROFILING_TIMER_RESOLUTION, PREFERRED_WORK_GROUP_SIZE_MULTIPLE
_COMMON_BITS = (0x101B, 0x1032, 0x1033)  # SINGLE_, DOUBLE_ and HALF_FP_CONFIG

# What the image does not have, by the type of the answer.
_ZERO_U32 = (
    *(0x104F, 0x1050, 0x1051, 0x1052),  # queues on the device
    *(0x1055, 0x1056, 0x1057, 0x1071),  # pipes
    *(0x1058, 0x1059, 0x105A),  # preferred alignment of atomics: natural
    *(0x105C, 0x105D, 0x1065, 0x1068, 0x1069),  # sub-groups, non-uniform groups, collectives, generic space
)
_ZERO_U64 = (
    *(0x104D, 0x1054),  # program-scope variables in global memory
    *(0x104E, 0x1053, 0x1070),  # queues on the device, shared virtual memory
)
# What images and samplers are limited by; all 0 where a member has none.
_IMAGE_U32 = (0x100E, 0x100F, 0x1018, 0x104C)  # arguments read, written, both; samplers
_IMAGE_U64 = (0x1011, 0x1012, 0x1013, 0x1014, 0x1015, 0x1040, 0x1041)  # sizes
_EMPTY_TEXT = (0x103F, 0x105B)  # BUILT_IN_KERNELS, IL_VERSION
_EMPTY_LIST = (0x1061, 0x1062)  # ILS_WITH_VERSION, BUILT_IN_KERNELS_WITH_VERSION
# cl_nv_device_attribute_query: registers, warp, overlap, copy engines; PCI bus, slot, domain.
_NVIDIA_LEAST, _NVIDIA_PLACE = (0x4002, 0x4003, 0x4004, 0x4007), (0x4008, 0x4009, 0x400A)
_TRUE = (0x1027, 0x1028, 0x103E, 0x1048)  # AVAILABLE, compiler and linker, INTEROP_USER_SYNC

# What atomic operations and fences may ask for: bits that every device has, and those of features.
_ATOMICS_ALWAYS = 1 << 0 | 1 << 4  # relaxed, in a work-group
_FENCES_ALWAYS = _ATOMICS_ALWAYS | 1 << 1  # acquire and release too
_ATOMIC_BITS = {
    "__opencl_c_atomic_order_acq_rel": 1 << 1,
    "__opencl_c_atomic_order_seq_cst": 1 << 2,
    "__opencl_c_atomic_scope_device": 1 << 5,
}
_NEVER_CONFORMANT = "v0000-01-01-00"


def image_info(
    devices: Sequence[Device], heap_nbytes: int, vendors: Vendors | None = None
) -> dict[int, bytes]:
    """Raw ``clGetDeviceInfo`` bytes by parameter, for everything the client does not answer itself.

    ``heap_nbytes``: what all buffers together can have of the memory shared with the application.
    ``vendors``: what it says of itself; by default what its members say.
    """
    facts = [device.facts for device in devices]
    known = [f.info for f in facts]
    language = image_language(devices)

    def numbers(param: int) -> list[int]:
        return [_number(info.get(param, b"")) for info in known]

    info = {param: _u32(0) for param in _ZERO_U32}
    info |= {param: _u64(0) for param in _ZERO_U64}
    info |= {param: _u32(min(numbers(param)) if language.images else 0) for param in _IMAGE_U32}
    info |= {param: _u64(min(numbers(param)) if language.images else 0) for param in _IMAGE_U64}
    # Whether there are images; and the alignment, in pixels, of 2D images made from buffers.
    info |= dict.fromkeys((0x1016, 0x104A, 0x104B), _u32(int(language.images)))
    if "__opencl_c_read_write_images" not in language.features:
        info[0x104C] = _u32(0)
    info[FACT_IMAGE_FORMATS] = b"".join(
        _FORMAT.pack(*key, uses, 0) for key, uses in common_formats(facts).items()
    )
    info |= dict.fromkeys(_EMPTY_TEXT, _text(""))
    info |= dict.fromkeys(_EMPTY_LIST, b"")
    info |= {param: _u32(1) for param in _TRUE}
    info |= {param: _u32(min(numbers(param))) for param in _LEAST_U32}
    info |= {param: _u64(min(numbers(param))) for param in _LEAST_U64}
    info |= {param: _u32(max(numbers(param))) for param in _MOST_U32}
    info |= {param: _u64(max(numbers(param))) for param in _MOST_U64}
    info |= {param: _u64(functools.reduce(operator.and_, numbers(param))) for param in _COMMON_BITS}
    sizes = [struct.unpack_from("<3Q", each[MAX_WORK_ITEM_SIZES]) for each in known]
    info[MAX_WORK_ITEM_SIZES] = struct.pack("<3Q", *(min(column) for column in zip(*sizes, strict=True)))
    info[COMPUTE_UNITS] = _u32(sum({f.unit: _number(f.info[COMPUTE_UNITS]) for f in facts}.values()))
    info[TYPE] = _u64(4 if all(f.kind == "gpu" for f in facts) else 2)
    said = vendors if vendors is not None else vendors_of(facts)
    info[VENDOR_ID] = _u32(said.device_id)
    info[FACT_PLATFORM_VENDOR] = _text(said.platform)
    if NVIDIA_QUERY in language.extensions:
        info |= _nvidia_attributes(known)
    info[0x100D] = _u32(64)  # ADDRESS_BITS
    # What a member can't hold stays on the host, so a buffer may be as large as all memory together.
    memories = {f.unit: _number(f.info[GLOBAL_MEM]) // (2 if f.kind == "cpu" else 1) for f in facts}
    info[MAX_ALLOC] = info[GLOBAL_MEM] = _u64(min(sum(memories.values()), heap_nbytes))
    info[0x1029] = _u64(1)  # EXECUTION_CAPABILITIES: kernels, not native ones
    info[0x102A] = _u64(3)  # QUEUE_ON_HOST_PROPERTIES: out of order, profiling
    info[NAME] = _text(image_name(devices))
    info[0x102C] = _text(said.device)
    info[0x102D] = _text(__version__)
    info[0x102E] = _text("FULL_PROFILE")
    info[0x102F] = _text(f"OpenCL 3.0 sdi {__version__}")
    info[DRIVER_EXTENSIONS] = _text(" ".join(language.extensions))
    info[0x1060] = b"".join(_named(name, 1, 0) for name in language.extensions)
    info[0x1035] = _u32(0)  # HOST_UNIFIED_MEMORY: the image's memory is a copy, of CPU members too
    info[0x103D] = _text("OpenCL C 1.2 sdi")
    info[0x105E] = _u32(3 << 22)  # NUMERIC_VERSION
    atomics = sum(bit for name, bit in _ATOMIC_BITS.items() if name in language.features)
    info[0x1063] = _u64(_ATOMICS_ALWAYS | atomics)  # ATOMIC_MEMORY_CAPABILITIES
    info[0x1064] = _u64(_FENCES_ALWAYS | atomics)  # ATOMIC_FENCE_CAPABILITIES
    info[0x1066] = b"".join(_named("OpenCL C", *v) for v in ((1, 0), (1, 1), (1, 2), (3, 0)))
    info[0x106F] = b"".join(_named(name, 3, 0) for name in language.features)
    info[0x1072] = _text(_NEVER_CONFORMANT)
    return info


def _nvidia_attributes(known: Sequence[Mapping[int, bytes]]) -> dict[int, bytes]:
    """Answers of cl_nv_device_attribute_query: the weakest member's, and where the first one is."""

    def numbers(param: int) -> list[int]:
        return [_number(info.get(param, b"")) for info in known]

    major, minor = min(zip(numbers(0x4000), numbers(0x4001), strict=True))
    info = {0x4000: _u32(major), 0x4001: _u32(minor)}
    info |= {param: _u32(min(numbers(param))) for param in _NVIDIA_LEAST}
    info[0x4005] = _u32(max(numbers(0x4005)))  # KERNEL_EXEC_TIMEOUT
    info[0x4006] = _u32(0)  # INTEGRATED_MEMORY: the image's is not the host's
    return info | {param: known[0][param] for param in _NVIDIA_PLACE if param in known[0]}


def image_name(devices: Iterable[Device]) -> str:
    """ "SDI (4 x name)", or the kinds with their numbers where members differ."""
    kinds = Counter(device.facts.info[NAME].rstrip(b"\0").decode() for device in devices)
    return "SDI (" + " + ".join(f"{number} x {name}" for name, number in kinds.items()) + ")"


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _named(name: str, major: int, minor: int) -> bytes:
    """A ``cl_name_version``."""
    return struct.pack("<I64s", major << 22 | minor << 12, name.encode())
