"""``sdi explain``: how a kernel would be split, and why, without a driver and without data."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import FLOAT_ATOMIC_FEATURES, USUAL
from sdi.clc.model import CompiledProgram, KernelModel
from sdi.clc.preprocess.options import split_options
from sdi.cli.asked import ExplainError, SizeNote, asked_launch
from sdi.cli.counters import table
from sdi.dataclass import asdict, dataclass, replace
from sdi.devices.capabilities import CPU
from sdi.errors import BuildError
from sdi.explain.notes import KernelNote, LaunchNote, note_kernel, note_launch
from sdi.explain.text import by, kernel_lines, member_lines
from sdi.launch.copy_costs import move_ns, order
from sdi.launch.cuts import candidate_plans, moved_nbytes
from sdi.launch.plan import CutPlan
from sdi.launch.programs.access import access_of, bounded
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.table import cuts, shape_of
from sdi.sizes import size
from sdi.vmem.links import Links

DEFAULT_MEMBERS = 2
_KIND = CPU
"""The members whose times are predicted."""


@dataclass(frozen=True, slots=True)
class CutNote:
    """A way to cut the launch: parts per dimension, and what bringing the data there takes from the host."""

    cut: Int3
    members: int
    moved_nbytes: int
    move_ns: float
    chosen: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """All about one kernel.  The last three are about a launch: None or empty without ``--global``.

    ``pays_ns``: a whole run must take longer than that for the chosen cut to gain.
    """

    kernel: KernelNote
    launch: LaunchNote | None = None
    cuts: tuple[CutNote, ...] = ()
    buffers: tuple[SizeNote, ...] = ()
    pays_ns: float | None = None


def explain(options: argparse.Namespace, members: int | None) -> int:
    """Print the explanation; 0, or 2 when something in the question is wrong (1: the file is)."""
    try:
        path = Path(options.file)
        compiled = _compile(path, options)
        if options.formula:
            return _formulas(compiled, options)
        unused = [flag for flag in ("at", "swap", "profile", "latex", "plot") if getattr(options, flag)]
        if unused:
            raise ExplainError(f"--{unused[0]} needs --formula")
        found = [
            _explained(compiled, model, options, members or DEFAULT_MEMBERS)
            for model in _chosen_kernels(compiled, options)
        ]
    except BuildError as error:
        print(error.log.rstrip("\n").replace("<kernel>", options.file), file=sys.stderr)
        print(f"sdi explain: {options.file} does not compile", file=sys.stderr)
        return 1
    except ExplainError as error:
        print(f"sdi explain: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"kernels": [asdict(each) for each in found]}, indent=1))
    else:
        print("\n\n".join("\n".join(_lines(each)) for each in found))
    return 0


def _formulas(compiled: CompiledProgram, options: argparse.Namespace) -> int:
    """Print formulas.  Raises ExplainError."""
    try:
        from sdi.cli.formula import as_json, formula, lines
    except ModuleNotFoundError as error:
        if error.name != "sympy":
            raise
        raise ExplainError("--formula needs SymPy: pip install 'sdi[formula]'") from error
    found = [formula(compiled, model, options) for model in _chosen_kernels(compiled, options)]
    if options.json:
        print(json.dumps({"formulas": [as_json(each) for each in found]}, indent=1))
    else:
        print("\n\n".join("\n".join(lines(each, is_latex=options.latex)) for each in found))
    return 0


def _compile(path: Path, options: argparse.Namespace) -> CompiledProgram:
    try:
        source = path.read_text(errors="surrogateescape")
    except OSError as error:
        raise ExplainError(f"{path}: {error.strerror}") from error
    words = [f"-D{each}" for each in options.define]
    words += [f"-I{each}" for each in [*options.include, str(path.parent.absolute())]]
    language = replace(USUAL, float_atomics=tuple(FLOAT_ATOMIC_FEATURES))
    return compile_source(source, [*words, *split_options(options.options)], os.getcwd(), language)


def _chosen_kernels(compiled: CompiledProgram, options: argparse.Namespace) -> list[KernelModel]:
    names = ", ".join(model.name for model in compiled.kernels)
    if not names:
        raise ExplainError(f"{options.file} has no kernel")
    if options.kernel is None:
        if options.global_size and len(compiled.kernels) > 1:
            raise ExplainError(f"--global is for one kernel; choose with --kernel: {names}")
        return list(compiled.kernels)
    found = [model for model in compiled.kernels if model.name == options.kernel]
    if not found:
        raise ExplainError(f"{options.file} has no kernel '{options.kernel}'; it has {names}")
    return found


def _explained(
    compiled: CompiledProgram, model: KernelModel, options: argparse.Namespace, members: int
) -> Explanation:
    access = access_of(compiled, model)
    model = bounded(model, access)
    kernel = note_kernel(compiled, model, access)
    if not options.global_size:
        unused = [flag for flag in ("local_size", "offset", "arg", "buffer") if getattr(options, flag)]
        if unused:
            flag = unused[0].removesuffix("_size")
            raise ExplainError(f"--{flag} needs --global, the size of the launch")
        return Explanation(kernel)
    asked = asked_launch(compiled, model, access, kernel, options, members)
    ndrange, values, bound, choice = asked.ndrange, asked.values, asked.bound, asked.plans
    links = Links([_KIND] * members)
    whole = choice.plan((GroupBox((0, 0, 0), ndrange.num_groups),), False)
    why_whole = model.why_whole or _too_small(ndrange, members)
    if why_whole:
        launch = note_launch(model, ndrange, values, whole, bound, why_whole)
        return Explanation(kernel, launch, (_cut_note(whole, links, True),), asked.sizes)
    plans = candidate_plans(
        [cut.boxes for cut in cuts(ndrange.num_groups, members)], choice, lambda each: order(each, links)
    )
    best = min(plans, key=lambda each: order(each, links))
    if best.why_whole:
        launch = note_launch(model, ndrange, values, whole, bound, best.why_whole)
        return Explanation(kernel, launch, (_cut_note(whole, links, True),), asked.sizes)
    return Explanation(
        kernel,
        note_launch(model, ndrange, values, best, bound, ""),
        (*(_cut_note(each, links, each is best) for each in plans), _cut_note(whole, links, False)),
        asked.sizes,
        _pays_ns(best, links),
    )


def _too_small(ndrange: NDRange, members: int) -> str:
    if members == 1:
        return "the image has one member"
    return "one work-group" if ndrange.total_groups == 1 else ""


def _cut_note(plan: CutPlan, links: Links, chosen: bool) -> CutNote:
    members = len(plan.boxes)
    return CutNote(shape_of(plan.boxes), members, moved_nbytes(plan), _beside_ns(plan, links), chosen)


def _beside_ns(plan: CutPlan, links: Links) -> float:
    """Predicted time beside that of the kernel."""
    return move_ns(plan, links) + len(plan.boxes) * _KIND.assignment_ns


def _pays_ns(plan: CutPlan, links: Links) -> float:
    """The time of a whole run above which the gain model says that splitting gains."""
    return max(0.0, _beside_ns(plan, links) - _KIND.assignment_ns) / (1 - 1 / len(plan.boxes))


# -- text --------------------------------------------------------------------------------------------


def _lines(found: Explanation) -> list[str]:
    lines = kernel_lines(found.kernel, found.launch)
    if found.launch is None:
        return lines
    if found.buffers:
        words = {"given": "", "reached": " (as far as the kernel reaches)", "assumed": " (assumed)"}
        sizes = [f"{note.argument} {size(note.nbytes)}{words[note.source]}" for note in found.buffers]
        lines.append(f"  buffers: {', '.join(sizes)}")
    if len(found.cuts) > 1:
        rows = [("  cut", "members", "bytes to move from the host", "time for that", "")]
        for cut in found.cuts:
            shape = by(cut.cut) if all(cut.cut) else "uneven"
            name = shape if cut.members > 1 else "whole"
            time = f"{cut.move_ns / 1e6:.2f} ms"
            rows.append((f"  {name}", str(cut.members), size(cut.moved_nbytes), time, "chosen" * cut.chosen))
        lines += table(rows, right={1, 2, 3})
    if found.pays_ns is not None:
        lines.append(f"  splitting pays when a whole run takes longer than {found.pays_ns / 1e6:.2f} ms")
    return lines + member_lines(found.launch)
