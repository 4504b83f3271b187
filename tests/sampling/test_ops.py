"""Operations on indices: the package's own, and some that are registered from outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from sdi.sampling.affine import AffineExpr, plus
from sdi.sampling.ops import OPERATIONS, Array, ExprMaker, Operation, register
from sdi.sampling.terms import IntType
from tests.sampling.operations import CHECKS, check_kernel
from tests.sampling.recorder import Recorder


def _rotated(kind: IntType, x: int, by: int) -> int:
    whole, by = x & ((1 << kind.bits) - 1), by & (kind.bits - 1)
    return whole << by | whole >> (kind.bits - by)


def _all_rotated(kind: IntType, values: Array, by: Array) -> Array:
    whole = values.astype(f"u{kind.bits // 8}")
    by = (by & (kind.bits - 1)).astype(whole.dtype)
    found: Array = whole << by | whole >> ((kind.bits - by) & (kind.bits - 1)).astype(whole.dtype)
    return found


def _halves(made: ExprMaker, term: int, kind: IntType, a: AffineExpr, b: AffineExpr) -> AffineExpr:
    return made.floor(plus(a, b), 2, term)


ROTATE = Operation("rotate", _rotated, _all_rotated)
HALF_SUM = Operation(
    "hadd",
    lambda _, x, y: (x + y) // 2,
    lambda _, a, b: (a >> 1) + (b >> 1) + (a & b & 1),
    _halves,
    commutes=True,
)
POPCOUNT = Operation(
    "popcount",
    lambda kind, x: (int(x) & ((1 << kind.bits) - 1)).bit_count(),
    lambda kind, a: sum(a >> bit & 1 for bit in range(kind.bits)),
)
OWN = dict.fromkeys(OPERATIONS, 2) | {"clz": 1}
OUTSIDE = {"rotate": (ROTATE, 2), "hadd": (HALF_SUM, 2), "popcount": (POPCOUNT, 1)}


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def outside(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """An operation that the package does not have, while a test runs."""
    operation, arity = OUTSIDE[request.param]
    register(operation)
    yield operation.name, arity
    del OPERATIONS[operation.name]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", OWN)
def test_an_operation_is_the_same_in_all_its_ways(name: str, check: Callable[[str, int], None]) -> None:
    check(name, OWN[name])


@pytest.mark.parametrize("name", OWN)
def test_an_operation_in_an_index_touches_what_a_run_touches(name: str, recorder: Recorder) -> None:
    check_kernel(name, OWN[name], recorder)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("outside", OUTSIDE, indirect=True)
def test_an_operation_from_outside_is_the_same_in_all_its_ways(
    outside: tuple[str, int], check: Callable[[str, int], None]
) -> None:
    check(*outside)


@pytest.mark.parametrize("outside", OUTSIDE, indirect=True)
def test_an_operation_from_outside_in_an_index_touches_what_a_run_touches(
    outside: tuple[str, int], recorder: Recorder
) -> None:
    check_kernel(*outside, recorder)


def test_two_operations_of_one_name_are_refused() -> None:
    with pytest.raises(AssertionError, match="'min' is there already"):
        register(Operation("min", lambda _, *n: min(n), lambda _, *n: np.minimum(*n)))
