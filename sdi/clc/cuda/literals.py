"""Numbers as CUDA C++ has them."""

from __future__ import annotations

import ctypes
import math
import struct
from decimal import Decimal

from sdi.clc.frontend.syntax import NodeKind, SyntaxNode

_LITERALS = (NodeKind.INTEGER_LITERAL, NodeKind.FLOATING_LITERAL, NodeKind.CHARACTER_LITERAL)
_AROUND = (NodeKind.UNEXPOSED, NodeKind.PAREN, NodeKind.UNARY_OPERATOR)
_LARGEST_FLOAT, _PAST_FLOATS = float(2**128 - 2**104), 2**128 - 2**103
"""What is halfway to the next power of two is rounded to infinity."""
_LEAST = {"float": 2.0**-126, "double": 2.0**-1022}
"""No literal is nearer to 0 but 0."""


def known(plain: str, value: float) -> str:
    """A number that was computed, exactly, as the type ``plain``; C++ computes less at compile time."""
    if plain == "_cl_half":
        bits = int.from_bytes(half_bytes(value), "little")
        return f"__builtin_bit_cast(_cl_half, (unsigned short){bits:#x})"
    if isinstance(value, int):
        return f"(({plain})({value}l))" if value != -(1 << 63) else f"(({plain})({value + 1}l - 1))"
    if math.isfinite(value):
        return f"(({plain}){value.hex()})"
    number = int.from_bytes(struct.pack("<d", value), "little")
    return f"(({plain})__builtin_bit_cast(double, {number:#x}ul))"


def half_bytes(value: float) -> bytes:
    """What a number is as a half."""
    try:
        return struct.pack("<e", value)
    except OverflowError:
        return struct.pack("<e", math.copysign(math.inf, value))


def is_number(node: SyntaxNode) -> bool:
    """A literal, with a sign and conversions."""
    while node.kind in _AROUND and len(node.operands) == 1:
        node = node.operands[0]
    return node.kind in _LITERALS


def floating(text: str, plain: str) -> str:
    """A literal of OpenCL C; what C rounds to infinity or 0 is an error in CUDA C++."""
    is_hexadecimal = text.lower().startswith("0x")
    number = text[:-1] if text[-1].isalpha() else text  # hexadecimal ones end in a decimal exponent
    try:
        value = float.fromhex(number) if is_hexadecimal else float(number)
    except OverflowError:
        value = math.inf
    if plain == "float":  # by the text: a double in between would be rounded twice
        is_past = value >= _PAST_FLOATS if is_hexadecimal else Decimal(number) >= _PAST_FLOATS
        value = math.inf if is_past else ctypes.c_float(min(value, _LARGEST_FLOAT)).value
    if (
        plain == "_cl_half"
        or math.isinf(value)
        or (value < _LEAST.get(plain, 0.0) and set(number) & set("123456789"))
    ):
        return known(plain, value)
    if plain == "double":
        return number
    if plain == "float":
        return f"{number}f" if is_hexadecimal or set(number) & set(".eE") else f"{number}.0f"
    return f"(({plain}){number})"


def integer(text: str, plain: str) -> str:
    """A literal of OpenCL C."""
    if plain in ("int", "unsigned int", "unsigned long") and not text.lower().endswith("ll"):
        return text
    return f"(({plain}){text.rstrip('lLuU')}{'u' * plain.startswith('unsigned')}l)"
