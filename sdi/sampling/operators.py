"""Conversions and operators of a symbolic run: what they make of values, without side effects."""

from __future__ import annotations

from typing import Protocol, cast

from sdi.clc.frontend.syntax import Form, SyntaxNode, Tree, Type
from sdi.sampling.float_bounds import FloatValue
from sdi.sampling.layout import Layouts
from sdi.sampling.machine import Machine
from sdi.sampling.ops import OPERATIONS, operate
from sdi.sampling.places import as_type, usual
from sdi.sampling.terms import I32, I64, IntType, TermOp, Terms
from sdi.sampling.values import HARMLESS, PointerValue, RecordValue, Value, fresh, int_type, is_bool, joined

_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!="})


def _stride(pointer: Type) -> int:
    """How far apart elements are that a pointer points to; 0: not known."""
    element = pointer.element
    if element is None:
        return 0
    return 1 if element.form is Form.VOID else element.nbytes


def _quotient(terms: Terms, distance: int, stride: int) -> int | None:
    """A distance in elements of ``stride`` bytes; None where it is not seen to be a multiple of them."""
    constant, parts = terms.parts(distance)
    if not stride or any(factor % stride for factor in (constant, *parts.values())):
        return None
    return terms.sum(constant // stride, {t: f // stride for t, f in parts.items()}, I64)


class Operators:
    """Computes with values on a machine's terms.  Owned by: the thread of the build."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.terms = machine.terms

    def converted(self, value: Value, source: Type, target: Type, explicit: bool = True) -> Value:
        """``value`` of type ``source`` as a ``target``.

        ``explicit``: a cast, which spreads a scalar over a vector; else a reinterpretation is possible.
        """
        terms = self.terms
        kind = int_type(target)
        if kind is not None:
            if isinstance(value, FloatValue):
                return self.machine.floats.integer(value, kind)
            if not isinstance(value, int):
                return terms.unknown(kind)
            return terms.convert(terms.truth(value) if is_bool(target) else value, kind)
        match target.form:
            case Form.FLOATING:
                return self.machine.floats.converted(value, target)
            case Form.POINTER:
                if isinstance(value, PointerValue):
                    return value
                return PointerValue(()) if isinstance(value, int) and terms.value(value) == 0 else None
            case Form.VECTOR:
                element = target.element
                if element is None or int_type(element) is None:
                    return None
                if isinstance(value, tuple) and len(value) == target.count and source.element is not None:
                    return tuple(self.converted(v, source.element, element) for v in value)
                is_spread = explicit or source.nbytes == element.nbytes
                if isinstance(value, int) and is_spread:
                    return (self.converted(value, source, element),) * target.count
                return fresh(terms, target)
            case Form.RECORD:
                return value if isinstance(value, RecordValue) else None
            case Form.IMAGE:
                return value if isinstance(value, PointerValue) else None
            case _:
                return None

    def looked_up(self, table: tuple[Value, ...], index: Value) -> Value:
        """One of some elements of one type; an index outside of them is no correct program's."""
        first = table[0]
        if isinstance(first, tuple):
            columns = zip(*(cast(tuple[Value, ...], row) for row in table), strict=True)
            return tuple(self.looked_up(tuple(column), index) for column in columns)
        values = [self.terms.value(cast(int, element)) for element in table]
        kind = self.terms.type(cast(int, first))
        if not isinstance(index, int):
            return self.terms.unknown(kind)
        return self.terms.lookup(index, tuple(v for v in values if v is not None), kind)

    def operate(self, operator: str, a: Value, left: Type, b: Value, right: Type, result: Type) -> Value:
        """A binary operator without side effects on two values."""
        if left.form is Form.POINTER or right.form is Form.POINTER:
            return self._pointer_arithmetic(operator, a, left, b, right, result)
        if result.form is Form.VECTOR:
            return self._vector(operator, a, left, b, right, result)
        if result.form is Form.FLOATING:
            return self.machine.floats.operated(operator, (a, b), result)
        kind = int_type(result)
        if kind is None or not isinstance(a, int) or not isinstance(b, int):
            return fresh(self.terms, result)
        terms = self.terms
        if operator in _COMPARISONS:
            common = usual(terms.type(a), terms.type(b))
            return terms.convert(
                self._compared(operator, terms.convert(a, common), terms.convert(b, common)), kind
            )
        if operator in ("<<", ">>"):
            return operate(terms, operator, terms.convert(a, kind), b)
        a, b = terms.convert(a, kind), terms.convert(b, kind)
        match operator:
            case "+":
                return terms.add(a, b)
            case "-":
                return terms.sub(a, b)
            case "*":
                return terms.mul(a, b)
            case _:
                return operate(terms, operator, a, b) if operator in OPERATIONS else terms.unknown(kind)

    def _compared(self, operator: str, a: int, b: int) -> int:
        """What a comparison of two terms of one type finds."""
        terms = self.terms
        match operator:
            case "<":
                return terms.less(a, b)
            case ">":
                return terms.less(b, a)
            case "<=":
                return terms.negate(terms.less(b, a))
            case ">=":
                return terms.negate(terms.less(a, b))
            case "==":
                return terms.equal(a, b)
            case _:
                return terms.negate(terms.equal(a, b))

    def _vector(self, operator: str, a: Value, left: Type, b: Value, right: Type, result: Type) -> Value:
        element = result.element
        kind = int_type(element) if element is not None else None
        if element is None or kind is None:
            return fresh(self.terms, result)
        count = result.count
        xs = a if isinstance(a, tuple) else (a,) * count
        ys = b if isinstance(b, tuple) else (b,) * count
        if len(xs) != count or len(ys) != count:
            return fresh(self.terms, result)
        x_type = left.element if isinstance(a, tuple) and left.element is not None else left
        y_type = right.element if isinstance(b, tuple) and right.element is not None else right
        pairs = zip(xs, ys, strict=True)
        if operator in ("&&", "||"):
            found = [self._either_of(operator, x, y, element) for x, y in pairs]
        else:
            found = [self.operate(operator, x, x_type, y, y_type, element) for x, y in pairs]
        if operator in (*_COMPARISONS, "&&", "||"):  # true is -1 in a component
            found = [self.mapped(each, "-", element) for each in found]
        return tuple(found)

    def _either_of(self, operator: str, x: Value, y: Value, of: Type) -> Value:
        kind = int_type(of)
        if kind is None or not isinstance(x, int) or not isinstance(y, int):
            return fresh(self.terms, of)
        truths = [self.terms.truth(x), self.terms.truth(y)]
        return self.terms.convert(
            self.terms.join(truths, TermOp.ALL if operator == "&&" else TermOp.ANY), kind
        )

    def _pointer_arithmetic(
        self, operator: str, a: Value, left: Type, b: Value, right: Type, result: Type
    ) -> Value:
        if right.form is Form.POINTER and operator == "+":
            a, left, b, right = b, right, a, left
        if result.form is Form.POINTER and operator in ("+", "-") and right.form is Form.INTEGER:
            stride = _stride(left)
            if isinstance(a, PointerValue) and stride:
                return self.machine.indexed(a, b, stride, 1 if operator == "+" else -1)
            return None
        distance, stride, kind = self._distance(a, b), _stride(left), int_type(result)
        if distance is None or kind is None:
            return fresh(self.terms, result)
        elements = _quotient(self.terms, distance, stride)
        if operator in _COMPARISONS:  # in elements, as a loop may run until two are equal
            steps = distance if elements is None else elements
            return self.terms.convert(self._compared(operator, steps, self.machine.zero), kind)
        if operator != "-" or not stride:
            return fresh(self.terms, result)
        if elements is None:
            elements = operate(self.terms, "/", distance, self.terms.const(stride, I64))
        return self.terms.convert(elements, kind)

    def _distance(self, a: Value, b: Value) -> int | None:
        """How many bytes a pointer is after another one into the same object; None where nobody knows.

        Objects are smaller than half of what 64 bits can say, so its sign tells which one is greater.
        """
        if not isinstance(a, PointerValue) or not isinstance(b, PointerValue):
            return None
        if len(a.choices) != 1 or len(b.choices) != 1:
            return None
        (root, first), (other, second) = a.choices[0], b.choices[0]
        is_object = root >= 0 or root < HARMLESS.choices[0][0]
        return self.terms.sub(first, second) if root == other and is_object else None

    def compounded(self, operator: str, old: Value, left: Type, value: Value, right: Type) -> Value:
        if left.form is Form.POINTER:
            return self._pointer_arithmetic(operator, old, left, value, right, left)
        if left.form is Form.VECTOR:
            return self._vector(operator, old, left, value, right, left)
        if Form.FLOATING in (left.form, right.form):
            wider = max((left, right), key=lambda of: (of.form is Form.FLOATING, of.nbytes))
            numbers = [self.machine.floats.converted(each, wider) for each in (old, value)]
            return self.converted(self.machine.floats.operated(operator, numbers, wider), wider, left)
        kind = int_type(left)
        if kind is None or not isinstance(old, int) or not isinstance(value, int):
            return fresh(self.terms, left)
        common = usual(self.terms.type(old), self.terms.type(value))
        if operator in ("<<", ">>"):
            common = usual(self.terms.type(old), I32 if kind.bits < 32 else self.terms.type(old))
        wide = as_type(left, common)
        made = self.operate(operator, self.terms.convert(old, common), wide, value, wide, wide)
        return self.converted(made, wide, left)

    def mapped(self, value: Value, operator: str, of: Type) -> Value:
        if isinstance(value, tuple) and of.element is not None:
            element = of.element
            found = tuple(self.mapped(v, operator, element) for v in value)
            return tuple(self.mapped(v, "-", element) for v in found) if operator == "!" else found
        kind = int_type(of)
        if of.form is Form.FLOATING:
            return value if operator == "+" else self.machine.floats.operated("minus", (value,), of)
        if not isinstance(value, int) or kind is None:
            return fresh(self.terms, of)
        if operator == "!":
            return self.terms.convert(self.terms.negate(self.terms.truth(value)), kind)
        value = self.terms.convert(value, kind)
        if operator == "+":
            return value
        negative = self.terms.scale(value, -1)
        return negative if operator == "-" else self.terms.add(negative, self.terms.const(-1, kind))

    def is_negative(self, value: Value) -> Value:
        """Whether an integer is negative, as a truth value; so is a component that is true."""
        if not isinstance(value, int):
            return None
        signed = IntType(self.terms.type(value).bits, True)
        return self.terms.less(self.terms.convert(value, signed), self.terms.const(0, signed))

    def chosen(self, tested: Value, then: Value, other: Value, of: Type) -> Value:
        """``tested ? then : other`` for vectors, component by component."""
        if not (isinstance(tested, tuple) and isinstance(then, tuple) and isinstance(other, tuple)):
            return fresh(self.terms, of)
        found: list[Value] = []
        for test, one, two in zip(tested, then, other, strict=True):
            sign = self.is_negative(test)
            found.append(joined(self.terms, sign, one, two) if isinstance(sign, int) else None)
        return tuple(found) if None not in found else fresh(self.terms, of)

    def stepped(self, old: Value, of: Type, by: int) -> Value:
        if isinstance(old, PointerValue):
            stride = _stride(of)
            return self.machine.moved(old, by * stride) if stride else None
        if isinstance(old, tuple) and of.element is not None:
            return tuple(self.stepped(v, of.element, by) for v in old)
        kind = int_type(of)
        if isinstance(old, int) and kind is not None and not is_bool(of):
            return self.terms.add(old, self.terms.const(by, kind))
        return fresh(self.terms, of)


class Evaluator(Protocol):
    """What runs expressions: ``expressions.py``, for the parts of it that call back."""

    tree: Tree
    layouts: Layouts
    machine: Machine
    terms: Terms
    operators: Operators

    def value(self, node: SyntaxNode) -> Value:
        """Run an expression; answer its value."""
        ...

    def expose(self, value: Value, node: SyntaxNode, is_written: bool = True) -> None:
        """What the pointer ``value`` reaches may be read, and written, in ways that nobody sees."""
        ...
