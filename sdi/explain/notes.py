"""Why a kernel is split as it is, or runs whole: frozen notes, made from what the launches use.

Shared by ``sdi explain`` (no driver, no data: everything on the host) and the service (the last launch).
Source: design/0005-explain-and-verify.md, which documents the fields as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from sdi.clc.frontend.syntax import Function, Type
from sdi.clc.model import ArgumentKind, CompiledProgram, KernelModel
from sdi.clc.preprocess.lines import LineMap, line_map
from sdi.dataclass import dataclass
from sdi.explain.advice import advice_for
from sdi.launch.arguments import ArgumentValue, BufferArgument, ImageArgument
from sdi.launch.plan import CutPlan
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.table import shape_of
from sdi.regions import RegionSet
from sdi.sampling import KernelAnalysis, Precision
from sdi.sampling.model import BoundAccess, KernelAccess
from sdi.sampling.printing import Printer

_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)
_RANGES_MAX = 4
"""Ranges that a note spells out; the others are counted."""


@dataclass(frozen=True, slots=True)
class AccessNote:
    """Accesses of one form.  ``when``: the guards, empty without any.

    ``mode``: "read", "write" or "update" (an atomic one).
    """

    mode: str
    form: str
    when: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReasonNote:
    """Why an argument is not better known."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class ArgumentNote:
    """One pointer, or image that is written, whatever the launch; of an image, rows are counted."""

    name: str
    type: str
    accesses: tuple[AccessNote, ...]
    reasons: tuple[ReasonNote, ...]


@dataclass(frozen=True, slots=True)
class AppendNote:
    """An atomic addition through ``counter`` that says where to store through ``stores``.

    ``limited``: the kernel compares the place with a limit.
    """

    counter: str
    stores: tuple[str, ...]
    limited: bool
    line: int


@dataclass(frozen=True, slots=True)
class KernelNote:
    """One kernel, whatever the launch.  ``why_whole`` and ``advice`` are empty when it may be split.

    ``follows_pointers``: see ``KernelModel``.  ``appends``: the counters that hand out places.
    ``watched``, ``claimed``: names of arguments, see ``KernelModel``.
    """

    name: str
    line: int
    why_whole: str
    advice: str
    arguments: tuple[ArgumentNote, ...]
    follows_pointers: int = 0
    appends: tuple[AppendNote, ...] = ()
    watched: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RangesNote:
    """A set of bytes: its first few regions, and how many there are in all.

    A region is start and stop of its first run, then stride and count of each level, the innermost first.
    """

    nbytes: int
    pieces: int
    ranges: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class BufferNote:
    """What one member's share does to the buffer behind some arguments; offsets are bytes of that buffer.

    ``needs``: current on the member before the launch.  ``writes``: by this member alone.  ``merged``:
    written by several, brought together with twins and diffs.
    """

    arguments: tuple[str, ...]
    needs: RangesNote
    writes: RangesNote
    merged: RangesNote


@dataclass(frozen=True, slots=True)
class MemberNote:
    """One member's share: work-groups ``start`` <= id < ``stop``."""

    member: int
    start: Int3
    stop: Int3
    buffers: tuple[BufferNote, ...]


@dataclass(frozen=True, slots=True)
class PrecisionNote:
    """How well the bytes behind one argument are known in this launch: "exact", "may" or "whole".

    ``writes`` is empty for an argument that is not written, "atomic" where there are only atomic updates;
    ``reads`` ("ranges" or "whole") likewise.
    """

    name: str
    reads: str
    writes: str


@dataclass(frozen=True, slots=True)
class LaunchNote:
    """One launch.  ``cut``: parts per dimension.  ``why_whole``: empty when it is split."""

    global_size: Int3
    local_size: Int3
    num_groups: Int3
    cut: Int3
    why_whole: str
    precision: tuple[PrecisionNote, ...]
    members: tuple[MemberNote, ...]


def note_kernel(compiled: CompiledProgram, model: KernelModel, access: KernelAccess) -> KernelNote:
    """What holds for all launches of a kernel; a few milliseconds."""
    function = next(
        f for f in compiled.tree.functions.values() if f.name == model.name and f.body is not None
    )
    known = access if isinstance(access, KernelAnalysis) else None
    lines = line_map(compiled.tree.text)
    return KernelNote(
        model.name,
        model.line,
        model.why_whole,
        advice_for(model.why_whole),
        tuple(
            ArgumentNote(
                argument.name,
                argument.type_name,
                _access_notes(known, model, index, function, lines) if known else (),
                _reason_notes(known, index) if known else (),
            )
            for index, argument in enumerate(model.arguments)
            if argument.kind in _POINTERS or (argument.kind is ArgumentKind.IMAGE and argument.writes)
        ),
        model.follows_pointers,
        tuple(
            AppendNote(
                model.arguments[append.counter].name,
                tuple(model.arguments[store.argument].name for store in append.stores),
                bool(append.limits),
                append.line,
            )
            for append in model.appends
        ),
        tuple(model.arguments[index].name for index in model.watched),
        tuple(model.arguments[index].name for index in model.claimed),
    )


def _access_notes(
    analysis: KernelAnalysis, model: KernelModel, argument: int, function: Function, lines: LineMap
) -> tuple[AccessNote, ...]:
    printer = Printer(analysis.table, model.arguments)
    pointee: Type | None = function.parameters[argument].type.element
    element_nbytes = pointee.nbytes if pointee is not None else 0
    if model.arguments[argument].kind is ArgumentKind.IMAGE:
        element_nbytes = 1  # of an image, rows (or planes) are counted
    found: dict[tuple[str, str, str], dict[int, None]] = {}
    for access in (*analysis.accesses, *(analysis.images.accesses if analysis.images else ())):
        if access.argument == argument:
            key = (
                "update" if access.update else access.mode.value,
                printer.access(access, element_nbytes),
                printer.condition(access.guards),
            )
            found.setdefault(key, {})[lines.place(access.at)[1]] = None
    return tuple(AccessNote(*key, tuple(at)) for key, at in found.items())


def _reason_notes(analysis: KernelAnalysis, argument: int) -> tuple[ReasonNote, ...]:
    found = (*analysis.reasons, *(analysis.images.reasons if analysis.images else ()))
    return tuple(ReasonNote(r.text, r.line) for r in found if r.argument == argument)


def note_launch(
    model: KernelModel,
    ndrange: NDRange,
    values: Sequence[ArgumentValue],
    plan: CutPlan,
    access: BoundAccess,
    why_whole: str,
    members: Sequence[int] = (),
) -> LaunchNote:
    """One launch as ``plan`` runs it, box k on member ``members[k]``, or k without that."""
    return LaunchNote(
        ndrange.global_size,
        ndrange.local_size,
        ndrange.num_groups,
        shape_of(plan.boxes),
        why_whole,
        _precisions(model, access, plan.boxes),
        tuple(
            MemberNote(
                members[k] if members else k, box.start, box.stop, _buffer_notes(model, values, plan, k)
            )
            for k, box in enumerate(plan.boxes)
        ),
    )


def _precisions(
    model: KernelModel, access: BoundAccess, boxes: Sequence[GroupBox]
) -> tuple[PrecisionNote, ...]:
    order = list(Precision)
    reads: dict[int, str] = {}
    writes: dict[int, Precision] = {}
    updated: set[int] = set()
    for box in boxes:
        for item in access.over(box):
            if item.reads:
                reads[item.argument] = "whole" if item.reads_whole else reads.get(item.argument, "ranges")
            if item.writes:
                known = writes.get(item.argument, Precision.EXACT)
                writes[item.argument] = max(known, item.precision, key=order.index)
            if item.updates:
                updated.add(item.argument)
    return tuple(
        PrecisionNote(
            argument.name,
            reads.get(index, ""),
            writes[index].value if index in writes else "atomic" if index in updated else "",
        )
        for index, argument in enumerate(model.arguments)
        if argument.kind in _POINTERS
    )


def _buffer_notes(
    model: KernelModel, values: Sequence[ArgumentValue], plan: CutPlan, k: int
) -> tuple[BufferNote, ...]:
    return tuple(
        BufferNote(
            tuple(
                argument.name
                for argument, value in zip(model.arguments, values, strict=True)
                if isinstance(value, BufferArgument | ImageArgument) and value.buffer == used.buffer.id
            )
            or ("reached by pointers",),
            _ranges(used.assignments[k].needs),
            _ranges(used.assignments[k].owns),
            _ranges(RegionSet.of(merged.over for merged in used.merged if k in merged.assignments)),
        )
        for used in plan.buffers
    )


def _ranges(found: RegionSet) -> RangesNote:
    return RangesNote(
        found.nbytes,
        len(found.regions),
        tuple(
            (each.base, each.base + each.nbytes, *chain(*each.levels)) for each in found.regions[:_RANGES_MAX]
        ),
    )
