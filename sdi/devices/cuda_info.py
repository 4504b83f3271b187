"""What an OpenCL driver would say of a CUDA device: ``clGetDeviceInfo`` bytes by parameter.

Source: OpenCL 3.0 API specification, table of device queries; the values are CUDA's device attributes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_EXTENSIONS = (
    "cl_khr_byte_addressable_store cl_khr_global_int32_base_atomics cl_khr_global_int32_extended_atomics "
    "cl_khr_local_int32_base_atomics cl_khr_local_int32_extended_atomics cl_khr_int64_base_atomics "
    "cl_khr_int64_extended_atomics cl_khr_fp64 cl_khr_3d_image_writes "
    "cl_nv_device_attribute_query cl_nv_pragma_unroll"
)
VENDOR = "NVIDIA Corporation"
"""As NVIDIA's OpenCL says of its devices and its platform."""
# CL_FP_DENORM, INF_NAN, ROUND_TO_NEAREST, ROUND_TO_ZERO, ROUND_TO_INF, FMA; division on request.
_FLOAT, _CORRECT_DIVISION = 0x3F, 0x80
_PARAMETERS_NBYTES = 4352  # of 32,764 that GPUs from compute capability 7.0 on take
# Sizes in pixels: 2D, 3D, of a buffer, layers.  Those of the vendor's OpenCL.
_IMAGE_SIZES = {
    **dict.fromkeys((0x1011, 0x1012), 1 << 15),
    **dict.fromkeys((0x1013, 0x1014, 0x1015), 1 << 14),
    0x1040: 1 << 28,
    0x1041: 2048,
}
_FEATURES = (
    "__opencl_c_images",
    "__opencl_c_3d_image_writes",
    "__opencl_c_read_write_images",
    "__opencl_c_atomic_order_acq_rel",
    "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_device",
)


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
        0x4000: found.capability[0],
        0x4001: found.capability[1],
        0x4002: found.registers,
        0x4003: found.warp_size,
        0x4004: int(found.copies_beside_kernels),
        0x4005: int(found.has_time_limit),
        0x4006: int(found.is_integrated),
        0x4007: found.copy_engines,
        0x4008: bus,
        0x4009: slot,
        0x400A: domain,
    }


def device_info(found: CudaAttributes) -> dict[int, bytes]:
    """Raw bytes of the parameters that the image combines or passes on."""
    vectors = {0x1006: 1, 0x1007: 1, 0x1008: 1, 0x1009: 1, 0x100A: 1, 0x100B: 1, 0x1034: 0}
    native = {0x1036: 1, 0x1037: 1, 0x1038: 1, 0x1039: 1, 0x103A: 1, 0x103B: 1, 0x103C: 0}
    numbers = {
        0x1001: 0x10DE,  # vendor id
        0x1002: found.compute_units,
        0x1003: 3,
        0x100C: found.clock_khz // 1000,
        0x100D: 64,
        0x100E: 128,  # images read by a kernel
        0x100F: 64,  # written
        0x104C: 64,  # both
        0x1018: 16,  # samplers
        0x1019: 4096,  # alignment of sub-buffers, in bits
        0x101A: 128,
        0x101C: 2 if found.cache_nbytes else 0,
        0x101D: 128,
        0x1021: 9,  # constant arguments
        0x1022: 1,  # local memory is of its own
        0x1024: int(found.has_ecc),
        0x1026: 1,
        0x1027: 1,
        0x1028: 1,
        0x1035: 0,
        **_nvidia_attributes(found),
        **vectors,
        **native,
    }
    sizes = {
        0x1000: 4,  # GPU
        0x1004: found.max_threads,
        0x1010: found.memory_nbytes,  # of one buffer: as large as there is memory
        0x101B: _FLOAT | _CORRECT_DIVISION,
        0x101E: found.cache_nbytes,
        0x101F: found.memory_nbytes,
        0x1017: _PARAMETERS_NBYTES,
        0x1020: found.constant_nbytes,
        **_IMAGE_SIZES,
        0x1023: found.shared_nbytes,
        0x1025: 1000,  # timer resolution in ns
        0x1029: 1,
        0x102A: 3,
        0x1032: _FLOAT,
        0x1049: 1 << 20,  # printf buffer
        0x1067: 32,
    }
    texts = {
        0x102B: found.name,
        0x102C: VENDOR,
        0x102D: found.driver,
        0x102E: "FULL_PROFILE",
        0x102F: "OpenCL 3.0 CUDA",
        0x1030: _EXTENSIONS,
        0x103D: "OpenCL C 1.2",
    }
    info = {parameter: struct.pack("<I", value) for parameter, value in numbers.items()}
    info |= {parameter: struct.pack("<Q", value) for parameter, value in sizes.items()}
    info |= {parameter: text.encode() + b"\0" for parameter, text in texts.items()}
    info[0x106F] = b"".join(struct.pack("<I64s", 3 << 22, name.encode()) for name in _FEATURES)
    info[0x1005] = struct.pack("<3Q", *found.max_block)
    return info
