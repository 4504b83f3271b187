"""What an OpenCL driver would say of a CUDA device: ``clGetDeviceInfo`` bytes by parameter.

Source: OpenCL 3.0 API specification, table of device queries; the values are CUDA's device attributes.
"""

from __future__ import annotations

import re
from pathlib import Path

from sdi.dataclass import dataclass
from sdi.wire.opencl import QUEUES, DeviceType, FpConfig, VendorId, named_version, u32, u64
from sdi.wire.opencl import DeviceInfo as Info

_EXTENSIONS = (
    "cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics "
    "cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics "
    "cl_khr_int64_extended_atomics cl_khr_fp64 cl_khr_3d_image_writes "
    "cl_nv_device_attribute_query cl_nv_pragma_unroll"
)
VENDOR, PLATFORM = "NVIDIA Corporation", "NVIDIA CUDA"
"""As NVIDIA's OpenCL says of its devices and its platform, and what that is called."""
_FLOAT = sum(FpConfig) - FpConfig.CORRECTLY_ROUNDED_DIVIDE_SQRT  # that is on request
_PARAMETERS_NBYTES = 4352  # of 32,764 that GPUs from compute capability 7.0 on take
# Sizes in pixels: 2D, 3D, of a buffer, layers.  Those of the vendor's OpenCL.
_IMAGE_SIZES = {
    **dict.fromkeys((Info.IMAGE2D_MAX_WIDTH, Info.IMAGE2D_MAX_HEIGHT), 1 << 15),
    **dict.fromkeys((Info.IMAGE3D_MAX_WIDTH, Info.IMAGE3D_MAX_HEIGHT, Info.IMAGE3D_MAX_DEPTH), 1 << 14),
    Info.IMAGE_MAX_BUFFER_SIZE: 1 << 28,
    Info.IMAGE_MAX_ARRAY_SIZE: 2048,
}
_FEATURES = (
    "__opencl_c_images",
    "__opencl_c_3d_image_writes",
    "__opencl_c_read_write_images",
    "__opencl_c_atomic_order_acq_rel",
    "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_device",
)


_OF_THE_MODULE = re.compile(r"^NVRM version:.*?\s(\d+\.\d+(?:\.\d+)*)\s", re.MULTILINE)


def driver_version(described: Path, cuda: int) -> str:
    """As NVIDIA's OpenCL has it, "570.124.06", from what its module says; else of ``cuda``'s API, 13020.

    Programs refuse NVIDIA's devices where this is no recent number.
    """
    try:
        found = _OF_THE_MODULE.search(described.read_text())
    except (OSError, UnicodeDecodeError):
        found = None
    return found[1] if found is not None else f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"


@dataclass(frozen=True, slots=True)
class CudaAttributes:
    """CUDA's attributes of a device that have an OpenCL counterpart.

    ``registers``: of a work-group.  ``pci``: domain, bus and slot.
    """

    name: str
    driver: str
    memory_nbytes: int
    compute_units: int
    clock_khz: int
    max_threads: int
    max_block: tuple[int, int, int]
    shared_nbytes: int
    constant_nbytes: int
    cache_nbytes: int
    has_ecc: bool
    capability: tuple[int, int] = (7, 0)
    registers: int = 1 << 16
    warp_size: int = 32
    copies_beside_kernels: bool = True
    has_time_limit: bool = False
    is_integrated: bool = False
    copy_engines: int = 1
    pci: tuple[int, int, int] = (0, 0, 0)


def _nvidia_attributes(found: CudaAttributes) -> dict[int, int]:
    """What cl_nv_device_attribute_query asks for.  Source: the extension's text, and CL/cl_ext.h."""
    domain, bus, slot = found.pci
    return {
        Info.COMPUTE_CAPABILITY_MAJOR_NV: found.capability[0],
        Info.COMPUTE_CAPABILITY_MINOR_NV: found.capability[1],
        Info.REGISTERS_PER_BLOCK_NV: found.registers,
        Info.WARP_SIZE_NV: found.warp_size,
        Info.GPU_OVERLAP_NV: int(found.copies_beside_kernels),
        Info.KERNEL_EXEC_TIMEOUT_NV: int(found.has_time_limit),
        Info.INTEGRATED_MEMORY_NV: int(found.is_integrated),
        Info.ATTRIBUTE_ASYNC_ENGINE_COUNT_NV: found.copy_engines,
        Info.PCI_BUS_ID_NV: bus,
        Info.PCI_SLOT_ID_NV: slot,
        Info.PCI_DOMAIN_ID_NV: domain,
    }


def device_info(found: CudaAttributes) -> dict[int, bytes]:
    """Raw bytes of the parameters that the image combines or passes on."""
    widths: dict[int, int] = {
        each: int("HALF" not in each.name) for each in Info if "_VECTOR_WIDTH_" in each.name
    }
    numbers: dict[int, int] = {
        Info.VENDOR_ID: VendorId.NVIDIA,
        Info.MAX_COMPUTE_UNITS: found.compute_units,
        Info.MAX_WORK_ITEM_DIMENSIONS: 3,
        Info.MAX_CLOCK_FREQUENCY: found.clock_khz // 1000,
        Info.ADDRESS_BITS: 64,
        Info.MAX_READ_IMAGE_ARGS: 128,
        Info.MAX_WRITE_IMAGE_ARGS: 64,
        Info.MAX_READ_WRITE_IMAGE_ARGS: 64,
        Info.MAX_SAMPLERS: 16,
        Info.MEM_BASE_ADDR_ALIGN: 4096,  # in bits
        Info.MIN_DATA_TYPE_ALIGN_SIZE: 128,
        Info.GLOBAL_MEM_CACHE_TYPE: 2 if found.cache_nbytes else 0,  # CL_READ_WRITE_CACHE, CL_NONE
        Info.GLOBAL_MEM_CACHELINE_SIZE: 128,
        Info.MAX_CONSTANT_ARGS: 9,
        Info.LOCAL_MEM_TYPE: 1,  # CL_LOCAL
        Info.ERROR_CORRECTION_SUPPORT: int(found.has_ecc),
        **dict.fromkeys((Info.ENDIAN_LITTLE, Info.AVAILABLE, Info.COMPILER_AVAILABLE), 1),
        Info.HOST_UNIFIED_MEMORY: 0,
        **_nvidia_attributes(found),
        **widths,
    }
    sizes = {
        Info.TYPE: DeviceType.GPU,
        Info.MAX_WORK_GROUP_SIZE: found.max_threads,
        Info.MAX_MEM_ALLOC_SIZE: found.memory_nbytes,
        Info.SINGLE_FP_CONFIG: _FLOAT | FpConfig.CORRECTLY_ROUNDED_DIVIDE_SQRT,
        Info.GLOBAL_MEM_CACHE_SIZE: found.cache_nbytes,
        Info.GLOBAL_MEM_SIZE: found.memory_nbytes,
        Info.MAX_PARAMETER_SIZE: _PARAMETERS_NBYTES,
        Info.MAX_CONSTANT_BUFFER_SIZE: found.constant_nbytes,
        **_IMAGE_SIZES,
        Info.LOCAL_MEM_SIZE: found.shared_nbytes,
        Info.PROFILING_TIMER_RESOLUTION: 1000,  # ns
        Info.EXECUTION_CAPABILITIES: 1,  # CL_EXEC_KERNEL
        Info.QUEUE_ON_HOST_PROPERTIES: QUEUES,
        Info.DOUBLE_FP_CONFIG: _FLOAT,
        Info.PRINTF_BUFFER_SIZE: 1 << 20,
        Info.PREFERRED_WORK_GROUP_SIZE_MULTIPLE: 32,
    }
    texts = {
        Info.NAME: found.name,
        Info.VENDOR: VENDOR,
        Info.DRIVER_VERSION: found.driver,
        Info.PROFILE: "FULL_PROFILE",
        Info.VERSION: "OpenCL 3.0 CUDA",
        Info.EXTENSIONS: _EXTENSIONS,
        Info.OPENCL_C_VERSION: "OpenCL C 1.2",
    }
    info: dict[int, bytes] = {parameter: u32(value) for parameter, value in numbers.items()}
    info |= {parameter: u64(value) for parameter, value in sizes.items()}
    info |= {parameter: text.encode() + b"\0" for parameter, text in texts.items()}
    info[Info.OPENCL_C_FEATURES] = b"".join(named_version(name, 3) for name in _FEATURES)
    info[Info.MAX_WORK_ITEM_SIZES] = b"".join(map(u64, found.max_block))
    return info
