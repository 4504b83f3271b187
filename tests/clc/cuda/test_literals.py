"""Numbers whose literals C++ does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdi.clc.cuda.literals import floating, integer, known
from tests.clc.host_kernels import agree


@pytest.mark.parametrize(
    ("text", "plain", "written"),
    [
        ("1.5f", "float", "1.5f"),
        ("2f", "float", "2.0f"),
        ("0x1p4f", "float", "0x1p4f"),
        ("1.5", "double", "1.5"),
        ("1.5", "float", "1.5f"),
        ("0.0f", "float", "0.0f"),
        ("0x1.000001000000000001p0f", "float", "0x1.000001000000000001p0f"),
        ("0x1p2000f", "float", "((float)__builtin_bit_cast(double, 0x7ff0000000000000ul))"),
        ("0x1.8p1h", "_cl_half", "__builtin_bit_cast(_cl_half, (unsigned short)0x4200)"),
        ("1e39f", "float", "((float)__builtin_bit_cast(double, 0x7ff0000000000000ul))"),
        ("1e-60f", "float", "((float)0x0.0p+0)"),
        ("1e400", "double", "((double)__builtin_bit_cast(double, 0x7ff0000000000000ul))"),
        ("1.5h", "_cl_half", "__builtin_bit_cast(_cl_half, (unsigned short)0x3e00)"),
        ("70000.0h", "_cl_half", "__builtin_bit_cast(_cl_half, (unsigned short)0x7c00)"),
    ],
)
def test_floating_literals(text: str, plain: str, written: str) -> None:
    assert floating(text, plain) == written


def test_integers() -> None:
    assert integer("0xffu", "unsigned int") == "0xffu"
    assert integer("5ll", "long") == "((long)5l)"
    assert known("long", -(1 << 63)) == "((long)(-9223372036854775807l - 1))"


def test_what_c_rounds_to_infinity_or_zero(tmp_path: Path) -> None:
    body = """
        double d = 1e400, e = 1e-400;
        f[g] = 1e39f; f[g + 4] = -1e39f; f[g + 8] = d; f[g + 12] = 1e-60f; f[g + 16] = e; f[g + 20] = 1e-42f;
        f[g + 24] = 3.4028235677973366e38f; f[g + 28] = 0x1p200f; f[g + 32] = 0x1p-200f; f[g + 36] = A;
        f[g + 40] = 3.5e38; f[g + 44] = 16777217.0f; f[g + 48] = 1.00000017881393432617187499f;"""
    agree(body, tmp_path, "constant float A = 1e39f;")
