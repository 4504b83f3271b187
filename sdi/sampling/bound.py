"""A kernel with its NDRange and scalars known: what each box of work-groups does with its arguments."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import cached_property

from sdi.atomics import Update
from sdi.dataclass import dataclass, field
from sdi.intervals import ByteRange
from sdi.ndrange import GroupBox
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
from sdi.sampling.machine import Access, Mode
from sdi.sampling.model import AccessRange, Precision, WorkEstimate
from sdi.sampling.terms import TermOp, rows_below
from sdi.sampling.unknowns import BASES, UnknownKind

_log = logging.getLogger("sdi.access")

_ITERATIONS_MAX = 32
"""Of a loop that is taken iteration by iteration."""

_SHAPED = {TermOp.MUL, TermOp.OPERATION, TermOp.GEOMETRIC, TermOp.LOOKUP}

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


Pieces = list[tuple[Domain, list[AffineAccess]]]
"""By domain."""


class BoundKernel:
    """A kernel with its NDRange and scalars known.  Pure; answers for a box are kept."""

    def __init__(
        self,
        name: str,
        pointers: tuple[Effects, ...],
        accesses: tuple[Access, ...],
        binding: AffineContext,
        buffer_nbytes: tuple[int | None, ...],
    ) -> None:
        self._name = name
        self._pointers = pointers
        self._accesses = accesses
        self._binding = binding
        self._nbytes = {e.argument: buffer_nbytes[e.argument] or 0 for e in pointers}
        self._known: dict[GroupBox, tuple[AccessRange, ...]] = {}
        self._needs: list[int] = []  # of each unknown, itself and those that it needs, as bits
        self._unbounded = 0  # unknowns of which nothing is known, as bits
        self._closed: dict[object, bool] = {}

    @cached_property
    def _groups(self) -> Pieces:
        """Pieces by domain; what happens under the fewest conditions first: it reads most of what the others
        read.  Of too many forms nothing is known.
        """
        try:
            found = self._compile()
        except TooManyExprs:
            self._pointers = tuple([Effects(e.argument, e.name, True, True) for e in self._pointers])
            found = []
        return sorted(found, key=lambda each: len(each[0].constraints))

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
            return work_of(self._binding, self._accesses, dim)
        except TooManyExprs:
            return None
        except Exception:
            _log.exception("kernel %s: its work can't be estimated", self._name)
            return None

    def effort(self) -> float | None:
        """See ``BoundAccess``; a failure is our bug: it is logged and survived."""
        from sdi.sampling.work import effort_of

        try:
            return effort_of(self._binding, self._accesses)
        except TooManyExprs:
            return None
        except Exception:
            _log.exception("kernel %s: its effort can't be estimated", self._name)
            return None

    # -- binding ---------------------------------------------------------------------------------

    def _compile(self) -> Pieces:
        together: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Access]] = {}
        for access in self._accesses:
            if self._nbytes[access.argument] and self._may_iterate(access.loops):
                together.setdefault((access.guards, access.loops), []).append(access)
        found: Pieces = []
        for (guards, loops), accesses in together.items():
            pieces = self._domains(guards, accesses)
            if any(_is_bounded(domain, piece) for domain, own in pieces for piece in own):
                pieces = self._by_iteration(guards, loops, accesses) or pieces
            found += pieces
        return found

    def _domains(self, guards: tuple[int, ...], accesses: list[Access], is_closed: bool = True) -> Pieces:
        """Pieces of accesses under the same guards.  ``is_closed``: where these hold, the iteration that
        expressions are of happens.
        """
        binding = self._binding
        precision = Precision.EXACT if is_closed else Precision.COVER
        alternatives: list[list[AffineExpr]] = [[]]
        parts = [part for guard in guards for part in self._parts(guard)]
        for lost, by_data in ((Precision.MAY, False), (Precision.COVER, True)):
            binding.is_overapproximate = False
            own = [binding.alternatives(part) for part in parts if binding.opaque[part] is by_data]
            alternatives = binding.conjunction([alternatives, *own])
            if binding.is_overapproximate and precision is not Precision.MAY:
                precision = lost
        found: Pieces = []
        for constraints in alternatives:
            domains: dict[int, _Group] = {}
            for access in accesses:
                self._piece(access, constraints, precision, domains)
            found += [(self._domain(group), group.pieces) for group in domains.values()]
        return found

    def _by_iteration(
        self, guards: tuple[int, ...], loops: tuple[int, ...], accesses: list[Access]
    ) -> Pieces | None:
        """The pieces of each iteration of a loop, if it has few and more than bounds is known of all then:
        of strides that its counter shifts or multiplies.
        """
        binding = self._binding
        terms = [*guards, *(access.offset for access in accesses)]
        if any(binding.opaque[access.offset] for access in accesses):
            return None
        for number in loops:
            loop = binding.loops[number]
            if loop is None or not _is_shaped(binding, terms, number):
                continue
            last = interval(binding.expr(loop.counter), binding.ranges)[1]
            if last >= _ITERATIONS_MAX:
                continue
            found: Pieces = []
            is_closed = True  # all work-items that are in an iteration were in the earlier ones
            for iteration in range(int(last) + 1):
                with binding.at_iteration(number, iteration):
                    held = [binding.truth(condition) for condition in loop.conditions]
                    if False in held:
                        break
                    is_closed = is_closed and None not in held
                    if self._may_iterate(loops):
                        found += self._domains(guards, accesses, is_closed)
            if not any(_is_bounded(domain, piece) for domain, pieces in found for piece in pieces):
                return found
        return None

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
        found = [loop for number in loops if (loop := binding.loops[number]) is not None]
        return all(interval(binding.expr(loop.counter), binding.ranges)[1] >= 0 for loop in found)

    def _is_regular(self, expr: AffineExpr) -> bool:
        unknowns = self._binding.unknowns
        return all(v < BASES or unknowns[v - BASES].kind is UnknownKind.COUNTER for v in expr[1])

    def _is_data(self, expr: AffineExpr) -> bool:
        unknowns = self._binding.unknowns
        return any(v >= BASES and unknowns[v - BASES].is_data for v in expr[1])

    def _are_closed(self, loops: tuple[int, ...]) -> bool:
        """Whether what holds for one iteration of these loops holds for all earlier ones."""
        key = (loops, *self._binding.fixed.items())
        found = self._closed.get(key)
        if found is None:
            free = tuple([number for number in loops if number not in self._binding.fixed])
            found = self._closed[key] = self._find_closed(free)
        return found

    def _find_closed(self, loops: tuple[int, ...]) -> bool:
        binding = self._binding
        for number in loops:
            loop = binding.loops[number]
            if loop is None:
                return False
            variable = next(iter(binding.expr(loop.counter)[1]))
            if not interval((0, {variable: 1}), binding.ranges)[1] < 1 << 64:
                return False
            saved, binding.is_overapproximate = binding.is_overapproximate, False
            closed = True
            for condition in loop.conditions:
                found = binding.alternatives(condition)
                if any(self._may_rise(f, variable) for each in found for f in each):
                    closed = False
            closed = closed and not binding.is_overapproximate
            binding.is_overapproximate = saved
            if not closed:
                return False
        return True

    def _may_rise(self, expr: AffineExpr, variable: int) -> bool:
        """Whether an expression may be larger where a counter is; a quotient of it is taken to."""
        rest: AffineExpr = (0, {v: factor for v, factor in expr[1].items() if v != variable})
        return expr[1].get(variable, 0) > 0 or bool(self._unknowns([rest]) >> (variable - BASES) & 1)

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
        groups, unknowns = self._groups, self._binding.unknowns  # groups make unknowns
        ranges = base_ranges(self._binding, box)
        found = {argument: _Found() for argument in self._nbytes}
        done: set[int] = set()
        by_digits: dict[object, list[Part] | None] = {}
        for domain, pieces in groups:
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
        return tuple([self._answer(e, found[e.argument]) for e in self._pointers])

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
            is_closed = self._are_closed(access.loops)
            by_digits[key] = digits.bytes_of(self._binding, access, box) if is_closed else None
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


def _is_bounded(domain: Domain, piece: AffineAccess) -> bool:
    """Whether no more than bounds is known of what an access reaches."""
    return Precision.MAY in (domain.precision, piece.precision)


def _is_shaped(binding: AffineContext, terms: Iterable[int], loop: int) -> bool:
    """Whether the counter of a loop is in products or operations that some terms are made of.

    Not where it is the index of a table: the neighbours of a cell stay within bounds, a plane more than the
    slab, and cuts across rows, which would seem to write strided bytes at no cost, are not taken.
    """
    rows = binding.rows
    found = {
        row.op
        for row in rows_below(rows, terms)
        if row.op in _SHAPED
        for inner in rows_below(rows, row.args)
        if inner.op is TermOp.COUNTER and inner.payload == loop
    }
    return bool(found) and TermOp.LOOKUP not in found


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
