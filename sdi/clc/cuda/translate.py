"""From OpenCL C to CUDA C++ for NVRTC: the front door of the CUDA emitter.

A member is given the same text as any OpenCL driver: the sub-range OpenCL C of ``compile_source``, which is
self-contained (or a plain program, with -D and -I among the options).  It is preprocessed and parsed as
there, and written anew from the tree.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from sdi.clc.cuda.emit import CudaKernel, CudaParameter, CudaProgram, ParameterKind, emit
from sdi.errors import BuildError

_RECURSION_LIMIT = 20_000

# NVRTC's options for OpenCL's.  Source: OpenCL 3.0 API specification, "Optimization Options".
_FAST = ("-cl-fast-relaxed-math", "-cl-unsafe-math-optimizations")
"""Functions of lower precision and no denormals, as the vendor's compiler has it for both."""
_OPTIONS = {
    **dict.fromkeys(_FAST, ("--use_fast_math",)),
    "-cl-denorms-are-zero": ("--ftz=true",),
}
_EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"


def translate(text: str, options: Sequence[str]) -> CudaProgram:
    """``text`` as CUDA C++.

    ``options``: as for clBuildProgram.  Raises BuildError with clang's log, or with one line for a
    construct that CUDA members do not have.  Any thread; about 15 ms for 100 lines.
    """
    # libclang is large: it is loaded by the first build.
    from sdi.clc.cuda.tree import CudaTreeBuilder, parse_for_cuda
    from sdi.clc.frontend.base_header import USUAL, language_macros
    from sdi.clc.frontend.diagnostics import report
    from sdi.clc.preprocess.dialect import Definitions
    from sdi.clc.preprocess.lines import KERNEL_FILE
    from sdi.clc.preprocess.macros import MacroError
    from sdi.clc.preprocess.options import as_lines, parse_options
    from sdi.clc.preprocess.preprocess import preprocess

    parsed = parse_options(options, None)
    definitions = Definitions(USUAL, parsed)
    macros = {**language_macros(parsed.version, USUAL), "cl_khr_fp16": "1"}
    given = f'{as_lines(parsed.defines)}#line 1 "{KERNEL_FILE}"\n{text}\n'
    try:
        plain = preprocess(given, "<options>", parsed.include_folders, definitions)
    except (MacroError, OSError) as cause:
        raise BuildError(f"error: {cause}\n") from cause
    encoded = plain.encode("utf-8", "surrogateescape")
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    path = os.path.join(os.sep, KERNEL_FILE)
    with parse_for_cuda(path, encoded, parsed, macros) as unit:
        found = report(unit, encoded, no_warnings=True)
        if found.errors:
            raise BuildError(found.text)
        tree = CudaTreeBuilder(unit, encoded).build_cuda()
    return emit(tree)


def nvrtc_options(
    options: Sequence[str], contracts: bool, is_flat: bool = False, filters: bool = False
) -> tuple[str, ...]:
    """NVRTC's options for ``options`` of clBuildProgram.

    ``is_flat``: for grids launched in x alone.  ``filters``: for images that no texture filters.

    OpenCL C contracts ``a * b + c`` unless a pragma forbids it, and allows 2.5 ULP for division and 3 for
    square root of floats unless correct rounding is asked for.
    """
    is_fast = any(each in options for each in _FAST)
    found = ["--std=c++20", "-w"]
    if _EXACT not in options and not is_fast:
        found += ["--prec-div=false", "--prec-sqrt=false"]
    if is_flat:
        found.append("-D_CL_FLAT")
    if filters:
        found.append("-D_CL_FILTERS")
    for option in options:
        found += _OPTIONS.get(option, ())
    if _EXACT in options and is_fast:
        found += ["--prec-div=true", "--prec-sqrt=true"]
    if not contracts and not is_fast and "-cl-mad-enable" not in options:
        found.append("--fmad=false")
    return tuple(dict.fromkeys(found))


__all__ = ["CudaKernel", "CudaParameter", "CudaProgram", "ParameterKind", "nvrtc_options", "translate"]
