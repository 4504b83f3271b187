"""Integer expressions of a kernel's text as sums of products of variables that keep their values.

Conversions between integers of 4 and 8 bytes are looked through, and nothing is taken to wrap around: who
asks has to know that values are small.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree, Type, callee_of

_LITERAL = re.compile(r"(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)[uUlL]*\Z")
IDS = re.compile(r"get_(global|local|group)_(id|size)\Z|get_num_groups\Z|get_local_linear_id\Z")
"""Functions that a work-item always gets the same from."""
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!=", "&&", "||"})
STEPS = frozenset({"++", "--", "x++", "x--", "&"})
"""Operators that change a variable, or let others do."""
_AROUND = frozenset({NodeKind.INIT_LIST, NodeKind.UNEXPOSED, NodeKind.PAREN})
_DEEP = 50


class Symbol(NamedTuple):
    """A value.  ``kind``: "variable" (``number``: its declaration), "call" of a function that always answers
    the same (``text``), or whatever its maker says.
    """

    kind: str
    number: int
    text: str = ""


Product = tuple[Symbol, ...]
"""Sorted."""
ONE: Product = ()
Linear = dict[Product, int]
"""Coefficients, none of them 0."""


def added(one: Mapping[Product, int], other: Mapping[Product, int]) -> Linear:
    """The sum."""
    found = dict(one)
    for key, coefficient in other.items():
        found[key] = found.get(key, 0) + coefficient
    return {key: coefficient for key, coefficient in found.items() if coefficient}


def scaled(form: Linear, by: int) -> Linear:
    """The product with a number."""
    return {key: coefficient * by for key, coefficient in form.items()} if by else {}


def divided(form: Linear, by: int) -> Linear | None:
    """The quotient, None where something would be left."""
    if any(coefficient % by for coefficient in form.values()):
        return None
    return {key: coefficient // by for key, coefficient in form.items()}


def without(form: Linear, product: Product) -> Linear:
    """All but one product."""
    return {key: coefficient for key, coefficient in form.items() if key != product}


def _multiplied(one: Linear, other: Linear) -> Linear:
    found: Linear = {}
    for key, coefficient in one.items():
        for more, factor in other.items():
            found = added(found, {tuple(sorted((*key, *more))): coefficient * factor})
    return found


def changed_by(statements: Iterable[SyntaxNode]) -> set[int]:
    """The variables that some statements change, or take the address of."""
    return {each for statement in statements for node in statement.walk() for each in changed_by_itself(node)}


def changed_by_itself(node: SyntaxNode) -> tuple[int, ...]:
    """The variable that an operator changes, or takes the address of."""
    is_step = node.kind is NodeKind.UNARY_OPERATOR and node.operator in STEPS
    is_assignment = node.kind is NodeKind.COMPOUND_ASSIGNMENT or (
        node.kind is NodeKind.BINARY_OPERATOR and node.operator == "="
    )
    return (_root(node.operands[0]),) if is_step or is_assignment else ()


class Locals:
    """The variables of one kernel.

    ``changed``: those that change after they got their first value, or whose address is taken.
    ``loads``: elements of arguments that were met, with their index; they keep their values if the argument's
    memory does.
    ``known``: expressions whose value has another name, by their nodes' ids.  ``inductions``: symbols of
    loops that are being looked at, which keep their values within one iteration.
    """

    def __init__(self, tree: Tree, body: SyntaxNode, parameters: Mapping[int, int]) -> None:
        self.tree = tree
        self._parameters = parameters
        self._declared: dict[int, SyntaxNode] = {}
        self._values: dict[int, SyntaxNode] = {}
        self._types: dict[int, Type] = {}
        self._body = body
        for node in body.walk():
            if node.kind is NodeKind.VAR_DECL and _is_own(node):
                self._declared[node.declaration] = node
                if node.type.nbytes >= 4 and len(node.operands) == 1:
                    self._values[node.declaration] = node.operands[0]
            elif node.kind is NodeKind.DECL_REF:
                self._types[node.declaration] = node.type
        self.changed = changed_by([body])
        self._addressed = {
            _root(node.operands[0])
            for node in body.walk()
            if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "&"
        }
        self.known: dict[int, Linear] = {}
        self.inductions: set[Symbol] = set()
        self.loads: dict[Symbol, Linear] = {}

    def assigned_once(self, variable: int, assignment: SyntaxNode) -> None:
        """Take an assignment for the only value of a variable, if there is no other."""
        declared = self._declared.get(variable)
        if declared is None or declared.operands or declared.type.nbytes < 4:
            return
        others = [
            node
            for node in self._body.walk()
            if node is not assignment
            and (
                node.kind is NodeKind.COMPOUND_ASSIGNMENT
                or node.operator in ("=", "++", "--", "x++", "x--", "&")
            )
            and node.operands
            and _root(node.operands[0]) == variable
        ]
        if not others:
            self._values[variable] = assignment.operands[1]
            self.changed.discard(variable)

    def definition(self, variable: int) -> SyntaxNode | None:
        """What the variable has all the time, if it does not change."""
        return None if variable in self.changed else self._values.get(variable)

    def is_shared(self, variable: int) -> bool:
        """Whether a variable's address is taken: it may change by another name."""
        return variable in self._addressed

    def scalar(self, symbol: Symbol) -> int | None:
        """The number of the scalar argument that a symbol stands for."""
        if symbol.kind != "variable" or symbol.number in self.changed:
            return None
        return self._parameters.get(symbol.number)

    def linear(self, node: SyntaxNode, depth: int = 0) -> Linear | None:
        """An integer expression; None where it is something else."""
        known = self.known.get(id(node))
        if known is not None:
            return known
        if node.type.form is not Form.INTEGER or depth > _DEEP:
            return None
        children = node.operands
        match node.kind:
            case NodeKind.INTEGER_LITERAL:
                if not _is_natural_number(self.tree, node):
                    return None
                return added({}, {ONE: _number(self.tree.source(node)) or 0})
            case NodeKind.PAREN | NodeKind.UNEXPOSED | NodeKind.CAST if len(children) == 1:
                found = self.linear(children[0], depth + 1)
                is_narrow = node.type.nbytes < min(4, children[0].type.nbytes)
                return None if is_narrow else found
            case NodeKind.DECL_REF:
                return self._variable(node, depth)
            case NodeKind.ARRAY_SUBSCRIPT if len(children) == 2:
                return self._loaded(*children, depth)
            case NodeKind.CALL:
                callee = callee_of(node)
                if callee is None or not IDS.match(callee.name) or callee.declaration in self.tree.functions:
                    return None
                if any(
                    each.kind is NodeKind.DECL_REF for given in node.children[1:] for each in given.walk()
                ):
                    return None  # of a dimension that may change
                return {(Symbol("call", 0, "".join(self.tree.source(node).split())),): 1}
            case NodeKind.UNARY_OPERATOR if node.operator == "+":
                return self.linear(children[0], depth + 1)
            case NodeKind.BINARY_OPERATOR if node.operator in ("+", "-", "*", "<<"):
                return self._operated(node, depth)
            case _:
                return None

    def _loaded(self, base: SyntaxNode, at: SyntaxNode, depth: int) -> Linear | None:
        """An element of an argument."""
        pointer, element = _root(base), base.type.element
        index = self.linear(at, depth + 1)
        if pointer not in self._parameters or pointer in self.changed or index is None or element is None:
            return None
        if element.form is not Form.INTEGER or element.nbytes < 4 or element.volatile:
            return None
        if element.space not in (Space.GLOBAL, Space.CONSTANT):
            return None  # whether others of the group change it is not known
        symbol = Symbol("load", pointer, repr(sorted(index.items())))
        self.loads[symbol] = index
        return {(symbol,): 1}

    def _operated(self, node: SyntaxNode, depth: int) -> Linear | None:
        one, other = (self.linear(child, depth + 1) for child in node.operands)
        if one is None or other is None:
            return None
        match node.operator:
            case "+":
                return added(one, other)
            case "-":
                return added(one, scaled(other, -1))
            case "*":
                return _multiplied(one, other)
            case _:
                is_number = set(other) <= {ONE} and 0 <= other.get(ONE, 0) < 31
                return scaled(one, 1 << other.get(ONE, 0)) if is_number else None

    def _variable(self, node: SyntaxNode, depth: int) -> Linear | None:
        """What a variable stands for, as far as that keeps its value, or the variable."""
        variable = node.declaration
        if variable not in self._declared and variable not in self._parameters:
            return None
        if variable in self._addressed:
            return None  # it may change by another name
        symbol = Symbol("variable", variable)
        value = self.definition(variable)
        found = self.linear(value, depth + 1) if value is not None else None
        parts = {each for key in found or () for each in key}
        if found is not None and all(map(self._keeps, parts)) and not parts & self.loads.keys():
            return found
        return {(symbol,): 1}

    def load(self, symbol: Symbol) -> Symbol | None:
        """The element of an argument that a symbol is, or that a variable has all the time."""
        if symbol in self.loads:
            return symbol
        value = self.definition(symbol.number) if symbol.kind == "variable" else None
        form = self.linear(value) if value is not None else None
        if form is None or list(form.values()) != [1] or len(key := next(iter(form))) != 1:
            return None
        found = self.loads.get(key[0])
        return key[0] if found is not None and not self.numbers(found) & self.changed else None

    def symbols(self, form: Linear) -> set[Symbol]:
        """All that a form is made of."""
        found = {each for key in form for each in key}
        return found.union(*[self.symbols(self.loads[each]) for each in found if each in self.loads])

    def numbers(self, form: Linear) -> set[int]:
        """The variables that a form is made of."""
        return {each.number for each in self.symbols(form) if each.kind == "variable"}

    def _keeps(self, symbol: Symbol) -> bool:
        return symbol.kind != "variable" or symbol.number not in self.changed or symbol in self.inductions

    def tainted(self, results: set[Symbol]) -> set[int]:
        """The variables whose values come from ``results``, as far as ``linear`` says so."""
        found: set[int] = set()
        for variable, value in self._values.items():
            if variable in self.changed:
                continue
            # Of loops' counters that are not looked at now, any will do.
            form = self.linear(value)
            if form is not None and any(each in results for key in form for each in key):
                found.add(variable)
        return found

    def definitions(self, variables: Iterable[int]) -> Iterator[SyntaxNode]:
        """What these variables begin with."""
        for variable in variables:
            yield self._values[variable]

    # -- signs --------------------------------------------------------------------------------------

    def is_positive(self, form: Linear, at: SyntaxNode) -> bool:
        """Whether it is never less than 0, and not 0 if it is a number."""
        if set(form) <= {ONE}:
            return form.get(ONE, 0) > 0
        return all(value > 0 for value in form.values()) and all(
            self._is_natural(each) or self._is_guarded(each, at) for key in form for each in key
        )

    def _is_guarded(self, symbol: Symbol, at: SyntaxNode) -> bool:
        """Whether ``at`` stands in a branch for values above 0 of a variable, which keeps its value there."""
        for node in self._body.walk():
            if node.kind is not NodeKind.IF:
                continue
            condition, branch = node.operands[:2]
            is_within = branch.begin <= at.begin and at.end <= branch.end
            if is_within and self._proves(condition, symbol) and symbol.number not in changed_by([branch]):
                return True
        return False

    def _proves(self, condition: SyntaxNode, symbol: Symbol) -> bool:
        """Whether a variable is not negative where a condition holds."""
        while condition.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(condition.operands) == 1:
            (condition,) = condition.operands
        if condition.kind is not NodeKind.BINARY_OPERATOR:
            return False
        if condition.operator == "&&":
            return any(self._proves(each, symbol) for each in condition.operands)
        left, right = condition.operands
        bound = self.linear(right)
        is_number = bound is not None and set(bound) <= {ONE} and bound.get(ONE, 0) >= 0
        is_compared = condition.operator in (">", ">=") and not left.type.unsigned
        return is_compared and is_number and _root(left) == symbol.number != 0

    def _is_natural(self, symbol: Symbol) -> bool:
        if symbol.kind == "call":
            return True
        if symbol.kind != "variable":
            return False
        declared = self._types.get(symbol.number)
        if declared is not None and declared.unsigned:
            return True
        node = self._declared.get(symbol.number)
        if node is None:
            return False
        return all(map(self.never_negative, self._all_values(symbol.number)))

    def is_unsigned(self, form: Linear) -> bool:
        """Whether it has variables that may be larger than an int."""
        types = [self._types.get(number) for number in self.numbers(form)]
        return any(each.unsigned and each.nbytes >= 4 for each in types if each is not None)

    def _all_values(self, variable: int) -> Iterator[SyntaxNode | None]:
        """What is assigned to it, or added to it; None for what is not known."""
        node = self._declared[variable]
        yield node.operands[0] if len(node.operands) == 1 else None
        for each in self._body.walk():
            if not each.operands or _root(each.operands[0]) != variable:
                continue
            if each.kind is NodeKind.BINARY_OPERATOR and each.operator == "=":
                yield each.operands[1]
            elif each.kind is NodeKind.COMPOUND_ASSIGNMENT:
                source = self.tree.text[each.operands[0].end : each.operands[1].begin]
                yield each.operands[1] if source.strip() == "+=" else None
            elif each.kind is NodeKind.UNARY_OPERATOR and each.operator in ("--", "x--", "&"):
                yield None

    def _is_natural_table(self, node: SyntaxNode) -> bool:
        """Whether an element is one of a table of constants, none of them negative."""
        while node.kind in (NodeKind.ARRAY_SUBSCRIPT, NodeKind.UNEXPOSED, NodeKind.PAREN):
            if not node.operands:
                return False
            node = node.operands[0]
        for table in self.tree.declarations:
            if table.kind is NodeKind.VAR_DECL and table.declaration == node.declaration != 0:
                given = [each for each in table.operands if each.kind is NodeKind.INIT_LIST]
                values = [each for one in given for each in one.walk() if each.kind not in _AROUND]
                is_fixed = table.type.space is Space.CONSTANT and len(given) == 1
                return is_fixed and all(_is_natural_number(self.tree, each) for each in values)
        return False

    def never_negative(self, node: SyntaxNode | None) -> bool:
        """Whether an expression is 0 or more, whatever its variables are."""
        if node is None or node.type.form is not Form.INTEGER:
            return False
        children = node.operands
        match node.kind:
            case NodeKind.INTEGER_LITERAL:
                return _is_natural_number(self.tree, node)
            case NodeKind.PAREN | NodeKind.UNEXPOSED | NodeKind.CAST if len(children) == 1:
                inner = children[0].type
                if inner.form is Form.INTEGER and inner.unsigned and inner.nbytes < node.type.nbytes:
                    return True
                return inner.nbytes <= node.type.nbytes and self.never_negative(children[0])
            case NodeKind.ARRAY_SUBSCRIPT:
                return self._is_natural_table(node)
            case NodeKind.BINARY_OPERATOR if node.operator in _COMPARISONS:
                return True
            case NodeKind.BINARY_OPERATOR if node.operator in ("+", "*"):
                return all(map(self.never_negative, children))
            case NodeKind.BINARY_OPERATOR if node.operator == "&":
                return any(map(self.never_negative, children))
            case NodeKind.UNARY_OPERATOR if node.operator == "!":
                return True
            case NodeKind.CONDITIONAL_OPERATOR:
                return all(map(self.never_negative, children[1:]))
            case _:
                return False


def _is_natural_number(tree: Tree, node: SyntaxNode) -> bool:
    """Whether it is a number that is not negative as an int either."""
    number = _number(tree.source(node)) if node.kind is NodeKind.INTEGER_LITERAL else None
    return number is not None and number < 1 << 31


def _is_own(node: SyntaxNode) -> bool:
    """Whether a variable is an integer that no other work-item sees."""
    is_shared = (
        node.is_static_storage or node.type.volatile or node.type.space not in (Space.NONE, Space.PRIVATE)
    )
    return node.type.form is Form.INTEGER and not is_shared


def _root(node: SyntaxNode) -> int:
    """The variable of which a place is all or a part; 0 for what a pointer or an index leads to."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.MEMBER_REF) and len(node.operands) == 1:
        node = node.operands[0]
        if node.type.form is Form.POINTER and node.kind is not NodeKind.DECL_REF:
            return 0
    return node.declaration if node.kind is NodeKind.DECL_REF else 0


def _number(text: str) -> int | None:
    match = _LITERAL.match(text)
    if match is None:
        return None
    digits = match[1]
    return int(digits, 8) if digits.startswith("0") and digits.isdigit() else int(digits, 0)
