"""Values of polynomials in scalar arguments."""

from __future__ import annotations

import pytest

from sdi.appends import Polynomial, Scalar, value_of

VALUES = [b"\xff\xff\xff\xff", b"\x03", b"\x05\x00"]
MINUS_ONE, ALL_BITS, THREE, FIVE = Scalar(0, True), Scalar(0, False), Scalar(1, False), Scalar(2, True)


@pytest.mark.parametrize(
    ("polynomial", "value"),
    [
        ((), 0),
        (((7, ()),), 7),
        (((2, (THREE,)), (-1, ())), 5),
        (((1, (THREE, FIVE)), (1, (FIVE,))), 20),
        (((1, (MINUS_ONE,)),), -1),
        (((1, (ALL_BITS,)),), 0xFFFF_FFFF),
        (((3, (FIVE, FIVE)),), 75),
    ],
)
def test_a_polynomial_has_the_value_of_its_arguments(polynomial: Polynomial, value: int) -> None:
    assert value_of(polynomial, VALUES) == value
