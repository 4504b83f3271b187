"""Values of polynomials in scalar arguments."""

from __future__ import annotations

import pytest

from sdi.appends import (
    Append,
    AppendStore,
    Limit,
    Polynomial,
    Scalar,
    are_small,
    is_simple,
    magnitude_of,
    value_of,
)

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


def test_how_large_what_a_value_is_made_of_may_be() -> None:
    assert magnitude_of(((2, (THREE,)), (-1, (FIVE,)), (4, (MINUS_ONE,))), VALUES) == 15


@pytest.mark.parametrize(
    ("index", "start", "expected"),
    [
        ((), (), True),
        (((1, (FIVE,)),), ((-1, (THREE,)),), True),
        (((1, (ALL_BITS,)),), (), False),
        ((), ((1, (ALL_BITS,)), (-1, (ALL_BITS,))), False),
    ],
)
def test_what_says_where_may_lose_bits_if_it_is_large(
    index: Polynomial, start: Polynomial, expected: bool
) -> None:
    append = Append(9, 4, index, (AppendStore(0, 4, 1, start),), (), 1)
    assert are_small([append], VALUES) is expected


def test_counters_that_arguments_name_may_be_one() -> None:
    def append(index: Polynomial, argument: int, *reads: int) -> Append:
        return Append(9, 4, index, (AppendStore(argument, 4, 1, ()),), (), 1, reads)

    a, b, number = ((1, (THREE,)),), ((1, (FIVE,)),), ((3, ()),)
    assert is_simple([append(a, 0), append(a, 0)])
    assert not is_simple([append(a, 0), append(b, 1)])
    assert not is_simple([append(a, 0), append(number, 1)])
    assert not is_simple([append(number, 0, 7)])


def test_places_that_one_counter_hands_out_without_a_limit_are_simple() -> None:
    def append(index: Polynomial | None, *arguments: int, limits: tuple[Limit, ...] = ()) -> Append:
        return Append(9, 4, index, tuple(AppendStore(each, 4, 1, ()) for each in arguments), limits, 1)

    first, second = ((1, ()),), ((2, ()),)
    assert is_simple([append(first, 0, 1), append(first, 0, 1), append(second, 2)])
    assert not is_simple([append(first, 0), append(second, 0)])
    assert not is_simple([append(first, 0, 0)])
    assert not is_simple([append(None, 0)])
    assert not is_simple([append(first, 0, limits=(Limit(0, ()),))])
