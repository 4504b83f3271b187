"""``sdi explain --formula``: what a cut moves, writes and gains, as formulas in sizes that have names."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from sdi.clc.model import CompiledProgram, KernelModel
from sdi.cli.asked import AskedLaunch, ExplainError, asked_launch, assignments
from sdi.cli.counters import table
from sdi.dataclass import asdict, dataclass
from sdi.devices.capabilities import CPU, kind_named
from sdi.explain import formula as algebra
from sdi.explain.fit import Point, Polynomial, Value, fitted, leading
from sdi.explain.formula import MachineRates, Prediction, Rate, Volumes
from sdi.explain.notes import KernelNote, note_kernel
from sdi.launch.copy_costs import order
from sdi.launch.plan import BufferPlan, CutPlan
from sdi.launch.programs.access import access_of, bounded
from sdi.ndrange import GroupBox, Int3
from sdi.partition.table import grid
from sdi.profile.analyse.model import HOST, SessionProfile
from sdi.profile.analyse.stream import ProfileError, read_profile
from sdi.regions import RegionSet
from sdi.sampling.model import KernelAccess, Precision
from sdi.vmem.links import Links

_Axes: TypeAlias = Sequence[Sequence[Fraction]]
_Fit: TypeAlias = Callable[[Value, _Axes, Sequence[Point]], Polynomial | None]

_NAME = re.compile(r"(?<![0-9.\w])[A-Za-z_]\w*")
_ARITHMETIC = re.compile(r"[A-Za-z0-9_+\-*/() ]+")
_MEMBERS = "N"
_PARTS = (3, 4, 6, 8, 12, 24)
"""Into how many parts a dimension is cut to find formulas: from three on there is an inner one."""
_MULTIPLE = 2 * 24
"""Sizes are multiples of so many local sizes, so that all these cuts have equal parts; halves of them too."""
_LOCALS = ("64", "16,16", "16,4,4")
"""Where none are given."""
_SIZES = (2, 3, 4, 5, 6, 7, 8)
_CHECKS = ((9, 4), (10, 12), (3, 24), (7, 3))
"""Sizes, as multiples, and numbers of parts with which formulas are checked."""


@dataclass(frozen=True, slots=True)
class Formula:
    """The formulas of one kernel's launches, cut into slabs of dimension ``dim``.

    ``unknown``: what has no closed formula.  ``precision``: the worst of the written arguments.
    ``curves``: speed-ups over members, by what they are of; empty without sizes.
    """

    kernel: str
    dim: int
    volumes: Volumes
    unknown: tuple[str, ...]
    precision: Precision
    prediction: Prediction | None
    rates: MachineRates
    curves: Mapping[str, Sequence[tuple[int, float]]]


def formula(compiled: CompiledProgram, model: KernelModel, options: argparse.Namespace) -> Formula:
    """What ``--formula`` asks.  Raises ExplainError."""
    if not options.global_size:
        raise ExplainError("--formula needs --global, such as --global n,n")
    access = access_of(compiled, model)
    model = bounded(model, access)
    if model.why_whole:
        raise ExplainError(f"kernel {model.name} runs whole: {model.why_whole}")
    family = _Family(compiled, model, access, note_kernel(compiled, model, access), options)
    found = _found(family)
    names = family.names
    expressions = {name: algebra.expression(each, names) for name, each in found.items() if each is not None}

    def of(kind: str) -> dict[str, Any]:
        return {
            name.partition(" ")[2]: each
            for name, each in expressions.items()
            if name.startswith(f"{kind} ") and each != 0
        }

    volumes = algebra.Volumes(
        of("receives"),
        of("again"),
        of("writes"),
        expressions.get("merged", algebra.ZERO),
        expressions.get("whole", algebra.ZERO),
        expressions.get("work"),
    )
    unknown = tuple([name for name, each in found.items() if each is None])
    has_all = not any(name.split()[0] in ("receives", "again", "whole", "merged") for name in unknown)
    rates = _rates(family, options)
    predicted = algebra.prediction(volumes, rates.host_share) if has_all else None
    curves = {}
    if predicted is not None and (family.at or not names):
        curves = {
            "first launch": algebra.curve(predicted.first, rates, family.at),
            "later launches": algebra.curve(predicted.again, rates, family.at),
        }
    if options.plot:
        if not curves:
            raise ExplainError("--plot needs --at NAME=VALUE for each size, and a kernel with formulas")
        try:
            algebra.plot(Path(options.plot), f"{model.name}, predicted", curves)
        except ImportError as error:
            raise ExplainError("--plot needs Matplotlib: pip install 'sdi[formula]'") from error
        except (ValueError, OSError) as error:
            raise ExplainError(f"--plot {options.plot}: {error}") from error
    return Formula(model.name, family.dim, volumes, unknown, family.precision, predicted, rates, curves)


class _Family:
    """The launches that a command line describes, for all values of the sizes that it names."""

    def __init__(
        self,
        compiled: CompiledProgram,
        model: KernelModel,
        access: KernelAccess,
        note: KernelNote,
        options: argparse.Namespace,
    ) -> None:
        """Raises ExplainError."""
        self.model = model
        self._ask: Callable[[argparse.Namespace], AskedLaunch] = lambda given: asked_launch(
            compiled, model, access, note, given, max(_PARTS)
        )
        self._options = options
        texts = [options.global_size, options.offset or "", *options.arg, *options.buffer]
        values = [text.partition("=")[2] or text for text in texts]
        self.names = sorted({name for text in values if _is_formula(text) for name in _NAME.findall(text)})
        if _MEMBERS in self.names:
            raise ExplainError(f"{_MEMBERS} is the number of members; give the size another name")
        self.at = {name: _number("--at", text) for name, text in assignments("--at", options.at).items()}
        if self.at and sorted(self.at) != self.names:
            raise ExplainError(f"--at: the sizes are {', '.join(self.names) or 'all given'}")
        self._swapped = assignments("--swap", options.swap)
        pointers = [argument.name for argument in note.arguments]
        for pair in self._swapped.items():
            for name in pair:
                if name not in pointers:
                    raise ExplainError(f"--swap {name}: kernel {model.name} has {', '.join(pointers)}")
        dims = options.global_size.count(",") + 1
        local = options.local_size or _LOCALS[dims - 1]
        self._local = local
        self._unit = _MULTIPLE * max(_number("--local", each) for each in local.split(","))
        self._known: dict[tuple[tuple[int, ...], int], dict[str, int | Fraction]] = {}
        typical = self._launch(self._sizes([_SIZES[-1]] * len(self.names)))
        self.groups = typical.ndrange.num_groups
        self.parts = self._parts()
        self.dim, plan = self._best(typical)
        if plan.why_whole:
            raise ExplainError(f"kernel {model.name} runs whole: it {plan.why_whole}")
        whole = GroupBox((0, 0, 0), self.groups)
        order_of = list(Precision)
        written = [each.precision for each in typical.bound.over(whole) if each.writes]
        self.precision = max(written, key=order_of.index, default=Precision.EXACT)
        self.arguments = [used.names for used in plan.buffers]

    def axes(self) -> list[list[Fraction]]:
        """Values of each size, as multiples of the unit, and of 1/N."""
        sizes = [[Fraction(each * self._unit) for each in _SIZES] for _ in self.names]
        return [*sizes, [Fraction(1, parts) for parts in self.parts]]

    def checks(self) -> list[Point]:
        """Other sizes, of which no two are alike."""
        found = []
        for size, parts in _CHECKS:
            sizes = [Fraction((size + 3 * number) * self._unit) for number in range(len(self.names))]
            found.append((*sizes, Fraction(1, parts if parts in self.parts else self.parts[-1])))
        return found

    def figure(self, name: str) -> Value:
        """A figure of launches by sizes and, but for "whole" and "work", 1/N."""
        count = len(self.names)

        def value(at: Point) -> int | Fraction:
            key = tuple(map(int, at[:count])), int(1 / at[count]) if at[count:] else 1
            if key not in self._known:
                self._known[key] = self._figures(*key)
            found = self._known[key].get(name)
            if found is None:
                raise _UnknownError
            return found

        return value

    def access_ns(self, sessions: Sequence[SessionProfile]) -> list[float]:
        """The time that a member took for an access, in each launch of these very sizes."""
        if not sessions or (self.names and not self.at):
            return []
        asked = self._launch([self.at[name] for name in self.names])
        effort = asked.bound.effort()
        found: list[float] = []
        for session in sessions if effort else ():
            alike = {
                shape.id
                for shape in session.shapes
                if (shape.kernel, shape.num_groups) == (self.model.name, asked.ndrange.num_groups)
            }
            took = {launch.command: 0 for launch in session.launches if launch.shape in alike}
            for span in session.assignments:
                if span.command in took:
                    took[span.command] += span.end_ns - span.start_ns
            found += [ns / effort for ns in took.values() if ns and effort]
        return found

    def _parts(self) -> list[int]:
        if self.names:
            return list(_PARTS)
        fit = [count for count in range(3, 65) if any(groups % count == 0 for groups in self.groups)]
        if len(fit) < 3:
            raise ExplainError("--formula: sizes that are numbers can't be cut into equal parts; name one")
        return fit[:6]

    def _best(self, asked: AskedLaunch) -> tuple[int, CutPlan]:
        """The dimension along which slabs are best, and the plan of the most parts."""
        links = Links([CPU] * max(_PARTS))
        found = []
        for dim in (2, 1, 0):
            counts = [count for count in self.parts if asked.ndrange.num_groups[dim] % count == 0]
            if len(counts) < 3 or asked.ndrange.num_groups[dim] == 1:
                continue
            plan = asked.plans.plan(grid(asked.ndrange.num_groups, _shape(dim, counts[1])), True)
            found.append((order(plan, links), -dim, plan, counts))
        if not found:
            raise ExplainError("--formula: no dimension can be cut into equal parts")
        _, negative, plan, self.parts = min(found, key=lambda each: each[:2])
        return -negative, plan

    def _figures(self, sizes: Sequence[int], parts: int) -> dict[str, int | Fraction]:
        asked = self._launch(sizes)
        groups = asked.ndrange.num_groups
        if groups[self.dim] % parts:
            return {}
        plan = asked.plans.plan(grid(groups, _shape(self.dim, parts)), True)
        received = [sum(used.assignments[k].needs.nbytes for used in plan.buffers) for k in range(parts)]
        if parts == 1:
            effort = asked.bound.effort()
            found: dict[str, int | Fraction] = {"whole": received[0]}
            if effort is not None:
                found["work"] = Fraction(effort)
            return found
        inner = parts // 2
        member = inner if received[inner] == max(received) else received.index(max(received))
        by_name = {used.names: used for used in plan.buffers}  # each its own buffer
        found = {"merged": 0}
        for name, used in by_name.items():
            access = used.assignments[member]
            source = by_name.get(self._swapped.get(name, name), used)
            found[f"receives {name}"] = access.needs.nbytes
            found[f"again {name}"] = _of_others(access.needs, source, member)
            found[f"writes {name}"] = access.owns.nbytes
            found["merged"] += sum(m.over.nbytes for m in used.merged if member in m.assignments)
        return found

    def _sizes(self, multiples: Sequence[int]) -> list[int]:
        return [each * self._unit for each in multiples]

    def _launch(self, sizes: Sequence[int]) -> AskedLaunch:
        """The launch whose sizes have these values."""
        known = dict(zip(self.names, sizes, strict=True))
        given = vars(self._options).copy()

        def with_numbers(flag: str, texts: Sequence[str]) -> list[str]:
            pairs = assignments(flag, texts).items()
            return [f"{name}={_evaluated(flag, text, known)}" for name, text in pairs]

        given["global_size"] = _each("--global", given["global_size"], known)
        given["local_size"] = self._local
        given["offset"] = given["offset"] and _each("--offset", given["offset"], known)
        given["arg"] = with_numbers("--arg", given["arg"])
        given["buffer"] = with_numbers("--buffer", given["buffer"])
        return self._ask(argparse.Namespace(**given))


class _UnknownError(Exception):
    """A figure is not there for such sizes."""


def _found(family: _Family) -> dict[str, Polynomial | None]:
    """All figures as polynomials; None where there is none."""
    axes, checks = family.axes(), family.checks()
    found: dict[str, Polynomial | None] = {}
    names = [f"{kind} {name}" for name in family.arguments for kind in ("receives", "again", "writes")]
    for name in [*names, "merged"]:
        found[name] = _tried(fitted, family.figure(name), axes, checks)
    for name, fit in (("whole", fitted), ("work", leading)):  # not of N
        made = _tried(fit, family.figure(name), axes[:-1], [at[:-1] for at in checks])
        found[name] = made and Polynomial({(*exponents, 0): c for exponents, c in made.terms.items()})
    return found


def _tried(fit: _Fit, value: Value, axes: _Axes, checks: Sequence[Point]) -> Polynomial | None:
    try:
        return fit(value, axes, checks)
    except _UnknownError:
        return None


def _of_others(needs: RegionSet, written: BufferPlan, member: int) -> int:
    """Bytes of ``needs`` that another member is the only holder of."""
    others = [each.owns for k, each in enumerate(written.assignments) if k != member]
    return sum(needs.intersection(owns).nbytes for owns in others)


def _shape(dim: int, parts: int) -> Int3:
    x, y, z = (parts if number == dim else 1 for number in range(3))
    return x, y, z


def _rates(family: _Family, options: argparse.Namespace) -> MachineRates:
    """Measured in a profile, else as they are assumed before anything is measured."""
    sessions: Sequence[SessionProfile] = ()
    kind = CPU
    if options.profile:
        try:
            profile = read_profile(Path(options.profile))
        except (ProfileError, OSError) as error:
            raise ExplainError(f"--profile: {error}") from error
        sessions = profile.sessions
        kind = kind_named(profile.members[0].kind) if profile.members else CPU
    links = [(ends, ns) for each in sessions for ends, ns in each.link_ns.items()]
    return MachineRates(
        _rate(family.access_ns(sessions), kind.access_ns),
        _rate([ns for (source, target), ns in links if source == HOST != target], kind.host_ns_per_byte),
        _rate([ns for (source, target), ns in links if HOST not in (source, target)], kind.peer_ns_per_byte),
        Rate(kind.assignment_ns, is_measured=False),
        kind.host_share,
    )


def _rate(measured: Sequence[float], assumed: float) -> Rate:
    return Rate(fmean(measured), is_measured=True) if measured else Rate(assumed, is_measured=False)


# -- sizes with names --------------------------------------------------------------------------------


def _is_formula(text: str) -> bool:
    return _ARITHMETIC.fullmatch(text.replace(",", "")) is not None and _NAME.search(text) is not None


def _each(flag: str, text: str, known: Mapping[str, int]) -> str:
    return ",".join([_evaluated(flag, part, known) for part in text.split(",")])


def _evaluated(flag: str, text: str, known: Mapping[str, int]) -> str:
    """A formula of sizes as the number that it is; other values as they are."""
    if not _is_formula(text):
        return text
    try:
        found = algebra.evaluated(text, known)
    except ValueError as error:
        raise ExplainError(f"{flag} {text}: not a formula of sizes") from error
    if not found.is_integer:
        raise ExplainError(f"{flag} {text}: {found} is no whole number")
    return str(found)


def _number(flag: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text) or int(text) == 0:
        raise ExplainError(f"{flag} {text}: expected a whole number")
    return int(text)


# -- text --------------------------------------------------------------------------------------------


def lines(found: Formula, *, is_latex: bool = False) -> list[str]:
    """For people."""
    show = algebra.latex if is_latex else algebra.text
    volumes = found.volumes
    x = " x ".join(["N" if dim == found.dim else "1" for dim in range(found.dim + 1)])
    made = [f"kernel {found.kernel} over N members (3 or more), cut {x}, sizes that divide evenly"]

    def volume(title: str, by_argument: Mapping[str, algebra.Expr]) -> None:
        made.append(f"  {title}: {show(volumes.in_all(by_argument))} bytes")
        if len(by_argument) > 1:
            made.extend(f"    {name}: {show(each)}" for name, each in by_argument.items())

    volume("each member receives at first", volumes.receives)
    volume("and again before later launches", volumes.again)
    volume("and writes", volumes.writes)
    if volumes.merged != 0:
        made.append(
            f"  each may write what others write too, so that it is merged: {show(volumes.merged)} bytes"
        )
    if found.precision is not Precision.EXACT:
        made.append(f"  writes are known as: {found.precision.value}")
    if volumes.work is not None:
        made.append(f"  accesses in all, about: {show(volumes.work)}")
    made += [f"  no closed formula: {name}" for name in found.unknown]
    if found.prediction is None:
        return made
    made.append(f"  speed-up of the first launch: {show(found.prediction.first)}")
    made.append(f"  speed-up of later launches: {show(found.prediction.again)}")
    rates = found.rates
    for name, what, rate in (
        ("a", "for an access on one member", rates.access),
        ("h", "for a byte from the host", rates.host),
        ("p", "for a byte between members", rates.peer),
        ("s", "for an assignment", rates.issue),
    ):
        made.append(f"    {name} = {rate.ns:.4g} ns {what} ({'measured' if rate.is_measured else 'assumed'})")
    if found.curves:
        rows = [("  members", *found.curves)]
        rows += [
            (f"  {each[0][0]}", *[f"{gain:.2f}" for _, gain in each])
            for each in zip(*found.curves.values(), strict=True)
        ]
        made += table(rows, right={1, 2})
    return made


def as_json(found: Formula) -> dict[str, Any]:
    """For programs; design/0005 has the fields."""
    volumes, predicted = found.volumes, found.prediction

    def both(each: algebra.Expr | None) -> dict[str, str] | None:
        return None if each is None else {"text": str(each), "latex": algebra.latex(each)}

    return {
        "kernel": found.kernel,
        "dim": found.dim,
        "receives": {name: both(each) for name, each in volumes.receives.items()},
        "again": {name: both(each) for name, each in volumes.again.items()},
        "writes": {name: both(each) for name, each in volumes.writes.items()},
        "merged": both(volumes.merged),
        "whole": both(volumes.whole),
        "accesses": both(volumes.work),
        "unknown": list(found.unknown),
        "precision": found.precision.value,
        "speed_up": predicted and {"first": both(predicted.first), "again": both(predicted.again)},
        "rates": asdict(found.rates),
        "curves": {name: [list(each) for each in points] for name, points in found.curves.items()},
    }
