"""Calls of functions that are not followed: they jump, or have assembly that may do more than compute.

Such a call may do anything to what it is given addresses of.  The rest of the kernel is followed as ever.
"""

from __future__ import annotations

from sdi.clc.constness import reaches_pointers
from sdi.clc.frontend import assembly
from sdi.clc.frontend.base_header import PTX_TARGET
from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Tree, Type, callee_of
from sdi.sampling.control import JUMPS
from sdi.sampling.expressions import Expressions
from sdi.sampling.machine import GaveUp, Mode
from sdi.sampling.values import Value, fresh

_ADDRESSES = (Form.POINTER, Form.ARRAY, Form.FUNCTION)


def computes(tree: Tree, node: SyntaxNode) -> bool:
    """Whether assembly does nothing but compute its outputs."""
    return tree.target == PTX_TARGET and not assembly.effects_of(assembly.read(tree, node))


class BlindCalls:
    """Which functions are called like that, and the calls.  Owned by: the thread of the build."""

    def __init__(self, tree: Tree, expressions: Expressions) -> None:
        self._tree = tree
        self._expressions = expressions
        self._blind: dict[int, bool] = {}
        self._makers: dict[int, bool] = {}

    def are_of(self, function: Function) -> bool:
        """Whether calls of ``function`` are not followed."""
        known = self._blind.get(function.declaration)
        if known is None:
            assert function.body is not None
            known = any(
                node.kind in JUMPS or (node.kind is NodeKind.ASM and not computes(self._tree, node))
                for node in function.body.walk()
            )
            self._blind[function.declaration] = known
        return known

    def call(self, function: Function, arguments: list[Value], at: SyntaxNode) -> Value:
        """What a call returns; raises GaveUp where it is given an image."""
        machine = self._expressions.machine
        anywhere = self._makes_addresses(function)
        for argument, value in zip(at.children[1:], arguments, strict=True):
            if argument.type.form is Form.IMAGE:
                raise GaveUp("gives an image to a function that is not followed", at.begin)
            self._expressions.expose(value, argument)
            anywhere |= _has_addresses_within(argument.type)
        if anywhere:
            for mode in Mode:
                machine.touch(None, Space.GENERIC, mode, 1, at.begin)
        return fresh(machine.terms, at.type)

    def _makes_addresses(self, function: Function) -> bool:
        """Whether a function, or one that it calls, may use numbers, or bytes, as addresses."""
        known = self._makers.get(function.declaration)
        if known is not None:
            return known
        self._makers[function.declaration] = True  # for one that calls itself
        assert function.body is not None
        self._makers[function.declaration] = found = any(map(self._makes_address, function.body.walk()))
        return found

    def _makes_address(self, node: SyntaxNode) -> bool:
        if node.kind is NodeKind.ASM:
            found = assembly.read(self._tree, node)
            return found is None or any(
                each.node.type.form not in _ADDRESSES and each.node.type.nbytes >= 4  # half an address
                for each in found.operands
            )
        if node.kind is NodeKind.CALL:
            reference = callee_of(node)
            called = None if reference is None else self._tree.functions.get(reference.declaration)
            if called is None or called.body is None:
                return reference is None
            return self._makes_addresses(called)
        if node.kind not in (NodeKind.CAST, NodeKind.UNEXPOSED) or not node.operands:
            return node.type.punned
        before, after = node.operands[-1].type, node.type
        if reaches_pointers(before) or reaches_pointers(after):
            return before.element != after.element
        if after.form is not Form.POINTER:
            return after.punned
        is_other = before.form not in _ADDRESSES
        return node.kind is NodeKind.CAST and (is_other or _has_addresses_within(after))


def _has_addresses_within(of: Type) -> bool:
    """Whether there may be addresses in a value, or in what it points to."""
    if of.form not in (Form.POINTER, Form.ARRAY):
        return of.holds_pointer
    return of.element is None or of.element.form is Form.VOID or of.element.holds_pointer
