"""Formulas are found from values, and believed only where they hold elsewhere too."""

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.explain.fit import Point, Polynomial, fitted, leading

SIZES = [Fraction(at) for at in range(2, 9)]
PARTS = [Fraction(1, at) for at in (3, 4, 6, 8, 12, 24)]
CHECKS = [(Fraction(9), Fraction(11), Fraction(1, 5)), (Fraction(3), Fraction(17), Fraction(1, 24))]

exponents = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2))
coefficients = st.fractions(-50, 50, max_denominator=8).filter(bool)


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(exponents, coefficients, max_size=5))
def test_any_polynomial_is_found_from_its_values(terms: dict[tuple[int, ...], Fraction]) -> None:
    truth = Polynomial(terms)
    assert fitted(truth, [SIZES, SIZES, PARTS], CHECKS) == truth


def test_what_is_no_polynomial_has_no_formula() -> None:
    def rounded(at: Point) -> Fraction:
        return at[0] // 3 + at[2]

    assert fitted(rounded, [SIZES, SIZES, PARTS], CHECKS) is None


def test_a_formula_that_does_not_hold_elsewhere_is_not_believed() -> None:
    def bent(at: Point) -> Fraction:
        return min(at[0], Fraction(8))

    assert fitted(bent, [SIZES], [(Fraction(7),)]) == Polynomial({(1,): Fraction(1)})
    assert fitted(bent, [SIZES], [(Fraction(9),)]) is None


def test_an_estimate_has_its_leading_term() -> None:
    def estimate(at: Point) -> Fraction:
        return at[0] ** 2 * at[1] * 3 * Fraction(97, 100) + at[0] / 50

    points = [(Fraction(9), Fraction(7))]
    assert leading(estimate, [SIZES, SIZES], points) == Polynomial({(2, 1): Fraction(3)})
    assert leading(lambda at: 2 ** int(at[0]), [SIZES], [(Fraction(5),)]) is None
