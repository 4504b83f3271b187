"""``sdi predict``: what a recorded run would take on 1 to 64 members, what limits it, what to change."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sdi.cli.counters import table
from sdi.devices.capabilities import kind_named
from sdi.predict.advice import losses, sentence
from sdi.predict.prediction import OnMembers, RunPrediction, predict
from sdi.predict.program import NotPredictable, recorded
from sdi.predict.rates import MeasuredCosts, RatesError, given, named, of_profile
from sdi.predict.simulate import KERNELS
from sdi.profile.analyse.stream import ProfileError, read_profile

COUNTS = (1, 2, 4, 8, 16, 32, 64)
_MOST = 256


class PredictError(ValueError):
    """What was asked for can't be done; the text is one line."""


def foretell(options: argparse.Namespace) -> int:
    """Print what the command line asks for; the exit status."""
    try:
        counts, factor = _counts(options.members), _factor(options.speed)
        program = recorded(read_profile(Path(options.folder)))
        source = _costs(options, of_profile(program.session))
        found = predict(program, source.costs, counts, factor)
        if options.plot:
            _plot(found, options.plot)
    except (PredictError, ProfileError, NotPredictable, RatesError, OSError) as error:
        print(f"sdi predict: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(as_json(found, source), indent=1))
    else:
        print("\n".join(lines(found, source, factor)))
    return 0


def _counts(text: str | None) -> tuple[int, ...]:
    if text is None:
        return COUNTS
    try:
        found = tuple(sorted({int(each) for each in text.split(",")}))
    except ValueError as error:
        raise PredictError(f"--members {text}: expected numbers with commas") from error
    if not all(1 <= each <= _MOST for each in found):
        raise PredictError(f"--members {text}: expected 1 to {_MOST}")
    return found


def _factor(text: str) -> float:
    try:
        found = float(text)
    except ValueError as error:
        raise PredictError(f"--speed {text}: expected a number") from error
    if not 1e-3 <= found <= 1e3:
        raise PredictError(f"--speed {text}: expected 0.001 to 1000")
    return found


def _costs(options: argparse.Namespace, measured: MeasuredCosts) -> MeasuredCosts:
    """The costs that were named, else those of the profile."""
    found = measured if options.rates is None else MeasuredCosts(named(options.rates), {}, options.rates)
    each = options.per_machine
    if each is None:
        return found
    if not each.isdecimal() or not 1 <= int(each) <= _MOST:
        raise PredictError(f"--per-machine {each}: expected 1 to {_MOST}")
    return replace(found, costs=replace(found.costs, members_per_node=int(each)))


def _plot(found: RunPrediction, file: str) -> None:
    try:
        from sdi.explain.formula import plot
    except ImportError as error:
        raise PredictError("--plot needs SymPy and Matplotlib: pip install 'sdi[formula]'") from error
    curves = {"the program": [(on.members, found.speed_up(on)) for on in found.on]}
    for name in found.program.session.kernel_names():
        one = found.one.kernel(name)
        if one is not None and one.ns:
            those = [(on.members, kernel.ns) for on in found.on if (kernel := on.kernel(name)) is not None]
            curves[name] = [(members, one.ns / ns) for members, ns in those if ns]
    try:
        plot(Path(file), "predicted", curves)
    except ImportError as error:
        raise PredictError("--plot needs Matplotlib: pip install 'sdi[formula]'") from error
    except (ValueError, OSError) as error:
        raise PredictError(f"--plot {file}: {error}") from error


# -- text ------------------------------------------------------------------------------------------------


def lines(found: RunPrediction, source: MeasuredCosts, factor: float) -> list[str]:
    """For people."""
    session = found.program.session
    own, names = len(session.members), session.kernel_names()
    of_kernels = f"{len(names)} kernel{'s' * (len(names) != 1)}"
    made = [
        f"recorded on {own} x {session.members[0].name}: {len(session.launches)} launches of {of_kernels}, "
        f"{found.program.measured_ns / 1e6:.1f} ms from the first command to the last one's end",
        f"the same on {own}, predicted: {found.own.end_ns / 1e6:.1f} ms ({100 * found.off:+.1f} %)",
        *_costs_text(source),
    ]
    if not session.is_complete:
        made.append(
            "the profile ends before its run did, as the service was killed: what is in it is predicted"
        )
    if factor != 1.0:
        made.append(f"kernels are taken to be {factor:g} times as fast as in the profile")
    if kind_named(session.members[0].kind).is_host_processor:
        made.append(
            "CPU members of a machine share its cores and gain nothing by being more: "
            f"{source.costs.members_per_node} to a machine, others are on further machines (--per-machine)"
        )
    made += ["", *_table(found), ""]
    last = found.on[-1]
    made += [f"kernels on {last.members}:", *_kernels(found, last)]
    several = [on for on in found.on if on.members > 1]
    for on in several[:1] + several[1:][-1:]:
        held = losses(found, on)
        made += ["", f"what holds it on {on.members}:"]
        made += [f"  {sentence(each, on)}" for each in held] or ["  nothing that takes 3 % of the time"]
    return made


def _costs_text(source: MeasuredCosts) -> list[str]:
    costs, measured = source.costs, source.measured
    title = given()[source.base].title if source.base in given() else source.base
    if not measured:
        return [f"costs: {title}; none of this profile's machine"]
    texts = [f"{name} {getattr(costs, name):.3g} ({of})" for name, of in measured.items()]
    return [f"costs: measured {', '.join(texts)}; all others: {title}"]


def _table(found: RunPrediction) -> list[str]:
    rows = [("members", "machines", "ms", "speed-up", "of ideal", "what the time goes to")]
    for on in found.on:
        speed_up = found.speed_up(on)
        parts = [f"{cause} {100 * ns / on.end_ns:.0f} %" for cause, ns in on.by_cause().items()]
        rows.append(
            (
                str(on.members),
                str(on.machines),
                f"{on.end_ns / 1e6:.2f}",
                f"{speed_up:.2f}",
                f"{100 * speed_up / on.members:.0f} %",
                ", ".join([part for part in parts if not part.endswith(" 0 %")]),
            )
        )
    return table(rows, right={0, 1, 2, 3, 4})


def _kernels(found: RunPrediction, on: OnMembers) -> list[str]:
    rows = [("kernel", "launches", "parts", "ms on 1", f"ms on {on.members}", "speed-up", "held by")]
    for kernel in on.kernels:
        one = found.one.kernel(kernel.kernel)
        one_ns = one.ns if one is not None else 0.0
        parts = ", ".join([str(count) for count in sorted(kernel.assignments)])
        others = {cause: ns for cause, ns in kernel.by_cause.items() if cause != KERNELS}
        held_by = max(others, key=lambda cause: others[cause], default="")
        rows.append(
            (
                kernel.kernel,
                str(kernel.launches),
                parts,
                f"{one_ns / 1e6:.2f}",
                f"{kernel.ns / 1e6:.2f}",
                f"{one_ns / kernel.ns:.2f}" if kernel.ns else "",
                held_by,
            )
        )
    return table(rows, right={1, 2, 3, 4, 5})


def as_json(found: RunPrediction, source: MeasuredCosts) -> dict[str, Any]:
    """For programs; design/0024 has the fields."""
    session = found.program.session
    return {
        "recorded": {
            "members": [member.name for member in session.members],
            "launches": len(session.launches),
            "is_complete": session.is_complete,
            "measured_ns": found.program.measured_ns,
            "predicted_ns": found.own.end_ns,
            "around_ns": found.program.around_ns,
        },
        "costs": {**asdict(source.costs), "measured": dict(source.measured), "base": source.base},
        "on": [
            {
                "members": on.members,
                "machines": on.machines,
                "ns": on.end_ns,
                "speed_up": found.speed_up(on),
                "by_cause_ns": on.by_cause(),
                "kernels": [_kernel_json(found, on, kernel.kernel) for kernel in on.kernels],
                "losses": [asdict(each) for each in losses(found, on)] if on.members > 1 else [],
            }
            for on in found.on
        ],
    }


def _kernel_json(found: RunPrediction, on: OnMembers, name: str) -> dict[str, Any]:
    kernel, one = on.kernel(name), found.one.kernel(name)
    assert kernel is not None and one is not None
    return {
        "kernel": name,
        "launches": kernel.launches,
        "assignments": {str(count): launches for count, launches in kernel.assignments.items()},
        "why_fewer": kernel.why_fewer,
        "ns": kernel.ns,
        "speed_up": one.ns / kernel.ns if kernel.ns else None,
        "by_cause_ns": dict(kernel.by_cause),
    }
