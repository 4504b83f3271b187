"""What a kernel may do to memory through each of its arguments, found from the tree.

A pointer value is described by its *roots*: the kernel arguments it may point into.  Roots flow
through variables (without regard to order), arithmetic, casts, ``?:`` and calls: a helper is visited
once for each combination of roots it is called with.  Where roots can't be known (a pointer that
was stored to memory, made from an integer, or returned by an unknown function) a global pointer is
assumed to point into every argument.  Every answer errs on the side of more effects.
"""

from __future__ import annotations

from sdi.atomics import Update
from sdi.clc.appends import FoundAppends
from sdi.clc.argument_effects import UNKNOWN_NBYTES, ArgumentEffects
from sdi.clc.atomics import orders_nothing, update_of, why_not_merged
from sdi.clc.claims import Claims
from sdi.clc.constness import drops_const
from sdi.clc.frontend import assembly
from sdi.clc.frontend.base_header import PTX_TARGET
from sdi.clc.frontend.builtins import FENCES, GROUP_BARRIERS, Action, action_of
from sdi.clc.frontend.syntax import (
    LEAVES,
    LOOPS,
    STEPPING,
    Form,
    Function,
    NodeKind,
    Space,
    SyntaxNode,
    Tree,
    Type,
    callee_of,
    is_zero,
)
from sdi.clc.preprocess.lines import LineMap
from sdi.clc.seldom import is_counted, reads_global
from sdi.dataclass import dataclass, field

Roots = frozenset[int]
NOTHING: Roots = frozenset()
STATIC = -1  # the root of program-scope variables in global memory

_TEMPORARY = -1  # the "variable" of a place that is a value without a name
_MAX_CONTEXTS = 5000
MAX_VISITS = 1_000_000
"""Of nodes; a kernel with more runs whole.  By count, so that the answer is the same on every machine."""
_PLACES = frozenset({NodeKind.DECL_REF, NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF})
_ADDRESSES = frozenset({Form.POINTER, Form.ARRAY, Form.FUNCTION})


@dataclass(frozen=True, slots=True)
class LValue:
    """Where an lvalue is: in a variable, or what a pointer with ``roots`` points to (variable 0).

    ``is_punned``: a member of a record with a pointer in a union.
    """

    variable: int
    roots: Roots
    is_punned: bool = False


@dataclass(slots=True)
class _Frame:
    """One visit of a function: what its variables may hold."""

    roots: dict[int, Roots] = field(default_factory=dict)
    address_taken: set[int] = field(default_factory=set)
    returned: Roots = NOTHING
    changed: bool = False


class _TooLong(Exception):
    """There are more visits than are made."""


class EffectAnalysis:
    """Of one kernel.  ``refused``: why what was ``found`` to append does not.  Owned by: a build's thread."""

    def __init__(self, tree: Tree, kernel: Function, lines: LineMap, found: FoundAppends) -> None:
        self.tree = tree
        self.lines = lines
        self.arguments = [ArgumentEffects() for _ in kernel.parameters]
        self.reasons: dict[tuple[int, str], None] = {}
        self.visits = 0
        self._names = [p.name for p in kernel.parameters]
        self._const: set[int] = set()
        self._keeps_const: bool | None = None  # not asked for yet
        of_space: dict[Space, set[int]] = {space: set() for space in Space}
        own: list[Roots] = []
        for index, parameter in enumerate(kernel.parameters):
            pointee = parameter.type.element if parameter.type.form is Form.POINTER else None
            is_rooted = parameter.type.form is Form.IMAGE or (
                pointee is not None and pointee.space in (Space.GLOBAL, Space.CONSTANT, Space.GENERIC)
            )
            own.append(frozenset({index}) if is_rooted else NOTHING)
            if pointee is not None:
                of_space[pointee.space].add(index)
                if pointee.const:
                    self._const.add(index)
        static = {STATIC} if tree.has_global_variables else set()
        self._all_global: Roots = frozenset(of_space[Space.GLOBAL] | of_space[Space.GENERIC] | static)
        self._all_constant: Roots = frozenset(of_space[Space.CONSTANT])
        self._all = self._all_global | self._all_constant
        self._frame = _Frame()
        self._loop_depth = 0
        self._open_depth = 0  # of loops that may wait for something
        self._done: dict[tuple[int, tuple[Roots, ...], bool, bool, bool, bool], Roots] = {}
        self._active: list[int] = []
        self._fences: list[SyntaxNode] = []
        self._claims = Claims(tree)
        self._is_guarded = False  # the function that is visited only runs where some condition holds
        self._is_behind = False  # or only where a result of an atomic is used
        self._answers: dict[tuple[int, str], None] = {}
        self._answering: set[int] = set()  # arguments, by which results of atomics are used
        self._is_seldom = True
        self._polled: set[int] = set()  # arguments that are read in such loops
        self._searched: set[int] = set()  # loops, by their nodes' ids
        self.refused = ""
        self.appends = found.appends
        self._appending, self._refused = found.calls, found.refused
        try:
            self.call(kernel, own, kernel.definition)
        except _TooLong:
            self._because(kernel.nodes[0], "is too long to analyse")
            self._const.clear()  # that none loses its const was not seen either
            self._touch(self._all, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
            for effects in self.arguments:
                effects.atomic = True
        if self._fences and any(effects.updates for effects in self.arguments):
            self._because(self._fences[0], "updates global memory atomically and orders that with a fence")
        waits = any(self.arguments[root].writes for root in self._polled - {STATIC})
        for append in self.appends:
            others = [self.arguments[each].writes for each in append.reads]
            others += [self.arguments[store.argument].reads for store in append.stores]
            if waits or any(others) or not self.arguments[append.counter].only_updates:
                what = "waits for what others write" if waits else "accesses it in another way too"
                self.refused = f"appends, and perhaps {what}"
        is_seldom = self._is_seldom and not (self._fences or self.reasons or waits or self.appends)
        self.watched = tuple(sorted(self._answering)) if is_seldom else ()
        self.claimed = tuple(
            root
            for root, effects in enumerate(self.arguments)
            if is_seldom and effects.writes and effects.is_claimed and root not in self._answering
        )
        if not is_seldom:
            self.reasons |= self._answers

    # -- functions -------------------------------------------------------------------------------

    def call(self, function: Function, arguments: list[Roots], at: SyntaxNode | None) -> Roots:
        """Visit ``function`` with these roots for its parameters; the roots of what it returns."""
        body = function.body
        if body is None:
            self._because(at, f"calls '{function.name}', which is declared but not defined")
            for roots in arguments:
                self._touch(roots, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
            return self._all
        if function.declaration in self._active or len(self._done) > _MAX_CONTEXTS:
            self._because(at, f"calls '{function.name}' recursively or in too many ways")
            self._touch(self._all, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
            return self._all
        depths = self._loop_depth > 0, self._open_depth > 0, self._is_guarded, self._is_behind
        key = (function.declaration, tuple(arguments), *depths)
        known = self._done.get(key)
        if known is not None:
            return known
        frame = _Frame()
        for parameter, roots in zip(function.parameters, arguments, strict=False):
            frame.roots[parameter.declaration] = roots
        saved, self._frame = self._frame, frame
        has_goto = any(n.kind in (NodeKind.GOTO, NodeKind.INDIRECT_GOTO) for n in body.walk())
        self._loop_depth += has_goto
        self._open_depth += has_goto
        self._active.append(function.declaration)
        frame.changed = True
        while frame.changed:  # roots only grow
            frame.changed = False
            self.visit(body)
        self._active.pop()
        self._loop_depth -= has_goto
        self._open_depth -= has_goto
        self._frame = saved
        self._done[key] = frame.returned
        return frame.returned

    def visit(self, node: SyntaxNode) -> None:
        """A statement or declaration."""
        self._count()
        kind = node.kind
        if kind in LOOPS:
            is_open = not is_counted(self.tree, node)
            self._loop_depth += 1
            self._open_depth += is_open
            self._look_for_fences(node)
            for child in node.children:
                self.visit(child)
            self._loop_depth -= 1
            self._open_depth -= is_open
        elif kind is NodeKind.VAR_DECL:
            for child in node.operands:
                self._store_roots(node.declaration, self.value(child))
        elif kind is NodeKind.RETURN:
            for child in node.children:
                roots = self.value(child)
                if not roots <= self._frame.returned:
                    self._frame.returned |= roots
        elif kind is NodeKind.ASM:
            self._assembly(node)
        elif 200 <= kind < 300 and kind is not NodeKind.OTHER:
            for child in node.children:
                self.visit(child)
        elif kind not in LEAVES:
            self.value(node)

    def _assembly(self, node: SyntaxNode) -> None:
        """Assembly that computes touches its operands; any other may do anything.

        So a launch of it needs all of every buffer, and is never cut into chunks: in these too the machine's
        numbers of work-groups would be others.
        """
        found = assembly.read(self.tree, node)
        is_known = self.tree.target == PTX_TARGET
        what = assembly.effects_of(found) if is_known else "inline assembly"
        if what or found is None:
            self._because(node, f"uses {what}")
            self._touch(self._all, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
            return
        for operand in found.operands:
            if operand.is_written:
                place = self.place(operand.node)
                self._access(place, operand.node, reads=operand.is_read, writes=True)
            else:
                self.value(operand.node)

    # -- expressions -----------------------------------------------------------------------------

    def value(self, node: SyntaxNode) -> Roots:
        """Evaluate an expression: note its accesses, answer the roots of its value."""
        self._count()
        kind = node.kind
        if kind in LEAVES:
            return NOTHING
        if kind in _PLACES or (kind is NodeKind.UNARY_OPERATOR and node.operator == "*"):
            return self._load(node, self.place(node))
        children = node.operands
        match kind:
            case NodeKind.PAREN if len(children) == 1:
                return self.value(children[0])
            case NodeKind.UNEXPOSED | NodeKind.CAST if len(children) == 1:
                return self._converted(node, children[0], self.value(children[0]))
            case NodeKind.UNARY_OPERATOR if node.operator == "&":
                return self._address(children[0], self.place(children[0]))
            case NodeKind.UNARY_OPERATOR if node.operator in STEPPING:
                place = self.place(children[0])
                self._access(place, children[0], reads=True, writes=True)
                return self._contents(place, children[0].type)
            case NodeKind.BINARY_OPERATOR if node.operator == "=":
                roots = self.value(children[1])
                place = self.place(children[0])
                self._access(place, children[0], reads=False, writes=True)
                if place.variable:
                    self._store_roots(place.variable, roots)
                return roots
            case NodeKind.COMPOUND_ASSIGNMENT:
                roots = self.value(children[1])
                place = self.place(children[0])
                self._access(place, children[0], reads=True, writes=True)
                if place.variable:
                    self._store_roots(place.variable, roots)
                return self._contents(place, children[0].type) | roots
            case NodeKind.CALL:
                return self._call(node)
            case NodeKind.BINARY_OPERATOR if node.operator == ",":
                self.value(children[0])
                return self.value(children[1])
            case NodeKind.BINARY_OPERATOR | NodeKind.UNARY_OPERATOR | NodeKind.CONDITIONAL_OPERATOR:
                return self._join(children)
            case NodeKind.INIT_LIST | NodeKind.COMPOUND_LITERAL:
                return self._join(children)
            case _:
                return self._unknown(node, children)

    def _join(self, nodes: tuple[SyntaxNode, ...]) -> Roots:
        roots = NOTHING
        for node in nodes:
            roots |= self.value(node)
        return roots

    def _converted(self, node: SyntaxNode, child: SyntaxNode, roots: Roots) -> Roots:
        if node.type.form is Form.POINTER and child.type.form not in _ADDRESSES:
            return NOTHING if is_zero(child, self.tree) else self._all
        return roots

    def _unknown(self, node: SyntaxNode, children: tuple[SyntaxNode, ...]) -> Roots:
        """A node no rule is for, such as a statement expression or clang's own atomic operators."""
        roots = NOTHING
        for child in children:
            if 200 <= child.kind < 300 or child.kind in (NodeKind.VAR_DECL, NodeKind.COMPOUND):
                self.visit(child)
            else:
                roots |= self.value(child)
        if len(children) > 1 and any(child.type.form is Form.POINTER for child in children):
            atomic = "atomic" in self.tree.source(node)
            if atomic:
                self._atomic(node, roots or self._all)
            self._touch(roots, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
        return self._all if node.type.holds_pointer else roots

    def place(self, node: SyntaxNode) -> LValue:
        """Where an lvalue is; accesses on the way there are noted, the one to it is not."""
        children = node.operands
        match node.kind:
            case NodeKind.DECL_REF:
                return LValue(node.declaration, NOTHING)
            case NodeKind.PAREN if len(children) == 1:
                return self.place(children[0])
            case NodeKind.UNARY_OPERATOR if node.operator == "*":
                return LValue(0, self.value(children[0]))
            case NodeKind.ARRAY_SUBSCRIPT if len(children) == 2:
                base, index = children
                if base.type.form not in _ADDRESSES and index.type.form in _ADDRESSES:
                    base, index = index, base
                self.value(index)
                return self._element(base)
            case NodeKind.MEMBER_REF if len(children) == 1:
                base = children[0]
                if base.type.form is Form.POINTER:
                    return LValue(0, self.value(base))
                place = self.place(base)
                return LValue(place.variable, place.roots, place.is_punned or base.type.punned)
            case NodeKind.UNEXPOSED if len(children) == 1 and node.type.form is not Form.POINTER:
                return self.place(children[0])
            case _:
                # A value, such as the struct that a call returned; or an lvalue that no rule is for.
                roots = self.value(node)
                known = node.type.space in (Space.NONE, Space.PRIVATE, Space.LOCAL)
                return LValue(_TEMPORARY if known else 0, roots)

    def _element(self, base: SyntaxNode) -> LValue:
        """The place of ``base[i]``: an array's elements are where the array is."""
        inner = base
        while inner.kind in (NodeKind.UNEXPOSED, NodeKind.PAREN) and len(inner.children) == 1:
            inner = inner.children[0]
        if inner.type.form in (Form.ARRAY, Form.VECTOR) and inner.kind in (*_PLACES, NodeKind.UNARY_OPERATOR):
            return self.place(inner)
        if base.type.form is Form.VECTOR:
            return self.place(base)
        return LValue(0, self.value(base))

    def _load(self, node: SyntaxNode, place: LValue) -> Roots:
        """The value of an lvalue; an array's value is its address."""
        if node.type.form is Form.ARRAY:
            return self._address(node, place)
        if node.type.form is Form.FUNCTION:
            return NOTHING
        self._access(place, node, reads=True, writes=False)
        return self._contents(place, node.type)

    def _address(self, node: SyntaxNode, place: LValue) -> Roots:
        if not place.variable:
            return place.roots
        if place.variable not in self._frame.address_taken:
            self._frame.address_taken.add(place.variable)
            self._frame.changed = True
        return frozenset({STATIC}) if node.type.space is Space.GLOBAL else NOTHING

    def _contents(self, place: LValue, value_type: Type) -> Roots:
        """Roots of what lies at a place."""
        if place.variable == _TEMPORARY:
            return self._all if place.is_punned and value_type.holds_pointer else place.roots
        if not place.variable:
            # Nothing is known about pointers that went through memory.
            return (place.roots | self._all) if value_type.holds_pointer else NOTHING
        if value_type.holds_pointer and (place.is_punned or place.variable in self._frame.address_taken):
            return self._all
        return self._frame.roots.get(place.variable, NOTHING)

    def _store_roots(self, variable: int, roots: Roots) -> None:
        known = self._frame.roots.get(variable, NOTHING)
        if not roots <= known:
            self._frame.roots[variable] = known | roots
            self._frame.changed = True

    # -- calls -----------------------------------------------------------------------------------

    def _call(self, node: SyntaxNode) -> Roots:
        reference = callee_of(node)
        arguments = node.children[1:]
        if reference is None:
            self._because(node, "calls through a pointer")
            self._touch(self._join(arguments) or self._all, reads=True, writes=True, nbytes={UNKNOWN_NBYTES})
            return self._all
        values = [self.value(argument) for argument in arguments]
        function = self.tree.functions.get(reference.declaration)
        if function is not None:
            outer = self._is_guarded, self._is_behind
            self._is_guarded, self._is_behind = self._happens_seldom(node), self._stands_behind(node)
            returned = self.call(function, values, node)
            self._is_guarded, self._is_behind = outer
            return returned
        self._builtin(node, reference.name, arguments, values)
        return self._all if node.type.holds_pointer else NOTHING

    def _builtin(
        self, node: SyntaxNode, name: str, arguments: tuple[SyntaxNode, ...], values: list[Roots]
    ) -> None:
        action = action_of(name)
        if name in FENCES:
            if name == "atomic_work_item_fence" and not self._is_group_scope(arguments):
                self._because(node, "orders memory across work-groups with atomic_work_item_fence")
            elif self._orders_global(node):
                self._fences.append(node)
            return
        if name in GROUP_BARRIERS and len(arguments) > 1 and not self._is_group_scope(arguments):
            self._because(node, f"orders memory across work-groups with {name}")
        if action is Action.ENQUEUE:
            self._because(node, f"calls '{name}'")
        pointers = 0
        for argument, roots in zip(arguments, values, strict=True):
            form = argument.type.form
            if form is Form.IMAGE:
                self._touch(roots, reads=action is not Action.WRITE_IMAGE, writes=False, nbytes=set())
                if action is not Action.READ_IMAGE:
                    self._touch(roots, reads=False, writes=True, nbytes={UNKNOWN_NBYTES})
            elif form in (Form.POINTER, Form.ARRAY) and argument.type.element is not None:
                pointers += 1
                update = None
                if action is Action.ATOMIC and argument is arguments[0]:
                    if id(node) in self._appending:
                        update = Update("add", argument.type.element.nbytes)
                    elif self._claims.is_unused(self._active[-1], node):
                        update = update_of(self.tree, name, arguments)
                self._through(node, name, action, argument.type.element, roots, pointers, update)

    def _through(
        self,
        node: SyntaxNode,
        name: str,
        action: Action,
        pointee: Type,
        roots: Roots,
        number: int,
        update: Update | None,
    ) -> None:
        """A built-in's access through its ``number``-th pointer, counted from 1."""
        reached = self._reached(pointee.space, roots)
        if not reached:
            return
        if update is not None:
            self._update(reached, update, node)
            return
        if action is Action.ATOMIC and number == 1:
            self._atomic(node, reached)
        reads = action in (Action.READ, Action.ATOMIC, Action.UNKNOWN, Action.ENQUEUE)
        writes = action in (Action.WRITE, Action.ATOMIC, Action.UNKNOWN, Action.ENQUEUE)
        if action is Action.COPY:
            reads, writes = number == 2, number == 1
        if reads and pointee.volatile and action is not Action.ATOMIC:
            self._spin(node)
        self._touch(reached, reads=reads, writes=writes, nbytes=_sizes(pointee), at=node)

    def _is_group_scope(self, arguments: tuple[SyntaxNode, ...]) -> bool:
        scope = self.tree.source(arguments[-1]) if arguments else ""
        return scope in ("memory_scope_work_group", "memory_scope_work_item", "memory_scope_sub_group")

    def _look_for_fences(self, loop: SyntaxNode) -> None:
        """A fence in a loop that reads global memory may wait for another work-group."""
        if id(loop) in self._searched:
            return
        self._searched.add(id(loop))
        for node in loop.walk():
            self._count()
            if node.kind is not NodeKind.CALL:
                continue
            reference = callee_of(node)
            if reference is None:
                continue
            if reference.name in FENCES and self._orders_global(node) and reads_global(self.tree, loop):
                self._because(node, f"uses {reference.name} in a loop that reads global memory")
                return

    def _orders_global(self, fence: SyntaxNode) -> bool:
        flags = self.tree.source(fence.children[1]) if len(fence.children) > 1 else ""
        return flags.strip("() ") != "CLK_LOCAL_MEM_FENCE"

    # -- effects ---------------------------------------------------------------------------------

    def _reached(self, space: Space, roots: Roots) -> Roots:
        """Which roots an access in ``space`` through a pointer with ``roots`` may reach."""
        match space:
            case Space.LOCAL | Space.PRIVATE:
                return NOTHING
            case Space.GLOBAL:
                return roots & self._all_global or self._all_global
            case Space.CONSTANT:
                return roots & self._all_constant
            case _:
                return roots or self._all

    def _access(self, place: LValue, node: SyntaxNode, reads: bool, writes: bool) -> None:
        space = node.type.space
        if place.variable:
            if space is not Space.GLOBAL:
                return
            reached: Roots = frozenset({STATIC})
        else:
            reached = self._reached(space, place.roots)
        if not reached:
            return
        if reads and node.type.volatile:
            self._spin(node)
        self._touch(reached, reads=reads, writes=writes, nbytes=_sizes(node.type), at=node)

    def _touch(
        self, roots: Roots, reads: bool, writes: bool, nbytes: set[int], at: SyntaxNode | None = None
    ) -> None:
        for root in roots:
            if root == STATIC:
                if writes and at is not None:
                    self._because(at, "may write a program-scope variable")
                continue
            effects = self.arguments[root]
            effects.only_updates = False
            effects.reads |= reads
            if reads and self._open_depth:
                self._polled.add(root)
            if writes and not self._is_only_read(root):
                effects.writes = True
                effects.store_nbytes |= nbytes
                effects.is_claimed = effects.is_claimed and self._stands_behind(at)

    def _is_only_read(self, root: int) -> bool:
        """Whether an argument points to ``const``, and nothing makes another pointer of such a one."""
        if root not in self._const:
            return False
        if self._keeps_const is None:
            self._keeps_const = not drops_const(self.tree)
        return self._keeps_const

    def _update(self, roots: Roots, update: Update, at: SyntaxNode) -> None:
        for root in roots:
            if root == STATIC:
                self._because(at, "may write a program-scope variable")
                continue
            effects = self.arguments[root]
            effects.reads = effects.writes = effects.atomic = True
            effects.is_claimed = effects.is_claimed and self._stands_behind(at)
            effects.store_nbytes.add(update.nbytes)
            effects.updates.add(update)

    def _atomic(self, node: SyntaxNode, roots: Roots) -> None:
        for root in roots:
            if root != STATIC and not self._is_only_read(root):
                self.arguments[root].atomic = True
        names = sorted(self._names[root] for root in roots if root != STATIC)
        through = f" through '{names[0]}'" if len(names) == 1 else ""
        name = callee.name if (callee := callee_of(node)) is not None else ""
        why = why_not_merged(name, node.children[1:]) or self._refused
        what = f"updates global memory atomically{through}{why and ', '}{why}"
        self._answers[node.begin, f"{self.lines.describe(node.begin)}: {what}"] = None
        self._answering |= roots
        is_known = len(roots) == 1 and STATIC not in roots and orders_nothing(self.tree, node, name)
        self._is_seldom = self._is_seldom and is_known and self._happens_seldom(node)

    def _happens_seldom(self, call: SyntaxNode) -> bool:
        """Whether a call in the function that is being visited only happens where some condition holds."""
        return self._is_guarded or self._claims.is_guarded(self._active[-1], call)

    def _stands_behind(self, node: SyntaxNode | None) -> bool:
        """Whether a node of that function is only carried out by who also uses the result of an atomic."""
        if self._is_behind or node is None:
            return self._is_behind
        return self._claims.is_behind(self._active[-1], node)

    def _spin(self, node: SyntaxNode) -> None:
        if self._loop_depth:
            self._because(
                node, "reads volatile global memory in a loop, perhaps to wait for another work-group"
            )

    def _count(self) -> None:
        self.visits += 1
        if self.visits > MAX_VISITS:
            raise _TooLong

    def _because(self, node: SyntaxNode | None, what: str) -> None:
        line = self.lines.describe(node.begin) if node is not None else "line 0"
        self.reasons[node.begin if node is not None else 0, f"{line}: {what}"] = None

    @property
    def why_whole(self) -> str:
        """The first reason, in the order of the text; empty when there is none."""
        return min(self.reasons)[1] if self.reasons else ""


def _sizes(stored: Type) -> set[int]:
    largest, smallest = stored.scalar_nbytes
    return {largest, smallest}
