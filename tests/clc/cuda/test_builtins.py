"""Every built-in function with every type and width compiles on CUDA members (no GPU needed).

What they compute is compared with the CPU driver by ``tests/devices/cuda/test_builtins.py``.
"""

from __future__ import annotations

import pytest

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text, version
from tests.clc.builtin_programs import groups, program

GROUPS = groups()
# Some that compile soon; a GPU host compiles and runs all.
COMPILED = ("relations of double", "conversions to uchar", "swizzles of ushort", "halves", "structs")


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_cases_is_translated(name: str) -> None:
    translated = translate(program(GROUPS[name]), ())
    assert len(translated.kernels) == len(GROUPS[name])


@pytest.mark.parametrize("name", COMPILED)
def test_a_group_of_cases_is_compiled(name: str) -> None:
    try:
        version()
    except NvrtcMissing as missing:
        pytest.skip(str(missing))
    translated = translate(program(GROUPS[name]), ())
    words = nvrtc_options((), translated.contracts)
    assert compile_text(translated.text, (*words, "--Ofast-compile=max"), (9, 0))
