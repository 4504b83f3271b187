"""Formats of printf that CUDA members know."""

from __future__ import annotations

import pytest

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text
from sdi.errors import BuildError
from tests.clc.members import build

BEFORE = r"""
constant char a[] = "a %d\n", b[20] = { "b %d\n" };
constant const char *constant c = "c" " %d\n";
"""


def kernel(body: str) -> str:
    return (
        f"{BEFORE}kernel void k(global int *o) {{ int g = o[0]; const constant char *const l = a; {body} }}"
    )


@pytest.mark.parametrize(
    ("call", "formats"),
    [
        ("printf(a, g)", [b"a "]),
        ("printf((b), g)", [b"b "]),
        ("printf(c, g)", [b"c "]),
        ("printf(l, g)", [b"a "]),
        ('printf(g > 1 ? "big %d" : "small %x", g)', [b"big ", b"small "]),
        ('o[1] = printf(g > 1 ? a : g > 2 ? b : "z %u", g)', [b"a ", b"b ", b"z "]),
    ],
)
def test_constants_and_choices_are_formats(call: str, formats: list[bytes]) -> None:
    text = kernel(call + ";")
    build(text, ["-w"])
    program = translate(text, ())
    assert [form[0] for form in program.formats] == formats
    try:
        assert compile_text(program.text, nvrtc_options((), program.contracts), (9, 0))
    except NvrtcMissing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("call", ["printf(m, g)", "printf(o[1] ? m : a, g)", "printf(n, g)"])
def test_what_may_change_is_refused(call: str) -> None:
    """Or was chosen where something else held, or with an effect."""
    before = "const constant char *m = a, *const n = g++ > 1 ? a : b; m = b; g = 0;"
    with pytest.raises(BuildError, match="a printf whose format is not known"):
        translate(kernel(f"{before} {call};"), ())
