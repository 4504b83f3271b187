"""How regular a kernel's accesses are, whatever the launch."""

from __future__ import annotations

from enum import IntEnum

from sdi.sampling.analysis import KernelAnalysis
from sdi.sampling.machine import Access, Mode
from sdi.sampling.terms import Row, TermOp, TermTable, rows_below

_VARYING = {TermOp.GLOBAL_ID, TermOp.GROUP_ID, TermOp.LOCAL_ID, TermOp.OPAQUE}


class Shape(IntEnum):
    """What an offset is, in ids and loop counters, for given scalars.

    UNIFORM: a constant.  QUASI_AFFINE: affine but for floor divisions, modulo, minima, maxima and
    choices, or so in each iteration of a loop that shifts by its counter (it has few).  COMPUTED: another
    function of ids, scalars and constants.  DATA: it depends on memory.
    """

    UNIFORM = 0
    AFFINE = 1
    QUASI_AFFINE = 2
    COMPUTED = 3
    DATA = 4


def shapes(table: TermTable) -> list[Shape]:
    """The shape of every term."""
    found: list[Shape] = []
    shifted: list[bool] = []
    for row in table.rows:
        shifted.append(_is_shifted(row, found, shifted, table))
        found.append(Shape.QUASI_AFFINE if shifted[-1] else _shape(row, found, shifted))
    return found


def _is_shifted(row: Row, known: list[Shape], shifted: list[bool], table: TermTable) -> bool:
    """Whether a term is a number that a loop's counter shifts, or a sum of such."""
    if row.op is TermOp.OPERATION and row.payload in ("<<", ">>"):
        number, by = row.args
        leaves = [each.op for each in rows_below(table.rows, [by]) if not each.args]
        is_counted = TermOp.COUNTER in leaves and not _VARYING & set(leaves)
        return is_counted and known[number] is Shape.UNIFORM
    if row.op not in (TermOp.LINEAR, TermOp.CONVERT) or not any(shifted[a] for a in row.args):
        return False
    return all(shifted[a] or known[a] is Shape.UNIFORM for a in row.args)


def _shape(row: Row, known: list[Shape], shifted: list[bool]) -> Shape:
    parts = [known[a] for a in row.args]
    worst = max(parts, default=Shape.UNIFORM)
    match row.op:
        case TermOp.GLOBAL_ID | TermOp.GROUP_ID | TermOp.LOCAL_ID | TermOp.COUNTER:
            return Shape.AFFINE
        case TermOp.OPAQUE:
            return Shape.DATA
        case TermOp.MUL:
            if any(shifted[a] for a in row.args):
                return worst
            return worst if min(parts) is Shape.UNIFORM else max(worst, Shape.COMPUTED)
        case TermOp.LINEAR | TermOp.CONVERT:
            return worst
        case TermOp.SELECT:
            if parts[0] is Shape.UNIFORM:
                return worst
            return max(parts[1], parts[2], Shape.QUASI_AFFINE)  # one of two, whatever the condition
        case TermOp.GEOMETRIC:
            return max(parts[0], parts[1], Shape.QUASI_AFFINE)
        case _ if worst is Shape.UNIFORM:
            return worst
        case TermOp.FLOORDIV | TermOp.FLOORMOD | TermOp.LT | TermOp.EQ | TermOp.NOT | TermOp.ALL | TermOp.ANY:
            return max(worst, Shape.QUASI_AFFINE)
        case _:
            return _operated(str(row.payload), parts)


def _operated(name: str, parts: list[Shape]) -> Shape:
    """The shape of an operation, of which an operand is not uniform."""
    worst, is_partly_uniform = max(parts), min(parts) is Shape.UNIFORM
    if name == "mul24" and is_partly_uniform:
        return worst
    is_quasi = (
        name in ("min", "max")
        or (name in ("/", "%", "<<", ">>") and parts[1] is Shape.UNIFORM)
        or (name in ("&", "|", "^") and is_partly_uniform)
    )
    return max(worst, Shape.QUASI_AFFINE if is_quasi else Shape.COMPUTED)


def shape_of(access: Access, analysis: KernelAnalysis, known: list[Shape]) -> Shape:
    """The shape of an access: that of its offset, or DATA when a counter in it has no bound but data."""
    table = analysis.table
    found = known[access.offset]
    counters = _counters(access.offset, table)
    for number in access.loops:
        loop = analysis.loops[number]
        if loop is not None and loop.counter in counters:
            bounds = [known[c] for c in loop.conditions if _mentions(c, loop.counter, table)]
            if not bounds or min(bounds) is Shape.DATA:
                return Shape.DATA
    return found


def kernel_shapes(analysis: KernelAnalysis) -> tuple[Shape, Shape]:
    """The worst shape of any access, and of any write."""
    known = shapes(analysis.table)
    every = [(a.mode, shape_of(a, analysis, known)) for a in analysis.accesses]
    worst = max((s for _, s in every), default=Shape.UNIFORM)
    writes = max((s for m, s in every if m is Mode.WRITE), default=Shape.UNIFORM)
    if any(e.reads_anything or e.writes_anything for e in analysis.pointers):
        worst = Shape.DATA
    if any(e.writes_anything for e in analysis.pointers):
        writes = Shape.DATA
    return worst, writes


def _counters(term: int, table: TermTable) -> set[int]:
    found: set[int] = set()
    seen: set[int] = set()
    pending = [term]
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            if table.rows[at].op is TermOp.COUNTER:
                found.add(at)
            pending += table.rows[at].args
    return found


def _mentions(term: int, counter: int, table: TermTable) -> bool:
    return counter in _counters(term, table)
