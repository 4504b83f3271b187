"""The access maps of a kernel: made once from its tree, bound per launch, asked per box of work-groups."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from sdi.atomics import Update
from sdi.clc.arguments import argument_kind
from sdi.clc.frontend.syntax import Form as TypeForm
from sdi.clc.frontend.syntax import Function, Space, Tree, Type
from sdi.clc.model import ArgumentKind
from sdi.clc.preprocess.lines import LineMap, line_map
from sdi.intervals import ByteRange
from sdi.ndrange import GroupBox, NDRange
from sdi.region import Region
from sdi.regions import RegionSet
from sdi.sampling.affine import AffineExpr, Range, interval
from sdi.sampling.affine_context import AffineContext, TooManyExprs
from sdi.sampling.boxes import (
    Domain,
    Footprint,
    Part,
    Span,
    base_ranges,
    merged,
    reach,
    region_set,
    simpler,
    tightened,
    without_mixed_ids,
)
from sdi.sampling.floats import is_exact
from sdi.sampling.layout import Layouts
from sdi.sampling.machine import MAX_OPERATIONS, MAX_WEIGHT, Access, GaveUp, Loop, Machine, Mode, TooLong
from sdi.sampling.model import AccessRange, Precision, Reason, WorkEstimate
from sdi.sampling.statements import Statements
from sdi.sampling.terms import TermOp, TermTable
from sdi.sampling.unknowns import BASES, UnknownKind
from sdi.sampling.values import HARMLESS, ArrayValue, PointerValue, RecordValue, Value, int_type, unset

_log = logging.getLogger("sdi.access")

_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)
_BOXES_MAX = 64
"""Boxes whose answers are kept."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What is known of one pointer argument whatever the launch.

    ``reads_anything``, ``writes_anything``: an access through it has an address that is not known.
    """

    argument: int
    name: str
    reads_anything: bool
    writes_anything: bool


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
        try:
            return BoundKernel(self, AffineContext(self.table, self.loops, ndrange, values), buffer_nbytes)
        except TooManyExprs:
            anything = tuple(Effects(each.argument, each.name, True, True) for each in self.pointers)
            less = replace(self, pointers=anything, accesses=(), loops=(), images=None)
            return BoundKernel(less, AffineContext(self.table, (), ndrange, values), buffer_nbytes)


@dataclass(frozen=True, slots=True)
class AffineAccess:
    """One access of a bound kernel, in one domain: its first byte as an expression, and how many bytes.

    ``precision``: EXACT where the expression depends on ids and counters only and the access happens whenever
    its guards hold; COVER where it may not happen then; else MAY.
    ``is_unbounded``: the expression depends on something of which nothing is known.
    """

    access: Access
    argument: int
    mode: Mode
    offset: AffineExpr
    nbytes: int
    precision: Precision
    is_unbounded: bool

    @property
    def is_write(self) -> bool:
        """Whether it stores; an atomic update is no store."""
        return self.mode is Mode.WRITE and self.access.update is None


@dataclass(slots=True)
class _Group:
    """What becomes a domain, with the accesses in it.  ``unknowns``: as bits."""

    constraints: tuple[AffineExpr, ...]
    precision: Precision
    unknowns: int
    pieces: list[AffineAccess]


class BoundKernel:
    """A kernel with its NDRange and scalars known.  Pure; answers for a box are kept."""

    def __init__(
        self, analysis: KernelAnalysis, binding: AffineContext, buffer_nbytes: tuple[int | None, ...]
    ) -> None:
        self._analysis = analysis
        self._binding = binding
        self._nbytes = {e.argument: buffer_nbytes[e.argument] or 0 for e in analysis.pointers}
        self._known: dict[GroupBox, tuple[AccessRange, ...]] = {}
        self._needs: list[int] = []  # of each unknown, itself and those that it needs, as bits
        self._unbounded = 0  # unknowns of which nothing is known, as bits
        # What happens under the fewest conditions comes first: it reads most of what the others read.
        self._groups = sorted(self._compile(), key=lambda each: len(each[0].constraints))

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """What the work-groups of ``box`` do, one entry per GLOBAL or CONSTANT argument, in order."""
        known = self._known.get(box)
        if known is None:
            if len(self._known) >= _BOXES_MAX:
                self._known.clear()
            known = self._known[box] = self._over(box)
        return known

    def bounds(self, box: GroupBox) -> tuple[AccessRange, ...]:
        """The same with one range per access: much cheaper where there would be many."""
        return self.computed(box, False)

    def computed(self, box: GroupBox, exact: bool) -> tuple[AccessRange, ...]:
        """What ``over`` or ``bounds`` answers; nothing of it is kept."""
        return self._over(box, exact)

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """See ``BoundAccess``: each is as dear."""

    def work(self, dim: int) -> WorkEstimate | None:
        """See ``BoundAccess``; a failure is our bug: it is logged and survived."""
        from sdi.sampling.work import work_of

        try:
            return work_of(self._binding, self._analysis.accesses, dim)
        except Exception:
            _log.exception("kernel %s: its work can't be estimated", self._analysis.name)
            return None

    def effort(self) -> float | None:
        """See ``BoundAccess``; a failure is our bug: it is logged and survived."""
        from sdi.sampling.work import effort_of

        try:
            return effort_of(self._binding, self._analysis.accesses)
        except Exception:
            _log.exception("kernel %s: its effort can't be estimated", self._analysis.name)
            return None

    # -- binding ---------------------------------------------------------------------------------

    def _compile(self) -> list[tuple[Domain, list[AffineAccess]]]:
        """Pieces by domain."""
        binding = self._binding
        by_guards: dict[tuple[int, ...], list[Access]] = {}
        for access in self._analysis.accesses:
            if self._nbytes[access.argument] and self._may_iterate(access.loops):
                by_guards.setdefault(access.guards, []).append(access)
        found: list[tuple[Domain, list[AffineAccess]]] = []
        for guards, accesses in by_guards.items():
            precision = Precision.EXACT
            alternatives: list[list[AffineExpr]] = [[]]
            parts = [part for guard in guards for part in self._parts(guard)]
            for lost, by_data in ((Precision.MAY, False), (Precision.COVER, True)):
                binding.is_overapproximate = False
                own = [binding.alternatives(part) for part in parts if binding.opaque[part] is by_data]
                alternatives = binding.conjunction([alternatives, *own])
                if binding.is_overapproximate and precision is Precision.EXACT:
                    precision = lost
            for constraints in alternatives:
                domains: dict[int, _Group] = {}
                for access in accesses:
                    self._piece(access, constraints, precision, domains)
                found += [(self._domain(group), group.pieces) for group in domains.values()]
        return found

    def _parts(self, guard: int) -> tuple[int, ...]:
        """What has to hold for a guard, one by one."""
        row = self._binding.rows[guard]
        return row.args if row.op is TermOp.ALL else (guard,)

    def _domain(self, group: _Group) -> Domain:
        regular: list[AffineExpr] = []
        precision = group.precision
        for constraint in group.constraints:
            if self._is_regular(constraint):
                regular.append(constraint)
            elif not self._is_data(constraint):
                precision = Precision.MAY
            elif precision is Precision.EXACT:
                precision = Precision.COVER
        return Domain(group.constraints, tuple(regular), precision, _numbers(group.unknowns))

    def _piece(
        self,
        access: Access,
        constraints: list[AffineExpr],
        precision: Precision,
        domains: dict[int, _Group],
    ) -> None:
        binding = self._binding
        offset = binding.exact(access.offset)
        exprs = without_mixed_ids(binding, [offset, *constraints])
        key = 0
        if exprs[0] is not offset or any(a is not b for a, b in zip(exprs[1:], constraints, strict=True)):
            key = len(domains) + 1
        offset = exprs[0]
        group = domains.get(key)
        if group is None:
            group = domains[key] = _Group(tuple(exprs[1:]), precision, self._unknowns(exprs[1:]), [])
        extra = self._unknowns([offset])
        group.unknowns |= extra
        own = Precision.MAY
        if self._is_regular(offset):
            happens = access.is_definite and self._are_closed(access.loops)
            own = Precision.EXACT if happens else Precision.COVER
        wild = bool(extra & self._unbounded)
        group.pieces.append(
            AffineAccess(access, access.argument, access.mode, offset, access.nbytes, own, wild)
        )

    def _may_iterate(self, loops: tuple[int, ...]) -> bool:
        """Whether no loop around an access is known to end before its first iteration."""
        binding = self._binding
        found = [loop for number in loops if (loop := self._analysis.loops[number]) is not None]
        return all(interval(binding.expr(loop.counter), binding.ranges)[1] >= 0 for loop in found)

    def _is_regular(self, expr: AffineExpr) -> bool:
        unknowns = self._binding.unknowns
        return all(v < BASES or unknowns[v - BASES].kind is UnknownKind.COUNTER for v in expr[1])

    def _is_data(self, expr: AffineExpr) -> bool:
        unknowns = self._binding.unknowns
        return any(v >= BASES and unknowns[v - BASES].is_data for v in expr[1])

    def _are_closed(self, loops: tuple[int, ...]) -> bool:
        """Whether what holds for one iteration of these loops holds for all earlier ones."""
        binding = self._binding
        for number in loops:
            loop = self._analysis.loops[number]
            if loop is None:
                return False
            variable = next(iter(binding.expr(loop.counter)[1]))
            if not interval((0, {variable: 1}), binding.ranges)[1] < 1 << 64:
                return False
            saved, binding.is_overapproximate = binding.is_overapproximate, False
            closed = True
            for condition in loop.conditions:
                found = binding.alternatives(condition)
                if any(f[1].get(variable, 0) > 0 for each in found for f in each):
                    closed = False
            closed = closed and not binding.is_overapproximate
            binding.is_overapproximate = saved
            if not closed:
                return False
        return True

    def _unknowns(self, exprs: Iterable[AffineExpr]) -> int:
        """The unknowns that some expressions need, as bits."""
        unknowns, known = self._binding.unknowns, self._needs
        for number in range(len(known), len(unknowns)):  # an unknown needs older ones
            unknown = unknowns[number]
            known.append(1 << number | _bits(known, unknown.exprs))
            if unknown.kind in (UnknownKind.ANY, UnknownKind.WRAPPED):
                self._unbounded |= 1 << number
        return _bits(known, exprs)

    # -- boxes -----------------------------------------------------------------------------------

    def _over(self, box: GroupBox, exact: bool = True) -> tuple[AccessRange, ...]:
        unknowns = self._binding.unknowns
        ranges = base_ranges(self._binding, box)
        found = {argument: _Found() for argument in self._nbytes}
        done: set[int] = set()
        by_digits: dict[object, list[Part] | None] = {}
        for domain, pieces in self._groups:
            inside = tightened(domain, unknowns, ranges)
            if inside is None:
                continue
            same: dict[tuple[int, int, Precision, bool], Footprint | None] = {}
            for piece in pieces:
                if id(piece.access) in done:
                    continue
                is_cover = Precision.COVER in (piece.precision, domain.precision)
                is_listed = exact and (piece.is_write or not is_cover)
                if piece.mode is Mode.READ and found[piece.argument].has_read(piece, inside):
                    continue
                key = (id(piece.offset), piece.nbytes, piece.precision, is_listed)
                if key not in same:
                    same[key] = reach(
                        piece.offset,
                        piece.nbytes,
                        piece.precision,
                        domain,
                        inside,
                        unknowns,
                        is_listed,
                        exact,
                    )
                reached = same[key]
                if exact and (reached is None or reached.precision is not Precision.EXACT):
                    better = self._closed_form(piece.access, box, reached, by_digits)
                    if better is not None:
                        done.add(id(piece.access))
                        reached = better
                nbytes = self._nbytes[piece.argument]
                if (
                    reached is not None
                    and piece.is_unbounded
                    and reached.precision is Precision.MAY
                    and region_set(reached.parts, nbytes).nbytes == nbytes
                ):
                    reached = None
                found[piece.argument].add(piece, reached)
        return tuple([self._answer(e, found[e.argument]) for e in self._analysis.pointers])

    def _closed_form(
        self,
        access: Access,
        box: GroupBox,
        reached: Footprint | None,
        by_digits: dict[object, list[Part] | None],
    ) -> Footprint | None:
        """What an access reaches in all its domains together, where that is better known than ``reached``.

        Of reads only where that costs little.
        """
        has_data = any(self._binding.opaque[guard] for guard in access.guards)
        if not access.is_definite or (has_data and (access.update is not None or _is_cover(reached))):
            return None
        from sdi.sampling import dense, digits

        # What is read and written again, or in several arrays at one index, is asked for once.
        key = (access.offset, access.guards, access.loops, access.nbytes)
        if key not in by_digits:
            by_digits[key] = digits.bytes_of(self._binding, access, box)
        parts: Sequence[Part] | None = by_digits[key]
        if parts is None and not has_data and access.mode is Mode.WRITE:
            parts = dense.spans_of(self._binding, access, box)
        return None if parts is None else Footprint(parts, Precision.COVER if has_data else Precision.EXACT)

    def _answer(self, effects: Effects, found: _Found) -> AccessRange:
        nbytes = self._nbytes[effects.argument]
        whole = RegionSet((ByteRange(0, nbytes),)) if nbytes else RegionSet()
        reads_whole = effects.reads_anything or found.reads is None
        read = whole if found.reads is None or reads_whole else region_set(simpler(found.reads)[0], nbytes)
        updated = tuple(
            (update, whole if parts is None else region_set(parts, nbytes))
            for update, parts in sorted(found.updates.items())
        )
        if effects.writes_anything or found.bounds is None:
            return AccessRange(effects.argument, read, whole, Precision.WHOLE, reads_whole, updated)
        parts, covers, bounds = simpler(found.exact, found.covers, found.bounds)
        written, precision = region_set(parts, nbytes), Precision.EXACT
        for more, other in ((covers, Precision.COVER), (bounds, Precision.MAY)):
            if more:
                parts = [*parts, *more]
                wider = region_set(parts, nbytes)
                if wider != written:
                    written, precision = wider, other
        return AccessRange(effects.argument, read, written, precision, reads_whole, updated)


@dataclass(slots=True)
class _Found:
    """What one argument's accesses reach, by how well that is known; None: nothing is.

    ``dense``: of ``reads``, what single accesses reach without a gap.
    """

    reads: list[Part] | None = field(default_factory=list)
    dense: list[Span] = field(default_factory=list)
    exact: list[Part] = field(default_factory=list)
    covers: list[Part] = field(default_factory=list)
    bounds: list[Part] | None = field(default_factory=list)
    updates: dict[Update, list[Part] | None] = field(default_factory=dict)

    def has_read(self, piece: AffineAccess, ranges: list[Range]) -> bool:
        """Whether all that one more access may read is read without a gap."""
        if not self.dense:
            return False
        lo, hi = interval(piece.offset, ranges)
        return any(first <= lo and hi + piece.nbytes <= stop for first, stop in self.dense)

    def add(self, piece: AffineAccess, reached: Footprint | None) -> None:
        """What one more access reaches."""
        update = piece.access.update
        if update is not None:
            self.updates[update] = _with(self.updates.setdefault(update, []), reached)
        elif piece.mode is Mode.READ:
            if reached is not None and len(reached.parts) == 1 and not isinstance(reached.parts[0], Region):
                self.dense = merged([*self.dense, reached.parts[0]])
            self.reads = _with(self.reads, reached)
        elif reached is not None and reached.precision is Precision.EXACT:
            self.exact += reached.parts
        elif reached is not None and reached.precision is Precision.COVER:
            self.covers += reached.parts
        else:
            self.bounds = _with(self.bounds, reached)


def _is_cover(reached: Footprint | None) -> bool:
    return reached is not None and reached.precision is Precision.COVER


def _with(spans: list[Part] | None, reached: Footprint | None) -> list[Part] | None:
    if spans is None or reached is None:
        return None
    spans += reached.parts
    return spans


def _bits(needs: list[int], exprs: Iterable[AffineExpr]) -> int:
    """The unknowns below some expressions, where ``needs`` has those of each unknown."""
    found = 0
    for _, parts in exprs:
        for variable in parts:
            if variable >= BASES:
                found |= needs[variable - BASES]
    return found


def _numbers(bits: int) -> tuple[int, ...]:
    """The variables of unknowns given as bits, in order."""
    return tuple([BASES + k for k, bit in enumerate(reversed(f"{bits:b}")) if bit == "1"])


def analyse(
    tree: Tree, function: Function, operations: int = MAX_OPERATIONS, options: Sequence[str] = ()
) -> KernelAnalysis:
    """The access maps of a kernel; a few milliseconds, on any thread; at most so many ``operations``.

    ``options``: with which it is built.  How many a kernel takes depends on nothing but its text.
    """
    machine = run = Machine(operations)
    machine.floats.are_followed = is_exact(tree.text, options)
    too_long = ""
    lines = line_map(tree.text)
    parameters = function.parameters
    pointers = [i for i, p in enumerate(parameters) if argument_kind(p.type) in _POINTERS]
    images = [i for i, p in enumerate(parameters) if argument_kind(p.type) is ArgumentKind.IMAGE]
    names = [p.name or f"argument {i}" for i, p in enumerate(parameters)]
    reasons: list[Reason] = []
    reads: set[int] = set()
    writes: set[int] = set()
    try:
        layouts = Layouts(tree)
        Statements(tree, machine).kernel(
            function, [_argument(machine, layouts, i, p.type) for i, p in enumerate(parameters)]
        )
        weight = sum(1 + len(access.guards) + len(access.loops) for access in machine.accesses)
        if weight > MAX_WEIGHT:
            raise TooLong("reaches memory in too many ways to analyse", function.nodes[0].location)
    except (GaveUp, RecursionError) as cause:
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
        run.operations,
        tuple(
            dict.fromkeys(
                (a.argument, lines.describe(a.at)) for a in machine.accesses if a.mode is Mode.WRITE
            )
        ),
    )


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
    if pointee is None or space in (Space.LOCAL, Space.PRIVATE):
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
