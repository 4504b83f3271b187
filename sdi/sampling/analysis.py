"""The access maps of a kernel: made once from its tree, bound per launch, asked per box of work-groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sdi.clc.arguments import argument_kind
from sdi.clc.frontend.syntax import OWN_SPACES, Function, Space, Tree, Type
from sdi.clc.frontend.syntax import Form as TypeForm
from sdi.clc.model import ArgumentKind
from sdi.clc.preprocess.lines import LineMap, line_map
from sdi.dataclass import dataclass
from sdi.ndrange import NDRange
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.blind import long_functions
from sdi.sampling.bound import BoundKernel, Effects
from sdi.sampling.floats import is_exact
from sdi.sampling.layout import Layouts
from sdi.sampling.machine import MAX_OPERATIONS, MAX_WEIGHT, Access, GaveUp, Loop, Machine, Mode, TooLong
from sdi.sampling.model import Reason
from sdi.sampling.statements import Statements
from sdi.sampling.terms import TermOp, TermTable
from sdi.sampling.values import HARMLESS, ArrayValue, PointerValue, RecordValue, Value, int_type, unset

FIRST = MAX_OPERATIONS // 10
"""Operations after which a kernel is followed without its long helpers, where it has any."""
_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)


@dataclass(frozen=True, slots=True)
class KernelAnalysis:
    """The access maps of one kernel.  Frozen, can be pickled; any thread may bind it.

    ``reasons``: why arguments are not better known, whatever the launch.
    ``images``: what it writes to images, where a byte stands for a slab (the outermost dimension's rows or
    planes); None where it writes none, or nothing is known.
    ``too_long``: why nothing is known, with the line, where the kernel is larger than what is analysed: it
    runs whole then.  ``operations``: what the analysis took.
    ``stores``: by argument, where the text stores through it ("line 4"), as far as that is followed.
    """

    name: str
    pointers: tuple[Effects, ...]
    accesses: tuple[Access, ...]
    loops: tuple[Loop | None, ...]
    table: TermTable
    reasons: tuple[Reason, ...]
    images: KernelAnalysis | None = None
    too_long: str = ""
    operations: int = 0
    stores: tuple[tuple[int, str], ...] = ()

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> BoundKernel:
        """The maps for one launch; see KernelAccess."""
        binding = AffineContext(self.table, self.loops, ndrange, values)
        return BoundKernel(self.name, self.pointers, self.accesses, binding, buffer_nbytes)


def analyse(
    tree: Tree, function: Function, operations: int = MAX_OPERATIONS, options: Sequence[str] = ()
) -> KernelAnalysis:
    """The access maps of a kernel; a few milliseconds, on any thread.

    ``operations``: after which each way to follow it ends; how many a kernel takes depends on nothing but its
    text.  ``options``: with which it is built.
    """
    lines = line_map(tree.text)
    parameters = function.parameters
    pointers = [i for i, p in enumerate(parameters) if argument_kind(p.type) in _POINTERS]
    images = [i for i, p in enumerate(parameters) if argument_kind(p.type) is ArgumentKind.IMAGE]
    names = [p.name or f"argument {i}" for i, p in enumerate(parameters)]
    reasons: list[Reason] = []
    reads: set[int] = set()
    writes: set[int] = set()
    too_long, taken = "", 0
    follows_floats = is_exact(tree.text, options)
    machine, cause = _run(tree, function, Machine(min(operations, FIRST), follows_floats), frozenset())
    taken = machine.operations
    for blind, most in _shorter(tree, operations) if isinstance(cause, TooLong) else ():
        machine, cause = _run(tree, function, Machine(most, follows_floats), blind)
        taken += machine.operations
        if not isinstance(cause, TooLong):
            break
    if cause is not None:
        reads, writes = set(pointers), set(pointers)
        at = cause.offset if isinstance(cause, GaveUp) else function.nodes[0].begin
        why = str(cause) if isinstance(cause, GaveUp) else "is nested too deeply"
        reasons += [Reason(i, f"the kernel {why}", lines.place(at)[1]) for i in (*pointers, *images)]
        if isinstance(cause, TooLong):
            too_long = f"{lines.describe(function.nodes[0].location)}: {why}"
            machine = Machine()  # nothing of what was found is of use
        machine.accesses.clear()
    for unknown in machine.unknown:
        reached = [i for i in pointers if _may_reach(unknown.space, parameters[i].type)]
        (reads if unknown.mode is Mode.READ else writes).update(reached)
        line = lines.place(unknown.at)[1]
        verb = "reads" if unknown.mode is Mode.READ else "writes"
        reasons += [Reason(i, f"{verb} through a pointer that is not followed", line) for i in reached]
    table = machine.terms.finish()
    accesses = tuple(access for access in machine.accesses if access.argument not in images)
    pixels = tuple(access for access in machine.accesses if access.argument in images)
    loops = tuple(machine.found_loops)
    reasons += _reasons(accesses, table, lines)
    return KernelAnalysis(
        function.name,
        tuple(Effects(i, names[i], i in reads, i in writes) for i in pointers),
        accesses,
        loops,
        table,
        tuple(dict.fromkeys(reasons)),
        _image_analysis(function.name, images, names, pixels, loops, table, lines),
        too_long,
        taken,
        tuple(
            dict.fromkeys(
                (a.argument, lines.describe(a.at)) for a in machine.accesses if a.mode is Mode.WRITE
            )
        ),
    )


def _shorter(tree: Tree, operations: int) -> Iterator[tuple[frozenset[int], int]]:
    """How else to follow a kernel that is long: without which functions, and in how many operations."""
    inward, blind = long_functions(tree)
    if inward and inward != blind:
        yield inward, min(operations, 4 * FIRST)
    if blind or operations > FIRST:
        yield blind, operations


def _run(
    tree: Tree, function: Function, machine: Machine, blind: frozenset[int]
) -> tuple[Machine, GaveUp | RecursionError | None]:
    """Run a kernel but for calls of ``blind`` functions; why that ended before its end, if it did."""
    try:
        layouts = Layouts(tree)
        Statements(tree, machine, blind).kernel(
            function, [_argument(machine, layouts, i, p.type) for i, p in enumerate(function.parameters)]
        )
        weight = sum(1 + len(access.guards) + len(access.loops) for access in machine.accesses)
        if weight > MAX_WEIGHT:
            raise TooLong("reaches memory in too many ways to analyse", function.nodes[0].location)
    except (GaveUp, RecursionError) as cause:
        return machine, cause
    return machine, None


def _image_analysis(
    name: str,
    images: list[int],
    names: list[str],
    pixels: tuple[Access, ...],
    loops: tuple[Loop | None, ...],
    table: TermTable,
    lines: LineMap,
) -> KernelAnalysis | None:
    if not pixels:
        return None
    effects = tuple(Effects(i, names[i], False, False) for i in images)
    reasons = [
        Reason(access.argument, "writes rows that depend on data", lines.place(access.at)[1])
        for access in pixels
        if table.opaque[access.offset]
    ]
    return KernelAnalysis(name, effects, pixels, loops, table, tuple(dict.fromkeys(reasons)))


def _reasons(accesses: tuple[Access, ...], table: TermTable, lines: LineMap) -> list[Reason]:
    found: list[Reason] = []
    for access in accesses:
        verb = "reads" if access.mode is Mode.READ else "updates" if access.update else "writes"
        line = lines.place(access.at)[1]
        if table.opaque[access.offset]:
            found.append(Reason(access.argument, f"{verb} at an index that depends on data", line))
        elif access.update is not None:
            pass  # which bytes an update changes matters less than which it may change
        elif access.mode is Mode.WRITE and any(table.opaque[g] for g in access.guards):
            found.append(Reason(access.argument, "writes under a condition that depends on data", line))
        elif access.mode is Mode.WRITE and not access.is_definite:
            found.append(Reason(access.argument, "may write less than the bytes named here", line))
    return found


def _may_reach(space: Space, parameter: Type) -> bool:
    pointee = parameter.element
    if pointee is None or space in OWN_SPACES:
        return False
    return space not in (Space.GLOBAL, Space.CONSTANT) or pointee.space in (space, Space.GENERIC, Space.NONE)


def _argument(machine: Machine, layouts: Layouts, number: int, of: Type) -> Value:
    kind = argument_kind(of)
    if kind in _POINTERS or kind is ArgumentKind.IMAGE:
        return PointerValue(((number, machine.zero),))
    if kind is ArgumentKind.LOCAL:
        return HARMLESS
    return _scalar(machine, layouts, number, 0, of)


def _scalar(machine: Machine, layouts: Layouts, number: int, offset: int, of: Type) -> Value:
    """The value of (a part of) an argument that is passed by value."""
    kind = int_type(of)
    if kind is not None:
        if kind.bits < 8:
            return machine.terms.unknown(kind)
        return machine.terms.make(TermOp.SCALAR, (), kind, (number, offset))
    element = of.element
    if of.form is TypeForm.VECTOR and element is not None and int_type(element) is not None:
        parts = range(of.count)
        return tuple(_scalar(machine, layouts, number, offset + i * element.nbytes, element) for i in parts)
    if of.form is TypeForm.ARRAY and (array := unset(of)) is not None and (kind := array.kind) is not None:
        at = [(number, offset + i * kind.bits // 8) for i in range(len(array.items))]
        return ArrayValue(kind, tuple(machine.terms.make(TermOp.SCALAR, (), kind, each) for each in at))
    if of.form is TypeForm.RECORD and (fields := layouts.fields(of)) is not None:
        items = fields.items()
        return RecordValue(
            tuple((n, _scalar(machine, layouts, number, offset + f.offset, f.type)) for n, f in items)
        )
    return machine.floats.scalar(number, offset, of)
