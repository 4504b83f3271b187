"""Which atomic additions whose results are used only append: ``sdi.appends``.

By the shape of the text: the result, plus and times integers, is an index of stores through a kernel argument
through which nothing else is done, and each place that is handed out is stored to in full; or it is compared
with limits that are known at launch.  Whatever is not surely so is refused, with the reason.  Source:
design/0023-atomics-that-answer.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sdi.appends import Append, AppendStore, Limit, Load, Polynomial, Scalar
from sdi.clc.atomics import unused_calls
from sdi.clc.covering import Refused, Store, Trip, filled, rest_of
from sdi.clc.frontend.builtins import Action, action_of
from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Tree, callee_of
from sdi.clc.linear import ONE, Linear, Locals, Symbol, added, changed_by, scaled, without
from sdi.clc.preprocess.lines import LineMap

_ADDS = re.compile(r"(?:(?:atomic|atom)_(?:add|inc)|atomic_fetch_add(?:_explicit)?)\Z")
_VSTORE = re.compile(r"vstore(2|3|4|8|16)\Z")
_COMPONENTS = re.compile(r"\s*\.\s*(?:([sS])([0-9a-fA-F]+)|([xyzw]+))\Z")
_LEAVES = frozenset({NodeKind.RETURN, NodeKind.BREAK, NodeKind.CONTINUE})
_JUMPS = frozenset({NodeKind.GOTO, NodeKind.INDIRECT_GOTO, NodeKind.LABEL, NodeKind.ASM})
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BODIES = {
    NodeKind.IF: slice(1, 3),
    NodeKind.FOR: slice(-1, None),
    NodeKind.WHILE: slice(-1, None),
    NodeKind.DO: slice(0, 1),
}
_GIVEN = frozenset({NodeKind.PAREN, NodeKind.UNEXPOSED, NodeKind.CAST, NodeKind.BINARY_OPERATOR})
_COUNTER_NBYTES = (4, 8)


@dataclass(frozen=True, slots=True)
class FoundAppends:
    """``calls``: the ``id()`` of the calls' nodes.  ``refused``: why there are none, empty where no result is
    used at all.
    """

    appends: tuple[Append, ...] = ()
    calls: frozenset[int] = frozenset()
    refused: str = ""


@dataclass(slots=True)
class _Site:
    """One call: what stands for its result, what is added, which counter, what follows it in its block."""

    call: SyntaxNode
    symbol: Symbol
    addend: Linear
    counter: int
    nbytes: int
    index: Linear
    statement: SyntaxNode
    rest: Sequence[SyntaxNode]
    stores: list[Store] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)


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
    return pointee is None or pointee.space not in (Space.LOCAL, Space.PRIVATE)


class _Finder:
    """Looks at one kernel."""

    def __init__(self, tree: Tree, kernel: Function, body: SyntaxNode, lines: LineMap) -> None:
        self.tree = tree
        self.body = body
        self.lines = lines
        self.parameters = {p.declaration: number for number, p in enumerate(kernel.parameters)}
        self.types = [p.type for p in kernel.parameters]
        self.locals = Locals(tree, body, self.parameters)
        self.parents = {id(child): node for node in body.walk() for child in node.children}
        self.trip: Trip | None = None  # around the statements that are looked at
        self.accounted: set[int] = set()  # references whose part is known, by their nodes' ids
        self.sites: list[_Site] = []

    def find(self, calls: Sequence[SyntaxNode]) -> list[Append]:
        """All appends.  Raises Refused."""
        if any(node.kind in _JUMPS for node in self.body.walk()):
            raise Refused("beside jumps or assembly")
        self.sites = [self._site(call) for call in calls]
        self._find_limits()
        for site in self.sites:
            self._scan(site)
        self._require_accounted()
        found = [self._append(site) for site in self.sites]
        for one in found:
            for other in found:
                self._require_alike(one, other)
        return found

    # -- the call ---------------------------------------------------------------------------------

    def _site(self, call: SyntaxNode) -> _Site:
        callee = callee_of(call)
        assert callee is not None
        if not _ADDS.match(callee.name):
            raise Refused(f"by {callee.name}")
        counter, nbytes, index = self._counter(call.children[1])
        is_one = callee.name.endswith("_inc")
        addend = {ONE: 1} if is_one else self.locals.linear(call.children[2])
        if addend is None:
            raise Refused("and adds what is not followed")
        symbol = self._symbol(call)
        self.locals.known[id(call)] = {(symbol,): 1}
        statement, rest = self._place(call)
        site = _Site(call, symbol, addend, counter, nbytes, index, statement, rest)
        changed = changed_by([*rest, statement])
        for form in (addend, index):
            if self.locals.numbers(form) & changed:
                raise Refused("and changes what it adds, or where, before it stores")
        if not self.locals.is_positive(addend, call):
            raise Refused("and may add less than nothing: what it adds should be unsigned")
        return site

    def _counter(self, pointer: SyntaxNode) -> tuple[int, int, Linear]:
        """Argument, size of the counter and its index."""
        node = _inner(pointer)
        index: Linear | None = {}
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "&":
            element = _inner(node.operands[0])
            if element.kind is NodeKind.UNARY_OPERATOR and element.operator == "*":
                node = _inner(element.operands[0])
            elif element.kind is NodeKind.ARRAY_SUBSCRIPT:
                node, index = _inner(element.operands[0]), self.locals.linear(element.operands[1])
        elif node.kind is NodeKind.BINARY_OPERATOR and node.operator == "+":
            base, more = node.operands
            node, index = _inner(base), self.locals.linear(more)
        argument = self._argument(node)
        pointee, of_call = self.types[argument].element, pointer.type.element
        if pointee is None or of_call is None or pointee.nbytes != of_call.nbytes:
            raise Refused("through a pointer to another type")
        if pointee.space is not Space.GLOBAL or pointee.nbytes not in _COUNTER_NBYTES or index is None:
            raise Refused("of a counter that is not followed")
        if pointee.form is not Form.INTEGER and "_Atomic" not in pointee.canonical:
            raise Refused("of a counter that is no integer")
        return argument, pointee.nbytes, index

    def _argument(self, node: SyntaxNode) -> int:
        """The number of the kernel argument that ``node`` refers to, which nothing changes."""
        number = self.parameters.get(node.declaration) if node.kind is NodeKind.DECL_REF else None
        if number is None or node.declaration in self.locals.changed:
            raise Refused("through what is no argument of the kernel")
        self.accounted.add(id(node))
        return number

    def _place(self, call: SyntaxNode) -> tuple[SyntaxNode, Sequence[SyntaxNode]]:
        """The statement that the call is in, and those that follow it in its block."""
        node = call
        while (parent := self.parents[id(node)]).kind in _GIVEN and parent.operator != "=":
            if parent.operator not in ("", "+", "-", "*") or (
                not parent.operator and len(parent.operands) != 1
            ):
                raise Refused("and does more with the result than add to it")
            node = parent
        if parent.kind is NodeKind.VAR_DECL:
            statement = self.parents[id(parent)]
            self._has_result(parent.declaration, node, call)
        elif parent.operator == "=" and node is parent.operands[1]:
            statement, variable = parent, _inner(parent.operands[0])
            if variable.kind is not NodeKind.DECL_REF or variable.declaration in self.parameters:
                raise Refused("and stores the result itself")
            self.locals.assigned_once(variable.declaration, parent)
            self._has_result(variable.declaration, node, call)
            self.accounted.add(id(variable))
        elif parent.kind is NodeKind.ARRAY_SUBSCRIPT and node is parent.operands[1]:
            statement = self._assignment(parent)
        elif parent.kind is NodeKind.CALL:
            statement = parent
        else:
            raise Refused("and does more with the result than store there")
        block = self.parents[id(statement)] if statement is not self.body else statement
        if block.kind is NodeKind.COMPOUND:
            at = next(k for k, each in enumerate(block.children) if each is statement)
            rest = block.children[at + 1 :]
        elif block.kind in _BODIES and any(each is statement for each in block.operands[_BODIES[block.kind]]):
            rest = ()
        else:
            raise Refused("where it is not clear what follows")
        if any(each.kind in (NodeKind.CASE, NodeKind.DEFAULT) for each in _walk(rest)):
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
        if statement.operator != "=" or (variable := _inner(statement.operands[0])).declaration == 0:
            return
        if variable.kind is NodeKind.DECL_REF:
            for node in self.body.walk():
                is_it = node.kind is NodeKind.DECL_REF and node.declaration == variable.declaration
                if is_it and node is not variable:
                    yield node

    def _assignment(self, subscript: SyntaxNode) -> SyntaxNode:
        """The statement that stores to ``subscript``."""
        node = subscript
        while (parent := self.parents[id(node)]).kind is NodeKind.PAREN:
            node = parent
        if parent.operator != "=" or parent.operands[0] is not node:
            raise Refused("and does more at the place than store there")
        return parent

    # -- what follows it --------------------------------------------------------------------------

    def _scan(self, site: _Site) -> None:
        if self._stores_at_once(site):
            self._stores(site, [site.statement], None, True)
            if not site.stores:
                raise Refused("and does more with the result than store there")
        self._stores(site, site.rest, None, True)

    def _stores(
        self, site: _Site, statements: Sequence[SyntaxNode], trip: Trip | None, is_sure: bool
    ) -> bool:
        """Note the stores that surely happen; whether what comes behind is reached for sure."""
        for node in statements:
            match node.kind:
                case NodeKind.COMPOUND:
                    is_sure = self._stores(site, node.children, trip, is_sure)
                case NodeKind.IF if (truth := self._truth(node.operands[0])) is not None:
                    taken = node.operands[1:2] if truth else node.operands[2:3]
                    is_sure = self._stores(site, taken, trip, is_sure)
                case NodeKind.FOR if (
                    trip is None and is_sure and (inner := self._trip(site, node)) is not None
                ):
                    self.locals.inductions.add(inner.symbol)
                    self.trip = inner
                    is_sure = self._stores(site, node.operands[3:], inner, is_sure)
                    self.trip = None
                    self.locals.inductions.discard(inner.symbol)
                case NodeKind.BINARY_OPERATOR if node.operator == "=" and is_sure:
                    self._store(site, node, trip)
                case NodeKind.CALL if is_sure:
                    self._vector_store(site, node, trip)
                case _:
                    is_sure = is_sure and not any(each.kind in _LEAVES for each in node.walk())
        return is_sure

    def _stores_at_once(self, site: _Site) -> bool:
        """Whether the statement of the call is the store."""
        statement = site.statement
        if statement.kind is NodeKind.CALL:
            return True
        return statement.operator == "=" and _inner(statement.operands[0]).kind is not NodeKind.DECL_REF

    def _store(self, site: _Site, node: SyntaxNode, trip: Trip | None) -> None:
        target, parts = _inner(node.operands[0]), frozenset[str]()
        if len(target.operands) == 1 and _inner(target.operands[0]).kind is NodeKind.ARRAY_SUBSCRIPT:
            parts = self._parts(target)
            target = _inner(target.operands[0])
        if target.kind is not NodeKind.ARRAY_SUBSCRIPT:
            return
        base, index = _inner(target.operands[0]), self.locals.linear(target.operands[1])
        if index is None or (site.symbol,) not in index or base.declaration not in self.parameters:
            return
        self._account(target.operands[1])
        nbytes = target.type.nbytes
        self._keep(site, Store(self._argument(base), nbytes, index, 1, trip, parts))

    def _parts(self, node: SyntaxNode) -> frozenset[str]:
        """The member of a structure, or the components of a vector, that ``node`` is.  Raises Refused."""
        (whole,) = node.operands
        if node.kind is NodeKind.MEMBER_REF and whole.type.form is Form.RECORD:
            return frozenset({node.name})
        found = _COMPONENTS.match(self.tree.text[whole.end : node.end])
        if node.kind is not NodeKind.UNEXPOSED or whole.type.form is not Form.VECTOR or found is None:
            raise Refused("and stores to parts of places that are not followed")
        numbers = found[2] if found[1] else [f"{'xyzw'.index(each):x}" for each in found[3]]
        return frozenset(each.lower() for each in numbers)

    def _all_parts(self, argument: int) -> frozenset[str]:
        """Of an element; none where these are not known."""
        pointee = self.types[argument].element
        if pointee is None or pointee.form is not Form.RECORD:
            return frozenset(f"{each:x}" for each in range(pointee.count)) if pointee else frozenset()
        for declared in _walk(self.tree.declarations):
            if declared.kind is NodeKind.STRUCT_DECL and declared.declaration == pointee.record:
                fields = [each.name for each in declared.children if each.kind is NodeKind.FIELD_DECL]
                if fields:
                    return frozenset(fields) if all(fields) else frozenset()
        return frozenset()

    def _vector_store(self, site: _Site, node: SyntaxNode, trip: Trip | None) -> None:
        callee = callee_of(node)
        match = _VSTORE.match(callee.name) if callee is not None else None
        if match is None or len(node.children) != 4:
            return
        index, base = self.locals.linear(node.children[2]), _inner(node.children[3])
        if index is None or (site.symbol,) not in index or base.declaration not in self.parameters:
            return
        self._account(node.children[2])
        width, element = int(match[1]), node.children[3].type.element
        assert element is not None
        self._keep(site, Store(self._argument(base), element.nbytes, scaled(index, width), width, trip))

    def _keep(self, site: _Site, store: Store) -> None:
        pointee = self.types[store.argument].element
        if pointee is None or pointee.nbytes != store.element_nbytes or pointee.space is not Space.GLOBAL:
            raise Refused("and stores through a pointer to another type")
        site.stores.append(store)

    def _trip(self, site: _Site, node: SyntaxNode) -> Trip | None:
        """The loop, if it counts up from 0 and runs as often as its condition says."""
        if len(node.operands) != 4:
            return None
        begin, condition, step, body = node.operands
        declared = (
            begin.operands[0] if begin.kind is NodeKind.DECL_STATEMENT and len(begin.operands) == 1 else None
        )
        if declared is None or declared.kind is not NodeKind.VAR_DECL or len(declared.operands) != 1:
            return None
        symbol = Symbol("variable", declared.declaration)
        if self.locals.linear(declared.operands[0]) != {} or condition.operator not in ("<", "!="):
            return None
        counts, stop = _inner(condition.operands[0]), self.locals.linear(condition.operands[1])
        by = self._step(step, declared.declaration)
        if counts.declaration != declared.declaration or stop is None or by is None:
            return None
        if condition.operator == "!=" and by != 1:
            return None
        if declared.declaration in changed_by([body]) or symbol.number in self.locals.numbers(stop):
            return None
        changed = changed_by([*site.rest, site.statement])
        if self.locals.numbers(stop) & changed:
            return None
        if not condition.operands[1].type.unsigned and self.locals.is_unsigned(stop):
            return None  # what is added as a large number would be less than 0
        if any(each.kind in _LEAVES for each in body.walk()):
            return None
        return Trip(symbol, by, stop)

    def _step(self, node: SyntaxNode, variable: int) -> int | None:
        """By how much a loop's last part increases ``variable``."""
        node = _inner(node)
        if not node.operands or _inner(node.operands[0]).declaration != variable:
            return None
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator in ("++", "x++"):
            return 1
        if node.kind is NodeKind.COMPOUND_ASSIGNMENT and self.tree.source(node).count("+=") == 1:
            by = self.locals.linear(node.operands[1])
            return by[ONE] if by is not None and list(by) == [ONE] and by[ONE] > 0 else None
        return None

    # -- limits -----------------------------------------------------------------------------------

    def _find_limits(self) -> None:
        """Note the comparisons of results with limits."""
        for node in self.body.walk():
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
        self._account(node)
        return truth

    def _truth(self, condition: SyntaxNode) -> bool | None:
        """What a condition of nothing but limits is while none is reached; None for other ones."""
        node = _inner(condition)
        if node.kind is NodeKind.BINARY_OPERATOR and node.operator in ("&&", "||"):
            both = [self._truth(each) for each in node.operands]
            if None in both:
                return None
            return all(both) if node.operator == "&&" else any(both)
        return self._limited(node) if node.operator in _FLIPPED else None

    def _compared(self, node: SyntaxNode) -> tuple[_Site, Limit, bool] | None:
        """Whose result is compared, with what limit, and what comes out below it."""
        left, right = (self.locals.linear(each) for each in node.operands)
        if left is None or right is None:
            return None
        operator = node.operator
        for site in self.sites:
            mine, bound = left, right
            if (site.symbol,) in right:
                mine, bound, operator = right, left, _FLIPPED[operator]
            if (site.symbol,) not in mine:
                continue
            uniform = self._uniform(bound)
            more = without(mine, (site.symbol,))
            if mine[site.symbol,] != 1 or uniform is None:
                return None
            # The least that a place is below the counter's last value.
            least = site.addend.get(ONE, 0) if list(site.addend) == [ONE] else 0
            rest = added(more, scaled(site.addend, -1))
            trip = self.trip
            if trip is not None and trip.step == 1 and trip.stop == site.addend:
                last = without(more, (trip.symbol,))  # which is at most what is added, less 1
                if more.get((trip.symbol,)) == 1 and set(last) <= {ONE} and last.get(ONE, 0) >= 0:
                    more, least = {ONE: last.get(ONE, 0)}, 1
            if set(more) <= {ONE} and more.get(ONE, 0) >= 0:
                beyond = more.get(ONE, 0) - least
            elif set(rest) <= {ONE} and rest.get(ONE, 0) >= 0:
                changed = changed_by([*site.rest, site.statement])
                if self.locals.numbers(more) & changed:
                    return None
                beyond = rest.get(ONE, 0)
            else:
                return None
            is_strict = operator in ("<", ">=")
            return site, Limit(beyond + is_strict, uniform), operator in ("<", "<=")
        return None

    def _uniform(self, form: Linear) -> Polynomial | None:
        """In scalar arguments alone."""
        found = []
        for key, coefficient in form.items():
            numbers = [self.locals.scalar(each) for each in key]
            known = sorted(number for number in numbers if number is not None)
            if len(known) < len(numbers):
                return None
            of = tuple([Scalar(number, not self.types[number].unsigned) for number in known])
            found.append((coefficient, of))
        return tuple(sorted(found))

    # -- all together -----------------------------------------------------------------------------

    def _account(self, node: SyntaxNode) -> None:
        for each in node.walk():
            if each.kind is NodeKind.DECL_REF:
                self.accounted.add(id(each))

    def _require_accounted(self) -> None:
        """Raise Refused where a result, a counter or what is stored to is used in another way."""
        results = {site.symbol for site in self.sites}
        named = {site.counter for site in self.sites}
        named |= {store.argument for site in self.sites for store in site.stores}
        tainted = self.locals.tainted(results)
        declared = set(map(id, self.locals.definitions(tainted)))
        for node in self.body.walk():
            if node.kind is not NodeKind.DECL_REF or id(node) in self.accounted:
                continue
            if node.declaration in tainted and not self._is_below(node, declared):
                raise Refused(f"and uses the result, '{node.name}', in another way than to store there")
            if self.parameters.get(node.declaration) in named:
                raise Refused(f"and accesses '{node.name}' in another way too")

    def _is_below(self, node: SyntaxNode, above: set[int]) -> bool:
        """Whether it is part of what a variable that is followed begins with."""
        while id(node) in self.parents:
            node = self.parents[id(node)]
            if id(node) in above:
                return True
        return False

    def _append(self, site: _Site) -> Append:
        index = self._uniform(site.index)
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
        made = [self._filled(site, several, element, own) for several in stores.values()]
        line = self.lines.place(site.call.begin)[1]
        read = {self.parameters[each.number] for each in self._loads_of(site)}
        read |= {store.base.argument for store in made if store.base is not None}
        return Append(
            site.counter, site.nbytes, index, tuple(made), tuple(site.limits), line, tuple(sorted(read))
        )

    def _loads_of(self, site: _Site) -> set[Symbol]:
        """Elements of arguments by which counters and places are found."""
        forms = [site.index, *[store.index for store in site.stores]]
        return {each for form in forms for each in self.locals.symbols(form) if each in self.locals.loads}

    def _is_uniform(self, key: tuple[Symbol, ...]) -> bool:
        return all(self.locals.scalar(each) is not None for each in key)

    def _filled(
        self, site: _Site, stores: Sequence[Store], element: Symbol | None, own: Linear
    ) -> AppendStore:
        """What the stores through one argument fill.

        ``element``, ``own``: what the index of a counter in an array is the sum of.
        """
        first = stores[0]
        found = filled(stores, site.symbol, site.addend, self._all_parts(first.argument))
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
        known, each = self._uniform(uniform), self._uniform(stride)
        if known is None or each is None:
            raise Refused("and stores at places that are not followed")
        return AppendStore(first.argument, first.element_nbytes, found.scale, known, each, base)

    def _base(self, key: tuple[Symbol, ...], site: _Site) -> Load | None:
        """The argument of which it is an element, the one with the counter's index."""
        found = self.locals.load(key[0]) if len(key) == 1 else None
        if found is None or self.locals.loads[found] != site.index:
            return None
        argument = self.parameters[found.number]
        element = self.types[argument].element
        assert element is not None, "something is read through it"
        return Load(argument, element.nbytes, not element.unsigned)

    def _require_alike(self, one: Append, other: Append) -> None:
        """Raise Refused for two appends to one counter, or to counters of one array, that differ."""
        if one is other or one.counter != other.counter:
            return
        may_meet = one.index is None or other.index is None or one.index == other.index
        if may_meet and (one.index != other.index or set(one.stores) != set(other.stores)):
            raise Refused("in several ways")


def _inner(node: SyntaxNode) -> SyntaxNode:
    """Without parentheses and conversions that nobody wrote; a component of a vector is no conversion."""
    while node.kind in (NodeKind.PAREN, NodeKind.UNEXPOSED) and len(node.operands) == 1:
        (child,) = node.operands
        if node.kind is NodeKind.UNEXPOSED and (node.begin, node.end) != (child.begin, child.end):
            break
        node = child
    return node


def _walk(nodes: Sequence[SyntaxNode]) -> Iterator[SyntaxNode]:
    for node in nodes:
        yield from node.walk()
