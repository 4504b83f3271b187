"""Additions that one work-item of each work-group makes for all of it: ``Site``s where places are known.

A work-group counts in local memory, or by functions of work-groups; one work-item adds that to a counter; all
store behind what the counter was.  Source: design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

from sdi.clc.append_sites import KernelText, Site
from sdi.clc.covering import Refused
from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, bare, callee_of
from sdi.clc.group_parts import ADDS, CONVERSIONS, NOT_WAITED, GroupParts, Round
from sdi.clc.linear import ONE, Linear, Symbol
from sdi.clc.local_places import AFTER, BEFORE, GroupBlock, LocalAccess, LocalPlace, LocalPlaces
from sdi.clc.work_item_choices import Choices, Chosen
from sdi.ndrange import Int3

_ACCESSES_MAX = 1000
"""Of more, comparing each with each takes long."""


class GroupAppends:
    """Of one kernel.  ``results``: expressions that are a result.  ``why``: why places of work-items are not
    known, if they are not.
    """

    def __init__(self, text: KernelText, required: Int3 | None) -> None:
        """``required``: the size of work-groups, if the kernel says that."""
        self._text = text
        self._locals = text.locals
        self._required = required
        self.choices = Choices(text.tree, text.body, text.locals, text.parameters)
        pointers = [
            declaration
            for declaration, number in text.parameters.items()
            if (element := text.types[number].element) is not None and element.space is Space.LOCAL
        ]
        self._places = LocalPlaces(text.tree, text.body, text.parents, pointers, self.choices.constant)
        self._place_of: dict[Symbol, LocalPlace] = {}
        self._parts = GroupParts(text, self.choices, self._places)
        self.results: list[SyntaxNode] = []
        self.why = ""

    def is_one(self, call: SyntaxNode) -> bool:
        """Whether the result of an addition goes to all work-items of a group."""
        target = self._target(call)
        return target is not None and target.type.space is Space.LOCAL

    def sites(self, call: SyntaxNode) -> list[Site]:
        """What it hands out: to all together, and to each work-item if that is known.  Raises Refused."""
        callee = callee_of(call)
        assert callee is not None
        if not ADDS.match(callee.name):
            raise Refused(f"by {callee.name}")
        counter, nbytes, index = self._text.counter(call.children[1])
        if self._text.uniform(index) is None:
            raise Refused("of a counter for a work-group whose number is not made of scalar arguments")
        if len(self._places.accesses) > _ACCESSES_MAX:
            raise Refused("and accesses local memory in more places than are looked at")
        one, others = self._round(call)
        self._follow_reads(one)
        addend = None if callee.name.endswith("_inc") else self._locals.linear(call.children[2])
        symbols = [key for key in addend or () if len(key) == 1 and key[0].kind == "local"]
        if addend is None or len(addend) != 1 or not symbols or addend[symbols[0]] <= 0:
            raise Refused(
                "and adds for a work-group what is not counted in local memory, or changes too early"
            )
        if not all(self.is_more_than(*part, addend) for part in others):
            raise Refused("and not surely by one work-item of each group")
        place, times = self._place_of[symbols[0][0]], addend[symbols[0]]
        self._require_natural(place, one)
        result = Symbol("place", call.begin)
        self._follow_result(one, result)
        flat = tuple(dim for dim in range(3) if not self._is_alone(dim, one.chosen))
        statements = one.block.statements
        whole = Site(
            call,
            result,
            addend,
            counter,
            nbytes,
            index,
            statements[one.at],
            statements[one.at + 1 :],
            statements[one.at :],
            total=addend,
            is_shared=True,
            flat=flat,
        )
        found: list[Site] = []
        try:
            found = list(self._parts.items(whole, one, place, times))
        except Refused as why:
            self.why = str(why)
        whole.is_small = bool(found) and all(list(each.addend) == [ONE] for each in found)
        is_left = any(
            each.kind is NodeKind.RETURN and each.begin < statements[one.at].begin
            for each in self._text.body.walk()
        )
        if not is_left:  # all work-items are there to store
            found.append(whole)
        if not found:
            raise Refused(self.why)
        return found

    # -- the addition -----------------------------------------------------------------------------

    def _target(self, call: SyntaxNode) -> SyntaxNode | None:
        """What the result is assigned to."""
        node = call
        while (above := self._text.parents[id(node)]).kind in CONVERSIONS and len(above.operands) == 1:
            if above.type.form is not Form.INTEGER or above.type.nbytes < 4:
                return None
            node = above
        if above.kind is NodeKind.BINARY_OPERATOR and above.operator == "=" and above.operands[1] is node:
            return bare(above.operands[0])
        return None

    def _round(self, call: SyntaxNode) -> tuple[Round, list[tuple[SyntaxNode, bool]]]:
        """Who adds where, and what else it asks before.  Raises Refused."""
        node = call
        while node.operator != "=":
            node = self._text.parents[id(node)]
        statement, choices, others = node, list[Chosen](), list[tuple[SyntaxNode, bool]]()
        branch: SyntaxNode | None = None
        while True:
            above = self._text.parents[id(node)]
            around = self._text.parents.get(id(above))
            if above.kind is NodeKind.COMPOUND:
                is_branch = around is not None and around.kind is NodeKind.IF and around.operands[1] is above
                if around is None or not is_branch or not self._chooses(around, choices, others):
                    break
                node = around
                branch = branch or (above if choices else None)
            elif above.kind is NodeKind.IF and above.operands[1] is node:
                if not self._chooses(above, choices, others):
                    raise Refused("where it is not clear which work-items of a group add")
                branch = branch or (node if choices else None)
                node = above
            else:
                raise Refused("where it is not clear what follows")
        if branch is None:
            raise Refused("and not surely by one work-item of each group")
        outside: SyntaxNode | None = above
        while (outside := self._text.parents.get(id(outside))) is not None:
            if outside.kind is NodeKind.SWITCH:
                raise Refused("in a switch")
        dims = frozenset[int]().union(*[each.dims for each in choices])
        if len(dims) < sum([len(each.dims) for each in choices]):
            raise Refused("and not surely by one work-item of each group")
        one = Chosen(dims, all(each.is_first for each in choices))
        block = GroupBlock(self._text.tree, above, self._text.parents)
        found = Round(call, statement, block, block.position(call), one, branch)
        if block.leaves(found.at, found.at):
            raise Refused("where it is not clear what follows")
        return found, others

    def _chooses(
        self, branch: SyntaxNode, choices: list[Chosen], others: list[tuple[SyntaxNode, bool]]
    ) -> bool:
        """Whether a branch is for one work-item; notes what else it asks."""
        parts = list(self.choices.parts(branch.operands[0], True))
        chosen = [self.choices.chosen(*part) for part in parts]
        if not any(chosen) and not all(self._asks_for_more(*part) for part in parts):
            return False
        choices += [each for each in chosen if each is not None]
        others += [part for part, each in zip(parts, chosen, strict=True) if each is None]
        return True

    def _asks_for_more(self, node: SyntaxNode, truth: bool) -> bool:
        """Whether something in local memory is compared."""
        return truth and any(
            each.kind is NodeKind.DECL_REF and each.type.space is Space.LOCAL for each in node.walk()
        )

    def is_more_than(self, node: SyntaxNode, truth: bool, total: Linear) -> bool:
        """Whether a part of a condition says that something was counted of ``total``."""
        counted = bare(node)
        if counted.operator in (">", ">=", "!="):
            least = 1 if counted.operator == ">=" else 0
            if self.choices.constant(counted.operands[1]) != least:
                return False
            counted = counted.operands[0]
        form = self._locals.linear(counted) if truth else None
        if form is None or form.keys() != total.keys():
            return False
        ((key, times),) = form.items()
        return times == 1 and len(key) == 1 and key[0].kind == "local"

    def _is_alone(self, dim: int, chosen: Chosen) -> bool:
        return dim in chosen.dims or (self._required is not None and self._required[dim] == 1)

    def is_shared_out(self, begin: Linear | None, step: Linear | None) -> bool:
        """Whether a loop that each work-item of a group runs goes, for all together, over all numbers from 0
        on.
        """
        ids = [Symbol("call", 0, f"get_local_id({dim})") for dim in range(3)]
        sizes = [Symbol("call", 0, f"get_local_size({dim})") for dim in range(3)]
        ways: list[tuple[Linear, Linear]] = [({(ids[dim],): 1}, {(sizes[dim],): 1}) for dim in range(3)]
        plane = (sizes[0], sizes[1])
        ways.append(({(ids[0],): 1, (ids[1], sizes[0]): 1}, {plane: 1}))
        ways.append(({(Symbol("call", 0, "get_local_linear_id()"),): 1}, {(*plane, sizes[2]): 1}))
        if self._required is not None:
            x, y, z = self._required
            ways += [({(ids[dim],): 1}, {ONE: self._required[dim]}) for dim in range(3)]
            ways.append(({(ids[0],): 1, (ids[1],): x}, {ONE: x * y}))
            ways.append(({(Symbol("call", 0, "get_local_linear_id()"),): 1}, {ONE: x * y * z}))
        return (begin, step) in ways

    # -- local memory -----------------------------------------------------------------------------

    def _follow_reads(self, one: Round) -> None:
        """Have those of places in local memory known by what was written there last."""
        results = set(map(id, self.results))
        versions: dict[tuple[LocalPlace, int], int | None] = {}
        for access in self._places.accesses:
            if access.what == "read" and access.place.element is not None and id(access.node) not in results:
                key = access.place, one.block.position(access.node)
                if key[1] == one.at or key not in versions:
                    versions[key] = self._version(one, access)
                version = versions[key]
                if version is not None:
                    place = f"{access.place.element} {one.block.node.begin} {version}"
                    symbol = Symbol("local", access.place.variable, place)
                    self._place_of[symbol] = access.place
                    self._locals.known[id(access.node)] = {(symbol,): 1}

    def _version(self, one: Round, access: LocalAccess) -> int | None:
        """The last statement of the block that may have changed what is read, BEFORE if it is none; None
        where that may not be what comes out.
        """
        at, last = one.block.position(access.node), BEFORE
        if at in (BEFORE, AFTER):
            return None
        for other in self._places.of(access.place):
            is_count = access.what == other.what == "atomic"
            if other.what == "read" or other is access or is_count:
                continue
            when = one.block.position(other.node)
            if other.what == "other" or when == AFTER:
                return None
            if when == at:
                if at != one.at or not self._is_behind(one, access, other):
                    return None
            elif not one.block.waits_between(at, when):
                return None
            elif when < at:
                last = max(last, when)
        return last

    def _is_behind(self, one: Round, access: LocalAccess, other: LocalAccess) -> bool:
        """Whether the work-item that adds writes after it has read."""
        if not all(one.branch.begin <= each.node.begin < one.branch.end for each in (access, other)):
            return False
        is_value = other.by.operator == "=" and other.by.operands[1].begin <= access.node.begin < other.by.end
        return other.what == "write" and (is_value or access.node.end <= other.by.begin)

    def _require_natural(self, place: LocalPlace, one: Round) -> None:
        """Raise Refused where what is added for a group may be less than 0."""
        accesses = self._places.of(place)
        nodes = [each.node for each in accesses if each.what == "read"]
        is_natural = nodes[0].type.unsigned or all(
            self._keeps_natural(each) for each in accesses if each.by is not one.statement
        )
        if not is_natural:
            raise Refused("and may add less than nothing: what it adds should be unsigned")

    def _keeps_natural(self, access: LocalAccess) -> bool:
        if access.what == "read":
            return True
        if access.what == "write" and access.by.kind is NodeKind.BINARY_OPERATOR:
            return self._is_natural(access.by.operands[1])
        callee = callee_of(access.by) if access.what == "atomic" else None
        if callee is None or not ADDS.match(callee.name):
            return False
        return callee.name.endswith("_inc") or self._is_natural(access.by.children[2])

    def _is_natural(self, given: SyntaxNode) -> bool:
        if self._locals.never_negative(given) or self.choices.is_flag(given):
            return True
        form = self._locals.linear(given)
        return form is not None and self._locals.is_positive(form, given)

    # -- the result -------------------------------------------------------------------------------

    def _follow_result(self, one: Round, result: Symbol) -> None:
        """Have the expressions known that are the result, which all work-items see.  Raises Refused."""
        target = bare(one.statement.operands[0])
        if target.type.space is not Space.LOCAL:
            raise Refused("and keeps a group's first place where it is not followed")
        place = self._places.place(target)
        accesses = self._places.of(place) if place is not None else []
        if place is None or any(each.place.element is None or each.what == "other" for each in accesses):
            raise Refused("and keeps a group's first place where more may be")
        if target.type.nbytes < 4 or target.type.form is not Form.INTEGER:
            raise Refused("and keeps a group's first place where more may be")
        self._text.account(target)
        for access in accesses:
            at = one.block.position(access.node)
            if access.by is one.statement and access.what == "write":
                continue
            if access.what == "write":
                if at == AFTER or at == one.at or not one.block.waits_between(at, one.at):
                    raise Refused(f"{NOT_WAITED} where its first place is kept")
                continue
            if at == BEFORE:
                continue
            version = self._version(one, access)
            if version is None or (version == BEFORE and one.block.is_repeated):
                raise Refused(f"{NOT_WAITED} where its first place is looked at")
            if version == one.at and access.what != "read":
                raise Refused("and changes a group's first place")
            if version == one.at:
                self._locals.known[id(access.node)] = {(result,): 1}
                self.results.append(access.node)
