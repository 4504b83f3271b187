"""What is known of a kernel's text while its atomic additions are looked at, and of each of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sdi.appends import Limit, Polynomial, Scalar
from sdi.clc.covering import Refused, Store
from sdi.clc.frontend.syntax import Form, Function, NodeKind, Space, SyntaxNode, Tree, bare
from sdi.clc.linear import Linear, Locals, Symbol, changed_by, without
from sdi.clc.work_item_choices import Key
from sdi.dataclass import dataclass, field

_COUNTER_NBYTES = (4, 8)


@dataclass(slots=True)
class Site:
    """One addition of ``addend`` to a counter, and where its result says to store.

    ``symbol``: stands for the result.  ``rest``: what follows it and may store.  ``span``: the statements
    from it on, whose variables have to keep their values.
    Where one work-item adds ``total`` for its work-group, there is a site for each part that a work-item has
    of that: its place is the result plus ``times`` ``slot``, known where ``conditions`` hold, which
    ``sentinels`` say too: by variable, what it is elsewhere.  And there may be one for all work-items
    together (``is_shared``), each of which stores some in a loop; ``is_small``: of surely less than 2^31.
    ``flat``: see ``Append``.  ``reads``: arguments that ``conditions`` and the like are made of.
    """

    call: SyntaxNode
    symbol: Symbol
    addend: Linear
    counter: int
    nbytes: int
    index: Linear
    statement: SyntaxNode
    rest: Sequence[SyntaxNode]
    span: Sequence[SyntaxNode]
    stores: list[Store] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    slot: Symbol | None = None
    times: int = 1
    conditions: frozenset[Key] = frozenset()
    sentinels: dict[int, int] = field(default_factory=dict)
    total: Linear = field(default_factory=dict)
    is_shared: bool = False
    is_small: bool = False
    flat: tuple[int, ...] = ()
    reads: frozenset[int] = frozenset()

    @property
    def is_of_group(self) -> bool:
        """Whether one work-item adds for others too."""
        return bool(self.total)

    def placed(self, index: Linear) -> Linear | None:
        """An index in terms of the place; None where it is not one of this site."""
        by = index.get((self.symbol,), 0)
        found = index
        if by and self.slot is not None:
            if index.get((self.slot,)) != by * self.times:
                return None
            found = without(index, (self.slot,))
        return found if by and not any(each.kind == "slot" for key in found for each in key) else None

    def changed(self) -> set[int]:
        """The variables that may change from the addition on."""
        return changed_by(self.span)


class KernelText:
    """One kernel.  ``parameters``: numbers by declaration.  ``parents``: by the ``id()`` of nodes.
    ``accounted``: references whose part is known, by their nodes' ids.
    """

    def __init__(self, tree: Tree, kernel: Function, body: SyntaxNode) -> None:
        self.tree = tree
        self.body = body
        self.parameters = {p.declaration: number for number, p in enumerate(kernel.parameters)}
        self.types = [p.type for p in kernel.parameters]
        self.locals = Locals(tree, body, self.parameters)
        self.parents = {id(child): node for node in body.walk() for child in node.children}
        self.accounted: set[int] = set()

    def account(self, node: SyntaxNode) -> None:
        """Take the part of all references in ``node`` for known."""
        for each in node.walk():
            if each.kind is NodeKind.DECL_REF:
                self.accounted.add(id(each))

    def argument(self, node: SyntaxNode) -> int:
        """The number of the kernel argument that ``node`` refers to, which nothing changes.

        Raises Refused.
        """
        number = self.parameters.get(node.declaration) if node.kind is NodeKind.DECL_REF else None
        if number is None or node.declaration in self.locals.changed:
            raise Refused("through what is no argument of the kernel")
        self.accounted.add(id(node))
        return number

    def counter(self, pointer: SyntaxNode) -> tuple[int, int, Linear]:
        """Argument, size of the counter and its index.  Raises Refused."""
        node = bare(pointer)
        index: Linear | None = {}
        if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "&":
            element = bare(node.operands[0])
            if element.kind is NodeKind.UNARY_OPERATOR and element.operator == "*":
                node = bare(element.operands[0])
            elif element.kind is NodeKind.ARRAY_SUBSCRIPT:
                node, index = bare(element.operands[0]), self.locals.linear(element.operands[1])
        elif node.kind is NodeKind.BINARY_OPERATOR and node.operator == "+":
            base, more = node.operands
            node, index = bare(base), self.locals.linear(more)
        argument = self.argument(node)
        pointee, of_call = self.types[argument].element, pointer.type.element
        if pointee is None or of_call is None or pointee.nbytes != of_call.nbytes:
            raise Refused("through a pointer to another type")
        if pointee.space is not Space.GLOBAL or pointee.nbytes not in _COUNTER_NBYTES or index is None:
            raise Refused("of a counter that is not followed")
        if pointee.form is not Form.INTEGER:
            raise Refused("of a counter that is no integer")
        return argument, pointee.nbytes, index

    def uniform(self, form: Linear) -> Polynomial | None:
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


def walk(nodes: Sequence[SyntaxNode]) -> Iterator[SyntaxNode]:
    """All nodes of several."""
    for node in nodes:
        yield from node.walk()
