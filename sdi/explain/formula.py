"""What a split launch moves, writes and gains, as closed formulas in the sizes and the number of members N.

The only importer of SymPy, which takes a second to import: nothing that serves a launch comes here.
Times are predicted as in ``sdi.partition.gain``: accesses at a rate, bytes at a rate, and a cost for each
assignment.  Source: papers/1 section 3.4; design/0005.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import sympy as sp

from sdi.dataclass import dataclass
from sdi.explain.fit import Exponents, Polynomial

Expr: TypeAlias = Any
"""Of SymPy, which says nothing of its types."""
ZERO: Expr = sp.Integer(0)
MEMBERS = sp.Symbol("N", positive=True, integer=True)
ACCESS, HOST, PEER, ISSUE = sp.symbols("a h p s", positive=True)
"""ns per access of one member's inner loops, per byte from the host, per byte between members; s: ns for each
assignment."""
_CURVE = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True, slots=True)
class Rate:
    """A figure of the machine, in ns, and whether it was measured."""

    ns: float
    is_measured: bool


@dataclass(frozen=True, slots=True)
class MachineRates:
    """``host_share``: how busy a copy to one member keeps the host, see ``MemberKind``."""

    access: Rate
    host: Rate
    peer: Rate
    issue: Rate
    host_share: float


@dataclass(frozen=True, slots=True)
class Volumes:
    """Bytes of the member that receives most, by argument, and accesses of all members, as expressions.

    ``receives``: in a first launch, all data on the host; ``again``: in later ones, from other members;
    ``writes``: it alone; ``whole``: what one member that runs all receives; ``merged``: bytes that several
    may write, each member's.  ``work`` is None where loops tell nothing.
    """

    receives: Mapping[str, Expr]
    again: Mapping[str, Expr]
    writes: Mapping[str, Expr]
    merged: Expr
    whole: Expr
    work: Expr | None

    def in_all(self, of: Mapping[str, Expr]) -> Expr:
        """The sum over all arguments."""
        return sp.expand(sum(of.values(), ZERO))


@dataclass(frozen=True, slots=True)
class Prediction:
    """Speed-ups over one member, as expressions in sizes, N and rates."""

    first: Expr
    again: Expr


def symbols(names: Sequence[str]) -> dict[str, sp.Symbol]:
    """The sizes by their names."""
    return {name: sp.Symbol(name, positive=True, integer=True) for name in names}


def expression(polynomial: Polynomial, names: Sequence[str]) -> Expr:
    """A polynomial in sizes of these names and in 1/N, which comes last."""
    variables = [*symbols(names).values(), 1 / MEMBERS]

    def term(exponents: Exponents, coefficient: Fraction) -> Expr:
        factors = [variable**exponent for variable, exponent in zip(variables, exponents, strict=True)]
        return sp.Mul(sp.Rational(coefficient.numerator, coefficient.denominator), *factors)

    return sp.Add(*[term(exponents, c) for exponents, c in polynomial.terms.items()])


def prediction(volumes: Volumes, host_share: float) -> Prediction | None:
    """Speed-ups; None where nothing is known of the work.  What is merged goes to the host and back."""
    if volumes.work is None:
        return None
    work = ACCESS * volumes.work
    serial = sp.Max(1, sp.nsimplify(host_share) * MEMBERS)
    one = work + ISSUE
    split = work / MEMBERS + MEMBERS * ISSUE + 2 * MEMBERS * HOST * volumes.merged
    first = (one + HOST * volumes.whole) / (split + HOST * volumes.in_all(volumes.receives) * serial)
    again = one / (split + PEER * volumes.in_all(volumes.again))
    return Prediction(
        sp.factor(sp.together(first)) if host_share == 1 else first, sp.factor(sp.together(again))
    )


def curve(speed_up: Expr, rates: MachineRates, sizes: Mapping[str, int]) -> list[tuple[int, float]]:
    """Members and the speed-up with so many, for sizes by their names."""
    known = dict(symbols(list(sizes)))
    figures = {known[name]: value for name, value in sizes.items()}
    figures |= {
        ACCESS: rates.access.ns,
        HOST: rates.host.ns,
        PEER: rates.peer.ns,
        ISSUE: rates.issue.ns,
    }
    found = speed_up.subs(figures)
    return [(1, 1.0), *((count, float(found.subs(MEMBERS, count))) for count in _CURVE[1:])]


def evaluated(text: str, sizes: Mapping[str, int]) -> Expr:
    """What a formula of sizes is, by their names.  Raises ValueError for what is no formula."""
    known = symbols(list(sizes))
    try:
        return sp.sympify(text, locals=known).subs({known[name]: value for name, value in sizes.items()})
    except (sp.SympifyError, TypeError, SyntaxError, AttributeError) as error:
        raise ValueError(text) from error


def text(of: Expr) -> str:
    """As people write it in a line of text."""
    return str(of).replace("**", "^").replace("*", " ")


def latex(of: Expr) -> str:
    """As LaTeX has it."""
    return str(sp.latex(of))


def plot(path: Path, title: str, curves: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Draw speed-ups over the number of members; the file's ending says in which format.

    Raises ImportError without Matplotlib, ValueError for a format that it has not, OSError.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    most = max(count for each in curves.values() for count, _ in each)
    axes.plot([1, most], [1, most], color="0.7", linestyle="--", label="N times as fast")
    for name, each in curves.items():
        axes.plot([count for count, _ in each], [gain for _, gain in each], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="members", ylabel="speed-up over one", title=title)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path)
