"""Straight code from a trace: a Python function that answers for one box of one launch, or None.

What the run compared comes first: where it would come out differently, the function has no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from sdi.intervals import ByteRange
from sdi.region import Bytes, Region
from sdi.regions import RegionSet
from sdi.sampling.affine import INFINITY, AffineExpr, Range, interval
from sdi.sampling.model import AccessRange
from sdi.sampling.tracing import Guard, Relation, Trace, Traced, node_range

Answer = tuple[AccessRange, ...]
Evaluator = Callable[[tuple[int, ...]], Answer | None]


def compiled(
    trace: Trace, fixed: Sequence[tuple[int, int]], inputs: Sequence[int], answer: Answer
) -> Evaluator:
    """The function for a finished run.

    It takes all inputs of a launch: ``inputs[k]`` is the place there of the trace's input k, ``fixed`` are
    (place, value) of those that were numbers in the run.
    """
    writer = _CodeWriter(trace, inputs)
    body = writer.function([f"inputs[{place}] == {value}" for place, value in fixed], answer)
    names = writer.constants
    exec(compile(body, "<access ranges>", "exec"), names)
    return cast(Evaluator, names["evaluate"])


class _CodeWriter:
    """Writes one function."""

    def __init__(self, trace: Trace, inputs: Sequence[int]) -> None:
        self.constants: dict[str, Any] = {
            "ByteRange": ByteRange,
            "Region": Region,
            "RegionSet": RegionSet,
            "AccessRange": AccessRange,
        }
        self._trace = trace
        self._inputs = inputs
        self._lines: list[str] = []
        self._written: set[int] = set()
        self._sets: dict[str, str] = {}

    def function(self, first: list[str], answer: Answer) -> str:
        """The text."""
        own, others = _bounds_and_others(self._trace)
        for number, (lo, hi) in sorted(own.items()):
            name = self._node(number)
            low = "" if lo == -INFINITY else f"{lo} <= "
            high = "" if hi == INFINITY else f" <= {hi}"
            first.append(f"{low}{name}{high}")
        self._check(first)
        pending: list[str] = []
        for guard in others:
            if any(v not in self._written for v in guard.expr[1]):
                self._check(pending)
                pending = []
            pending.append(f"{self._sum(guard.expr)} {guard.relation.value}")
        self._check(pending)
        items = [
            f"AccessRange({a.argument}, {self._set(a.reads)}, {self._set(a.writes)}, "
            f"{self._constant(a.precision)}, {a.reads_whole}, {self._updates(a)})"
            for a in answer
        ]
        self._lines.append(f"    return ({''.join(f'{item}, ' for item in items)})")
        return "def evaluate(inputs):\n" + "\n".join(self._lines) + "\n"

    def _updates(self, answer: AccessRange) -> str:
        items = [f"({self._constant(update)}, {self._set(ranges)})" for update, ranges in answer.updates]
        return f"({''.join(item + ', ' for item in items)})"

    def _check(self, conditions: list[str]) -> None:
        if conditions:
            self._lines += [f"    if not ({' and '.join(conditions)}):", "        return None"]

    def _node(self, number: int) -> str:
        """The name of a node's value, which is computed before its first use."""
        name = f"v{number}"
        if number not in self._written:
            self._written.add(number)
            node = self._trace.nodes[number]
            if node is None:
                made = f"inputs[{self._inputs[number]}]"
            else:
                made = f"({self._sum(node.first)}) {node.made.value} ({self._sum(node.second)})"
            self._lines.append(f"    {name} = {made}")
        return name

    def _sum(self, expr: AffineExpr) -> str:
        constant, parts = expr
        text = ""
        for variable, factor in sorted(parts.items()):
            name = self._node(variable)
            sign = ("-" if factor < 0 else "") if not text else (" - " if factor < 0 else " + ")
            text += sign + (name if abs(factor) == 1 else f"{abs(factor)} * {name}")
        if not text:
            return str(constant)
        return text if not constant else f"{text} {'-' if constant < 0 else '+'} {abs(constant)}"

    def _number(self, value: object) -> str:
        return self._sum(value.expr) if isinstance(value, Traced) else str(value)

    def _set(self, found: RegionSet) -> str:
        """The name of a set of bytes; equal ones are made once."""
        text = f"RegionSet(({''.join(f'{self._region(each)}, ' for each in found.regions)}))"
        name = self._sets.get(text)
        if name is None:
            if any(isinstance(n, Traced) for each in found.regions for n in cast(Any, _numbers_of(each))):
                name = f"s{len(self._sets)}"
                self._lines.append(f"    {name} = {text}")
            else:
                name = self._constant(found)
            self._sets[text] = name
        return name

    def _region(self, over: Bytes) -> str:
        if not isinstance(over, Region):
            return f"ByteRange({self._number(over.start)}, {self._number(over.stop)})"
        levels = [f"({self._number(stride)}, {self._number(count)}), " for stride, count in over.levels]
        return f"Region({self._number(over.base)}, {self._number(over.nbytes)}, ({''.join(levels)}))"

    def _constant(self, value: object) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name


def _numbers_of(over: Bytes) -> list[int]:
    return [over.base, over.nbytes, *(number for level in over.levels for number in level)]


def _bounds_and_others(trace: Trace) -> tuple[dict[int, Range], list[Guard]]:
    """What has to hold: bounds of inputs, and the guards that these don't imply."""
    whole = list(trace.ranges)
    ranges = list(whole)
    others: list[Guard] = []
    for guard in trace.guards():
        constant, parts = guard.expr
        variable, factor = next(iter(parts.items()))
        if len(parts) > 1 or variable >= trace.inputs or guard.relation is Relation.NOT_ZERO:
            others.append(guard)
            continue
        lo, hi = ranges[variable]
        bound = -constant * factor  # the factor is 1 or -1
        is_zero = guard.relation is Relation.ZERO
        ranges[variable] = (
            max(lo, bound) if is_zero or factor > 0 else lo,
            min(hi, bound) if is_zero or factor < 0 else hi,
        )
    for number, node in enumerate(trace.nodes):
        if node is not None:
            lo, hi = node_range(node, ranges)
            ranges[number] = (max(lo, ranges[number][0]), min(hi, ranges[number][1]))
    own = {v: _beyond(ranges[v], whole[v]) for v in range(trace.inputs) if ranges[v] != whole[v]}
    return own, [guard for guard in others if not _is_implied(guard, ranges)]


def _beyond(found: Range, known: Range) -> Range:
    """``found`` without the bounds that are known anyway."""
    return (-INFINITY if found[0] == known[0] else found[0], INFINITY if found[1] == known[1] else found[1])


def _is_implied(guard: Guard, ranges: list[Range]) -> bool:
    lo, hi = interval(guard.expr, ranges)
    match guard.relation:
        case Relation.AT_LEAST_ZERO:
            return lo >= 0
        case Relation.ZERO:
            return lo == hi == 0
        case Relation.NOT_ZERO:
            return lo > 0 or hi < 0
