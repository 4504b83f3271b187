"""The declarations that every OpenCL C program starts with, written for clang's parser.

clang declares the built-in functions itself (``-fdeclare-opencl-builtins``); it needs the types,
constants and macros of the language.  Only the parser reads this text: members get the user's names
and their own compiler's values.  Source: OpenCL C 3.0 specification, sections 6.3 to 6.15.
"""

from __future__ import annotations

import functools

from sdi.clc.preprocess.probe import Dialect
from sdi.dataclass import dataclass
from sdi.wire.opencl import Addressing, ChannelOrder, ChannelType, DeviceInfo, Filter, FloatAtomicCapabilities

HEADER_PATH = "/__sdi__/base.h"
PTX_TARGET, USUAL_TARGET = "nvptx64", "spir64"
"""clang's names of NVIDIA's GPUs, and of no machine in particular, which has no assembly."""

_SCALARS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "float", "double", "half")
_WIDTHS = (2, 3, 4, 8, 16)

_TYPES = """
#define __opencl_c_named_address_space_builtins 1
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef ulong uintptr_t;
#define NULL ((void*)0)
typedef uint cl_mem_fence_flags;
enum { CLK_LOCAL_MEM_FENCE = 1, CLK_GLOBAL_MEM_FENCE = 2, CLK_IMAGE_MEM_FENCE = 4 };
"""

# Names whose values are the driver's: enumerators here, left alone in the members' text.  Not all drivers
# have those that came after OpenCL C 1.2.
_ENUMERATORS = tuple(
    (f"CLK_{each.name}", each.value)
    for each in (*ChannelType, *ChannelOrder)
    if each not in (ChannelType.UNORM_INT_101010_2, ChannelOrder.ABGR)
)

# Sampler bits must be macros: they are or-ed into constants of type sampler_t.
_SAMPLER_BITS = {
    **{f"CLK_ADDRESS_{mode.name}": mode.bits for mode in Addressing},
    "CLK_NORMALIZED_COORDS_FALSE": 0,
    "CLK_NORMALIZED_COORDS_TRUE": 1,
    **{f"CLK_FILTER_{mode.name}": mode.bits for mode in Filter},
}

# Numbers that the language fixes, usable in #if.
INTEGER_LIMITS = {
    "CHAR_BIT": "8",
    "SCHAR_MAX": "127",
    "SCHAR_MIN": "(-127-1)",
    "CHAR_MAX": "127",
    "CHAR_MIN": "(-127-1)",
    "UCHAR_MAX": "255",
    "SHRT_MAX": "32767",
    "SHRT_MIN": "(-32767-1)",
    "USHRT_MAX": "65535",
    "INT_MAX": "2147483647",
    "INT_MIN": "(-2147483647-1)",
    "UINT_MAX": "0xffffffffU",
    "LONG_MAX": "0x7fffffffffffffffL",
    "LONG_MIN": "(-0x7fffffffffffffffL-1)",
    "ULONG_MAX": "0xffffffffffffffffUL",
    "FLT_DIG": "6",
    "FLT_MANT_DIG": "24",
    "FLT_MAX_10_EXP": "+38",
    "FLT_MAX_EXP": "+128",
    "FLT_MIN_10_EXP": "-37",
    "FLT_MIN_EXP": "-125",
    "FLT_RADIX": "2",
    "DBL_DIG": "15",
    "DBL_MANT_DIG": "53",
    "DBL_MAX_10_EXP": "+308",
    "DBL_MAX_EXP": "+1024",
    "DBL_MIN_10_EXP": "-307",
    "DBL_MIN_EXP": "-1021",
    "DBL_RADIX": "2",
    "HALF_DIG": "3",
    "HALF_MANT_DIG": "11",
    "HALF_MAX_10_EXP": "+4",
    "HALF_MAX_EXP": "+16",
    "HALF_MIN_10_EXP": "-4",
    "HALF_MIN_EXP": "-13",
    "HALF_RADIX": "2",
    "FP_ILOGB0": "(-2147483647-1)",
    "FP_ILOGBNAN": "2147483647",
}

_CONSTANTS = {
    "E": "2.7182818284590452354",
    "LOG2E": "1.4426950408889634074",
    "LOG10E": "0.43429448190325182765",
    "LN2": "0.69314718055994530942",
    "LN10": "2.30258509299404568402",
    "PI": "3.14159265358979323846",
    "PI_2": "1.57079632679489661923",
    "PI_4": "0.78539816339744830962",
    "1_PI": "0.31830988618379067154",
    "2_PI": "0.63661977236758134308",
    "2_SQRTPI": "1.12837916709551257390",
    "SQRT2": "1.41421356237309504880",
    "SQRT1_2": "0.70710678118654752440",
}

_FLOATING = {
    "FLT_MAX": "0x1.fffffep127f",
    "FLT_MIN": "0x1.0p-126f",
    "FLT_EPSILON": "0x1.0p-23f",
    "MAXFLOAT": "0x1.fffffep127f",
    "HUGE_VALF": "__builtin_huge_valf()",
    "HUGE_VAL": "__builtin_huge_val()",
    "INFINITY": "__builtin_inff()",
    "NAN": '__builtin_nanf("")',
    "DBL_MAX": "0x1.fffffffffffffp1023",
    "DBL_MIN": "0x1.0p-1022",
    "DBL_EPSILON": "0x1.0p-52",
    "HALF_MAX": "((half)0x1.ffcp15)",
    "HALF_MIN": "((half)0x1.0p-14)",
    "HALF_EPSILON": "((half)0x1.0p-10)",
}

_ORDERS = """
typedef enum memory_order {
  memory_order_relaxed = 0, memory_order_acquire = 2, memory_order_release = 3,
  memory_order_acq_rel = 4, memory_order_seq_cst = 5
} memory_order;
typedef enum memory_scope {
  memory_scope_work_item = 0, memory_scope_work_group = 1, memory_scope_device = 2,
  memory_scope_all_svm_devices = 3, memory_scope_all_devices = 3, memory_scope_sub_group = 4
} memory_scope;
#define ATOMIC_VAR_INIT(value) (value)
int printf(__constant const char *format, ...) __attribute__((format(printf, 1, 2)));
#define ATOMIC_FLAG_INIT 0
"""

# Extensions an image claims where its members have them; the parser knows more than is claimed.
ALL_EXTENSIONS = (
    "cl_khr_byte_addressable_store",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_3d_image_writes",
    "cl_khr_fp64",
    "cl_khr_fp16",
)
NVIDIA_QUERY = "cl_nv_device_attribute_query"
NVIDIA_EXTENSIONS = (NVIDIA_QUERY, "cl_nv_pragma_unroll")
"""What an image of NVIDIA's GPUs has beside, where all members have it."""
AMD_QUERY, INTEL_QUERY = "cl_amd_device_attribute_query", "cl_intel_device_attribute_query"
"""Likewise of AMD's and Intel's devices."""
GROUP_FEATURE = "__opencl_c_work_group_collective_functions"
"""Likewise: groups are never cut."""
SUB_GROUP_FEATURE, SUB_GROUPS = "__opencl_c_subgroups", "cl_khr_subgroups"
"""What says that there are sub-groups: of OpenCL C 3.0, and of versions before."""
SUB_GROUP_EXTENSIONS = (
    SUB_GROUPS,
    "cl_khr_subgroup_extended_types",
    "cl_khr_subgroup_non_uniform_vote",
    "cl_khr_subgroup_ballot",
    "cl_khr_subgroup_non_uniform_arithmetic",
    "cl_khr_subgroup_shuffle",
    "cl_khr_subgroup_shuffle_relative",
    "cl_khr_subgroup_clustered_reduce",
    "cl_khr_subgroup_rotate",
)
"""What clang knows of them."""
SUB_GROUP_SIZE = "cl_intel_required_subgroup_size"
"""An attribute of kernels, and what sizes there are."""
ALL_FEATURES = {"__opencl_c_int64": "", "__opencl_c_fp64": "cl_khr_fp64"}
"""Optional features of OpenCL C 3.0 that an image has, each with the extension that members need for it."""
IMAGE_OF_BUFFER = "cl_khr_image2d_from_buffer"
"""Any image with images can do that, but programs that find it take other paths: claimed where members do."""
IMAGE_EXTENSIONS = ("cl_khr_3d_image_writes", IMAGE_OF_BUFFER)
IMAGE_FEATURES = ("__opencl_c_images", "__opencl_c_3d_image_writes", "__opencl_c_read_write_images")
"""Likewise, where all members have images and say that they have the feature."""
ATOMIC_FEATURES = (
    "__opencl_c_atomic_order_acq_rel",
    "__opencl_c_atomic_order_seq_cst",
    "__opencl_c_atomic_scope_device",
)
"""Likewise, where all members say so: what needs them runs whole on one member.  Not the scope of all
devices, which is for shared virtual memory."""
FLOAT_ATOMICS = "cl_ext_float_atomics"
FLOAT_ATOMIC_FEATURES = {
    f"__opencl_c_ext_{width}_{bit.name.lower().replace('_fp', '').removesuffix('_ext')}": (parameter, bit)
    for width, parameter in (
        ("fp16", DeviceInfo.HALF_FP_ATOMIC_CAPABILITIES_EXT),
        ("fp32", DeviceInfo.SINGLE_FP_ATOMIC_CAPABILITIES_EXT),
        ("fp64", DeviceInfo.DOUBLE_FP_ATOMIC_CAPABILITIES_EXT),
    )
    for bit in FloatAtomicCapabilities
}
"""What there may be of that, each with where and by which bit a device says so."""


FUNCTION_MACROS = ("__kernel_exec", "kernel_exec")
FUNCTION_PARAMETERS = "(X,typen)"
FUNCTION_TEXT = "__kernel __attribute__((work_group_size_hint(X,1,1))) __attribute__((vec_type_hint(typen)))"
"""The language's macros with arguments, but for those that clang has to know (``as_int``)."""


@dataclass(frozen=True, slots=True)
class Language:
    """What a program finds defined: names of extensions, and of features of OpenCL C 3.0.

    ``images``: kernels may use images and samplers.  ``assembly``: clang's name of the machine whose inline
    assembly they may have.  ``withheld``: what members list and the image does not.
    ``dialect``: knows what else is defined; None: clang itself.
    ``sub_groups``: kernels may use functions of them.
    ``float_atomics``: of ``FLOAT_ATOMIC_FEATURES``, those whose functions they may use: not all drivers that
    have the functions define the macros.
    """

    extensions: tuple[str, ...]
    features: tuple[str, ...]
    images: bool = True
    assembly: str = PTX_TARGET
    withheld: tuple[str, ...] = ()
    dialect: Dialect | None = None
    sub_groups: bool = False
    float_atomics: tuple[str, ...] = ()


USUAL = Language(
    tuple(name for name in ALL_EXTENSIONS if name != "cl_khr_fp16"),
    (*ALL_FEATURES, *ATOMIC_FEATURES, *IMAGE_FEATURES),
)
"""What nearly all devices have."""

_ALL_VERSIONS_ACCEPTED = ("cl_khr_depth_images", SUB_GROUPS)
_VERSION_3_ACCEPTED = (
    "__opencl_c_fp64",
    "__opencl_c_images",
    "__opencl_c_3d_image_writes",
    "__opencl_c_read_write_images",
    *ATOMIC_FEATURES,
    GROUP_FEATURE,
    SUB_GROUP_FEATURE,
    "__opencl_c_program_scope_global_variables",
)


def parser_extensions(version: int) -> str:
    """The value of clang's ``-cl-ext=``: what may be parsed, claimed by a macro or not."""
    names = [*ALL_EXTENSIONS, *_ALL_VERSIONS_ACCEPTED]
    if version >= 200:
        names += _VERSION_3_ACCEPTED
    return "-cl-ext=-all," + ",".join(f"+{name}" for name in names)


def language_macros(version: int, language: Language) -> dict[str, str]:
    """What an image has, as macros; clang looks at them to know which built-in functions there are.

    ``version``: ``__OPENCL_C_VERSION__``.
    """
    macros = {"__OPENCL_VERSION__": "300", "__OPENCL_C_VERSION__": str(version)}
    macros.update(dict.fromkeys(language.extensions, "1"))
    if language.images:
        macros["__IMAGE_SUPPORT__"] = "1"
    if language.sub_groups:
        macros["__opencl_subgroup_builtins"] = "1"
    if version >= 200:
        macros.update(dict.fromkeys(language.features, "1"))
        if language.float_atomics:
            macros.update(dict.fromkeys((FLOAT_ATOMICS, *language.float_atomics), "1"))
    return macros


def predefined_macros(version: int, flags: tuple[str, ...]) -> dict[str, str]:
    """Macros that a program sees before its first line where no driver says others, beside clang's own."""
    macros = {
        **INTEGER_LIMITS,
        **language_macros(version, USUAL),
        "CL_VERSION_1_0": "100",
        "CL_VERSION_1_1": "110",
        "CL_VERSION_1_2": "120",
        "CL_VERSION_2_0": "200",
        "CL_VERSION_3_0": "300",
        "__ENDIAN_LITTLE__": "1",
        **{name + FUNCTION_PARAMETERS: FUNCTION_TEXT for name in FUNCTION_MACROS},
    }
    if "-cl-fast-relaxed-math" in flags:
        macros["__FAST_RELAXED_MATH__"] = "1"
    if "-cl-fast-relaxed-math" in flags or "-cl-finite-math-only" in flags:
        macros["__FINITE_MATH_ONLY__"] = "1"
    return macros


@functools.cache
def language_names() -> frozenset[str]:
    """Macros of the language that stay as they are in the members' text."""
    names = {*_FLOATING, *_SAMPLER_BITS, "NULL", "ATOMIC_VAR_INIT", "ATOMIC_FLAG_INIT"}
    names |= {f"M_{name}{suffix}" for name in _CONSTANTS for suffix in ("", "_F")}
    names |= {"CLK_LOCAL_MEM_FENCE", "CLK_GLOBAL_MEM_FENCE", "CLK_IMAGE_MEM_FENCE"}
    names |= {name for name, _ in _ENUMERATORS}
    return frozenset(names)


def image_constants() -> dict[str, str]:
    """Channel orders and data types of images, by name."""
    return {name: str(value) for name, value in _ENUMERATORS}


@functools.cache
def header_text() -> str:
    """The base header, less the predefined macros.  About 450 declarations; clang reads it in 2 ms."""
    lines = [_TYPES]
    # Vectors of half and double need their extensions, which the parser always has.
    for scalar in _SCALARS:
        for width in _WIDTHS:
            lines.append(f"typedef {scalar} {scalar}{width} __attribute__((ext_vector_type({width})));")
    for scalar in _SCALARS:
        for name in (scalar, *(f"{scalar}{width}" for width in _WIDTHS)):
            lines.append(f"#define as_{name}(x) __builtin_astype((x), {name})")
    lines.append("#define as_size_t(x) __builtin_astype((x), size_t)")
    lines += [f"#define {name} {value}" for name, value in _FLOATING.items()]
    for name, value in _CONSTANTS.items():
        lines += [f"#define M_{name} {value}", f"#define M_{name}_F {value}f"]
    lines += [f"#define {name} {value}" for name, value in _SAMPLER_BITS.items()]
    body = ", ".join(f"{name} = {value}" for name, value in _ENUMERATORS)
    lines.append(f"enum {{ {body} }};")
    lines += [f"#define {name} {name}" for name, _ in _ENUMERATORS]
    lines += [f"#define {name} {name}" for name in ("CLK_LOCAL_MEM_FENCE", "CLK_GLOBAL_MEM_FENCE")]
    lines.append("#define CLK_IMAGE_MEM_FENCE CLK_IMAGE_MEM_FENCE")
    lines.append(_ORDERS)
    return "\n".join(lines) + "\n"
