"""OpenCL C initialisers as CUDA C++."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping

from sdi.clc.cuda.types import TypeNames, UnknownConstruct, in_unicode, is_scalar, safe_name, unqualified
from sdi.clc.frontend.syntax import Form, NodeKind, SyntaxNode, Type
from sdi.clc.preprocess.conditions import evaluate
from sdi.clc.preprocess.macros import MacroError


class InitialiserWriter:
    """Writes the initialisers of one program.

    ``value``, ``source``: an expression in C++, and as it stands; ``is_boolean``: one that was true or false.
    """

    def __init__(
        self,
        types: TypeNames,
        fields: Mapping[int, tuple[SyntaxNode, ...]],
        value: Callable[[SyntaxNode], str],
        source: Callable[[SyntaxNode], str],
        is_boolean: Callable[[SyntaxNode], bool],
    ) -> None:
        self.types = types
        self.fields = fields
        self._value = value
        self._source = source
        self._is_boolean = is_boolean

    def __call__(self, target: Type, node: SyntaxNode) -> str:
        """The value of an initialiser of ``target``: a list with braces, or an expression."""
        if node.kind is NodeKind.STRING_LITERAL and target.form is Form.ARRAY:
            return self._text(target, node)
        if node.kind is not NodeKind.INIT_LIST:
            return self._one(target, node)
        if target.form is Form.VECTOR:
            values = ", ".join(self._value(each) for each in node.operands)
            return f"_cl_make<{self.types.plain(target, node)}>({values})"
        if target.form is Form.ARRAY:
            return self._array_initialiser(target, node)
        if target.form is Form.RECORD:
            return self._record_initialiser(target, node)
        if len(node.operands) != 1:
            raise UnknownConstruct(node, "this initialiser")
        return self(target, node.operands[0])

    def _one(self, target: Type, node: SyntaxNode) -> str:
        """What a single value makes of ``target``: a scalar all elements of a vector."""
        value = self._value(node)
        if target.form is Form.VECTOR and is_scalar(node.type):
            sign = "-" if self._is_boolean(node) else ""
            return f"_cl_splat<{self.types.plain(target, node)}>({sign}{value})"
        return value

    def _designated(self, node: SyntaxNode) -> tuple[SyntaxNode, SyntaxNode] | None:
        """(designator, value) of ``.field = value`` or ``[index] = value``."""
        if node.kind is NodeKind.UNEXPOSED and node.type.form is Form.VOID:
            if len(node.operands) != 2:
                raise UnknownConstruct(node, "nested designators")
            return node.operands[0], node.operands[1]
        return None

    def _array_initialiser(self, target: Type, node: SyntaxNode) -> str:
        element = target.element
        assert element is not None
        operands = node.operands
        if len(operands) == 1 and operands[0].kind is NodeKind.STRING_LITERAL:
            return self._text(target, operands[0])
        slots: dict[int, str] = {}
        at = 0
        for each in operands:
            designated = self._designated(each)
            if designated is not None:
                at, each = self._index(designated[0]), designated[1]
            if element.form in (Form.ARRAY, Form.RECORD) and not self._fills(element, each):
                return self._flat(target, node)
            slots[at] = self(element, each)
            at += 1
        if target.count:  # C leaves out what is too much, with a warning
            slots = {at: value for at, value in slots.items() if at < target.count}
        zero = "{}" if element.form in (Form.ARRAY, Form.RECORD, Form.VECTOR) else "0"
        return "{" + ", ".join(slots.get(i, zero) for i in range(max(slots, default=-1) + 1)) + "}"

    def _index(self, node: SyntaxNode) -> int:
        """The number in ``[...]``; of names nothing is known here."""
        source = self._source(node)
        if not re.search(r"[A-Za-z_]", re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]*\b", "0", source)):
            with contextlib.suppress(MacroError):
                return evaluate(source)
        raise UnknownConstruct(node, "this designator")

    def _text(self, target: Type, node: SyntaxNode) -> str:
        """Characters of an array; C++ has a string only where there is room for its final 0."""
        written = self._value(node)
        is_full = "\\" not in written and written.count('"') == 2 and len(written) - 2 == target.count
        return "{" + ", ".join(f"'{each}'" for each in written[1:-1]) + "}" if is_full else written

    def _fills(self, target: Type, node: SyntaxNode) -> bool:
        """The initialiser is for all of ``target``, not for its first scalar (braces left out)."""
        if node.kind is NodeKind.INIT_LIST:
            return True
        if target.form is Form.RECORD:
            return node.type.record == target.record
        if target.form is not Form.ARRAY:
            return True
        of_characters = target.element is not None and target.element.form is Form.INTEGER
        return of_characters and node.kind is NodeKind.STRING_LITERAL

    def _flat(self, target: Type, node: SyntaxNode) -> str:
        """A list that leaves inner braces out, with all of them: C++ would count vectors' elements too."""
        if any(self._designated(each) for each in node.operands):
            raise UnknownConstruct(node, "designators without inner braces")
        return self._inside(target, list(reversed(node.operands)), node)

    def _inside(self, target: Type, waiting: list[SyntaxNode], node: SyntaxNode) -> str:
        """What ``target``, an array or record, takes of what is ``waiting``, last one first."""
        if target.form is Form.ARRAY:
            element, taken = target.element, list[str]()
            assert element is not None
            while waiting and (len(taken) < target.count or not target.count):
                taken.append(self._next(element, waiting, node))
            return "{" + ", ".join(taken) + "}"
        fields = self.fields.get(target.record)
        if fields is None:
            raise UnknownConstruct(node, f"an initialiser of '{target.spelling}'")
        if unqualified(target).startswith("union "):
            fields = fields[:1]
        listed = []
        for field in fields:
            if waiting:
                listed.append(f".{safe_name(field.name)} = {self._next(field.type, waiting, node)}")
        return f"{self.types.record(target)}{{{', '.join(listed)}}}"

    def _next(self, target: Type, waiting: list[SyntaxNode], node: SyntaxNode) -> str:
        if target.form not in (Form.ARRAY, Form.RECORD) or self._fills(target, waiting[-1]):
            return self(target, waiting.pop())
        return self._inside(target, waiting, node)

    def _record_initialiser(self, target: Type, node: SyntaxNode) -> str:
        fields = self.fields.get(target.record)
        if fields is None:
            raise UnknownConstruct(node, f"an initialiser of '{target.spelling}'")
        name = self.types.record(target)
        is_union = unqualified(target).startswith("union ")
        values: dict[str, str] = {}
        at = 0
        for each in node.operands:
            designated = self._designated(each)
            if designated is not None:
                names = [f.name for f in fields]
                wanted = in_unicode(self._source(designated[0]))
                if wanted not in names:
                    raise UnknownConstruct(each, f"the designator '.{wanted}'")
                at, each = names.index(wanted), designated[1]
            if at >= len(fields):
                raise UnknownConstruct(node, f"an initialiser of '{target.spelling}'")
            field = fields[at]
            if not self._fills(field.type, each):
                return self._flat(target, node)
            values[field.name] = self(field.type, each)
            at += 1
        listed = [f".{safe_name(f.name)} = {values[f.name]}" for f in fields if f.name in values]
        if is_union and len(listed) > 1:
            raise UnknownConstruct(node, "several values for a union")
        return f"{name}{{{', '.join(listed)}}}"
