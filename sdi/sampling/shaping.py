"""Which scalars of a launch decide what bytes it touches, and which bits of them.

Of a step's number often only the last bit counts (``t % 2``: from which of two buffers it reads).  Launches
that differ in other bits touch the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from sdi.sampling.terms import IntType, Row, TermOp, rows_below

if TYPE_CHECKING:
    from sdi.sampling.affine_context import Scalar
    from sdi.sampling.analysis import KernelAnalysis


def shaping_scalars(analysis: KernelAnalysis) -> tuple[Scalar, ...]:
    """The scalars that access ranges may depend on, in a fixed order."""
    scalars = [row for row in rows_below(analysis.table.rows, roots(analysis)) if row.op is TermOp.SCALAR]
    return tuple(sorted({(*cast(tuple[int, int], row.payload), row.type) for row in scalars}))


def shaping_bits(analysis: KernelAnalysis) -> dict[int, int]:
    """The bits on which access ranges depend, by argument: of its bytes as a little-endian number."""
    rows = analysis.table.rows
    wanted = [0] * len(rows)
    for term in roots(analysis):
        wanted[term] = _all(rows[term].type)
    found: dict[int, int] = {}
    for term in range(len(rows) - 1, -1, -1):  # arguments are older than what they are in
        row, bits = rows[term], wanted[term]
        if not bits:
            continue
        if row.op is TermOp.SCALAR:
            argument, offset = cast(tuple[int, int], row.payload)
            found[argument] = found.get(argument, 0) | bits << 8 * offset
        for arg, needed in zip(row.args, _needed(rows, row, bits), strict=True):
            wanted[arg] |= needed & _all(rows[arg].type)
    return found


def roots(analysis: KernelAnalysis) -> list[int]:
    """The terms that answers are made of."""
    rows = analysis.table.rows
    terms = [t for a in analysis.accesses for t in (a.offset, *a.guards)]
    terms += [t for loop in analysis.loops if loop is not None for t in (loop.counter, *loop.conditions)]
    return terms + [t for t, row in enumerate(rows) if row.op is TermOp.GEOMETRIC]


def _all(kind: IntType) -> int:
    return (1 << kind.bits) - 1


def _sign(kind: IntType) -> int:
    return 1 << kind.bits - 1 if kind.signed else 0


def _needed(rows: Sequence[Row], row: Row, bits: int) -> list[int]:
    """The bits of each argument of a term on which ``bits`` of its value depend."""
    every = [-1] * len(row.args)
    match row.op:
        case TermOp.LINEAR | TermOp.MUL:  # carries go up
            return [(1 << bits.bit_length()) - 1] * len(row.args)
        case TermOp.SELECT:
            return [-1, bits, bits]
        case TermOp.CONVERT:
            inner = rows[row.args[0]].type
            if min(inner.bits, row.type.bits) < 8:  # to a truth value it is no number that is cut
                return every
            return [bits | (_sign(inner) if bits > _all(inner) else 0)]
        case TermOp.FLOORMOD:
            return [cast(int, row.payload) - 1]
        case TermOp.FLOORDIV:
            up = bits * cast(int, row.payload)
            return [up | (_sign(row.type) if up > _all(row.type) else 0)]
        case TermOp.OPERATION:
            numbers = [_number(rows[arg]) for arg in row.args]
            return _operated(cast(str, row.payload), numbers, row.type, bits) or every
    return every


def _operated(name: str, numbers: list[int | None], kind: IntType, bits: int) -> list[int] | None:
    """Likewise of an operation, some of whose operands are numbers; None: it may be any bit."""
    match name, numbers:
        case "&", [a, b]:
            return [bits if b is None else bits & b, bits if a is None else bits & a]
        case (("|" | "^"), [_, _]):
            return [bits, bits]
        case "%", [None, int(divisor)] if divisor > 0 and divisor & (divisor - 1) == 0:
            return [divisor - 1 | _sign(kind), -1]  # it has the dividend's sign
    return None


def _number(row: Row) -> int | None:
    return row.payload if row.op is TermOp.CONST and isinstance(row.payload, int) else None
