"""What loops make of variables: at iteration t and after the last one, from what one iteration does."""

from __future__ import annotations

from sdi.sampling.terms import I64, TermOp, Terms
from sdi.sampling.values import ArrayValue, PointerValue, RecordValue, Value


def placeholder(terms: Terms, value: Value) -> Value:
    """Anything of the same kind; a pointer to the same roots."""
    match value:
        case int():
            return terms.unknown(terms.type(value))
        case PointerValue():
            return value.at([terms.unknown(I64) for _ in value.choices])
        case tuple():
            return tuple(placeholder(terms, v) for v in value)
        case RecordValue():
            return RecordValue(tuple((n, placeholder(terms, v)) for n, v in value.fields))
        case ArrayValue():
            return ArrayValue(value.kind, tuple(placeholder(terms, v) for v in value.items))
        case _:
            return None


def loosened(head: Value, end: Value) -> Value:
    """``head`` with pointers that an iteration has point elsewhere, or nobody knows where, as unknown."""
    match head, end:
        case PointerValue(), PointerValue() if head.is_beside(end):
            return head
        case PointerValue(), _:
            return None
        case RecordValue(), _:
            ends = end if isinstance(end, RecordValue) else RecordValue(())
            return RecordValue(tuple((n, loosened(v, ends.get(n))) for n, v in head.fields))
        case ArrayValue(), _:
            items = end.items if isinstance(end, ArrayValue) else (None,) * len(head.items)
            return ArrayValue(
                head.kind, tuple(loosened(v, e) for v, e in zip(head.items, items, strict=True))
            )
        case _:
            return head


def forgotten(terms: Terms, value: Value) -> Value:
    """Anything of the same kind; a pointer may point anywhere."""
    match value:
        case PointerValue():
            return None
        case RecordValue():
            return RecordValue(tuple((name, forgotten(terms, part)) for name, part in value.fields))
        case ArrayValue():
            return ArrayValue(value.kind, tuple(forgotten(terms, part) for part in value.items))
        case _:
            return placeholder(terms, value)


def at_iteration(terms: Terms, start: Value, head: Value, end: Value, mark: int, counter: int) -> Value:
    """A variable at iteration t, when an iteration makes ``end`` of ``head``."""
    match start, head, end:
        case int(), int(), int() if terms.type(start) == terms.type(end):
            return _term_at(terms, start, head, end, mark, counter)
        case PointerValue(), PointerValue(), PointerValue() if start.is_beside(end):
            offsets = zip(start.offsets, head.offsets, end.offsets, strict=True)
            return start.at([_term_at(terms, *each, mark, counter) for each in offsets])
        case tuple(), tuple(), tuple() if len(start) == len(end):
            parts = zip(start, head, end, strict=True)
            return tuple(at_iteration(terms, s, h, e, mark, counter) for s, h, e in parts)
        case ArrayValue(), ArrayValue(), ArrayValue() if len(start.items) == len(end.items):
            parts = zip(start.items, head.items, end.items, strict=True)
            items = tuple(at_iteration(terms, s, h, e, mark, counter) for s, h, e in parts)
            return ArrayValue(start.kind, items)
        case RecordValue(), RecordValue(), RecordValue():
            found: list[tuple[str, Value]] = []
            for name, value in start.fields:
                made = at_iteration(terms, value, head.get(name), end.get(name), mark, counter)
                found.append((name, made))
            return RecordValue(tuple(found))
        case _:
            return None


def after_loop(terms: Terms, value: Value, counter: int, trips: int) -> Value:
    """A variable after the last iteration, from its value at iteration t."""
    match value:
        case int():
            kind = terms.type(value)
            constant, parts = terms.parts(value)
            own = terms.convert(counter, kind)
            times = terms.convert(trips, kind)
            total = terms.const(constant, kind)
            for part, factor in parts.items():
                row = terms.rows[part]
                if part == own:
                    part = times
                elif row.op is TermOp.MUL and own in row.args:
                    part = terms.mul(row.args[1] if row.args[0] == own else row.args[0], times)
                elif terms.mentions(part, counter):
                    return terms.unknown(kind, data=False)
                total = terms.add(total, terms.scale(part, factor))
            return total
        case PointerValue():
            if any(terms.mentions(condition, counter) for condition in value.conditions):
                return None
            after = [after_loop(terms, offset, counter, trips) for offset in value.offsets]
            return value.at([each for each in after if isinstance(each, int)])
        case tuple():
            return tuple(after_loop(terms, v, counter, trips) for v in value)
        case RecordValue():
            return RecordValue(tuple((n, after_loop(terms, v, counter, trips)) for n, v in value.fields))
        case ArrayValue():
            return ArrayValue(value.kind, tuple(after_loop(terms, v, counter, trips) for v in value.items))
        case _:
            return None


def after_any(terms: Terms, original: Value, start: Value, ends: tuple[Value, ...]) -> Value:
    """A variable after a loop of which nobody knows how often it runs.

    ``original``: before it; ``start``: at iteration t; ``ends``: where that ends, or leaves the loop.
    """
    if start == original and all(end == original for end in ends):
        return original
    match original, start:
        case PointerValue(), PointerValue() if all(
            isinstance(end, PointerValue) and original.is_beside(start) and original.is_beside(end)
            for end in ends
        ):
            return placeholder(terms, original)
        case RecordValue(), RecordValue():
            parts = [end if isinstance(end, RecordValue) else RecordValue(()) for end in ends]
            found: list[tuple[str, Value]] = []
            for name, value in original.fields:
                each = tuple(part.get(name) for part in parts)
                found.append((name, after_any(terms, value, start.get(name), each)))
            return RecordValue(tuple(found))
        case ArrayValue(), ArrayValue() if all(isinstance(end, ArrayValue) for end in ends):
            rows = [end.items for end in ends if isinstance(end, ArrayValue)]
            items = zip(original.items, start.items, *rows, strict=True)
            return ArrayValue(
                original.kind, tuple(after_any(terms, first, at, tuple(rest)) for first, at, *rest in items)
            )
        case _:
            return forgotten(terms, original)


def _term_at(terms: Terms, start: int, head: int, end: int, mark: int, counter: int) -> int:
    kind = terms.type(start)
    if end == head:
        return start
    is_first = terms.equal(counter, terms.const(0, I64))
    if terms.is_older(end, mark):
        return terms.select(is_first, start, end)
    step = terms.sub(end, head)
    if terms.is_older(step, mark):
        return terms.add(start, terms.mul(step, terms.convert(counter, kind)))
    row = terms.rows[end]
    if row.op is TermOp.LINEAR and terms.parts(end) == (0, {head: row.payload[1][0]}):  # type: ignore[index]
        factor = terms.const(row.payload[1][0], kind)  # type: ignore[index]
        return terms.make(TermOp.GEOMETRIC, (start, factor, counter), kind, "*")
    is_division = (row.op, row.payload) == (TermOp.OPERATION, "/")
    if (row.op is TermOp.FLOORDIV or is_division) and row.args[0] == head:
        if row.op is TermOp.FLOORDIV and isinstance(row.payload, int):
            divisor = terms.const(row.payload, kind)
        else:
            divisor = row.args[1]
        if terms.is_older(divisor, mark):
            name = "//" if row.op is TermOp.FLOORDIV else "/"
            return terms.make(TermOp.GEOMETRIC, (start, divisor, counter), kind, name)
    if row.op is TermOp.MUL and head in row.args:
        factor = row.args[1] if row.args[0] == head else row.args[0]
        if terms.is_older(factor, mark):
            return terms.make(TermOp.GEOMETRIC, (start, factor, counter), kind, "*")
    return terms.unknown(kind)
