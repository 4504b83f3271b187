"""What the work-items of a group add, each for itself, to what one of them adds to a counter.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from sdi.clc.append_sites import KernelText, Site
from sdi.clc.covering import Refused
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree, callee_of
from sdi.clc.linear import ONE, Linear, Symbol, changed_by, changed_by_itself
from sdi.clc.local_places import AFTER, BEFORE, GroupBlock, LocalAccess, LocalPlace, LocalPlaces
from sdi.clc.work_item_choices import Choices, Chosen, Fact, Key, bare

ADDS = re.compile(r"(?:(?:atomic|atom)_(?:add|inc)|atomic_fetch_add(?:_explicit)?)\Z")
"""Functions whose results are places."""
CONVERSIONS = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST})
NOT_WAITED = "and the work-items of a group may not have waited for each other"
_COLLECTIVE = re.compile(r"(work|sub)_group_(scan_exclusive_add|scan_inclusive_add|reduce_add|broadcast)\Z")
_LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class CountedPart:
    """What a work-item adds for itself, its result in a variable of its own.  ``addend``: None for 1.

    ``to``: the place in local memory, or whether a sub-group counts.
    """

    call: SyntaxNode
    statement: SyntaxNode
    variable: int
    addend: SyntaxNode | None
    to: LocalPlace | bool
    is_inclusive: bool = False

    @property
    def symbol(self) -> Symbol:
        return Symbol("slot", self.call.begin)


@dataclass(frozen=True, slots=True)
class Round:
    """One addition: by ``chosen``, who alone runs ``branch``, in statement ``at`` of a block."""

    call: SyntaxNode
    statement: SyntaxNode
    block: GroupBlock
    at: int
    chosen: Chosen
    branch: SyntaxNode


class GroupParts:
    """Of one kernel.  ``totals``: calls that add up what all of a group give."""

    def __init__(self, text: KernelText, choices: Choices, places: LocalPlaces) -> None:
        self._text = text
        self._locals = text.locals
        self._choices = choices
        self._places = places
        self.totals: dict[Symbol, SyntaxNode] = {}
        self._parts = list(self._find_parts())

    def _find_parts(self) -> Iterator[CountedPart]:
        counted = [each for each in self._places.accesses if each.what == "atomic"]
        for access in counted:
            callee = callee_of(access.by)
            if callee is None or not ADDS.match(callee.name) or access.place.element is None:
                continue
            addend = None if callee.name.endswith("_inc") else access.by.children[2]
            yield from self._part(access.by, addend, access.place)
        for node in self._text.body.walk():
            if (found := collective(self._text.tree, node)) is None or found[1] == "broadcast":
                continue
            if found[1] == "reduce_add":
                if node.type.form is Form.INTEGER and node.type.nbytes >= 4:
                    symbol = Symbol("total", node.begin, found[0])
                    self._locals.known[id(node)] = {(symbol,): 1}
                    self.totals[symbol] = node
            else:
                is_inclusive = found[1] == "scan_inclusive_add"
                yield from self._part(node, node.children[1], found[0] == "sub", is_inclusive)

    def _part(
        self, call: SyntaxNode, addend: SyntaxNode | None, to: LocalPlace | bool, is_inclusive: bool = False
    ) -> Iterator[CountedPart]:
        node = call
        while (above := self._text.parents[id(node)]).kind in CONVERSIONS and len(above.operands) == 1:
            if above.type.form is not Form.INTEGER or above.type.nbytes < 4:
                return
            node = above
        variable, statement = 0, above
        if above.kind is NodeKind.VAR_DECL:
            variable, statement = above.declaration, self._text.parents[id(above)]
            if above.type.form is not Form.INTEGER or above.type.nbytes < 4 or above.is_static_storage:
                return
        elif above.operator == "=" and above.operands[1] is node:
            target = bare(above.operands[0])
            is_own = target.kind is NodeKind.DECL_REF and target.type.space in (Space.NONE, Space.PRIVATE)
            if is_own and target.type.form is Form.INTEGER and target.type.nbytes >= 4:
                variable = target.declaration
        if variable and not self._locals.is_shared(variable):
            yield CountedPart(call, statement, variable, addend, to, is_inclusive)

    def items(
        self, whole: Site, one: Round, total: Symbol, place: LocalPlace | None, times: int
    ) -> Iterator[Site]:
        """A site for each part of what was counted.  Raises Refused where that is not surely all of it."""
        parts = self._scans(one, total) if place is None else self._counts(one, place)
        for part in parts:
            yield self._item(whole, one, part, times)

    def _counts(self, one: Round, place: LocalPlace) -> list[CountedPart]:
        """Those that count in local memory, from 0 on."""
        block = one.block
        accesses = [each for each in self._places.of(place) if each.what != "read"]
        counts = [each for each in accesses if each.what == "atomic"]
        parts = [part for each in counts for part in self._parts if part.call is each.by]
        if len(parts) < len(counts) or not counts or any(each.place.element is None for each in accesses):
            raise Refused(
                "and a work-group counts in another way than by results in variables, or stores in part"
            )
        at = [block.position(part.call) for part in parts]
        if min(at) == BEFORE or max(at) >= one.at:
            raise Refused("and counts for a work-group elsewhere too")
        others = [(block.position(each.node), each) for each in accesses if each.what != "atomic"]
        begins = [
            number for number, each in others if BEFORE < number < min(at) and self._is_reset(block, each)
        ]
        if not begins:
            raise Refused("and a work-group may not count from 0 each time")
        begin = max(begins)
        for number, each in others:
            is_zero = self._is_zero(each)
            if begin < number <= max(at) or (number < begin and not is_zero and number != BEFORE):
                raise Refused("and a work-group's count may be changed while it counts")
            if max(at) < number < one.at or (number == begin and not self._is_reset(block, each)):
                raise Refused("and a work-group's count may be changed while it counts")
            if not all(block.waits_between(number, other) for other in at):
                raise Refused(f"{NOT_WAITED} before they count")
            if not (is_zero or block.waits_between(number, begin)):
                raise Refused(f"{NOT_WAITED} before they count")
        if not all(block.waits_between(other, one.at) for other in at):
            raise Refused(f"{NOT_WAITED} for all to have counted")
        if block.leaves(begin, one.at):
            raise Refused("and a work-item may leave between what it counts and stores")
        return parts

    def _is_zero(self, access: LocalAccess) -> bool:
        is_assigned = access.what == "write" and access.by.kind is NodeKind.BINARY_OPERATOR
        return is_assigned and self._choices.constant(access.by.operands[1]) == 0

    def _is_reset(self, block: GroupBlock, access: LocalAccess) -> bool:
        """Whether it surely sets the place to 0 when a group comes along."""
        node = access.by
        if not self._is_zero(access):
            return False
        while (above := self._text.parents[id(node)]) is not block.node:
            if above.kind is NodeKind.IF and above.operands[1] is node:
                for part in self._choices.parts(above.operands[0], True):
                    chosen = self._choices.chosen(*part)
                    if chosen is None or not chosen.is_first or chosen.is_sub_group:
                        return False
            elif above.kind is not NodeKind.COMPOUND and above.operator != ",":
                is_chain = above.operator == "=" and above.operands[1] is node
                if not is_chain:
                    return False
            node = above
        return True

    def _scans(self, one: Round, total: Symbol) -> list[CountedPart]:
        """Those by functions of groups, which go together with a sum."""
        of = self.totals[total]
        (given,) = of.children[1:]
        fact = self._choices.fact(given, True)
        if fact is None or not self._is_at_top(one, of):
            raise Refused("and what a group adds up is not followed")
        found = []
        for part in self._parts:
            if part.to is not (total.text == "sub") or not self._is_at_top(one, part.call):
                continue
            same = self._choices.fact(part.call.children[1], True)
            if same is not None and same.key == fact.key:
                found.append(part)
        if not found:
            raise Refused("and what a group adds up is not what work-items store")
        first = min(one.block.position(each) for each in (of, *[part.call for part in found]))
        if fact.variables & changed_by(one.block.statements[first:]):
            raise Refused("and changes what it adds, or where, before it stores")
        if one.block.leaves(first, one.at):
            raise Refused("and a work-item may leave between what it counts and stores")
        return found

    def _is_at_top(self, one: Round, call: SyntaxNode) -> bool:
        at = one.block.position(call)
        if at in (BEFORE, AFTER) or at >= one.at:
            return False
        statement = one.block.statements[at]
        if statement.kind is NodeKind.DECL_STATEMENT:
            return any(
                len(each.operands) == 1 and self._is_value(each.operands[0], call)
                for each in statement.operands
            )
        return is_direct(statement, call)

    def _is_value(self, value: SyntaxNode, call: SyntaxNode) -> bool:
        while value is not call and value.kind in CONVERSIONS and len(value.operands) == 1:
            value = value.operands[0]
        return value is call

    def _item(self, whole: Site, one: Round, part: CountedPart, times: int) -> Site:
        block, facts = one.block, self._path(one, part.statement)
        at = block.position(part.call)
        addend: Linear | None = {ONE: 1}
        if part.addend is not None:
            flag = self._choices.flag(part.addend)
            if flag is not None:
                facts += flag
            else:
                addend = self._locals.linear(part.addend)
        if addend is None:
            raise Refused("and counts what is not followed")
        span = block.statements[at:]
        changed = changed_by(span)
        variables = frozenset[int]().union(*[each.variables for each in facts])
        if (self._locals.numbers(addend) | variables) & changed:
            raise Refused("and changes what it adds, or where, before it stores")
        if any(map(self._locals.is_shared, variables)) or not self._locals.is_positive(addend, part.call):
            raise Refused("and may add less than nothing: what it adds should be unsigned")
        loads = {each.number for each in self._locals.symbols(addend) if each in self._locals.loads}
        conditions = frozenset(each.key for each in facts)
        self._follow_slot(one, part, conditions, addend)
        return replace(
            whole,
            addend={key: value * times for key, value in addend.items()},
            span=span,
            stores=[],
            limits=[],
            slot=part.symbol,
            times=times,
            conditions=conditions,
            sentinels=self._sentinels(one, part),
            is_shared=False,
            reads=frozenset[int]().union(
                *[each.loads for each in facts], {self._text.parameters[each] for each in loads}
            ),
        )

    def _path(self, one: Round, node: SyntaxNode, is_sure: bool = True) -> list[Fact]:
        """What holds where a statement of the block runs.  Raises Refused where that is not known.

        Not ``is_sure``: at least what is known.
        """
        found: list[Fact] = []
        while (above := self._text.parents[id(node)]) is not one.block.node:
            parts: list[tuple[SyntaxNode, bool]] = []
            if above.kind is NodeKind.IF and above.operands[0] is not node:
                parts = list(self._choices.parts(above.operands[0], above.operands[1] is node))
            elif above.operator == "&&" and not is_sure and above.operands[1] is node:
                parts = list(self._choices.parts(above.operands[0], True))
            elif is_sure and above.kind is not NodeKind.COMPOUND:
                raise Refused("and counts where it is not clear how often")
            facts = [self._choices.fact(*part) for part in parts]
            if None in facts and is_sure:
                raise Refused("and counts by a condition that is not followed")
            found += [each for each in facts if each is not None]
            node = above
        return found

    def _follow_slot(self, one: Round, part: CountedPart, conditions: frozenset[Key], addend: Linear) -> None:
        """Have what a work-item counted known where it looks at it."""
        form: Linear = {(part.symbol,): 1}
        if part.is_inclusive:
            form = {**addend, (part.symbol,): 1}
        sharing = [
            each for each in self._parts if each.variable == part.variable and each.call is not part.call
        ]
        for use in self._text.body.walk():
            if use.kind is not NodeKind.DECL_REF or use.declaration != part.variable:
                continue
            if use.begin < part.call.end or one.block.position(use) in (BEFORE, AFTER):
                continue
            above = self._text.parents[id(use)]
            while above.kind is NodeKind.PAREN:
                above = self._text.parents[id(above)]
            if use.declaration in changed_by_itself(above) and bare(above.operands[0]) is use:
                known = {each.key for each in self._path(one, above, is_sure=False)}
                if not any((key, not truth) in known for key, truth in conditions):
                    raise Refused("and changes the variable that has the result")
                continue
            known = {each.key for each in self._path(one, use, is_sure=False)}
            if not sharing or (conditions and conditions <= known):
                self._locals.known[id(use)] = form

    def _sentinels(self, one: Round, part: CountedPart) -> dict[int, int]:
        """What the variable is where nothing was counted, if that is no place."""
        written: list[tuple[SyntaxNode, SyntaxNode]] = []
        for node in self._text.body.walk():
            if node.kind is NodeKind.VAR_DECL and node.declaration == part.variable:
                if node.operands:
                    written.append((self._text.parents[id(node)], node.operands[0]))
            elif part.variable not in changed_by_itself(node) or node is part.statement:
                continue
            elif node.operator != "=" or node.kind is not NodeKind.BINARY_OPERATOR:
                return {}
            else:
                written.append((node, node.operands[1]))
        if len(written) != 1 or part.statement.kind is NodeKind.DECL_STATEMENT:
            return {}
        ((statement, value),) = written
        number = self._choices.constant(value)
        is_before = (
            statement.end <= part.statement.begin and self._text.parents[id(statement)] is one.block.node
        )
        return {part.variable: number} if number is not None and number >= _LARGE and is_before else {}


def collective(tree: Tree, node: SyntaxNode) -> tuple[str, str] | None:
    """Of which group it is a function ("work" or "sub"), and which."""
    callee = callee_of(node) if node.kind is NodeKind.CALL else None
    if callee is None or callee.declaration in tree.functions:
        return None
    found = _COLLECTIVE.match(callee.name)
    return (found[1], found[2]) if found else None


def is_direct(statement: SyntaxNode, call: SyntaxNode) -> bool:
    """Whether a statement is nothing but a declaration by a call's value, or its assignment."""
    value = _value_of(statement)
    while value is not None and value is not call:
        is_converted = value.kind in CONVERSIONS and len(value.operands) == 1 and value.type.nbytes >= 4
        value = value.operands[0] if is_converted else None
    return value is call


def _value_of(statement: SyntaxNode) -> SyntaxNode | None:
    if statement.kind is NodeKind.DECL_STATEMENT and len(statement.operands) == 1:
        declared = statement.operands[0]
        return declared.operands[0] if len(declared.operands) == 1 else None
    is_assignment = statement.kind is NodeKind.BINARY_OPERATOR and statement.operator == "="
    return statement.operands[1] if is_assignment else None
