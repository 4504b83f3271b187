"""By what conditions work-items choose what they do, as far as two places of a text have the same ones.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree, bare, callee_of
from sdi.clc.linear import IDS, ONE, STEPS, Linear, Locals, Symbol, added, scaled

Key = tuple[object, ...]
"""What a condition is, and whether it holds: equal ones come out alike while their variables stay as they
are."""
_COMPARISONS = frozenset({"<", ">", "<=", ">=", "==", "!="})
_INTEGER_OPERATORS = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "&&", "||"})
_VALUES = frozenset({Form.INTEGER, Form.FLOATING, Form.VECTOR, Form.RECORD})
_LITERALS = frozenset({NodeKind.INTEGER_LITERAL, NodeKind.FLOATING_LITERAL, NodeKind.CHARACTER_LITERAL})
_ID = re.compile(r"get_(local_id|local_size)\(+([0-2])[uUlL]*\)+\Z")
_DEEP = 20
_MODULUS = 1 << 32
_FACTOR_MAX = 1 << 16
"""Local ids times less than that stay numbers of 32 bits."""


class Fact(NamedTuple):
    """One condition that holds.  ``variables``: by declaration, ``loads``: arguments, that it is made of."""

    key: Key
    variables: frozenset[int]
    loads: frozenset[int]


class Chosen(NamedTuple):
    """Exactly one work-item of those that differ in ``dims`` alone; ``is_first``: the one with ids of 0."""

    dims: frozenset[int]
    is_first: bool


class Choices:
    """Of one kernel."""

    def __init__(self, tree: Tree, body: SyntaxNode, local: Locals, parameters: Mapping[int, int]) -> None:
        self._tree = tree
        self._locals = local
        self._parameters = parameters
        self._given: dict[int, list[SyntaxNode | None]] = {}
        """All that is assigned to each variable of the kernel's own; None: something that is not known."""
        for node in body.walk():
            if node.kind is NodeKind.VAR_DECL:
                is_own = node.type.space in (Space.NONE, Space.PRIVATE) and not node.is_static_storage
                if is_own and node.type.form in _VALUES and not node.type.volatile:
                    self._given.setdefault(node.declaration, []).extend(node.operands)
        self._indexed = {_root(node) for node in body.walk() if _is_indexed(node)}
        """Variables that may change by an index."""
        for node in body.walk():
            is_step = node.kind is NodeKind.UNARY_OPERATOR and node.operator in STEPS
            if node.kind is NodeKind.COMPOUND_ASSIGNMENT or is_step:
                self._given.get(_root(node.operands[0]), []).append(None)
            elif node.kind is NodeKind.BINARY_OPERATOR and node.operator == "=":
                target = bare(node.operands[0])
                is_whole = target.kind is NodeKind.DECL_REF
                self._given.get(_root(target), []).append(node.operands[1] if is_whole else None)

    # -- conditions -------------------------------------------------------------------------------

    def parts(self, node: SyntaxNode, truth: bool, depth: int = 0) -> Iterator[tuple[SyntaxNode, bool]]:
        """The conditions that all hold where ``node`` is what ``truth`` says."""
        node = bare(node)
        pair = _compared_with(node, self.constant)
        if depth > _DEEP:
            yield node, truth
        elif node.operator == "!":
            yield from self.parts(node.operands[0], not truth, depth + 1)
        elif node.kind is NodeKind.BINARY_OPERATOR and node.operator == ("&&" if truth else "||"):
            for each in node.operands:
                yield from self.parts(each, truth, depth + 1)
        elif pair is not None and pair[2] == 0 and pair[1] in ("!=", "=="):
            yield from self.parts(pair[0], truth == (pair[1] == "!="), depth + 1)
        elif pair is not None and pair[1:] in (("==", 1), (">", 0), (">=", 1)) and self.is_flag(pair[0]):
            yield from self.parts(pair[0], truth, depth + 1)
        elif node.kind is NodeKind.CONDITIONAL_OPERATOR and self._is_choice(node):
            yield from self.parts(node.operands[0], truth, depth + 1)
        elif (definition := self._definition(node)) is not None:
            yield from self.parts(definition, truth, depth + 1)
        else:
            yield node, truth

    def fact(self, node: SyntaxNode, truth: bool) -> Fact | None:
        """A part as a fact; None where it may come out in another way next time."""
        variables: set[int] = set()
        loads: set[int] = set()
        key = self._key(bare(node), variables, loads)
        return None if key is None else Fact((key, truth), frozenset(variables), frozenset(loads))

    def is_flag(self, node: SyntaxNode, depth: int = 0) -> bool:
        """Whether an integer is 0 or 1."""
        node = bare(node)
        if depth > _DEEP or node.type.form is not Form.INTEGER:
            return False
        match node.kind:
            case NodeKind.INTEGER_LITERAL:
                return self.constant(node) in (0, 1)
            case NodeKind.BINARY_OPERATOR:
                return node.operator in _COMPARISONS or node.operator in ("&&", "||")
            case NodeKind.UNARY_OPERATOR:
                return node.operator == "!"
            case NodeKind.CONDITIONAL_OPERATOR:
                return self._is_choice(node)
            case NodeKind.CAST if len(node.operands) == 1:
                return self.is_flag(node.operands[0], depth + 1)
            case NodeKind.DECL_REF if node.declaration in self._given:
                given = self._given[node.declaration]
                if node.type.canonical.split()[-1] == "bool":
                    return True
                return all(each is not None and self.is_flag(each, depth + 1) for each in given)
            case _:
                return False

    def flag(self, node: SyntaxNode) -> list[Fact] | None:
        """What holds where a flag is 1; None where it is no flag, or may be another one next time."""
        node = bare(node)
        while node.kind is NodeKind.CAST and len(node.operands) == 1:
            node = bare(node.operands[0])
        if not self.is_flag(node) or node.kind is NodeKind.INTEGER_LITERAL:
            return None
        found = [self.fact(*part) for part in self.parts(node, True)]
        return None if None in found else [each for each in found if each is not None]

    def constant(self, node: SyntaxNode) -> int | None:
        """The number that an integer expression is, of 32 bits, if it is one."""
        node = bare(node)
        if node.kind is NodeKind.INTEGER_LITERAL:
            form = re.match(r"(0[xX][0-9a-fA-F]+|[0-9]+)[uUlL]*\Z", self._tree.source(node))
            if form is None or (form[1].isdigit() and form[1].startswith("0") and len(form[1]) > 1):
                return None
            number = int(form[1], 0)
            return number if number < _MODULUS else None
        if node.kind is NodeKind.CAST and node.type.form is Form.INTEGER and node.type.nbytes >= 4:
            return self.constant(node.operands[0])
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator in ("-", "~") and node.type.nbytes == 4:
            of = self.constant(node.operands[0])
            return None if of is None else (-of if node.operator == "-" else ~of) % _MODULUS
        return None

    def chosen(self, node: SyntaxNode, truth: bool) -> Chosen | None:
        """Which work-item a part of a condition is true for."""
        node = bare(node)
        form: Linear | None
        if node.kind is NodeKind.BINARY_OPERATOR and node.operator == ("==" if truth else "!="):
            one, other = (self._locals.linear(each) for each in node.operands)
            form = None if one is None or other is None else added(one, scaled(other, -1))
        else:
            form = None if truth or node.operator in _COMPARISONS else self._locals.linear(node)
        if not form:
            return None
        if all(value < 0 for value in form.values()):
            form = scaled(form, -1)
        if form == {(Symbol("call", 0, "get_local_linear_id()"),): 1}:
            return Chosen(frozenset({0, 1, 2}), True)
        for last in (form, scaled(form, -1)):
            dims = self._dims(last, is_last=True)
            if dims is not None:
                return Chosen(dims, False)
        dims = self._dims(form, is_last=False)
        return None if dims is None else Chosen(dims, True)

    def _dims(self, form: Linear, is_last: bool) -> frozenset[int] | None:
        """The dimensions of whose local ids a form is a sum, with positive factors; of one, less its end."""
        found = set()
        sizes = {}
        for product, value in form.items():
            named = [_ID.match(each.text) for each in product]
            if is_last and (product == ONE or (len(named) == 1 and named[0] and named[0][1] == "local_size")):
                sizes[named[0][2] if named and named[0] else ""] = value
                continue
            ids = [each[2] for each in named if each is not None and each[1] == "local_id"]
            # All of different dimensions: no product is larger than a work-group.
            is_small = 0 < value < _FACTOR_MAX and len({each and each[2] for each in named}) == len(named)
            if None in named or len(ids) != 1 or not is_small or int(ids[0]) in found:
                return None
            found.add(int(ids[0]))
            if is_last and (len(product) != 1 or value != 1):
                return None
        if is_last:
            is_end = len(found) == 1 and sizes == {"": 1, str(next(iter(found), "")): -1}
            return frozenset(found) if is_end else None
        return frozenset(found) or None

    def _is_choice(self, node: SyntaxNode) -> bool:
        """Whether it is ``c ? 1 : 0``."""
        operands = node.operands
        return len(operands) == 3 and [self.constant(each) for each in operands[1:]] == [1, 0]

    def _definition(self, node: SyntaxNode) -> SyntaxNode | None:
        """The flag that a variable is all the time, if what that is made of stays as it is, too."""
        given = self._given.get(node.declaration, ()) if node.kind is NodeKind.DECL_REF else ()
        if len(given) != 1 or given[0] is None or node.declaration in self._locals.changed:
            return None
        value = bare(given[0])
        asked = value.operands[0] if value.kind is NodeKind.CONDITIONAL_OPERATOR else value
        fact = self.fact(asked, True) if self.is_flag(value) else None
        if fact is None or fact.loads or value.kind is NodeKind.INTEGER_LITERAL:
            return None
        return None if fact.variables & self._locals.changed else value

    def _key(self, node: SyntaxNode, variables: set[int], loads: set[int]) -> Key | None:
        """What an expression is, by its form; None where it may have another value next time."""
        node = bare(node)
        children = node.operands
        name: object = node.operator
        match node.kind:
            case kind if kind in _LITERALS:
                return ("number", self._tree.source(node))
            case NodeKind.DECL_REF:
                is_value = node.declaration in self._parameters and node.type.form in _VALUES
                if node.declaration in self._indexed or not (is_value or node.declaration in self._given):
                    return None
                variables.add(node.declaration)
                return ("variable", node.declaration)
            case NodeKind.CAST if len(children) == 1:
                name = node.type.canonical
            case NodeKind.UNEXPOSED if len(children) == 1 and children[0].type.form is Form.VECTOR:
                name = "".join(self._tree.text[children[0].end : node.end].split())
            case NodeKind.MEMBER_REF if len(children) == 1 and children[0].type.form is Form.RECORD:
                name = node.name
            case NodeKind.UNARY_OPERATOR if node.operator in ("-", "~", "!", "+"):
                if node.type.form is not Form.INTEGER:
                    return None
            case NodeKind.BINARY_OPERATOR if node.operator in _COMPARISONS:
                if node.type.form is not Form.INTEGER:
                    return None
            case NodeKind.BINARY_OPERATOR if node.operator in _INTEGER_OPERATORS:
                if node.type.form is not Form.INTEGER:
                    return None
            case NodeKind.CALL:
                callee = callee_of(node)
                is_id = callee is not None and callee.declaration not in self._tree.functions
                if callee is None or not is_id or not IDS.match(callee.name):
                    return None
                if any(each.kind is NodeKind.DECL_REF for one in node.children[1:] for each in one.walk()):
                    return None
                return ("call", "".join(self._tree.source(node).split()))
            case NodeKind.ARRAY_SUBSCRIPT if len(children) == 2:
                base, number = bare(children[0]), self._parameters.get(bare(children[0]).declaration)
                element = base.type.element
                if number is None or element is None or base.declaration in self._locals.changed:
                    return None
                if element.space not in (Space.GLOBAL, Space.CONSTANT) or element.volatile:
                    return None
                loads.add(number)
                index = self._key(children[1], variables, loads)
                return None if index is None else ("element", number, index)
            case _:
                return None
        keys = [self._key(each, variables, loads) for each in children]
        return None if None in keys else (int(node.kind), name, *keys)


def _compared_with(
    node: SyntaxNode, constant: Callable[[SyntaxNode], int | None]
) -> tuple[SyntaxNode, str, int] | None:
    """What is compared with a number, how, and the number."""
    if node.kind is not NodeKind.BINARY_OPERATOR or node.operator not in _COMPARISONS:
        return None
    left, right = node.operands
    number = constant(right)
    if number is None or left.type.form is not Form.INTEGER:
        return None
    return left, node.operator, number


def _is_indexed(node: SyntaxNode) -> bool:
    """Whether it is a part of a variable of which an index chooses some."""
    if node.kind is NodeKind.ARRAY_SUBSCRIPT:
        return node.operands[0].type.form is Form.VECTOR
    return node.kind is NodeKind.MEMBER_REF and node.type.form is Form.ARRAY


def _root(node: SyntaxNode) -> int:
    """The variable of which a place is all or a part."""
    while node.operands and node.kind in (
        NodeKind.PAREN,
        NodeKind.UNEXPOSED,
        NodeKind.MEMBER_REF,
        NodeKind.ARRAY_SUBSCRIPT,
    ):
        node = node.operands[0]
    return node.declaration if node.kind is NodeKind.DECL_REF else 0
