"""Bounds of floating-point numbers contain what devices may compute, and are one number where that is one."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

from sdi.sampling.float_bounds import (
    FLOAT_OPERATIONS,
    WITH_TWO,
    FloatValue,
    float_bounds,
    integer_bounds,
    is_literal,
)
from sdi.sampling.terms import I32, IntType
from tests.seeds import num_seeds

U8 = IntType(8, False)
NUMPY: dict[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "minus": lambda x: -x,
    "ceil": np.ceil,
    "floor": np.floor,
    "rint": np.rint,
    "round": lambda x: np.copysign(np.floor(np.abs(x).astype(np.float64) + 0.5), x).astype(x.dtype),
    "trunc": np.trunc,
    "fabs": np.abs,
    "fmin": np.fmin,
    "fmax": np.fmax,
    "fmod": np.fmod,
    "sqrt": np.sqrt,
    "pow": np.power,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
}
ULPS = {"/": 2.5, "sqrt": 3, "pow": 16, "exp": 4, "exp2": 4, "log": 4, "log2": 4}
"""What a float's result may be away from the right one; others are exact or rounded."""


def number(text: str, nbytes: int = 4) -> FloatValue:
    return FloatValue("number", nbytes, text=text)


def of(value: float, nbytes: int = 4) -> tuple[FloatValue, dict[int, int]]:
    """A number given by its bits."""
    pack, bits = ("<f", "<I") if nbytes == 4 else ("<d", "<Q")
    return FloatValue("bits", nbytes, term=0), {0: struct.unpack(bits, struct.pack(pack, value))[0]}


def some(random: Random) -> float:
    """A number as kernels have them, or any."""
    match random.randrange(4):
        case 0:
            return float(random.randint(-40, 200))
        case 1:
            return random.randint(-100, 1000) / random.choice((2, 4, 8, 64))
        case 2:
            return random.uniform(-3, 3)
        case _:
            return math.ldexp(random.uniform(-1, 1), random.randint(-140, 60))


@pytest.mark.parametrize("nbytes", [4, 8])
@pytest.mark.parametrize("op", FLOAT_OPERATIONS)
def test_what_numpy_computes_and_every_error_that_is_allowed_lie_within_bounds(op: str, nbytes: int) -> None:
    random, dtype = Random(op), np.float32 if nbytes == 4 else np.float64
    found = 0
    for _ in range(num_seeds(300, 3000)):
        operands = [dtype(some(random)) for _ in range(1 + (op in WITH_TWO))]
        parts = tuple(FloatValue("bits", nbytes, term=k) for k in range(len(operands)))
        numbers = {k: int.from_bytes(each.tobytes(), "little") for k, each in enumerate(operands)}
        bounds = float_bounds(FloatValue(op, nbytes, parts), numbers)
        with np.errstate(all="ignore"):
            result = NUMPY[op](*operands)
            exact = NUMPY[op](*(np.float64(each) for each in operands))
        if bounds is None:
            continue
        found += 1
        ulps = 0 if nbytes == 8 and op in ("/", "sqrt") else ULPS.get(op, 0)
        room = abs(float(exact)) * ulps * 2.0 ** (1 - (24 if nbytes == 4 else 53))
        for each in (float(result), float(exact) - room, float(exact) + room):
            assert bounds[0] <= each <= bounds[1], f"{op} of {operands}"
        is_normal = all(abs(each) > 1e-30 or each == 0 for each in (*operands, result))
        if op not in ULPS and float(result) == float(exact) and nbytes == 4 and is_normal:
            assert bounds[0] == bounds[1] or op in ("+", "-"), f"{op} of {operands}"
    assert found > 50


def _rounded(exact: Fraction, random: Random, nbytes: int) -> float:
    """One of the two numbers next to ``exact``, or what is not rounded, or zero for denormal ones."""
    near = float(exact) if nbytes == 8 else float(np.float32(float(exact)))
    other = np.nextafter(np.float32(near) if nbytes == 4 else near, math.inf if exact > near else -math.inf)
    if Fraction(near) == exact:
        return near if abs(near) >= 2.0**-126 or nbytes == 8 else random.choice((near, 0.0))
    return random.choice((near, float(other), float(exact)))


def test_sums_and_products_of_sums_and_products_lie_within_bounds_however_they_are_contracted() -> None:
    random = Random(3)

    def made(depth: int) -> tuple[FloatValue, Callable[[], float]]:
        if depth == 0 or random.random() < 0.2:
            text = repr(abs(float(np.float32(some(random))))) + "f"
            if not is_literal(text):
                return made(depth)
            exact = Fraction(text[:-1])
            return number(text), lambda: _rounded(exact, random, 4)
        op = random.choice("+-*")
        (a, first), (b, second) = made(depth - 1), made(depth - 1)

        def run() -> float:
            x, y = Fraction(first()), Fraction(second())
            return _rounded(x + y if op == "+" else x - y if op == "-" else x * y, random, 4)

        return FloatValue(op, 4, (a, b)), run

    for _ in range(num_seeds(100, 2000)):
        value, run = made(4)
        bounds = float_bounds(value, {})
        for _ in range(10 if bounds is not None else 0):
            assert bounds is not None
            assert bounds[0] <= run() <= bounds[1], value


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (number("2.5f"), I32, (2, 2)),
        (number(".5"), I32, (0, 0)),
        (number("0x1.8p1f"), I32, (3, 3)),
        (number("1e9f"), I32, (10**9, 10**9)),
        (number("3e9f"), I32, None),
        (number("300.0f"), U8, None),
        (number("1e300f"), I32, None),
        (FloatValue("minus", 4, (number("0.75f"),)), U8, (0, 0)),
        (FloatValue("minus", 4, (number("2.5f"),)), I32, (-2, -2)),
        (FloatValue("/", 4, (number("128.0f"), number("64.0f"))), I32, (1, 2)),
        (FloatValue("/", 8, (number("128.0", 8), number("64.0", 8))), I32, (2, 2)),
        (FloatValue("/", 4, (number("1.0f"), number("0.0f"))), I32, None),
        (FloatValue("sqrt", 4, (number("15.0f"),)), I32, (3, 3)),
        (FloatValue("sqrt", 4, (number("16.0f"),)), I32, (3, 4)),
        (FloatValue("sqrt", 8, (number("16.0", 8),)), I32, (4, 4)),
        (FloatValue("sqrt", 4, (FloatValue("minus", 4, (number("1.0f"),)),)), I32, None),
        (FloatValue("log2", 4, (number("0.0f"),)), I32, None),
        (FloatValue("exp", 4, (number("1e9f"),)), I32, None),
        (FloatValue("rint", 4, (number("2.5f"),)), I32, (2, 2)),
        (FloatValue("round", 4, (number("2.5f"),)), I32, (3, 3)),
        (FloatValue("ceil", 4, (number("1e-40f"),)), I32, (0, 1)),
        (FloatValue("*", 4, (number("0.1f"), number("10.0f"))), I32, (0, 1)),
    ],
)
def test_integers(value: FloatValue, kind: IntType, expected: tuple[int, int] | None) -> None:
    assert integer_bounds(value, {}, kind) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("nbytes", [4, 8])
def test_what_is_no_number_has_no_bounds(bad: float, nbytes: int) -> None:
    value, numbers = of(bad, nbytes)
    assert float_bounds(value, numbers) is None
    assert float_bounds(FloatValue("fmin", nbytes, (value, number("1.0", nbytes))), numbers) is None


def test_an_integer_is_exact_as_far_as_the_type_has_it() -> None:
    for number_, is_exact in ((1 << 24, True), ((1 << 24) + 1, False), (1 << 40, True), (-5, True)):
        bounds = float_bounds(FloatValue("integer", 4, term=7), {7: number_})
        assert bounds is not None
        assert (bounds[0] == bounds[1] == number_) is is_exact
        assert bounds[0] <= number_ <= bounds[1]


@pytest.mark.parametrize(
    "text",
    ["M_PI_F", "1", "1e99999f", "0x1p99999", "1.0h", "nan", "1.0L", "1" * 80 + ".0", "0x1.fffffffffffffp3"],
)
def test_other_texts_are_no_literals(text: str) -> None:
    assert not is_literal(text) or text == "1"
