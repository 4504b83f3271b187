"""Integers that write down what is computed with them: from one run, straight code for other values.

The code that binds a kernel and bounds its ranges runs once with ``Traced`` numbers in place of scalars and
box coordinates.  Sums are kept as linear expressions over *nodes*: the inputs, floor divisions and products.
Every comparison notes, as a guard, what made it come out as it did.  For other inputs for which all guards
hold, the same code would take the same way, so its results are the noted expressions.  Whatever would need
the number itself (an index, a range) notes that the number is what it is now; what has no such meaning fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from math import gcd
from typing import Any, cast

from sdi.dataclass import dataclass
from sdi.sampling.affine import INFINITY, AffineExpr, Range, interval, minus, plus, scaled, shifted

GUARDS_MAX = 600
"""Runs that compare more often are not worth repeating this way."""


class Untraceable(Exception):
    """The run does something that has no such expression, or is too long."""


class Relation(Enum):
    """What a guard says of an expression."""

    AT_LEAST_ZERO = ">= 0"
    ZERO = "== 0"
    NOT_ZERO = "!= 0"


class Made(Enum):
    """How a node is computed from two expressions."""

    FLOOR = "//"
    PRODUCT = "*"


@dataclass(frozen=True, slots=True)
class TraceNode:
    """A value that is no sum: ``first made second``; inputs have none."""

    made: Made
    first: AffineExpr
    second: AffineExpr


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of the run, on expressions over nodes made before it."""

    relation: Relation
    expr: AffineExpr


_Parts = tuple[tuple[int, int], ...]


class Trace:
    """One run.  ``values``: of the inputs, now; ``ranges``: what they may ever be.

    Nodes 0 to n - 1 are the inputs.  ``is_hashable``: whether a look-up among numbers of the run may miss one
    that is no input's and yet the same.  Owned by: the thread of the run.
    """

    def __init__(self, values: Sequence[int], ranges: Sequence[Range]) -> None:
        self.inputs = len(values)
        self.values = list(values)
        self.ranges = list(ranges)
        self.nodes: list[TraceNode | None] = [None] * len(values)
        self.is_hashable = True
        self._known: dict[object, int] = {}
        self._guards: dict[tuple[Relation, _Parts, int], int] = {}

    def input(self, number: int) -> int:
        """An input as a number to compute with."""
        return cast(int, Traced(self, 0, {number: 1}, self.values[number]))

    def guards(self) -> list[Guard]:
        """What has to hold, in the order of the run: a divisor is compared with zero before it divides."""
        return [Guard(relation, (c, dict(parts))) for (relation, parts, _), c in self._guards.items()]

    def node(self, made: Made, first: AffineExpr, second: AffineExpr) -> Traced:
        """The value of an operation; equal ones are one node."""
        key = (made, first[0], _items(first), second[0], _items(second))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.nodes)
            node = TraceNode(made, first, second)
            self.nodes.append(node)
            a, b = self.value(first), self.value(second)
            self.values.append(a // b if made is Made.FLOOR else a * b)
            self.ranges.append(node_range(node, self.ranges))
        return Traced(self, 0, {number: 1}, self.values[number])

    def value(self, expr: AffineExpr) -> int:
        """An expression's value in this run."""
        return expr[0] + sum(c * self.values[v] for v, c in expr[1].items())

    def require(self, relation: Relation, expr: AffineExpr) -> None:
        """Note a condition, which holds now.  Raises Untraceable after too many."""
        constant, parts = expr
        lo, hi = interval(expr, self.ranges)
        if relation is Relation.AT_LEAST_ZERO:
            if lo >= 0:
                return
        elif relation is Relation.NOT_ZERO and (lo > 0 or hi < 0):
            return
        unit = gcd(*parts.values())
        if relation is Relation.NOT_ZERO and constant % unit:
            return
        constant //= unit
        divided = tuple(sorted((v, c // unit) for v, c in parts.items()))
        key = (relation, divided, 0 if relation is Relation.AT_LEAST_ZERO else constant)
        self._guards[key] = min(constant, self._guards.get(key, constant))
        if len(self._guards) > GUARDS_MAX:
            raise Untraceable("too many comparisons")


def _items(expr: AffineExpr) -> _Parts:
    return tuple(sorted(expr[1].items()))


def node_range(node: TraceNode, ranges: Sequence[Range]) -> Range:
    """The range of a node, given those of the nodes before it."""
    lo, hi = interval(node.first, cast(list[Range], ranges))
    low, high = interval(node.second, cast(list[Range], ranges))
    if node.made is Made.FLOOR and low <= 0 <= high:
        return (-INFINITY, INFINITY)
    corners = [x // y if node.made is Made.FLOOR else x * y for x in (lo, hi) for y in (low, high)]
    return (min(corners), max(corners))


class Traced:
    """A number of a run: ``constant`` plus coefficients times nodes; ``value`` is what it is now.

    Behaves as an int that is compared and computed with.  Equal numbers hash alike, so that a look-up in a
    table of them compares, and notes what came of it.
    """

    __slots__ = ("constant", "parts", "trace", "value")

    def __init__(self, trace: Trace, constant: int, parts: dict[int, int], value: int) -> None:
        self.trace = trace
        self.constant = constant
        self.parts = parts
        self.value = value

    @property
    def expr(self) -> AffineExpr:
        """The linear expression."""
        return (self.constant, self.parts)

    def _made(self, expr: AffineExpr) -> Any:  # noqa: ANN401 (an int, or what stands for one)
        return Traced(self.trace, *expr, self.trace.value(expr)) if expr[1] else expr[0]

    # -- sums ------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Any:  # noqa: ANN401
        if isinstance(other, Traced):
            return self._made(plus(self.expr, other.expr))
        if isinstance(other, int):
            return Traced(self.trace, self.constant + other, self.parts, self.value + other)
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Any:  # noqa: ANN401
        return self._made(scaled(self.expr, -1))

    def __invert__(self) -> Any:  # noqa: ANN401
        return -1 - self

    def __sub__(self, other: object) -> Any:  # noqa: ANN401
        return self + (-other) if isinstance(other, (int, Traced)) else NotImplemented

    def __rsub__(self, other: object) -> Any:  # noqa: ANN401
        return -self + other

    def __mul__(self, other: object) -> Any:  # noqa: ANN401
        if isinstance(other, Traced):
            return self.trace.node(Made.PRODUCT, self.expr, other.expr)
        if isinstance(other, int):
            return self._made(scaled(self.expr, other)) if other else 0
        return NotImplemented

    __rmul__ = __mul__

    def __abs__(self) -> Any:  # noqa: ANN401
        return self if self >= 0 else -self

    # -- division --------------------------------------------------------------------------------

    def __floordiv__(self, other: object) -> Any:  # noqa: ANN401
        if isinstance(other, Traced):
            _ = other > 0 or other < 0  # noted: it is not zero, and where it is
            return self.trace.node(Made.FLOOR, self.expr, other.expr)
        if not isinstance(other, int):
            return NotImplemented
        if other <= 0:
            return (-self) // -other if other else _fails("division by zero")
        whole = {v: c // other for v, c in self.parts.items() if c % other == 0}
        rest = {v: c for v, c in self.parts.items() if c % other}
        quotient, remainder = divmod(self.constant, other)
        made = self._made((quotient, whole))
        return made + self.trace.node(Made.FLOOR, (remainder, rest), (other, {})) if rest else made

    def __rfloordiv__(self, other: object) -> Any:  # noqa: ANN401
        if not isinstance(other, int):
            return NotImplemented
        _ = self > 0 or self < 0
        return self.trace.node(Made.FLOOR, (other, {}), self.expr)

    def __mod__(self, other: object) -> Any:  # noqa: ANN401
        return self - other * (self // other) if isinstance(other, (int, Traced)) else NotImplemented

    def __rmod__(self, other: object) -> Any:  # noqa: ANN401
        return other - self * (other // self) if isinstance(other, int) else NotImplemented

    def __divmod__(self, other: object) -> Any:  # noqa: ANN401
        return (self // other, self % other)

    def __rdivmod__(self, other: object) -> Any:  # noqa: ANN401
        return (other // self, other % self)

    # -- bits ------------------------------------------------------------------------------------

    def __rshift__(self, other: object) -> Any:  # noqa: ANN401
        return self // (1 << int(cast(int, other)))

    def __lshift__(self, other: object) -> Any:  # noqa: ANN401
        return self * (1 << int(cast(int, other)))

    def __rlshift__(self, other: object) -> Any:  # noqa: ANN401
        return int(cast(int, other)) << int(self)

    def __rrshift__(self, other: object) -> Any:  # noqa: ANN401
        return int(cast(int, other)) >> int(self)

    def __and__(self, other: object) -> Any:  # noqa: ANN401
        if isinstance(other, int) and other >= 0 and other & (other + 1) == 0:
            return self % (other + 1)
        return int(self) & int(cast(int, other))

    __rand__ = __and__

    def __or__(self, other: object) -> Any:  # noqa: ANN401
        return int(self) | int(cast(int, other))

    __ror__ = __or__

    def __xor__(self, other: object) -> Any:  # noqa: ANN401
        return int(self) ^ int(cast(int, other))

    __rxor__ = __xor__

    def bit_length(self) -> int:
        """As int's; the length is noted."""
        bits = self.value.bit_length()
        size = abs(self)
        _ = size < 1 << bits and (bits == 0 or size >= 1 << (bits - 1))
        return bits

    # -- what is noted ---------------------------------------------------------------------------

    def _at_least(self, other: object, more: int = 0) -> bool:
        """``self >= other + more``."""
        expr = minus(self.expr, other.expr) if isinstance(other, Traced) else shifted(self.expr, -_int(other))
        expr = shifted(expr, -more)
        if not expr[1]:
            return expr[0] >= 0
        holds = self.trace.value(expr) >= 0
        self.trace.require(Relation.AT_LEAST_ZERO, expr if holds else shifted(scaled(expr, -1), -1))
        return holds

    def __ge__(self, other: object) -> bool:
        return self._at_least(other)

    def __gt__(self, other: object) -> bool:
        return self._at_least(other, 1)

    def __lt__(self, other: object) -> bool:
        return not self._at_least(other)

    def __le__(self, other: object) -> bool:
        return not self._at_least(other, 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (int, Traced)):
            return NotImplemented
        expr = minus(self.expr, other.expr if isinstance(other, Traced) else (other, {}))
        if not expr[1]:
            return expr[0] == 0
        equal = self.trace.value(expr) == 0
        self.trace.require(Relation.ZERO if equal else Relation.NOT_ZERO, expr)
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        if not self.trace.is_hashable:
            raise Untraceable("a look-up by a number")
        return 0x5D1

    def __index__(self) -> int:
        self.trace.require(Relation.ZERO, shifted(self.expr, -self.value))
        return self.value

    __int__ = __index__


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise Untraceable(f"a comparison with {type(value).__name__}")
    return value


def _fails(why: str) -> int:
    raise Untraceable(why)
