"""What follows an addition whose result says where to store: stores, loops around them, and limits.

Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sdi.appends import Limit
from sdi.clc.append_sites import KernelText, Site, walk
from sdi.clc.covering import Refused, Store, Trip
from sdi.clc.frontend.syntax import (
    WAYS_OUT,
    Form,
    NodeKind,
    Space,
    SyntaxNode,
    bare,
    callee_of,
    ends_with_way_out,
    has_any,
)
from sdi.clc.group_appends import GroupAppends
from sdi.clc.linear import ONE, Linear, Symbol, added, changed_by, scaled, without
from sdi.clc.work_item_choices import Key

_VSTORE = re.compile(r"vstore(2|3|4|8|16)\Z")
_COMPONENTS = re.compile(r"\s*\.\s*(?:([sS])([0-9a-fA-F]+)|([xyzw]+))\Z")
_INT, _ONE_LESS = 4, (1 << 32) - 1
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class StoreFinder:
    """Looks at what some sites' results are used for."""

    def __init__(self, text: KernelText, sites: Sequence[Site], group: GroupAppends) -> None:
        self._text = text
        self._group = group
        self._locals = text.locals
        self._sites = sites
        self._trip_around: Trip | None = None  # around the statements that are looked at
        self._reached: Site | None = None  # whose slot is known where a condition is looked at

    # -- stores --------------------------------------------------------------------------

    def scan(self, site: Site) -> None:
        """Note where a site stores.  Raises Refused."""
        if not site.is_of_group and self._stores_at_once(site):
            self._stores(site, [site.statement], None, True, frozenset())
            if not site.stores:
                raise Refused("and does more with the result than store there")
        self._stores(site, site.rest, None, True, site.conditions)

    def _stores(
        self,
        site: Site,
        statements: Sequence[SyntaxNode],
        trip: Trip | None,
        is_sure: bool,
        left: frozenset[Key],
    ) -> bool:
        """Note the stores that surely happen; whether what comes behind is reached for sure.

        ``left``: the site's conditions that work-items which come here may not fulfil.
        """
        for node in statements:
            match node.kind:
                case NodeKind.COMPOUND:
                    is_sure = self._stores(site, node.children, trip, is_sure, left)
                case NodeKind.IF if site.is_of_group and (way := self._way(site, node, left)) is not None:
                    taken, passed = way
                    is_sure = self._stores(site, taken, trip, is_sure, left - passed)
                    if taken != node.operands[1:2] and ends_with_way_out(node.operands[1]):
                        left -= passed
                case NodeKind.IF if (
                    not site.is_of_group and (truth := self._truth(node.operands[0])) is not None
                ):
                    taken = node.operands[1:2] if truth else node.operands[2:3]
                    is_sure = self._stores(site, taken, trip, is_sure, left)
                case NodeKind.FOR if (
                    trip is None and is_sure and (loop := self._trip(site, node)) is not None
                ):
                    self._locals.inductions.add(loop.symbol)
                    self._trip_around = loop
                    is_sure = self._stores(site, node.operands[3:], loop, is_sure, left)
                    self._trip_around = None
                    self._locals.inductions.discard(loop.symbol)
                case NodeKind.BINARY_OPERATOR if node.operator == "=" and is_sure and not left:
                    self._store(site, node, trip)
                case NodeKind.CALL if is_sure and not left:
                    self._vector_store(site, node, trip)
                case _:
                    is_sure = is_sure and not has_any(node, WAYS_OUT)
        return is_sure

    def _way(
        self, site: Site, node: SyntaxNode, left: frozenset[Key]
    ) -> tuple[Sequence[SyntaxNode], frozenset[Key]] | None:
        """What of a choice those run that store, and what they fulfil; None where that is not known."""
        if _waits(node):
            return None  # all should come there, or none
        for truth in (True, False):
            passed = self._passed(site, node.operands[0], truth, left)
            if passed is not None and passed <= left:
                return (node.operands[1:2] if truth else node.operands[2:3]), passed
        return None

    def _passed(
        self, site: Site, condition: SyntaxNode, truth: bool, left: frozenset[Key]
    ) -> frozenset[Key] | None:
        """What makes a condition be ``truth``, below limits; None where that is not known."""
        found: set[Key] = set()
        limits = []
        for node, is_true in self._group.choices.parts(condition, truth):
            if self._is_of_place(node):
                limits.append((node, is_true))
            elif self._is_not_sentinel(site, node, is_true):
                found |= site.conditions
            elif not self._group.is_more_than(node, is_true, site.total):
                fact = self._group.choices.fact(node, is_true)
                if fact is None:
                    return None
                found.add(fact.key)
        self._reached = None if left - found else site
        below = [self._limited(node) == is_true for node, is_true in limits]
        self._reached = None
        return frozenset(found & left) if all(below) and found <= site.conditions else None

    def _is_of_place(self, node: SyntaxNode) -> bool:
        """Whether a place is compared."""
        if node.kind is not NodeKind.BINARY_OPERATOR or node.operator not in _FLIPPED:
            return False
        forms = [self._locals.linear(each) or {} for each in node.operands]
        return any(symbol.kind == "place" for form in forms for key in form for symbol in key)

    def _is_not_sentinel(self, site: Site, node: SyntaxNode, is_true: bool) -> bool:
        """Whether a part of a condition says that a work-item has a slot."""
        if node.kind is not NodeKind.BINARY_OPERATOR:
            return False
        variable, number = bare(node.operands[0]), self._group.choices.constant(node.operands[1])
        none = site.sentinels.get(variable.declaration) if variable.kind is NodeKind.DECL_REF else None
        sizes = {each.type.nbytes for each in (variable, *node.operands)}
        if none is None or number is None or sizes != {_INT}:
            return False
        if node.operator == ("!=" if is_true else "=="):
            return number == none
        known = {(">=", 0), (">", _ONE_LESS)} if is_true else {("<", 0), ("<=", _ONE_LESS)}
        is_signed = not any(each.type.unsigned for each in (variable, *node.operands))
        return is_signed and (node.operator, number) in known

    def _stores_at_once(self, site: Site) -> bool:
        """Whether the statement of the call is the store."""
        statement = site.statement
        if statement.kind is NodeKind.CALL:
            return True
        return statement.operator == "=" and bare(statement.operands[0]).kind is not NodeKind.DECL_REF

    def _store(self, site: Site, node: SyntaxNode, trip: Trip | None) -> None:
        target, parts = bare(node.operands[0]), frozenset[str]()
        if len(target.operands) == 1 and bare(target.operands[0]).kind is NodeKind.ARRAY_SUBSCRIPT:
            parts = self._parts(target)
            target = bare(target.operands[0])
        if target.kind is not NodeKind.ARRAY_SUBSCRIPT:
            return
        base, index = bare(target.operands[0]), self._locals.linear(target.operands[1])
        placed = None if index is None else site.placed(index)
        if placed is None or base.declaration not in self._text.parameters:
            return
        self._text.account(target.operands[1])
        nbytes = target.type.nbytes
        self._keep(site, Store(self._text.argument(base), nbytes, placed, 1, trip, parts))

    def _parts(self, node: SyntaxNode) -> frozenset[str]:
        """The member of a structure, or the components of a vector, that ``node`` is.  Raises Refused."""
        (whole,) = node.operands
        if node.kind is NodeKind.MEMBER_REF and whole.type.form is Form.RECORD:
            return frozenset({node.name})
        found = _COMPONENTS.match(self._text.tree.text[whole.end : node.end])
        if node.kind is not NodeKind.UNEXPOSED or whole.type.form is not Form.VECTOR or found is None:
            raise Refused("and stores to parts of places that are not followed")
        numbers = found[2] if found[1] else [f"{'xyzw'.index(each):x}" for each in found[3]]
        return frozenset(each.lower() for each in numbers)

    def all_parts(self, argument: int) -> frozenset[str]:
        """Of an element; none where these are not known."""
        pointee = self._text.types[argument].element
        if pointee is None or pointee.form is not Form.RECORD:
            return frozenset(f"{each:x}" for each in range(pointee.count)) if pointee else frozenset()
        for declared in walk(self._text.tree.declarations):
            if declared.kind is NodeKind.STRUCT_DECL and declared.declaration == pointee.record:
                fields = [each.name for each in declared.children if each.kind is NodeKind.FIELD_DECL]
                if fields:
                    return frozenset(fields) if all(fields) else frozenset()
        return frozenset()

    def _vector_store(self, site: Site, node: SyntaxNode, trip: Trip | None) -> None:
        callee = callee_of(node)
        match = _VSTORE.match(callee.name) if callee is not None else None
        if match is None or len(node.children) != 4:
            return
        if callee is None or callee.declaration in self._text.tree.functions:
            return
        index, base = self._locals.linear(node.children[2]), bare(node.children[3])
        placed = None if index is None else site.placed(index)
        if placed is None or base.declaration not in self._text.parameters:
            return
        self._text.account(node.children[2])
        width, element = int(match[1]), node.children[3].type.element
        assert element is not None
        self._keep(site, Store(self._text.argument(base), element.nbytes, scaled(placed, width), width, trip))

    def _keep(self, site: Site, store: Store) -> None:
        pointee = self._text.types[store.argument].element
        if pointee is None or pointee.nbytes != store.element_nbytes or pointee.space is not Space.GLOBAL:
            raise Refused("and stores through a pointer to another type")
        site.stores.append(store)

    def _trip(self, site: Site, node: SyntaxNode) -> Trip | None:
        """The loop, if it counts up from 0 and runs as often as its condition says."""
        if len(node.operands) != 4:
            return None
        begin, condition, step, body = node.operands
        if site.is_of_group and _waits(body):
            return None  # not all may go round as often
        declared = (
            begin.operands[0] if begin.kind is NodeKind.DECL_STATEMENT and len(begin.operands) == 1 else None
        )
        if declared is None or declared.kind is not NodeKind.VAR_DECL or len(declared.operands) != 1:
            return None
        symbol = Symbol("variable", declared.declaration)
        begins, is_shared = self._locals.linear(declared.operands[0]), site.is_shared
        if condition.operator != "<" and (condition.operator != "!=" or is_shared):
            return None
        counts, stop = bare(condition.operands[0]), self._locals.linear(condition.operands[1])
        by: int | None = None
        form = self._step(step, declared.declaration)
        if is_shared and self._group.is_shared_out(begins, form):
            by = 1
        elif not is_shared and begins == {} and form is not None and list(form) == [ONE] and form[ONE] > 0:
            by = form[ONE]
        if counts.declaration != declared.declaration or stop is None or by is None:
            return None
        if condition.operator == "!=" and by != 1:
            return None
        if declared.declaration in changed_by([body]) or symbol.number in self._locals.numbers(stop):
            return None
        changed = site.changed()
        if self._locals.numbers(stop) & changed:
            return None
        is_large = self._locals.is_unsigned(stop) or (is_shared and not site.is_small)
        if not condition.operands[1].type.unsigned and is_large:
            return None  # what is added as a large number would be less than 0
        if has_any(body, WAYS_OUT):
            return None
        return Trip(symbol, by, stop)

    def _step(self, node: SyntaxNode, variable: int) -> Linear | None:
        """By how much a loop's last part increases ``variable``."""
        node = bare(node)
        if not node.operands or bare(node.operands[0]).declaration != variable:
            return None
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator in ("++", "x++"):
            return {ONE: 1}
        if node.kind is NodeKind.COMPOUND_ASSIGNMENT and self._text.tree.source(node).count("+=") == 1:
            return self._locals.linear(node.operands[1])
        return None

    # -- limits -----------------------------------------------------------------------------------

    def find_limits(self) -> None:
        """Note the comparisons of results with limits."""
        for node in self._text.body.walk():
            if node.kind is NodeKind.BINARY_OPERATOR and node.operator in _FLIPPED:
                self._limited(node)

    def _limited(self, node: SyntaxNode) -> bool | None:
        """Note a comparison with a limit; what comes out below it, None where it is something else."""
        found = self._compared(node)
        if found is None:
            return None
        site, limit, truth = found
        if limit not in site.limits:
            site.limits.append(limit)
        self._text.account(node)
        return truth

    def _truth(self, condition: SyntaxNode) -> bool | None:
        """What a condition of nothing but limits is while none is reached; None for other ones."""
        node = bare(condition)
        if node.kind is NodeKind.BINARY_OPERATOR and node.operator in ("&&", "||"):
            both = [self._truth(each) for each in node.operands]
            if None in both:
                return None
            return all(both) if node.operator == "&&" else any(both)
        return self._limited(node) if node.operator in _FLIPPED else None

    def _compared(self, node: SyntaxNode) -> tuple[Site, Limit, bool] | None:
        """Whose result is compared, with what limit, and what comes out below it."""
        left, right = (self._locals.linear(each) for each in node.operands)
        if left is None or right is None:
            return None
        operator = node.operator
        for site in self._sites:
            mine, bound = left, right
            if (site.symbol,) in right:
                mine, bound, operator = right, left, _FLIPPED[operator]
            if (site.symbol,) not in mine:
                continue
            addend = site.total or site.addend
            if any(each.kind == "slot" for key in mine for each in key):
                placed = site.placed(mine) if site is self._reached else None
                if placed is None:
                    continue
                mine, addend = placed, site.addend
            uniform = self._text.uniform(bound)
            more = without(mine, (site.symbol,))
            if mine[site.symbol,] != 1 or uniform is None:
                return None
            # The least that a place is below the counter's last value.
            least = addend.get(ONE, 0) if list(addend) == [ONE] else 0
            rest = added(more, scaled(addend, -1))
            trip = self._trip_around
            if trip is not None and trip.step == 1 and trip.stop == addend:
                last = without(more, (trip.symbol,))  # which is at most what is added, less 1
                if more.get((trip.symbol,)) == 1 and set(last) <= {ONE} and last.get(ONE, 0) >= 0:
                    more, least = {ONE: last.get(ONE, 0)}, 1
            if set(more) <= {ONE} and more.get(ONE, 0) >= 0:
                beyond = more.get(ONE, 0) - least
            elif set(rest) <= {ONE} and rest.get(ONE, 0) >= 0:
                changed = site.changed()
                if self._locals.numbers(more) & changed:
                    return None
                beyond = rest.get(ONE, 0)
            else:
                return None
            is_strict = operator in ("<", ">=")
            return site, Limit(beyond + is_strict, uniform), operator in ("<", "<=")
        return None


def _waits(node: SyntaxNode) -> bool:
    """Whether work-items wait for each other within it."""
    return any(each.kind is NodeKind.DECL_REF and each.name.endswith("barrier") for each in node.walk())
