"""The bytes of an access point by point: for small boxes whose ranges have no closed form.

Every work-item and iteration of a box is one element of an array; the kernel's terms are computed on these
arrays with C's integer types.  Source: the sampling run of papers/1, section 3.3, for all work-items.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sdi.ndrange import GroupBox
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.boxes import MAX_RANGES, Span
from sdi.sampling.machine import Access, Loop
from sdi.sampling.ops import OPERATIONS, Array, Undefined, quotients
from sdi.sampling.terms import IntType, TermOp, rows_below
from sdi.sampling.tracing import Untraceable

MAX_POINTS = 1 << 17
_IDS = (TermOp.GLOBAL_ID, TermOp.GROUP_ID, TermOp.LOCAL_ID)


def spans_of(binding: AffineContext, access: Access, box: GroupBox) -> list[Span] | None:
    """Exactly the bytes of a definite access without data; None for too many points or ranges."""
    loops: list[Loop] = []
    for number in access.loops:
        loop = binding.loops[number]
        if loop is None:
            return None
        loops.append(loop)
    if binding.is_traced:
        raise Untraceable("arrays have no traced numbers")
    terms = [access.offset, *access.guards, *(c for loop in loops for c in loop.conditions)]
    if any(binding.opaque[t] for t in terms):
        return None
    points = Points(binding, box)
    if not points.lay_out([*terms, *(loop.counter for loop in loops)]):
        return None
    with np.errstate(all="ignore"):
        try:
            return points.spans(access, loops)
        except Undefined:
            return None


def _dtype(kind: IntType) -> np.dtype[Any]:
    if kind.bits == 1:
        return np.dtype(np.uint8)
    return np.dtype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}")


class Points:
    """The arrays over one box.  ``axes``: those of the ids and counters, of ``dims`` dimensions; ``lay_out``
    makes them.
    """

    def __init__(self, binding: AffineContext, box: GroupBox) -> None:
        self._binding = binding
        self._box = box
        self.axes: dict[tuple[TermOp, int], Array] = {}
        self.dims = 0
        self._axis: dict[tuple[TermOp, int], int] = {}
        self._known: dict[int, Array] = {}

    def lay_out(self, terms: list[int]) -> bool:
        """Give each id and counter that the terms need an axis; False when there are too many points."""
        rows = self._binding.rows
        leaves = {
            (row.op, cast(int, row.payload))
            for row in rows_below(rows, terms)
            if row.op in _IDS or row.op is TermOp.COUNTER
        }
        ranges: dict[tuple[TermOp, int], range] = {}
        n, box = self._binding.ndrange, self._box
        for op, number in leaves:
            if op is TermOp.COUNTER:
                variable = next(iter(self._binding.expr(_term(rows, op, number))[1]))
                last = self._binding.ranges[variable][1]
                if last >= MAX_POINTS:
                    return False
                ranges[op, number] = range(last + 1)
                continue
            local = n.local_size[number]
            is_mixed = any((other, number) in leaves for other in _IDS[1:])
            if op is TermOp.GLOBAL_ID and not is_mixed:
                first = n.offset[number]
                ranges[op, number] = range(
                    first + box.start[number] * local, first + box.stop[number] * local
                )
            else:
                ranges[TermOp.GROUP_ID, number] = range(box.start[number], box.stop[number])
                if op is not TermOp.GROUP_ID:
                    ranges[TermOp.LOCAL_ID, number] = range(local)
        total = 1
        for each in ranges.values():
            total *= len(each)
        if total > MAX_POINTS or not total:
            return False
        self.dims = len(ranges)
        for axis, (leaf, each) in enumerate(sorted(ranges.items())):
            shape = [1] * len(ranges)
            shape[axis] = len(each)
            self.axes[leaf] = np.arange(each.start, each.stop, dtype=np.int64).reshape(shape)
            self._axis[leaf] = axis
        return True

    def spans(self, access: Access, loops: list[Loop]) -> list[Span] | None:
        """The bytes of an access."""
        offsets = self.value(access.offset)
        inside: Array = np.ones((1,) * max(len(self.axes), 1), bool)
        for loop in loops:
            held: Array = np.ones((1,) * len(self.axes), bool)
            for condition in loop.conditions:
                held = held & (self.value(condition) != 0)
            row = self._binding.rows[loop.counter]
            axis = self._axis[TermOp.COUNTER, cast(int, row.payload)]
            if held.shape[axis] > 1:
                held = np.logical_and.accumulate(held, axis=axis)
            inside = inside & held
        for guard in access.guards:
            inside = inside & (self.value(guard) != 0)
        every = np.broadcast_arrays(offsets, inside)
        starts = np.sort(every[0][every[1]])  # not np.unique: its hash is slow for multiples of a stride
        if not starts.size:
            return []
        breaks = np.flatnonzero(starts[1:] > starts[:-1] + access.nbytes)
        if breaks.size >= MAX_RANGES:
            return None
        firsts = starts[np.concatenate(([0], breaks + 1))].tolist()
        lasts = starts[np.concatenate((breaks, [starts.size - 1]))].tolist()
        return [(a, b + access.nbytes) for a, b in zip(firsts, lasts, strict=True)]

    def value(self, term: int) -> Array:
        """A term at every point; axes on which it does not depend have length 1."""
        known = self._known.get(term)
        if known is None:
            kind = self._binding.rows[term].type
            known = self._known[term] = self._compute(term, kind).astype(_dtype(kind), copy=False)
        return known

    def _compute(self, term: int, kind: IntType) -> Array:
        op, args, _, payload = self._binding.rows[term]
        match op:
            case TermOp.GLOBAL_ID | TermOp.GROUP_ID | TermOp.LOCAL_ID | TermOp.COUNTER:
                return self._id(op, cast(int, payload))
            case _ if op <= TermOp.WORK_DIM or op is TermOp.FLOAT:
                constant, parts = self._binding.expr(term)
                if parts:
                    raise Undefined
                return self._constant(constant, kind)
            case TermOp.LINEAR:
                constant, coefficients = cast(tuple[int, tuple[int, ...]], payload)
                total = self._constant(constant, kind)
                for arg, factor in zip(args, coefficients, strict=True):
                    total = total + self.value(arg) * self._constant(factor, kind)
                return total
            case TermOp.LOOKUP:
                values = np.array(cast(tuple[int, ...], payload), _dtype(kind))
                index = np.clip(self.value(args[0]), 0, len(values) - 1)  # where guards hold, it is inside
                return values[index.astype(np.int64)]
            case TermOp.GEOMETRIC:
                return self._geometric(args, str(payload), kind)
            case TermOp.FLOORDIV:
                shift = self._constant(cast(int, payload).bit_length() - 1, kind)
                return np.right_shift(self.value(args[0]), shift)
            case TermOp.FLOORMOD:
                return np.bitwise_and(self.value(args[0]), self._constant(cast(int, payload) - 1, kind))
        operands = [self.value(a) for a in args]
        if op is TermOp.OPERATION:
            return OPERATIONS[str(payload)].dense(kind, *operands)
        made: Array = self._operation(op, operands, kind)
        return made

    def _operation(self, op: TermOp, values: list[Array], kind: IntType) -> Any:  # noqa: ANN401 (numpy's operators)
        first, second = values[0], values[1] if len(values) > 1 else values[0]
        match op:
            case TermOp.CONVERT:
                return first & 1 if kind.bits == 1 else first
            case TermOp.MUL:
                return first * second
            case TermOp.SELECT:
                return np.where(first != 0, second, values[2])
            case TermOp.LT:
                return first < second
            case TermOp.EQ:
                return first == second
            case TermOp.NOT:
                return first == 0
            case TermOp.ALL | TermOp.ANY:
                total = values[0] != 0
                for value in values[1:]:
                    total = total & (value != 0) if op is TermOp.ALL else total | (value != 0)
                return total
            case _:
                raise Undefined

    def _constant(self, value: int, kind: IntType) -> Array:
        return np.full((1,) * self.dims, kind.wrap(value), _dtype(kind))

    def _id(self, op: TermOp, number: int) -> Array:
        own = self.axes.get((op, number))
        if own is None:
            n = self._binding.ndrange
            group, local = self.axes[TermOp.GROUP_ID, number], self.axes[TermOp.LOCAL_ID, number]
            own = group * n.local_size[number] + local + n.offset[number]
        return own

    def _geometric(self, args: tuple[int, ...], payload: str, kind: IntType) -> Array:
        current, factor = self.value(args[0]), self.value(args[1])
        axis = self._axis[TermOp.COUNTER, cast(int, self._binding.rows[args[2]].payload)]
        if current.shape[axis] > 1 or factor.shape[axis] > 1:
            raise Undefined
        found: list[Array] = []
        for _ in range(self.value(args[2]).shape[axis]):
            found.append(current)
            current = current * factor if payload == "*" else quotients(kind, current, factor)
            if payload == "//" and (current < 0).any():
                raise Undefined
        return np.concatenate([np.broadcast_to(f, found[-1].shape) for f in found], axis=axis)


def _term(rows: tuple[Any, ...], op: TermOp, number: int) -> int:
    return next(i for i, row in enumerate(rows) if row.op is op and row.payload == number)
