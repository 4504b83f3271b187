"""What the work-items of a group add, each for itself, to what one of them adds to a counter.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sdi.clc.append_sites import KernelText, Site
from sdi.clc.covering import Refused
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, bare, callee_of
from sdi.clc.linear import ONE, Linear, Symbol, changed_by, changed_by_itself
from sdi.clc.local_places import AFTER, BEFORE, GroupBlock, LocalAccess, LocalPlace, LocalPlaces
from sdi.clc.work_item_choices import Choices, Chosen, Fact, Key
from sdi.dataclass import dataclass, replace

ADDS = re.compile(r"(?:(?:atomic|atom)_(?:add|inc)|atomic_fetch_add(?:_explicit)?)\Z")
"""Functions whose results are places."""
CONVERSIONS = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST})
NOT_WAITED = "and the work-items of a group may not have waited for each other"
_LARGE = 1 << 31


@dataclass(frozen=True, slots=True)
class CountedPart:
    """What a work-item adds for itself in local memory, its result in a variable of its own.

    ``addend``: None for 1.
    """

    call: SyntaxNode
    statement: SyntaxNode
    variable: int
    addend: SyntaxNode | None

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
    """Of one kernel."""

    def __init__(self, text: KernelText, choices: Choices, places: LocalPlaces) -> None:
        self._text = text
        self._locals = text.locals
        self._choices = choices
        self._places = places
        self._parts = list(self._find_parts())

    def _find_parts(self) -> Iterator[CountedPart]:
        counted = [each for each in self._places.accesses if each.what == "atomic"]
        for access in counted:
            callee = callee_of(access.by)
            if callee is None or not ADDS.match(callee.name) or access.place.element is None:
                continue
            addend = None if callee.name.endswith("_inc") else access.by.children[2]
            yield from self._part(access.by, addend)

    def _part(self, call: SyntaxNode, addend: SyntaxNode | None) -> Iterator[CountedPart]:
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
            yield CountedPart(call, statement, variable, addend)

    def items(self, whole: Site, one: Round, place: LocalPlace, times: int) -> Iterator[Site]:
        """A site for each part of what was counted.  Raises Refused where that is not surely all of it."""
        for part in self._counts(one, place):
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
                    if chosen is None or not chosen.is_first:
                        return False
            elif above.kind is not NodeKind.COMPOUND and above.operator != ",":
                is_chain = above.operator == "=" and above.operands[1] is node
                if not is_chain:
                    return False
            node = above
        return True

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
        self._follow_slot(one, part, conditions)
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

    def _follow_slot(self, one: Round, part: CountedPart, conditions: frozenset[Key]) -> None:
        """Have what a work-item counted known where it looks at it."""
        form: Linear = {(part.symbol,): 1}
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
