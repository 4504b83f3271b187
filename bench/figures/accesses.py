"""How regular an application's kernels are: columns F to I of table 2, from the analysis itself.

No driver is needed: kernels come from the application's source, launches from what a run has recorded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.access_shapes import Shape, shape_of, shapes
from sdi.clc.compile import compile_source
from sdi.clc.model import ArgumentKind, KernelModel
from sdi.launch.programs.access import access_of
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.partition.table import cuts
from sdi.sampling import KernelAnalysis, Precision
from sdi.sampling.model import BoundAccess, KernelAccess

_POINTERS = (ArgumentKind.GLOBAL, ArgumentKind.CONSTANT)


@dataclass(frozen=True, slots=True)
class KernelAccesses:
    """One kernel of an application.

    ``non_affine``, ``conditional``: whether some access to global memory is one or the other (papers/1,
    section 3.3, would take the whole buffer for it).  ``not_exact``: what this analysis answers less than
    exactly for, as "argument: reads whole" and the like, in any launch.  ``reasons``: its own words.
    ``why_whole``: why no launch is ever split.  ``written``: the arguments it writes.
    ``analysis_ns``: what finding the access maps took, once for a build.
    """

    kernel: str
    non_affine: bool
    conditional: bool
    not_exact: tuple[str, ...]
    reasons: tuple[str, ...]
    why_whole: str
    arguments: tuple[str, ...]
    written: tuple[str, ...]
    analysis_ns: int


def application_accesses(
    source: str, launches: Sequence[Mapping[str, Any]], buffers: Sequence[int], members: int
) -> list[dict[str, Any]]:
    """For each kernel that was launched its ``KernelAccesses``, ready for JSON."""
    compiled = compile_source(source, "", "/")
    found = []
    for model in compiled.kernels:
        own = [launch for launch in launches if launch["kernel"] == model.name]
        if not own:
            continue
        start = time.perf_counter_ns()
        analysis = access_of(compiled, model)
        took_ns = time.perf_counter_ns() - start
        assert isinstance(analysis, KernelAnalysis), f"{model.name}: the analysis failed"
        non_affine, conditional = _irregular(analysis)
        inexact: dict[str, None] = {}
        for launch in own[:8]:
            inexact |= dict.fromkeys(_not_exact(model, analysis, launch, buffers, members))
        names = [a.name for a in model.arguments]
        found.append(
            asdict(
                KernelAccesses(
                    model.name,
                    non_affine,
                    conditional,
                    tuple(inexact),
                    tuple(dict.fromkeys(f"{names[r.argument]} {r.text}" for r in analysis.reasons)),
                    model.why_whole,
                    tuple(names),
                    tuple(a.name for a in model.arguments if a.writes),
                    took_ns,
                )
            )
        )
    return found


def _irregular(analysis: KernelAnalysis) -> tuple[bool, bool]:
    """Whether some access is not affine, and whether some access has a condition other than its loops'."""
    known = shapes(analysis.table)
    anything = any(e.reads_anything or e.writes_anything for e in analysis.pointers)
    non_affine = anything or any(
        shape_of(access, analysis, known) > Shape.AFFINE for access in analysis.accesses
    )
    conditional = False
    for access in analysis.accesses:
        of_loops = {
            condition
            for number in access.loops
            if (loop := analysis.loops[number]) is not None
            for condition in loop.conditions
        }
        conditional = conditional or bool(set(access.guards) - of_loops) or not access.is_definite
    return non_affine, conditional


def _not_exact(
    model: KernelModel,
    analysis: KernelAnalysis,
    launch: Mapping[str, Any],
    buffers: Sequence[int],
    members: int,
) -> list[str]:
    """What is not known exactly in one launch."""
    bound, boxes = bind(model, analysis, launch, buffers, members)
    found = []
    for box in boxes:
        for item in bound.over(box):
            name = model.arguments[item.argument].name
            if item.reads_whole:
                found.append(f"{name}: reads whole")
            if item.writes and item.precision is not Precision.EXACT:
                found.append(f"{name}: writes {item.precision.value}")
    return found


def bind(
    model: KernelModel, maps: KernelAccess, launch: Mapping[str, Any], buffers: Sequence[int], members: int
) -> tuple[BoundAccess, tuple[GroupBox, ...]]:
    """The access maps of one recorded launch, and its slabs for ``members``."""
    ndrange = NDRange(
        len(launch["global_size"]),
        (0, 0, 0),
        _int3(launch["global_size"]),
        _int3(launch["local_size"]),
    )
    values = tuple(bytes.fromhex(v) if isinstance(v, str) else None for v in launch["arguments"])
    nbytes = tuple(
        buffers[v] if a.kind in _POINTERS else None
        for a, v in zip(model.arguments, launch["arguments"], strict=True)
    )
    return maps.bind(ndrange, values, nbytes), cuts(ndrange.num_groups, members)[0].boxes


def _int3(sizes: Sequence[int]) -> Int3:
    x, y, z = [*sizes, 1, 1][:3]
    return (x, y, z)
