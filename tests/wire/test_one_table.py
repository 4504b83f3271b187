"""What ``sdi/wire`` declares stands nowhere else in sdi: found by reading the sources."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import sdi

ROOT = Path(sdi.__file__).parent
TABLE = "wire/"
# Where OpenCL's numbers begin that are no bits and no small counts: parameters, formats, modes.
OPENCL = (range(0x0900, 0x0930), range(0x1000, 0x1300), range(0x4000, 0x4200))
NOT_OPENCL = {("limits.py", "0x4000")}  # MAP_NORESERVE
_COMMENTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DEFINES = re.compile(r"\b_*(?:CL|CU|CUDA|NVML)_[A-Z0-9_]+\s*=\s*-?[0-9]|#define\s+(?:CL|CU|CUDA|NVML)_")


def sources() -> dict[str, str]:
    """sdi's own, by path below the package."""
    found = (path for ending in ("*.py", "*.c", "*.h") for path in sorted(ROOT.rglob(ending)))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in found}


def numbers(path: str, text: str) -> list[str]:
    """The hexadecimal numbers of a source, without those of comments and texts."""
    if path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [token.string for token in tokens if token.type == tokenize.NUMBER and "x" in token.string]
    return re.findall(r"\b0[xX][0-9a-fA-F]+", _COMMENTS.sub(" ", text))


def bare_numbers(texts: dict[str, str]) -> list[str]:
    """OpenCL's numbers outside the table, and CUDA's and OpenCL's names that are given numbers there."""
    found = []
    for path, text in texts.items():
        if path.startswith(TABLE):
            continue
        for number in numbers(path, text):
            if (path, number) not in NOT_OPENCL and any(int(number, 16) in part for part in OPENCL):
                found.append(f"{path}: {number}")
        code = text if path.endswith(".py") else _COMMENTS.sub(" ", text)
        found += [f"{path}: {each.group()}" for each in _DEFINES.finditer(code)]
    return found


def test_numbers_of_opencl_and_cuda_stand_in_the_table_only() -> None:
    assert bare_numbers(sources()) == []


def test_a_number_beside_the_table_is_found() -> None:
    texts = sources()
    for path, line, wanted in (
        ("icd/session.py", "_LOCAL_MEM_SIZE = 0x1023\n", "0x1023"),
        ("icd/client/image.c", "enum { READ_ONLY = 0x11A0 };\n", "0x11A0"),
        ("clc/cuda_compat_images.h", "#define _CL_X 0x10b5\n", "0x10b5"),
        ("devices/cuda_module.py", "CU_LAUNCH_PARAM_END = 0\n", "CU_LAUNCH_PARAM_END = 0"),
        ("player/lanes.c", "enum { CUDA_ERROR_NOT_READY = 600 };\n", "CUDA_ERROR_NOT_READY = 6"),
    ):
        assert bare_numbers({path: texts[path] + line}) == [f"{path}: {wanted}"]
    assert bare_numbers({"icd/session.py": texts["icd/session.py"] + "# 0x1023\n"}) == []
