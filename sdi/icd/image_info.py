"""What ``clGetDeviceInfo`` says of the image, combined from what the members' drivers say.

Source: OpenCL 3.0 API specification, table of device queries.  Sizes and counts that a kernel relies on are
those of the weakest member; what the image does not do is reported as absent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Sequence

from sdi import __version__
from sdi.devices.base import Device

EXTENSIONS = (
    "cl_khr_byte_addressable_store",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_fp64",
)
"""Device extensions that the image has where all members do."""

TYPE, VENDOR_ID, COMPUTE_UNITS, MAX_WORK_GROUP = 0x1000, 0x1001, 0x1002, 0x1004
MAX_ALLOC, GLOBAL_MEM, NAME, DRIVER_EXTENSIONS = 0x1010, 0x101F, 0x102B, 0x1030

_MIN_U32 = (0x1003, 0x1017, 0x1021, 0x1041, 0x105C)
_MIN_SIZE = (0x1004, 0x1020, 0x1023, 0x1025, 0x1049)
_MAX_U32 = (0x1019, 0x101A, 0x101D)
_FIRST = (
    *range(0x1006, 0x100E),
    0x101B,
    0x101C,
    0x101E,
    0x1022,
    0x1024,
    0x1026,
    *range(0x1034, 0x103D),
    0x1032,
    0x1067,
)
_ZERO_U32 = (
    *(0x100E, 0x100F, 0x1016, 0x1018, 0x1043, 0x104A, 0x104B, 0x104C),
    *(0x104F, 0x1050, 0x1051, 0x1052, 0x1055, 0x1056, 0x1057, 0x1058, 0x1059, 0x105A, 0x105C),
    *(0x105D, 0x1065, 0x1068, 0x1069, 0x1071),
)
_ZERO_SIZE = (0x1011, 0x1012, 0x1013, 0x1014, 0x1015, 0x1040, 0x1041, 0x104D, 0x104E, 0x1053, 0x1054, 0x1070)
_EMPTY_TEXT = (0x103F, 0x105B, 0x1072)
_EMPTY_LIST = (0x1061, 0x1062)
_TRUE = (0x1027, 0x1028, 0x1048)


def image_info(devices: Sequence[Device]) -> dict[int, bytes]:
    """Raw ``clGetDeviceInfo`` bytes by parameter, for everything the client does not answer itself."""
    facts = [device.facts for device in devices]
    first = facts[0].info
    info: dict[int, bytes] = {param: _u32(0) for param in _ZERO_U32}
    info |= {param: _u64(0) for param in _ZERO_SIZE}
    info |= dict.fromkeys(_EMPTY_TEXT, b"\x00")
    info |= dict.fromkeys(_EMPTY_LIST, b"")
    info |= {param: _u32(1) for param in _TRUE}
    info |= {param: first[param] for param in _FIRST if param in first}
    for param in _MIN_U32:
        info[param] = (
            _u32(min(_number(f.info[param]) for f in facts if param in f.info)) if param in first else _u32(0)
        )
    for param in _MIN_SIZE:
        info[param] = _u64(min(_number(f.info[param]) for f in facts if param in f.info))
    for param in _MAX_U32:
        info[param] = _u32(max(_number(f.info[param]) for f in facts if param in f.info))
    sizes = [struct.unpack_from("<3Q", f.info[0x1005]) for f in facts]
    info[0x1005] = struct.pack("<3Q", *(min(column) for column in zip(*sizes, strict=True)))
    units = {f.unit: _number(f.info[COMPUTE_UNITS]) for f in facts}
    info[COMPUTE_UNITS] = _u32(sum(units.values()))
    info[TYPE] = _u64(4 if all(f.kind == "gpu" for f in facts) else 2)
    info[VENDOR_ID] = _u32(0x534449)
    info[0x100D] = _u32(64)
    info[MAX_ALLOC] = _u64(min(min(_number(f.info[MAX_ALLOC]), f.memory_nbytes) for f in facts))
    info[GLOBAL_MEM] = _u64(sum(f.memory_nbytes for f in facts))
    info[0x1029] = _u64(1)
    info[0x102A] = _u64(3)
    info[NAME] = _text(image_name(devices))
    info[0x102C] = _text("sdi")
    info[0x102D] = _text(__version__)
    info[0x102E] = _text("FULL_PROFILE")
    info[0x102F] = _text(f"OpenCL 3.0 sdi {__version__}")
    names = image_extensions(devices)
    info[DRIVER_EXTENSIONS] = _text(" ".join(names))
    info[0x1060] = b"".join(_named(name, 1, 0) for name in names)
    info[0x1035] = _u32(int(all(f.kind == "cpu" for f in facts)))
    info[0x103D] = _text("OpenCL C 1.2 sdi")
    info[0x103E] = _u32(1)
    info[0x105E] = _u32(3 << 22)
    info[0x1063] = _u64(1 << 0 | 1 << 4)
    info[0x1064] = _u64(1 << 0 | 1 << 1 | 1 << 4)
    info[0x1066] = b"".join(_named("OpenCL C", *v) for v in ((1, 0), (1, 1), (1, 2), (3, 0)))
    features = ["__opencl_c_int64", *(["__opencl_c_fp64"] if "cl_khr_fp64" in names else [])]
    info[0x106F] = b"".join(_named(name, 3, 0) for name in features)
    return info


def image_extensions(devices: Sequence[Device]) -> list[str]:
    """Device extensions that the image reports."""
    common = set(EXTENSIONS)
    for device in devices:
        common &= set(device.facts.info[DRIVER_EXTENSIONS].rstrip(b"\0").decode().split())
    return [name for name in EXTENSIONS if name in common]


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
