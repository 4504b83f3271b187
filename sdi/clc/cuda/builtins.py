"""Which function of the compat header stands for a built-in function or constant of OpenCL C."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from sdi.clc.frontend import base_header
from sdi.clc.frontend.builtins import GEOMETRY_FUNCTIONS
from sdi.dataclass import dataclass
from sdi.wire.kernels import CUDA_GRID, CUDA_IMAGE, CUDA_PRINT
from sdi.wire.layout import declarations
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType

_HEADERS = ("compat.h", "compat_math.h", "compat_memory.h", "compat_images.h")
PRINT_HEADER = "compat_print.h"
"""For programs that print alone."""
_TYPES = {"u64": "unsigned long", "u32": "unsigned", "i32": "int"}
_POINTERS = {"pixels": "unsigned char *"}
_NUMBERS = ", ".join(
    f"_CL_{each.name} = {each.value}"
    for table in (MemObjectType, ChannelOrder, ChannelType)
    for each in table
)
_TABLES = {
    "compat_memory.h": f"struct _cl_grid {{ {declarations(CUDA_GRID, _TYPES)} }};\n",
    "compat_images.h": f"enum {{ {_NUMBERS} }};\ntemplate<int KIND> struct _cl_image "
    f"{{ {declarations(CUDA_IMAGE, _TYPES | _POINTERS)} }};\n",
    PRINT_HEADER: f"struct _cl_print {{ {declarations(CUDA_PRINT, {'u64': 'unsigned long long'})} }};\n",
}
"""Structures and numbers, by the part of the compat header that begins with them."""
_DEFINED = re.compile(r"\b_cl_(\w+)\s*\(|_CL_[A-Z0-9_]+\((\w+)")
_BITS = tuple(
    f"__builtin_{how}{n}" for how in ("bitreverse", "rotateleft", "rotateright") for n in (8, 16, 32, 64)
)
_OF_IMAGES = frozenset(f"{what}_image{suffix}" for what in ("read", "write") for suffix in ("f", "i", "ui"))
_ROUNDINGS = {"rte": "0", "rtz": "1", "rtp": "2", "rtn": "3", "": "-1"}
_CONVERT = re.compile(r"convert_[a-z]+\d*?(?P<sat>_sat)?(_(?P<mode>rte|rtz|rtp|rtn))?\Z")
_LOAD = re.compile(r"(?P<how>vload|vloada_half|vload_half)(?P<count>2|3|4|8|16|)\Z")
_STORE = re.compile(
    r"(?P<how>vstore|vstorea_half|vstore_half)(?P<count>2|3|4|8|16|)(_(?P<mode>rte|rtz|rtp|rtn))?\Z"
)
_OF_CLANG = {
    "__builtin_assume": "__builtin_assume",
    "__builtin_unreachable": "__builtin_unreachable",
    "__builtin_constant_p": "__builtin_constant_p",
    "__builtin_trap": "__trap",
    "__builtin_memcpy": "memcpy",
    "__builtin_memset": "memset",
}
"""clang's functions that NVRTC has too."""
_AS = re.compile(r"as_[a-z_]+\d*\Z")

NATIVE_GEOMETRY = GEOMETRY_FUNCTIONS - {"get_global_offset", "get_enqueued_local_size"}
"""Built-ins that need the native geometry of the launch; the other two have one answer there."""
_CONSTANTS = {
    "NULL": "0",
    "CLK_LOCAL_MEM_FENCE": "1",
    "CLK_GLOBAL_MEM_FENCE": "2",
    "CLK_IMAGE_MEM_FENCE": "4",
    "memory_order_relaxed": "0",
    "memory_order_acquire": "2",
    "memory_order_release": "3",
    "memory_order_acq_rel": "4",
    "memory_order_seq_cst": "5",
    "memory_scope_work_item": "0",
    "memory_scope_work_group": "1",
    "memory_scope_device": "2",
    "memory_scope_all_svm_devices": "3",
    "memory_scope_all_devices": "3",
    "memory_scope_sub_group": "4",
}


_NUMBER = re.compile(r"#define (\w+) \(?(?:\(half\))?(0x[0-9a-f.]+p-?\d+f?|\d+\.\d+f?|\d+)\)?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of the header.  ``takes_result``: its first template argument is the result's type."""

    function: str
    template: tuple[str, ...] = ()
    takes_result: bool = False


@functools.cache
def header_text() -> str:
    """The compat header: types, vectors and the built-in functions, about 1,200 lines."""
    return "".join(header_part(name) for name in _HEADERS)


def header_part(name: str) -> str:
    """One file of the compat header, behind what it needs of ``sdi/wire``."""
    return _TABLES.get(name, "") + (Path(__file__).parent / name).read_text(encoding="utf-8")


@functools.cache
def _functions() -> frozenset[str]:
    found = {(a or b).removeprefix("_cl_") for a, b in _DEFINED.findall(header_text())}
    return frozenset({*found, *_OF_IMAGES, *_BITS})


@functools.cache
def _named_numbers() -> dict[str, str]:
    """Numbers that the base header names, such as M_PI_F and CLK_RGBA."""
    return {**base_header.image_constants(), **dict(_NUMBER.findall(base_header.header_text()))}


def constant_of(name: str) -> str | None:
    """The C++ text of a named constant, or None."""
    return _CONSTANTS.get(name) or _named_numbers().get(name)


@functools.cache
def builtin(name: str) -> Builtin | None:
    """What stands for the built-in function ``name``; None when the header has nothing for it."""
    if match := _CONVERT.match(name):
        mode = _ROUNDINGS[match["mode"] or ""]
        return Builtin("_cl_convert", ("true" if match["sat"] else "false", mode), takes_result=True)
    if _AS.match(name):
        return Builtin("_cl_as", takes_result=True)
    if match := _LOAD.match(name):
        function = f"_cl_{match['how']}"
        return Builtin(function, (match["count"] or "1",))
    if match := _STORE.match(name):
        if match["how"] == "vstore":
            return Builtin("_cl_vstore")
        return Builtin(f"_cl_{match['how']}", (_ROUNDINGS[match["mode"] or "rte"],))
    if name in _OF_CLANG:
        return Builtin(_OF_CLANG[name])
    bare = name.removeprefix("__builtin_")
    if bare != name and name not in _functions():
        for each in (bare, bare.removesuffix("f")):
            if each in _functions():
                return Builtin(f"_cl_{each}")
    plain = name.removesuffix("_explicit")
    if plain.startswith("atom_"):
        plain = f"atomic_{plain.removeprefix('atom_')}"
    return Builtin(f"_cl_{plain}") if plain in _functions() else None
