"""Expressions of a symbolic run: their values, the places they name, and the memory they touch."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence

from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Tree, Type, callee_of
from sdi.sampling.calls import Builtins
from sdi.sampling.constants import Constants
from sdi.sampling.control import NOT_PRIVATE
from sdi.sampling.floats import keeps_number
from sdi.sampling.layout import Layouts
from sdi.sampling.machine import GaveUp, Machine, Mode
from sdi.sampling.operators import Operators
from sdi.sampling.places import (
    Memory,
    Path,
    Place,
    Swizzle,
    Temporary,
    Variable,
    components,
    size_of,
    with_part,
)
from sdi.sampling.pointees import Pointees
from sdi.sampling.terms import I32, U64, IntType, TermOp
from sdi.sampling.values import (
    HARMLESS,
    ArrayValue,
    PointerValue,
    RecordValue,
    Value,
    fresh,
    int_type,
    is_bool,
    joined,
    root_of,
    unset,
)

Inliner = Callable[[Function, list[Value], SyntaxNode], Value]

_DESIGNATED = re.compile(r"=|[{,]\s*\[")  # in a list: an item that stands at another place
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)([uUlL]*)\Z")


class Expressions:
    """Evaluates expressions on a machine.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree, machine: Machine, inline: Inliner) -> None:
        self.tree = tree
        self.machine = machine
        self.terms = machine.terms
        self.layouts = Layouts(tree)
        self.pointees = Pointees(machine, self.layouts)
        self.operators = Operators(machine)
        self._inline = inline
        self._builtins = Builtins(self)
        self._constants = Constants(tree, self)

    # -- values ----------------------------------------------------------------------------------

    def value(self, node: SyntaxNode) -> Value:
        """Run an expression: note its accesses, answer its value."""
        self.machine.step(node)
        match node.kind:
            case NodeKind.INTEGER_LITERAL | NodeKind.CHARACTER_LITERAL | NodeKind.FLOATING_LITERAL:
                return self._literal(node)
            case NodeKind.STRING_LITERAL:
                return None
            case NodeKind.PAREN if len(node.children) == 1:
                return self.value(node.children[0])
            case NodeKind.DECL_REF | NodeKind.ARRAY_SUBSCRIPT | NodeKind.MEMBER_REF:
                return self.load(self.place(node), node.type, node)
            case NodeKind.UNEXPOSED | NodeKind.CAST:
                return self._conversion(node)
            case NodeKind.UNARY_OPERATOR:
                return self._unary(node)
            case NodeKind.BINARY_OPERATOR:
                return self._binary(node)
            case NodeKind.COMPOUND_ASSIGNMENT:
                return self._compound(node)
            case NodeKind.CONDITIONAL_OPERATOR if len(node.children) == 3:
                return self._conditional(node)
            case NodeKind.CALL:
                return self._call(node)
            case NodeKind.INIT_LIST | NodeKind.COMPOUND_LITERAL:
                return self._list(node)
            case NodeKind.SIZEOF:
                return self._size(node)
            case _ if is_bool(node.type) and (word := self.tree.source(node)) in ("true", "false"):
                return self.terms.const(int(word == "true"), IntType(1, False))
            case _:
                return self._other(node)

    def truth(self, value: Value) -> int:
        """``value != 0``."""
        if isinstance(value, int):
            return self.terms.truth(value)
        return self.terms.truth(self.terms.unknown(I32))

    def condition(self, node: SyntaxNode) -> int:
        """The truth of an expression that guards something."""
        return self.truth(self.value(node))

    def _literal(self, node: SyntaxNode) -> Value:
        kind, text = int_type(node.type), self.tree.source(node)
        if kind is None:
            return self.machine.floats.literal(text, node.type)
        if node.kind is NodeKind.CHARACTER_LITERAL:
            try:
                character = ast.literal_eval(text)
            except (ValueError, SyntaxError):
                return self.terms.unknown(kind)
            if len(character) != 1:
                return fresh(self.terms, node.type)
            return self.terms.const(IntType(8, True).wrap(ord(character)), kind)
        match = _INTEGER.match(text)
        if match is None:
            return self.terms.unknown(kind)
        digits = match.group(1)
        base = 8 if digits[0] == "0" and digits.isdigit() and len(digits) > 1 else 0
        return self.terms.const(int(digits, base), kind)

    def _size(self, node: SyntaxNode) -> Value:
        kind = int_type(node.type) or U64
        nbytes = size_of(self.tree, node)
        return self.terms.unknown(kind, data=False) if nbytes is None else self.terms.const(nbytes, kind)

    def _conversion(self, node: SyntaxNode) -> Value:
        operands = node.operands
        if self.tree.is_gnu_conditional(node):
            if operands[0].type.form is Form.VECTOR:  # chosen element by element
                for child in operands:
                    self.value(child)
                return fresh(self.terms, node.type)
            return self._either(operands[0], None, operands[1], node.type)
        if len(operands) != 1:
            return self._other(node)
        child = operands[0]
        if node.kind is NodeKind.UNEXPOSED:
            indices = components(self.tree, node, child)
            if indices is not None:
                return self.load(self.place(node), node.type, node)
            if child.type.form is Form.VECTOR and node.type.form is not Form.VECTOR:
                self.value(child)  # unknown components, or a reinterpretation
                return fresh(self.terms, node.type)
        if child.kind is NodeKind.DECL_REF and node.type.form is Form.EVENT:
            return None
        value = self.value(child)
        value = value if keeps_number(self.tree, node, child) else None
        return self.operators.converted(value, child.type, node.type, node.kind is NodeKind.CAST)

    def _other(self, node: SyntaxNode) -> Value:
        """A node no rule is for: its pointers may be used in any way."""
        for child in node.operands:
            if 200 <= child.kind < 300 or child.kind is NodeKind.VAR_DECL:
                raise GaveUp("has a statement inside an expression", node.begin)
            self.expose(self.value(child), child)
        return fresh(self.terms, node.type)

    def expose(self, value: Value, node: SyntaxNode, is_written: bool = True) -> None:
        """Any part of what ``value`` points to may be read, and written (else only private memory may be)."""
        if node.type.form not in (Form.POINTER, Form.ARRAY) or node.type.element is None:
            return
        space, machine = node.type.element.space, self.machine
        anywhere = machine.indexed(value, None, 1) if isinstance(value, PointerValue) else None
        machine.touch(anywhere, space, Mode.READ, 1, node.begin, is_definite=False)
        if is_written:
            machine.touch(anywhere, space, Mode.WRITE, 1, node.begin, is_definite=False)
        elif space not in NOT_PRIVATE:
            machine.overwrite(value)

    # -- operators -------------------------------------------------------------------------------

    def _unary(self, node: SyntaxNode) -> Value:
        child = node.children[0]
        match node.operator:
            case "*":
                return self.load(self.place(node), node.type, node)
            case "&":
                return self._address(self.place(child))
            case "++" | "--" | "x++" | "x--":
                place = self.place(child)
                old = self.load(place, child.type, child)
                new = self.operators.stepped(old, child.type, 1 if "+" in node.operator else -1)
                self.store(place, child.type, new, child)
                return old if node.operator[0] == "x" else new
            case "!" if node.type.form is Form.INTEGER:
                opposite = self.terms.negate(self.condition(child))
                return self.terms.convert(opposite, int_type(node.type) or I32)
            case "-" | "+" | "~" | "!":
                return self.operators.mapped(self.value(child), node.operator, node.type)
            case _:
                self.value(child)
                return fresh(self.terms, node.type)

    def _address(self, place: Place) -> Value:
        match place:
            case Memory():
                return place.pointer
            case Variable():
                own = PointerValue(((root_of(place.declaration), self.machine.zero),))
                at = self.pointees.offset(place)
                return self.machine.indexed(own, None, 1) if at is None else self.machine.moved(own, at)
            case Swizzle():
                base = self._address(place.base)
                return self.machine.indexed(base, None, 1) if isinstance(base, PointerValue) else None
            case _:
                return HARMLESS

    def _binary(self, node: SyntaxNode) -> Value:
        left, right = node.children
        match node.operator:
            case "=":
                value = self.value(right)
                place = self.place(left)
                value = self.operators.converted(value, right.type, left.type)
                self.store(place, left.type, value, left)
                return value
            case ",":
                self.value(left)
                return self.value(right)
            case "&&" | "||" if node.type.form is Form.INTEGER:
                return self.terms.convert(self._shortcut(node), int_type(node.type) or I32)
        a, b = self.value(left), self.value(right)
        return self.operators.operate(node.operator, a, left.type, b, right.type, node.type)

    def _shortcut(self, node: SyntaxNode) -> int:
        machine = self.machine
        left = self.condition(node.children[0])
        needed = left if node.operator == "&&" else self.terms.negate(left)
        known = self.terms.value(needed)
        if known == 0:
            return left
        before, guards = machine.copied(machine.env), len(machine.guards)
        machine.assume(needed)
        right = self.condition(node.children[1])
        del machine.guards[guards:]
        if machine.env != before:
            machine.env = machine.merge(needed, machine.env, before)
        return self.terms.join([left, right], TermOp.ALL if node.operator == "&&" else TermOp.ANY)

    def _compound(self, node: SyntaxNode) -> Value:
        left, right = node.children
        operator = node.operator[:-1]
        value = self.value(right)
        place = self.place(left)
        old = self.load(place, left.type, left)
        new = self.operators.compounded(operator, old, left.type, value, right.type)
        self.store(place, left.type, new, left)
        return new

    def _conditional(self, node: SyntaxNode) -> Value:
        if node.children[0].type.form is Form.VECTOR:
            tested, one, two = (self.value(child) for child in node.children)
            return self.operators.chosen(tested, one, two, node.type)
        test, then, other = node.children
        return self._either(test, then, other, node.type)

    def _either(self, test: SyntaxNode, then: SyntaxNode | None, other: SyntaxNode, of: Type) -> Value:
        """``test ? then : other``; without ``then`` it is the value of the test."""
        machine = self.machine
        tested = self.value(test)
        condition = self.truth(tested)

        def value(child: SyntaxNode | None) -> Value:
            found = tested if child is None else self.value(child)
            return self.operators.converted(found, (child or test).type, of)

        known = self.terms.value(condition)
        if known is not None:
            return value(then if known else other)
        before, guards = machine.copied(machine.env), len(machine.guards)
        values: list[Value] = []
        environments: list[dict[int, Value]] = []
        for child, side in ((then, condition), (other, self.terms.negate(condition))):
            machine.env = machine.copied(before)
            machine.assume(side)
            values.append(value(child))
            environments.append(machine.env)
            del machine.guards[guards:]
        machine.env = machine.merge(condition, environments[0], environments[1])
        return joined(self.terms, condition, values[0], values[1])

    def _list(self, node: SyntaxNode) -> Value:
        """``{...}`` or ``(int2)(a, b)``."""
        operands = node.operands
        if node.kind is NodeKind.COMPOUND_LITERAL:
            if len(operands) == 1:
                return self.operators.converted(self.value(operands[0]), operands[0].type, node.type)
            return self._other(node)
        values = [self.value(child) for child in operands]
        if node.type.form is Form.VECTOR and node.type.element is not None:
            parts: list[Value] = []
            for child, value in zip(operands, values, strict=True):
                of = child.type
                if of.form is Form.VECTOR and of.element is not None:
                    known = isinstance(value, tuple) and len(value) == of.count
                    each = value if known and isinstance(value, tuple) else (None,) * of.count
                    parts += [self.operators.converted(v, of.element, node.type.element) for v in each]
                else:
                    parts.append(self.operators.converted(value, of, node.type.element))
            if len(parts) == 1 and node.type.count > 1 and self.tree.source(node)[:1] == "(":
                parts *= node.type.count
            return tuple(parts) if len(parts) == node.type.count else fresh(self.terms, node.type)
        if node.type.form is Form.RECORD and "=" not in self.tree.source(node):
            fields = self.layouts.fields(node.type)
            if fields is not None and len(fields) == len(values):
                for field, child in zip(fields.values(), operands, strict=True):
                    is_aggregate = field.type.form in (Form.RECORD, Form.ARRAY)
                    if (
                        is_aggregate
                        and child.kind is not NodeKind.INIT_LIST
                        and child.type.form is not field.type.form
                    ):
                        return fresh(self.terms, node.type)  # braces left out
                pairs = zip(fields.items(), operands, values, strict=True)
                return RecordValue(
                    tuple((n, self.operators.converted(v, o.type, f.type)) for (n, f), o, v in pairs)
                )
        if node.type.form is Form.ARRAY and not _DESIGNATED.search(self.tree.source(node)):
            return self._items(node.type, operands, values)
        if len(values) == 1 and node.type.form in (Form.INTEGER, Form.POINTER):
            return self.operators.converted(values[0], operands[0].type, node.type)
        return fresh(self.terms, node.type)

    def _items(self, of: Type, operands: Sequence[SyntaxNode], values: list[Value]) -> Value:
        """The array that a list in braces makes, zero where that ends early; None if it is not followed."""
        empty = unset(of)
        if empty is None or of.element is None:
            return None
        items: list[Value] = []
        for operand, value in zip(operands, values, strict=True):
            if isinstance(value, ArrayValue):
                items += value.items
            elif empty.holds(of.element) and operand.type.form is of.element.form:
                items.append(self.operators.converted(value, operand.type, of.element))
            else:
                return None  # braces left out, a text, or another type
        rest = len(empty.items) - len(items)
        zero = PointerValue(()) if empty.kind is None else self.terms.const(0, empty.kind)
        items += (zero,) * rest
        return ArrayValue(empty.kind, tuple(items)) if rest >= 0 else None

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, node: SyntaxNode) -> Value:
        reference = callee_of(node)
        arguments = node.children[1:]
        if reference is None:
            raise GaveUp("calls through a pointer", node.begin)
        function = self.tree.functions.get(reference.declaration)
        if function is not None:
            values = [self.value(a) for a in arguments]
            if function.body is None:
                for argument, value in zip(arguments, values, strict=True):
                    self.expose(value, argument)
                return fresh(self.terms, node.type)
            return self._inline(function, values, node)
        return self._builtins.call(node, reference.name, arguments)

    # -- places ----------------------------------------------------------------------------------

    def place(self, node: SyntaxNode) -> Place:
        """Where an lvalue is."""
        match node.kind:
            case NodeKind.PAREN if len(node.children) == 1:
                return self.place(node.children[0])
            case NodeKind.DECL_REF:
                return self._named(node)
            case NodeKind.ARRAY_SUBSCRIPT if len(node.children) == 2:
                return self._element(node)
            case NodeKind.UNARY_OPERATOR if node.operator == "*":
                value = self.value(node.children[0])
                return Memory(value if isinstance(value, PointerValue) else None, node.type.space)
            case NodeKind.MEMBER_REF if len(node.children) == 1:
                return self._member(node)
            case NodeKind.UNEXPOSED if len(node.children) == 1:
                child = node.children[0]
                indices = components(self.tree, node, child)
                if indices is not None:
                    return Swizzle(self.place(child), indices, child.type)
                if child.type.form is node.type.form and child.type.nbytes == node.type.nbytes:
                    return self.place(child)
        return Temporary(self._rvalue(node))

    def _rvalue(self, node: SyntaxNode) -> Value:
        if node.kind in (NodeKind.DECL_REF, NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF):
            return self._other(node)
        return self.value(node)

    def _named(self, node: SyntaxNode) -> Place:
        name = node.declaration
        if name in self.machine.env:
            if node.type.form is Form.ARRAY or node.type.space is Space.LOCAL:
                own = root_of(0 if node.type.space is Space.LOCAL else name)
                return Memory(PointerValue(((own, self.machine.zero),)), node.type.space)
            return Variable(name, ())
        known = self._constants.value(name)
        if known is not None:
            return Temporary(known)
        if node.type.space in (Space.GLOBAL, Space.GENERIC, Space.CONSTANT):
            return Memory(HARMLESS, node.type.space)  # a program-scope variable: no argument's memory
        if node.type.form is Form.FUNCTION:
            return Temporary(None)
        return Memory(HARMLESS, Space.PRIVATE)

    def _element(self, node: SyntaxNode) -> Place:
        base, index = node.children
        if base.type.form is Form.INTEGER:
            base, index = index, base
        if base.type.form is Form.VECTOR:
            place = self.place(base)
            chosen = self.value(index)
            number = self.terms.value(chosen) if isinstance(chosen, int) else None
            if number is not None and 0 <= number < base.type.count:
                return Swizzle(place, (number,), base.type)
            if isinstance(place, Memory) and isinstance(place.pointer, PointerValue):
                stride = base.type.element.nbytes if base.type.element is not None else 0
                return Memory(self.machine.indexed(place.pointer, chosen, stride), place.space)
            if isinstance(place, Variable):
                self.machine.sticky.add(place.declaration)
            return Memory(HARMLESS, Space.PRIVATE) if not isinstance(place, Memory) else place
        table = self._table(base)
        if table is not None:
            return Temporary(self.operators.looked_up(table, self.value(index)))
        pointer = self.value(base)
        offset = self.value(index)
        if not isinstance(pointer, PointerValue) or not node.type.nbytes:
            return Memory(None, node.type.space)
        return Memory(self.machine.indexed(pointer, offset, node.type.nbytes), node.type.space)

    def _table(self, node: SyntaxNode) -> tuple[Value, ...] | None:
        """The elements of a constant array that an expression names."""
        while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.children) == 1:
            node = node.children[0]
        if node.kind is not NodeKind.DECL_REF or node.declaration in self.machine.env:
            return None
        return self._constants.table(node.declaration)

    def _member(self, node: SyntaxNode) -> Place:
        child = node.children[0]
        if child.type.form is Form.POINTER:
            value = self.value(child)
            base: Place = Memory(value if isinstance(value, PointerValue) else None, node.type.space)
            record = child.type.element
        else:
            base = self.place(child)
            record = child.type
        match base:
            case Memory():
                if not isinstance(base.pointer, PointerValue) or record is None:
                    return Memory(None, node.type.space)
                fields = self.layouts.fields(record)
                if fields is None or node.name not in fields:
                    anywhere = self.machine.indexed(base.pointer, None, 1)
                    return Memory(anywhere, node.type.space)
                return Memory(self.machine.moved(base.pointer, fields[node.name].offset), node.type.space)
            case Variable():
                if record is None or not self.layouts.is_disjoint(record):
                    self.machine.sticky.add(base.declaration)  # one member's bytes are another's
                part = Variable(base.declaration, (*base.path, node.name))
                return Memory(self._address(part), Space.PRIVATE) if node.type.form is Form.ARRAY else part
            case Temporary():
                value = base.value
                return Temporary(value.get(node.name) if isinstance(value, RecordValue) else None)
            case _:
                return Temporary(None)

    # -- loads and stores ------------------------------------------------------------------------

    def load(self, place: Place, of: Type, node: SyntaxNode) -> Value:
        """The value at a place."""
        terms = self.terms
        match place:
            case Memory():
                if of.form is Form.ARRAY:
                    return place.pointer
                private = self.pointees.of(place.pointer)
                if private is not None:
                    return self.pointees.load(*private, of)
                if of.form is not Form.FUNCTION:
                    self.machine.touch(place.pointer, place.space, Mode.READ, of.nbytes, node.begin)
                return fresh(terms, of)
            case Variable():
                if place.declaration in self.machine.sticky:
                    return fresh(terms, of)
                value = self.machine.env.get(place.declaration)
                for step in place.path:
                    value = (
                        value.get(step) if isinstance(value, RecordValue) and isinstance(step, str) else None
                    )
                return self.pointees.typed(value, of)
            case Temporary():
                return self.pointees.typed(place.value, of)
            case Swizzle():
                whole: Value
                if isinstance(place.base, Memory) and self.pointees.of(place.base.pointer) is None:
                    self._touch_components(place, place.base, Mode.READ, node)
                    whole = None
                else:
                    whole = self.load(place.base, place.vector, node)
                if not isinstance(whole, tuple) or max(place.indices) >= len(whole):
                    return fresh(terms, of)
                found = tuple(whole[i] for i in place.indices)
                return found if of.form is Form.VECTOR else self.pointees.typed(found[0], of)

    def _touch_components(self, place: Swizzle, base: Memory, mode: Mode, node: SyntaxNode) -> None:
        element = place.vector.element
        size = element.nbytes if element is not None else 0
        indices = set(place.indices)
        if mode is Mode.READ and place.vector.count == 3 and len(indices) > 1:
            indices.add(3)  # a driver may copy the padding with them, to where the program can see it
        for index in sorted(indices):
            moved = (
                self.machine.moved(base.pointer, index * size)
                if isinstance(base.pointer, PointerValue)
                else None
            )
            self.machine.touch(moved, base.space, mode, size, node.begin)

    def store(self, place: Place, of: Type, value: Value, node: SyntaxNode) -> None:
        """Put a value at a place."""
        match place:
            case Memory() if (private := self.pointees.of(place.pointer)) is not None:
                self.pointees.store(*private, of, value)
            case Memory():
                dense = self.layouts.is_dense(of)
                self.machine.touch(place.pointer, place.space, Mode.WRITE, of.nbytes, node.begin, dense)
            case Variable():
                self._assign(place.declaration, place.path, value)
            case Swizzle(base=Memory() as base) if self.pointees.of(base.pointer) is None:
                self._touch_components(place, base, Mode.WRITE, node)
            case Swizzle():
                old = self.load(place.base, place.vector, node)
                if not isinstance(old, tuple):
                    old = (None,) * place.vector.count
                parts = list(old)
                new = value if isinstance(value, tuple) else (value,)
                for at, index in enumerate(place.indices):
                    if index < len(parts):
                        known = new[at] if at < len(new) else None
                        element = place.vector.element
                        parts[index] = self.pointees.typed(known, element) if element is not None else None
                self.store(place.base, place.vector, tuple(parts), node)
            case Temporary():
                raise GaveUp("stores to a place that the analysis has no model of", node.begin)

    def _assign(self, declaration: int, path: Path, value: Value) -> None:
        if not path:
            self.machine.env[declaration] = value
            return
        self.machine.env[declaration] = with_part(self.machine.env.get(declaration), path, value)
