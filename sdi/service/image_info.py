"""What ``clGetDeviceInfo`` says of the image, combined from what the members' drivers say.

Source: OpenCL 3.0 API specification, table of device queries.  Sizes and counts that a kernel relies on are
those of the weakest member; what the image does not do is reported as absent.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from sdi import __version__
from sdi.clc.frontend.base_header import (
    AMD_QUERY,
    FLOAT_ATOMIC_FEATURES,
    FLOAT_ATOMICS,
    GROUP_FEATURE,
    IMAGE_OF_BUFFER,
    INTEL_QUERY,
    NVIDIA_QUERY,
    SUB_GROUP_SIZE,
)
from sdi.devices.base import Device
from sdi.devices.capabilities import Capabilities
from sdi.launch.programs.language import common_formats, image_language
from sdi.service.vendors import Vendors, vendors_of
from sdi.wire.layout import layout
from sdi.wire.opencl import QUEUES, AtomicCapabilities, DeviceType, named_version, u32, u64, version
from sdi.wire.opencl import DeviceInfo as Info
from sdi.wire.records import (
    FACT_IMAGE_FORMATS,
    FACT_PLATFORM_NAME,
    FACT_PLATFORM_VENDOR,
    FACT_PLATFORM_VERSION,
    FORMAT_ENTRY,
)

_FORMAT = layout(FORMAT_ENTRY)

# How members' numbers are combined, by the type of the answer.
_LEAST_U32 = (
    *(each for each in Info if "_VECTOR_WIDTH_" in each.name),
    *(Info.MAX_WORK_ITEM_DIMENSIONS, Info.MAX_CLOCK_FREQUENCY, Info.MAX_CONSTANT_ARGS, Info.LOCAL_MEM_TYPE),
    *(Info.GLOBAL_MEM_CACHE_TYPE, Info.ERROR_CORRECTION_SUPPORT, Info.ENDIAN_LITTLE),
)
_LEAST_U64 = (
    *(Info.MAX_WORK_GROUP_SIZE, Info.MAX_PARAMETER_SIZE, Info.MAX_CONSTANT_BUFFER_SIZE),
    *(Info.LOCAL_MEM_SIZE, Info.GLOBAL_MEM_CACHE_SIZE, Info.PRINTF_BUFFER_SIZE),
)
_MOST_U32 = (Info.MEM_BASE_ADDR_ALIGN, Info.MIN_DATA_TYPE_ALIGN_SIZE, Info.GLOBAL_MEM_CACHELINE_SIZE)
_MOST_U64 = (Info.PROFILING_TIMER_RESOLUTION, Info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE)
_COMMON_BITS = (Info.SINGLE_FP_CONFIG, Info.DOUBLE_FP_CONFIG, Info.HALF_FP_CONFIG)

# What the image does not have, by the type of the answer; atomics have their natural alignment.
_ZERO_U32 = (
    *(Info.QUEUE_ON_DEVICE_PREFERRED_SIZE, Info.QUEUE_ON_DEVICE_MAX_SIZE, Info.MAX_ON_DEVICE_QUEUES),
    *(Info.MAX_ON_DEVICE_EVENTS, Info.MAX_PIPE_ARGS, Info.PIPE_MAX_ACTIVE_RESERVATIONS),
    *(Info.PIPE_MAX_PACKET_SIZE, Info.PIPE_SUPPORT, Info.PREFERRED_PLATFORM_ATOMIC_ALIGNMENT),
    *(Info.PREFERRED_GLOBAL_ATOMIC_ALIGNMENT, Info.PREFERRED_LOCAL_ATOMIC_ALIGNMENT),
    *(Info.NON_UNIFORM_WORK_GROUP_SUPPORT, Info.GENERIC_ADDRESS_SPACE_SUPPORT),
)
_ZERO_U64 = (
    *(Info.MAX_GLOBAL_VARIABLE_SIZE, Info.GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE),
    *(Info.QUEUE_ON_DEVICE_PROPERTIES, Info.SVM_CAPABILITIES, Info.DEVICE_ENQUEUE_CAPABILITIES),
)
# What images and samplers are limited by; all 0 where a member has none.
_IMAGE_U32 = (
    *(Info.MAX_READ_IMAGE_ARGS, Info.MAX_WRITE_IMAGE_ARGS, Info.MAX_READ_WRITE_IMAGE_ARGS),
    Info.MAX_SAMPLERS,
)
_IMAGE_U64 = (
    *(Info.IMAGE2D_MAX_WIDTH, Info.IMAGE2D_MAX_HEIGHT, Info.IMAGE3D_MAX_WIDTH, Info.IMAGE3D_MAX_HEIGHT),
    *(Info.IMAGE3D_MAX_DEPTH, Info.IMAGE_MAX_BUFFER_SIZE, Info.IMAGE_MAX_ARRAY_SIZE),
)
_SUB_GROUP_U32 = (Info.MAX_NUM_SUB_GROUPS, Info.SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS)
# The alignment, in pixels, of 2D images made from buffers: any will do, where these are claimed.
_OF_BUFFERS = (Info.IMAGE_PITCH_ALIGNMENT, Info.IMAGE_BASE_ADDRESS_ALIGNMENT)
_EMPTY_TEXT = (Info.BUILT_IN_KERNELS, Info.IL_VERSION)
_EMPTY_LIST = (Info.ILS_WITH_VERSION, Info.BUILT_IN_KERNELS_WITH_VERSION)
# cl_nv_device_attribute_query.
_NVIDIA_LEAST = (
    *(Info.REGISTERS_PER_BLOCK_NV, Info.WARP_SIZE_NV, Info.GPU_OVERLAP_NV),
    Info.ATTRIBUTE_ASYNC_ENGINE_COUNT_NV,
)
_NVIDIA_PLACE = (Info.PCI_BUS_ID_NV, Info.PCI_SLOT_ID_NV, Info.PCI_DOMAIN_ID_NV)
# What AMD's and Intel's extensions of that kind answer: what members have in common.
_ATTRIBUTES = {
    AMD_QUERY: tuple(each for each in Info if each.name.endswith("_AMD")),
    INTEL_QUERY: tuple(
        each for each in Info if each.name.endswith("_INTEL") and each != Info.SUB_GROUP_SIZES_INTEL
    ),
}
_OF_THE_FIRST = (Info.TOPOLOGY_AMD, Info.GLOBAL_FREE_MEMORY_AMD)
"""Where a device is and what is free there differ between devices that are alike."""
_TRUE = (Info.AVAILABLE, Info.COMPILER_AVAILABLE, Info.LINKER_AVAILABLE, Info.PREFERRED_INTEROP_USER_SYNC)

# What atomic operations and fences may ask for: bits that every device has, and those of features.
_ATOMICS_ALWAYS = AtomicCapabilities.ORDER_RELAXED | AtomicCapabilities.SCOPE_WORK_GROUP
_FENCES_ALWAYS = _ATOMICS_ALWAYS | AtomicCapabilities.ORDER_ACQ_REL
_ATOMIC_BITS = {
    "__opencl_c_atomic_order_acq_rel": AtomicCapabilities.ORDER_ACQ_REL,
    "__opencl_c_atomic_order_seq_cst": AtomicCapabilities.ORDER_SEQ_CST,
    "__opencl_c_atomic_scope_device": AtomicCapabilities.SCOPE_DEVICE,
}
_NEVER_CONFORMANT = "v0000-01-01-00"


def member_info(
    device: Device,
    devices: Sequence[Device],
    heap_nbytes: int,
    vendors: Callable[[Sequence[Capabilities]], Vendors] = vendors_of,
) -> dict[int, bytes]:
    """The same of one of ``devices`` that the application sees as a device of its own.

    Programs are built for all of them, so of OpenCL C it has what all have.
    """
    facts = device.capabilities
    told = vendors([facts])
    info = image_info([device], heap_nbytes, told, devices)
    info |= _platform(vendors([each.capabilities for each in devices]))
    info[Info.NAME] = _text(told.name) if told.name else facts.info[Info.NAME]
    nbytes = min(facts.memory_nbytes, heap_nbytes)
    return info | dict.fromkeys((Info.MAX_MEM_ALLOC_SIZE, Info.GLOBAL_MEM_SIZE), u64(nbytes))


def image_info(
    devices: Sequence[Device],
    heap_nbytes: int,
    vendors: Vendors | None = None,
    everyone: Sequence[Device] = (),
    file_nbytes: int = 0,
) -> dict[int, bytes]:
    """Raw ``clGetDeviceInfo`` bytes by parameter, for everything the client does not answer itself.

    ``heap_nbytes``: what all buffers together can have of the memory shared with the application.
    ``vendors``: what it says of itself; by default what its members say, under a name of its own.
    ``everyone``: for whom programs are built, if not for ``devices``.  ``file_nbytes``: what buffers can have
    of files beside that.
    """
    facts = [device.capabilities for device in devices]
    known = [f.info for f in facts]
    language = image_language(everyone or devices)

    def numbers(param: int) -> list[int]:
        return [_number(info.get(param, b"")) for info in known]

    info: dict[int, bytes] = {param: u32(0) for param in _ZERO_U32}
    info |= {param: u64(0) for param in _ZERO_U64}
    info |= {param: u32(min(numbers(param)) if language.images else 0) for param in _IMAGE_U32}
    info |= {param: u64(min(numbers(param)) if language.images else 0) for param in _IMAGE_U64}
    info[Info.IMAGE_SUPPORT] = u32(int(language.images))
    info |= dict.fromkeys(_OF_BUFFERS, u32(int(IMAGE_OF_BUFFER in language.extensions)))
    if "__opencl_c_read_write_images" not in language.features:
        info[Info.MAX_READ_WRITE_IMAGE_ARGS] = u32(0)
    info[FACT_IMAGE_FORMATS] = b"".join(
        _FORMAT.pack(*key, uses, 0)
        for key, uses in common_formats([each.capabilities for each in everyone or devices]).items()
    )
    info |= {param: u32(min(numbers(param)) if language.sub_groups else 0) for param in _SUB_GROUP_U32}
    if SUB_GROUP_SIZE in language.extensions:
        info |= _attributes(known, (Info.SUB_GROUP_SIZES_INTEL,))
    info |= dict.fromkeys(_EMPTY_TEXT, _text(""))
    info |= dict.fromkeys(_EMPTY_LIST, b"")
    info |= {param: u32(1) for param in _TRUE}
    info |= {param: u32(min(numbers(param))) for param in _LEAST_U32}
    info |= {param: u64(min(numbers(param))) for param in _LEAST_U64}
    info |= {param: u32(max(numbers(param))) for param in _MOST_U32}
    info |= {param: u64(max(numbers(param))) for param in _MOST_U64}
    info |= {param: u64(functools.reduce(operator.and_, numbers(param))) for param in _COMMON_BITS}
    sizes = [memoryview(each[Info.MAX_WORK_ITEM_SIZES])[:24].cast("Q") for each in known]
    info[Info.MAX_WORK_ITEM_SIZES] = b"".join(u64(min(column)) for column in zip(*sizes, strict=True))
    units = {f.unit: _number(f.info[Info.MAX_COMPUTE_UNITS]) for f in facts}
    info[Info.MAX_COMPUTE_UNITS] = u32(sum(units.values()))
    types = {f.kind.device_type for f in facts}
    info[Info.TYPE] = u64(types.pop() if len(types) == 1 else DeviceType.CPU)
    said = vendors if vendors is not None else vendors_of(facts)
    info[Info.VENDOR_ID] = u32(said.device_id)
    info |= _platform(said)
    if NVIDIA_QUERY in language.extensions:
        info |= _nvidia_attributes(known)
    for extension, params in _ATTRIBUTES.items():
        if extension in language.extensions:
            info |= _attributes(known, params)
    info[Info.ADDRESS_BITS] = u32(64)
    # What a member can't hold stays on the host, so a buffer may be as large as all memory together.
    memories = {
        f.unit: _number(f.info[Info.GLOBAL_MEM_SIZE]) // (2 if f.kind.is_host_processor else 1) for f in facts
    }
    most = min(sum(memories.values()) + file_nbytes, heap_nbytes)
    info[Info.MAX_MEM_ALLOC_SIZE] = info[Info.GLOBAL_MEM_SIZE] = u64(most)
    info[Info.EXECUTION_CAPABILITIES] = u64(1)  # kernels, not native ones
    info[Info.QUEUE_ON_HOST_PROPERTIES] = u64(QUEUES)
    info[Info.NAME] = _text(said.name or image_name(devices))
    info[Info.VENDOR] = _text(said.device)
    drivers = {each.get(Info.DRIVER_VERSION) for each in known}
    driver = drivers.pop() if len(drivers) == 1 else None
    # The members' comes first: programs refuse a vendor's old ones.  Binaries are sdi's own, of this version:
    # programs that keep them by names of device and driver must not take the members' for them.
    theirs = driver.rstrip(b"\0").decode(errors="replace") if driver else ""
    info[Info.DRIVER_VERSION] = _text(f"{theirs} (sdi {__version__})" if theirs else __version__)
    info[Info.PROFILE] = _text("FULL_PROFILE")
    info[Info.VERSION] = _text(f"OpenCL 3.0 sdi {__version__}")
    info[Info.EXTENSIONS] = _text(" ".join(language.extensions))
    info[Info.EXTENSIONS_WITH_VERSION] = b"".join(named_version(name, 1) for name in language.extensions)
    # What programs map is the memory of a CPU that is alone, mostly; members that share launches have copies.
    is_members = len(everyone or devices) == 1 and facts[0].maps_host and not facts[0].node
    info[Info.HOST_UNIFIED_MEMORY] = u32(min(numbers(Info.HOST_UNIFIED_MEMORY)) if is_members else 0)
    info[Info.OPENCL_C_VERSION] = _text("OpenCL C 1.2 sdi")
    info[Info.WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT] = u32(int(GROUP_FEATURE in language.features))
    info[Info.NUMERIC_VERSION] = u32(version(3, 0))
    atomics = sum(bit for name, bit in _ATOMIC_BITS.items() if name in language.features)
    info[Info.ATOMIC_MEMORY_CAPABILITIES] = u64(_ATOMICS_ALWAYS | atomics)
    info[Info.ATOMIC_FENCE_CAPABILITIES] = u64(_FENCES_ALWAYS | atomics)
    if FLOAT_ATOMICS in language.extensions:
        info |= _float_atomics(language.float_atomics)
    versions = ((1, 0), (1, 1), (1, 2), (3, 0))
    info[Info.OPENCL_C_ALL_VERSIONS] = b"".join(named_version("OpenCL C", *each) for each in versions)
    info[Info.OPENCL_C_FEATURES] = b"".join(named_version(name, 3) for name in language.features)
    info[Info.LATEST_CONFORMANCE_VERSION_PASSED] = _text(_NEVER_CONFORMANT)
    return info


def _nvidia_attributes(known: Sequence[Mapping[int, bytes]]) -> dict[int, bytes]:
    """Answers of cl_nv_device_attribute_query: the weakest member's, and where the first one is."""

    def numbers(param: int) -> list[int]:
        return [_number(info.get(param, b"")) for info in known]

    capability = (Info.COMPUTE_CAPABILITY_MAJOR_NV, Info.COMPUTE_CAPABILITY_MINOR_NV)
    least = min(zip(*map(numbers, capability), strict=True))
    info: dict[int, bytes] = dict(zip(capability, map(u32, least), strict=True))
    info |= {param: u32(min(numbers(param))) for param in _NVIDIA_LEAST}
    info[Info.KERNEL_EXEC_TIMEOUT_NV] = u32(max(numbers(Info.KERNEL_EXEC_TIMEOUT_NV)))
    info[Info.INTEGRATED_MEMORY_NV] = u32(0)  # the image's is not the host's
    return info | {param: known[0][param] for param in _NVIDIA_PLACE if param in known[0]}


def _float_atomics(features: Iterable[str]) -> dict[int, bytes]:
    """Answers of cl_ext_float_atomics: what programs may use of it."""
    found: dict[int, int] = {parameter: 0 for parameter, _ in FLOAT_ATOMIC_FEATURES.values()}
    for name in features:
        parameter, bit = FLOAT_ATOMIC_FEATURES[name]
        found[parameter] |= bit
    return {parameter: u64(bits) for parameter, bits in found.items()}


def _attributes(known: Sequence[Mapping[int, bytes]], params: Sequence[Info]) -> dict[int, bytes]:
    """What members that answer a vendor's questions all answer alike."""
    first, *others = known
    return {
        param: first[param]
        for param in params
        if param in first and (param in _OF_THE_FIRST or all(o.get(param) == first[param] for o in others))
    }


def image_name(devices: Iterable[Device]) -> str:
    """ "SDI (4 x name)", or the kinds with their numbers where members differ."""
    kinds = Counter(device.capabilities.info[Info.NAME].rstrip(b"\0").decode() for device in devices)
    return "SDI (" + " + ".join(f"{number} x {name}" for name, number in kinds.items()) + ")"


def _platform(told: Vendors) -> dict[int, bytes]:
    """What the platform is asked for that depends on members and settings."""
    return {
        FACT_PLATFORM_VENDOR: _text(told.platform),
        FACT_PLATFORM_NAME: _text(told.platform_name),
        FACT_PLATFORM_VERSION: _text(f"OpenCL 3.0 {told.platform_version}"),
    }


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _text(value: str) -> bytes:
    return value.encode() + b"\0"
