"""Which atomic additions whose results are used only append: ``sdi.appends``.

By the shape of the text: the result, plus and times integers, is an index of stores through a kernel argument
through which nothing else is done, and each place that is handed out is stored to in full; or it is compared
with limits that are known at launch.  Whatever is not surely so is refused, with the reason.  Source:
design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from sdi.appends import Append, AppendStore, Load
from sdi.clc.append_sites import KernelText, Site, walk
from sdi.clc.append_stores import StoreFinder
from sdi.clc.arguments import required_work_group_size
from sdi.clc.atomics import unused_calls
from sdi.clc.covering import Refused, Store, filled, rest_of
from sdi.clc.frontend.builtins import Action, action_of
from sdi.clc.frontend.syntax import (
    OWN_SPACES,
    Function,
    NodeKind,
    SyntaxNode,
    Tree,
    bare,
    callee_of,
    has_any,
)
from sdi.clc.group_appends import GroupAppends
from sdi.clc.group_parts import ADDS
from sdi.clc.linear import ONE, Linear, Symbol, added, without
from sdi.clc.preprocess.lines import LineMap
from sdi.dataclass import dataclass, replace

_JUMPS = frozenset({NodeKind.GOTO, NodeKind.INDIRECT_GOTO, NodeKind.LABEL, NodeKind.ASM})
_BODIES = {
    NodeKind.IF: slice(1, 3),
    NodeKind.FOR: slice(-1, None),
    NodeKind.WHILE: slice(-1, None),
    NodeKind.DO: slice(0, 1),
}
_GIVEN = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST, NodeKind.BINARY_OPERATOR})


@dataclass(frozen=True, slots=True)
class FoundAppends:
    """``calls``: the ``id()`` of the calls' nodes.  ``refused``: why there are none, empty where no result is
    used at all.
    """

    appends: tuple[Append, ...] = ()
    calls: frozenset[int] = frozenset()
    refused: str = ""


def find_appends(tree: Tree, kernel: Function, lines: LineMap) -> FoundAppends:
    """The atomic additions of a kernel whose results are used: all of them append, or none is taken to."""
    body = kernel.body
    if body is None:
        return FoundAppends()
    unused = unused_calls(body)
    calls = [node for node in body.walk() if _answers(node) and id(node) not in unused]
    if not calls:
        return FoundAppends()
    try:
        found = _Finder(tree, kernel, body, lines).find(calls)
    except Refused as why:
        return FoundAppends(refused=str(why))
    return FoundAppends(tuple(found), frozenset(map(id, calls)))


def _answers(node: SyntaxNode) -> bool:
    """Whether it is a call of an atomic function on memory that other work-groups may know."""
    if node.kind is not NodeKind.CALL or (callee := callee_of(node)) is None:
        return False
    if action_of(callee.name) is not Action.ATOMIC or len(node.children) < 2:
        return False
    pointee = node.children[1].type.element
    return pointee is None or pointee.space not in OWN_SPACES


class _Finder:
    """Looks at one kernel."""

    def __init__(self, tree: Tree, kernel: Function, body: SyntaxNode, lines: LineMap) -> None:
        self.text = KernelText(tree, kernel, body)
        self.lines = lines
        self.locals = self.text.locals
        self.group = GroupAppends(self.text, required_work_group_size(tree, kernel))
        self.sites: list[Site] = []

    def find(self, calls: Sequence[SyntaxNode]) -> list[Append]:
        """All appends.  Raises Refused."""
        if has_any(self.text.body, _JUMPS):
            raise Refused("beside jumps or assembly")
        for call in calls:
            if (callee := callee_of(call)) is not None and callee.declaration in self.text.tree.functions:
                raise Refused("by a function of its own")
            self.sites += self.group.sites(call) if self.group.is_one(call) else [self._site(call)]
        stores = StoreFinder(self.text, self.sites, self.group)
        try:
            stores.find_limits()
            for site in self.sites:
                stores.scan(site)
            self._require_accounted()
            found = [self._append(call, stores) for call in calls]
        except Refused as why:
            if self.group.why:
                raise Refused(self.group.why) from why
            raise
        for one in found:
            for other in found:
                self._require_alike(one, other)
        return found

    # -- the call ---------------------------------------------------------------------------------

    def _site(self, call: SyntaxNode) -> Site:
        callee = callee_of(call)
        assert callee is not None
        if not ADDS.match(callee.name):
            raise Refused(f"by {callee.name}")
        counter, nbytes, index = self.text.counter(call.children[1])
        is_one = callee.name.endswith("_inc")
        addend = {ONE: 1} if is_one else self.locals.linear(call.children[2])
        if addend is None:
            raise Refused("and adds what is not followed")
        symbol = self._symbol(call)
        self.locals.known[id(call)] = {(symbol,): 1}
        statement, rest = self._place(call)
        site = Site(call, symbol, addend, counter, nbytes, index, statement, rest, [*rest, statement])
        changed = site.changed()
        for form in (addend, index):
            if self.locals.numbers(form) & changed:
                raise Refused("and changes what it adds, or where, before it stores")
        if not self.locals.is_positive(addend, call):
            raise Refused("and may add less than nothing: what it adds should be unsigned")
        return site

    def _place(self, call: SyntaxNode) -> tuple[SyntaxNode, Sequence[SyntaxNode]]:
        """The statement that the call is in, and those that follow it in its block."""
        node = call
        while (parent := self.text.parents[id(node)]).kind in _GIVEN and parent.operator != "=":
            if parent.operator not in ("", "+", "-", "*") or (
                not parent.operator and len(parent.operands) != 1
            ):
                raise Refused("and does more with the result than add to it")
            node = parent
        if parent.kind is NodeKind.VAR_DECL:
            statement = self.text.parents[id(parent)]
            self._has_result(parent.declaration, node, call)
        elif parent.operator == "=" and node is parent.operands[1]:
            statement, variable = parent, bare(parent.operands[0])
            if variable.kind is not NodeKind.DECL_REF or variable.declaration in self.text.parameters:
                raise Refused("and stores the result itself")
            self.locals.assigned_once(variable.declaration, parent)
            self._has_result(variable.declaration, node, call)
            self.text.accounted.add(id(variable))
        elif parent.kind is NodeKind.ARRAY_SUBSCRIPT and node is parent.operands[1]:
            statement = self._assignment(parent)
        elif parent.kind is NodeKind.CALL:
            statement = parent
        else:
            raise Refused("and does more with the result than store there")
        block = self.text.parents[id(statement)] if statement is not self.text.body else statement
        if block.kind is NodeKind.COMPOUND:
            at = next(k for k, each in enumerate(block.children) if each is statement)
            rest = block.children[at + 1 :]
        elif block.kind in _BODIES and any(each is statement for each in block.operands[_BODIES[block.kind]]):
            rest = ()
        else:
            raise Refused("where it is not clear what follows")
        if any(each.kind in (NodeKind.CASE, NodeKind.DEFAULT) for each in walk(rest)):
            raise Refused("in a switch")
        for variable_use in self._uses_of_result(statement):
            if not any(variable_use.begin >= each.begin and variable_use.end <= each.end for each in rest):
                raise Refused("and uses the result elsewhere")
        return statement, rest

    def _has_result(self, variable: int, value: SyntaxNode, call: SyntaxNode) -> None:
        """Raise Refused unless the variable has the result, plus and times integers, for good."""
        form = self.locals.linear(value)
        if form is None or not any(self._symbol(call) in key for key in form):
            raise Refused("and does more with the result than add to it")
        if self.locals.definition(variable) is not value:
            raise Refused("and changes the variable that has the result, or it is no integer of its own")

    def _symbol(self, call: SyntaxNode) -> Symbol:
        return Symbol("place", call.begin)

    def _uses_of_result(self, statement: SyntaxNode) -> Iterator[SyntaxNode]:
        """References to a variable that the statement, an assignment, gives the result to."""
        if statement.operator != "=" or (variable := bare(statement.operands[0])).declaration == 0:
            return
        if variable.kind is NodeKind.DECL_REF:
            for node in self.text.body.walk():
                is_it = node.kind is NodeKind.DECL_REF and node.declaration == variable.declaration
                if is_it and node is not variable:
                    yield node

    def _assignment(self, subscript: SyntaxNode) -> SyntaxNode:
        """The statement that stores to ``subscript``."""
        node = subscript
        while (parent := self.text.parents[id(node)]).kind is NodeKind.PAREN:
            node = parent
        if parent.operator != "=" or parent.operands[0] is not node:
            raise Refused("and does more at the place than store there")
        return parent

    # -- all together -----------------------------------------------------------------------------

    def _require_accounted(self) -> None:
        """Raise Refused where a result, a counter or what is stored to is used in another way."""
        results = {site.symbol for site in self.sites}
        named = {site.counter for site in self.sites}
        named |= {store.argument for site in self.sites for store in site.stores}
        tainted = self.locals.tainted(results)
        declared = set(map(id, self.locals.definitions(tainted)))
        for node in self.text.body.walk():
            if node.kind is not NodeKind.DECL_REF or id(node) in self.text.accounted:
                continue
            if node.declaration in tainted and not self._is_below(node, declared):
                raise Refused(f"and uses the result, '{node.name}', in another way than to store there")
            if self.text.parameters.get(node.declaration) in named:
                raise Refused(f"and accesses '{node.name}' in another way too")
        for node in self.group.results:
            uses = [id(each) for each in node.walk() if each.kind is NodeKind.DECL_REF]
            is_followed = id(node) in declared or self._is_below(node, declared)
            if not (is_followed or self.text.accounted.issuperset(uses)):
                raise Refused(
                    "and uses a group's first place in another way than to store all there that was counted"
                )

    def _is_below(self, node: SyntaxNode, above: set[int]) -> bool:
        """Whether it is part of what a variable that is followed begins with."""
        while id(node) in self.text.parents:
            node = self.text.parents[id(node)]
            if id(node) in above:
                return True
        return False

    def _append(self, call: SyntaxNode, stores: StoreFinder) -> Append:
        """All that one call hands out: of a work-group by parts of work-items, and to all together."""
        sites = [site for site in self.sites if site.call is call]
        made = [self._append_of(site, stores) for site in sites]
        parts = [one.stores for one, site in zip(made, sites, strict=True) if not site.is_shared]
        together = [one.stores for one, site in zip(made, sites, strict=True) if site.is_shared]
        if any(set(each) != set(parts[0]) for each in parts):
            raise Refused("in several ways")
        return replace(
            made[0],
            stores=tuple(dict.fromkeys(chain(*parts[:1], *together))),
            limits=tuple(dict.fromkeys(chain(*[one.limits for one in made]))),
            reads=tuple(sorted({each for one in made for each in one.reads})),
            flat=sites[0].flat,
        )

    def _append_of(self, site: Site, finder: StoreFinder) -> Append:
        index = self.text.uniform(site.index)
        element: Symbol | None = None
        own: Linear = {}
        if index is None:
            parts = [(key, value) for key, value in site.index.items() if not self._is_uniform(key)]
            if len(parts) != 1 or len(parts[0][0]) != 1 or parts[0][1] != 1:
                raise Refused("of a counter whose number is not followed: it should be one variable")
            element = parts[0][0][0]
            own = without(site.index, (element,))
        stores: dict[object, list[Store]] = {}  # what lies next to each other, together
        for store in site.stores:
            stores.setdefault((store.argument, *sorted(rest_of(store, site.symbol).items())), []).append(
                store
            )
        made = [self._filled(site, several, element, own, finder) for several in stores.values()]
        line = self.lines.place(site.call.begin)[1]
        read = {self.text.parameters[each.number] for each in self._loads_of(site)}
        read |= site.reads | {store.base.argument for store in made if store.base is not None}
        return Append(
            site.counter, site.nbytes, index, tuple(made), tuple(site.limits), line, tuple(sorted(read))
        )

    def _loads_of(self, site: Site) -> set[Symbol]:
        """Elements of arguments by which counters and places are found."""
        forms = [site.index, *[store.index for store in site.stores]]
        return {each for form in forms for each in self.locals.symbols(form) if each in self.locals.loads}

    def _is_uniform(self, key: tuple[Symbol, ...]) -> bool:
        return all(self.locals.scalar(each) is not None for each in key)

    def _filled(
        self, site: Site, stores: Sequence[Store], element: Symbol | None, own: Linear, finder: StoreFinder
    ) -> AppendStore:
        """What the stores through one argument fill.

        ``element``, ``own``: what the index of a counter in an array is the sum of.
        """
        first = stores[0]
        found = filled(stores, site.symbol, site.addend, finder.all_parts(first.argument))
        base: Load | None = None
        stride: Linear = {}
        uniform: Linear = {ONE: found.start} if found.start else {}
        for key, coefficient in found.rest.items():
            if element is not None and key.count(element) == 1:
                at = key.index(element)
                stride = added(stride, {key[:at] + key[at + 1 :]: coefficient})
            elif base is None and coefficient == 1 and (load := self._base(key, site)) is not None:
                base = load
            else:
                uniform = added(uniform, {key: coefficient})
        for key, coefficient in stride.items():
            for other, factor in own.items():
                uniform = added(uniform, {tuple(sorted((*key, *other))): -coefficient * factor})
        known, each = self.text.uniform(uniform), self.text.uniform(stride)
        if known is None or each is None:
            raise Refused("and stores at places that are not followed")
        return AppendStore(first.argument, first.element_nbytes, found.scale, known, each, base)

    def _base(self, key: tuple[Symbol, ...], site: Site) -> Load | None:
        """The argument of which it is an element, the one with the counter's index."""
        found = self.locals.load(key[0]) if len(key) == 1 else None
        if found is None or self.locals.loads[found] != site.index:
            return None
        argument = self.text.parameters[found.number]
        element = self.text.types[argument].element
        assert element is not None, "something is read through it"
        return Load(argument, element.nbytes, not element.unsigned)

    def _require_alike(self, one: Append, other: Append) -> None:
        """Raise Refused for two appends to one counter, or to counters of one array, that differ."""
        if one is other or one.counter != other.counter:
            return
        may_meet = one.index is None or other.index is None or one.index == other.index
        if may_meet and (one.index != other.index or set(one.stores) != set(other.stores)):
            raise Refused("in several ways")
