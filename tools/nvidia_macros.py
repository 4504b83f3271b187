"""Asks NVIDIA's OpenCL driver which macros it has, and prints the table of ``sdi/clc/preprocess``.

``python tools/nvidia_macros.py > sdi/clc/preprocess/nvidia_macros.json``, on a machine with that driver.
``--platform`` names another one, to see what it would say; ``--about`` prints the versions that were asked
instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sdi.clc.preprocess.compiler import Compiler
from sdi.clc.preprocess.probe import QUOTED, usual_questions
from sdi.devices.opencl.member import OpenCLDevice, driver_devices

OPTIONS = (
    *(((f"-cl-std=CL{version}",)) for version in ("1.1", "1.2", "3.0")),
    *((flag,) for flag in ("-cl-fast-relaxed-math", "-cl-finite-math-only", "-cl-unsafe-math-optimizations")),
    *((flag,) for flag in ("-cl-opt-disable", "-cl-single-precision-constant", "-cl-denorms-are-zero")),
    *(
        (flag,)
        for flag in ("-cl-mad-enable", "-cl-fp32-correctly-rounded-divide-sqrt", "-cl-no-signed-zeros")
    ),
    ("-cl-std=CL1.2", "-cl-fast-relaxed-math"),
    ("-cl-std=CL3.0", "-cl-fast-relaxed-math"),
)
TESTS = {
    "__has_attribute": (
        "opencl_unroll_hint always_inline noinline packed aligned overloadable reqd_work_group_size "
        "vec_type_hint work_group_size_hint intel_reqd_sub_group_size unused const pure address_space "
        "nvptx_kernel device noreturn cold hot flatten optnone nodebug maxnreg convergent opencl_global"
    ),
    "__has_builtin": (
        "__builtin_popcount __builtin_popcountl __builtin_clz __builtin_clzl __builtin_ctz __builtin_expect "
        "__builtin_assume __builtin_unreachable __builtin_bswap32 __builtin_bswap64 __builtin_astype "
        "__builtin_shufflevector __builtin_convertvector __builtin_huge_valf __builtin_inff __builtin_nanf "
        "__builtin_fabsf __builtin_sqrtf __builtin_fmaf __builtin_trap __builtin_constant_p __builtin_memcpy "
        "__builtin_add_overflow __builtin_mul_overflow __builtin_rotateleft32 __builtin_bitreverse32 "
        "__builtin_nontemporal_store __builtin_prefetch __nvvm_read_ptx_sreg_tid_x __nvvm_shfl_sync_idx_i32 "
        "__sync_fetch_and_add __c11_atomic_load __builtin_amdgcn_workitem_id_x printf"
    ),
    "__has_extension": "blocks c_static_assert c_generic_selections c_atomic attribute_ext_vector_type",
    "__has_feature": "blocks c_static_assert c_generic_selections c_atomic attribute_ext_vector_type modules",
    "__is_identifier": "int foo kernel half __global _Bool float4 inline bool true",
}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--platform", default="NVIDIA CUDA")
    parser.add_argument("--about", action="store_true")
    given = parser.parse_args()
    found = [device for device in driver_devices() if device.platform == given.platform]
    if not found:
        print(f"there is no OpenCL platform '{given.platform}'", file=sys.stderr)
        return 1
    if given.about:
        print(found[0].compiler)
        return 0
    member = OpenCLDevice(found[0], 0, found[0].memory_nbytes)
    dialect = Compiler(found[0].compiler, member.ask, is_kept=False)
    questions = [*usual_questions(), QUOTED]
    questions += [f"{operator}({name})" for operator, names in TESTS.items() for name in names.split()]
    usual = dict(dialect.answers(questions, ()))
    table: dict[str, dict[str, str | None]] = {"": {q: text for q, text in usual.items() if text is not None}}
    for options in OPTIONS:
        said = dialect.answers(questions, options)
        table[" ".join(options)] = {q: text for q, text in said.items() if text != usual[q]}
    member.close()
    json.dump(table, sys.stdout, indent=0, ensure_ascii=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
