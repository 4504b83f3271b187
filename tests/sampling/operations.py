"""What every operation on indices has to be right in, whoever registered it: all of its ways say the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest

from sdi.clc.compile import compile_source
from sdi.ndrange import NDRange
from sdi.sampling import Precision, analyse, dense
from sdi.sampling.affine import AffineExpr, interval
from sdi.sampling.affine_context import AffineContext
from sdi.sampling.ops import OPERATIONS, Undefined, operate
from sdi.sampling.printing import Printer
from sdi.sampling.terms import I32, I64, U32, U64, IntType, TermOp, Terms
from sdi.sampling.tracing import Made, Relation, Trace, Traced
from tests.sampling.checking import Launch, check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of

_NUMBERS = (0, 1, 2, 3, 5, 7, 8, 31, 100, 4095, 1 << 22, (1 << 23) + 1, (1 << 31) - 1, 1 << 31, 1 << 40)
_ITEMS = 24
_INTS = 1024


def numbers(kind: IntType, arity: int) -> Iterator[tuple[int, ...]]:
    """Operands of a type: small ones, those at its ends, negative ones."""
    every = {kind.wrap(sign * n) for n in _NUMBERS for sign in (1, -1)} | {kind.lo, kind.hi}
    return product(sorted(every), repeat=arity)


def folded(name: str, kind: IntType, operands: tuple[int, ...]) -> int | None:
    """The number that an operation has to come to; None where it is undefined."""
    found = OPERATIONS[name].fold(kind, *operands)
    return None if found is None else kind.wrap(found)


def check_arrays(name: str, arity: int) -> None:
    """Arrays are computed as numbers are."""
    compared = 0
    for kind in (I32, U32, I64, U64):
        dtype = np.dtype(f"{'i' if kind.signed else 'u'}{kind.bits // 8}")
        for operands in numbers(kind, arity):
            expected = folded(name, kind, operands)
            if expected is None:
                continue
            with np.errstate(all="ignore"):
                found = OPERATIONS[name].dense(kind, *(np.array([x], dtype) for x in operands))
            assert int(found.astype(dtype)[0]) == expected, f"{name} of {operands}, {kind}"
            compared += 1
    assert compared > 100


def check_terms(name: str, arity: int) -> None:
    """Terms of constants, of scalars, and of both come to the same number."""
    for kind in (I32, U32, I64, U64):
        for operands in numbers(kind, arity):
            expected = folded(name, kind, operands)
            if expected is None:
                continue
            for constant in product((False, True), repeat=arity):
                terms = Terms()
                made = [
                    terms.const(x, kind) if is_constant else terms.make(TermOp.SCALAR, (), kind, (number, 0))
                    for number, (x, is_constant) in enumerate(zip(operands, constant, strict=True))
                ]
                term = operate(terms, name, *made)
                known = {(number, 0, kind): x for number, x in enumerate(operands)}
                context = AffineContext(
                    terms.finish(), (), NDRange(1, (0,) * 3, (4, 1, 1), (4, 1, 1)), (), known
                )
                assert context.exact(term) == (expected, {}), f"{name} of {operands}, constants {constant}"


def check_exprs(name: str, arity: int) -> None:
    """An expression is never without a value that a work-item has; one over ids alone is right for each."""
    ndrange = NDRange(1, (0,) * 3, (_ITEMS, 1, 1), (4, 1, 1))
    operands = [(s, c) for s in (0, 1, 3, 8, -2) for c in (0, 5, 64, -9)]
    for kind in (I32, U32):
        for chosen in product(operands, repeat=arity):
            terms = Terms()
            own = terms.convert(terms.make(TermOp.GLOBAL_ID, (), U64, 0), kind)
            term = operate(terms, name, *(terms.sum(c, {own: s}, kind) for s, c in chosen))
            context = AffineContext(terms.finish(), (), ndrange, (), {})
            constant, parts = expr = context.exact(term)
            lo, hi = interval(expr, context.ranges)
            for item in range(_ITEMS):
                expected = folded(name, kind, tuple(kind.wrap(s * item + c) for s, c in chosen))
                if expected is None:
                    continue
                assert lo <= expected <= hi, f"{name} of {chosen}, {kind}: {expected} not in {lo} to {hi}"
                if parts.keys() <= {0}:
                    assert expected == constant + parts.get(0, 0) * item, f"{name} of {chosen}, {kind}"


def check_traced(name: str, arity: int) -> None:
    """What is traced for some numbers is right for all others for which its guards hold."""
    for kind in (I32, U64):
        every = list(numbers(kind, arity))
        for first in every[::29]:
            trace = Trace(first, [(kind.lo, kind.hi)] * arity)
            found = OPERATIONS[name].fold(kind, *(trace.input(number) for number in range(arity)))
            for others in (first, *every[::11]):
                values = _replayed(trace, others)
                if values is not None:
                    expr = found.expr if isinstance(found, Traced) else (found, {})
                    made = None if found is None else _value(expr, values)
                    assert made == OPERATIONS[name].fold(kind, *others), f"{name} of {others}, as of {first}"


def _replayed(trace: Trace, inputs: tuple[int, ...]) -> list[int] | None:
    """The values of all nodes for other inputs; None where a guard does not hold."""
    values = list(inputs)
    for node in trace.nodes[len(inputs) :]:
        assert node is not None
        first, second = _value(node.first, values), _value(node.second, values)
        if node.made is Made.FLOOR and not second:
            return None
        values.append(first // second if node.made is Made.FLOOR else first * second)
    for guard in trace.guards():
        value = _value(guard.expr, values)
        match guard.relation:
            case Relation.AT_LEAST_ZERO if value < 0:
                return None
            case Relation.ZERO if value:
                return None
            case Relation.NOT_ZERO if not value:
                return None
    return values


def _value(expr: AffineExpr, values: list[int]) -> int:
    return expr[0] + sum(factor * values[node] for node, factor in expr[1].items())


def check_kernel(name: str, arity: int, recorder: Recorder) -> None:
    """The bytes that a kernel touches by such an index are those that a run of it touches."""
    for kind in ("int", "uint"):
        first = f"({kind})get_global_id(0) * 3 - {20 if kind == 'int' else 0}"
        source = f"""__kernel void k(__global int *a, int n) {{
            {kind} x = {first}, y = 1 + (int)get_global_id(0) % 5;
            a[(uint)({written(name, ("x", "y")[:arity])}) % {_INTS}u] = n;
        }}"""
        tree = tree_of(source)
        launch = Launch(NDRange(1, (0,) * 3, (96, 1, 1), (8, 1, 1)), (np.zeros(_INTS, np.int32), bytes(4)))
        for points in (0, dense.MAX_POINTS):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(dense, "MAX_POINTS", points)
                (found,) = check(recorder, tree, kernels_of(tree)["k"], "", launch, ("zeros",))
            assert found[1] is Precision.EXACT or not points, f"{name} of {kind}"


def check_text(name: str, arity: int) -> None:
    """It is printed as it was written."""
    text = written(name, ("n", "m")[:arity])
    compiled = compile_source(f"__kernel void f(__global int *a, int n, int m) {{ a[{text}] = 1; }}", "")
    (function,) = compiled.tree.functions.values()
    analysis = analyse(compiled.tree, function)
    (access,) = analysis.accesses
    assert Printer(analysis.table, compiled.kernels[0].arguments).access(access, 4) == f"a[{text}]"


def check_undefined(name: str, arity: int) -> None:
    """What C leaves undefined is no number, and no array without a word, unless no right program has it."""
    for kind in (I32, U32):
        for operands in numbers(kind, arity):
            if OPERATIONS[name].fold(kind, *operands) is not None or operands[-1] == 0:
                continue
            dtype = np.int32 if kind.signed else np.uint32
            with pytest.raises(Undefined):
                OPERATIONS[name].dense(kind, *(np.array([x], dtype) for x in operands))


def written(name: str, operands: tuple[str, ...]) -> str:
    """The operation as OpenCL C has it."""
    return f"{name}({', '.join(operands)})" if OPERATIONS[name].is_call else f" {name} ".join(operands)


CHECKS: tuple[Callable[[str, int], None], ...] = (
    check_arrays,
    check_terms,
    check_exprs,
    check_traced,
    check_text,
    check_undefined,
)
"""Of every operation and its number of operands; and ``check_kernel``."""
