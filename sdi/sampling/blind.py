"""Calls of functions that are not followed: they jump, have assembly that may do more than compute, or are
long, in a kernel that is long as a whole.

Such a call may do anything to what it is given addresses of.  The rest of the kernel is followed as ever.
"""

from __future__ import annotations

from sdi.clc.constness import reaches_pointers
from sdi.clc.frontend import assembly
from sdi.clc.frontend.base_header import PTX_TARGET
from sdi.clc.frontend.builtins import Action, action_of
from sdi.clc.frontend.syntax import (
    LOOPS,
    OWN_SPACES,
    STEPPING,
    Form,
    Function,
    NodeKind,
    Space,
    SyntaxNode,
    Tree,
    Type,
    callee_of,
)
from sdi.sampling.control import JUMPS
from sdi.sampling.expressions import Expressions
from sdi.sampling.machine import GaveUp, Mode
from sdi.sampling.values import Value, fresh

LONG = 1_000
"""Nodes that are visited in a call of a long function.  What computes an index has some tens of them."""
_ADDRESSES = (Form.POINTER, Form.ARRAY, Form.FUNCTION)


def computes(tree: Tree, node: SyntaxNode) -> bool:
    """Whether assembly does nothing but compute its outputs."""
    return tree.target == PTX_TARGET and not assembly.effects_of(assembly.read(tree, node))


class Stores:
    """Which functions store, or make others store, where other work-groups or the host may see it.

    By the types of what they assign, so whatever their pointers were made of.  Owned by: the build's thread.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[int, bool] = {}

    def are_in(self, function: Function | None) -> bool:
        """Whether there may be any in a function, or in what it calls; None: a function that nobody knows."""
        if function is None or function.body is None:
            return True
        known = self._known.get(function.declaration)
        if known is None:
            self._known[function.declaration] = True  # for one that calls itself
            known = self._known[function.declaration] = any(map(self._is_one, function.body.walk()))
        return known

    def _is_one(self, node: SyntaxNode) -> bool:
        match node.kind:
            case NodeKind.ASM:
                found = assembly.read(self._tree, node)
                operands = found.operands if found is not None and computes(self._tree, node) else None
                return operands is None or any(
                    each.is_written and each.node.type.space not in OWN_SPACES for each in operands
                )
            case NodeKind.BINARY_OPERATOR if node.operator != "=":
                return False
            case NodeKind.UNARY_OPERATOR if node.operator not in STEPPING:
                return False
            case NodeKind.BINARY_OPERATOR | NodeKind.COMPOUND_ASSIGNMENT | NodeKind.UNARY_OPERATOR:
                return node.operands[0].type.space not in OWN_SPACES
            case NodeKind.CALL:
                return self._is_call_of_one(node)
            case NodeKind.UNEXPOSED | NodeKind.OTHER if len(node.operands) > 1:
                # clang's own atomic operators
                return not self._tree.is_gnu_conditional(node) and any(map(_leads_out, node.operands))
            case _:
                return False

    def _is_call_of_one(self, node: SyntaxNode) -> bool:
        reference = callee_of(node)
        if reference is None:
            return True
        if (called := self._tree.functions.get(reference.declaration)) is not None:
            return self.are_in(called)
        if action_of(reference.name) in (Action.WRITE_IMAGE, Action.ENQUEUE):
            return True
        return action_of(reference.name) is not Action.READ and any(map(_leads_out, node.children[1:]))


def _leads_out(node: SyntaxNode) -> bool:
    """Whether it is the address of something that others may see, and that may change."""
    pointee = node.type.element
    if node.type.form is not Form.POINTER:
        return False
    return pointee is None or not (pointee.space in OWN_SPACES or pointee.const)


def long_functions(tree: Tree) -> tuple[frozenset[int], frozenset[int]]:
    """Declarations of those whose calls take long to follow, and that leave results to nobody but callers:
    those that reach no memory but their callers' own, then all.
    """
    visits: dict[int, int] = {}
    stores = Stores(tree)

    def of_call(function: Function) -> int:
        if function.declaration not in visits:
            visits[function.declaration] = 0  # for one that calls itself
            visits[function.declaration] = 0 if function.body is None else of_body(function.body)
        return visits[function.declaration]

    def of_body(body: SyntaxNode) -> int:
        found, stack = 0, [(body, 1)]
        while stack:
            node, times = stack.pop()
            reference = callee_of(node) if node.kind is NodeKind.CALL else None
            called = None if reference is None else tree.functions.get(reference.declaration)
            found += times * (1 + (0 if called is None else of_call(called)))
            stack += [(child, times * (2 if node.kind in LOOPS else 1)) for child in node.children]
        return found

    found = [f for f in tree.functions.values() if of_call(f) > LONG and not stores.are_in(f)]
    inward = [f for f in found if not any(_may_lead_out(each.type) for each in f.parameters)]
    return frozenset(f.declaration for f in inward), frozenset(f.declaration for f in found)


def _may_lead_out(of: Type) -> bool:
    """Whether the arguments of a kernel may be reached from a parameter of a function."""
    pointee = of.element
    if of.form is Form.POINTER and (pointee is None or pointee.space not in OWN_SPACES):
        return True
    return of.form is Form.IMAGE or _has_addresses_within(of)


class BlindCalls:
    """Which functions are called like that, and the calls.  Owned by: the thread of the build.

    ``blind``: declarations of functions that are, whatever they do.
    """

    def __init__(self, tree: Tree, expressions: Expressions, blind: frozenset[int]) -> None:
        self._tree = tree
        self._expressions = expressions
        self._blind = dict.fromkeys(blind, True)
        self._stores = Stores(tree)
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
        """What a call returns; raises GaveUp where it is given an image and may write one."""
        machine = self._expressions.machine
        stores = self._stores.are_in(function)
        anywhere = self._makes_addresses(function)
        for argument, value in zip(at.children[1:], arguments, strict=True):
            if argument.type.form is Form.IMAGE and stores:
                raise GaveUp("gives an image to a function that is not followed", at.begin)
            self._expressions.expose(value, argument, stores)
            anywhere |= _has_addresses_within(argument.type)
        if anywhere:
            for mode in Mode if stores else (Mode.READ,):
                machine.touch(None, Space.GENERIC, mode, 1, at.begin)
            machine.overwrite(None)
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
