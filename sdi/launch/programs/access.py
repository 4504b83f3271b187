"""Which access maps a kernel of a build gets."""

from __future__ import annotations

import logging
from dataclasses import replace

from sdi.clc.model import CompiledProgram, KernelModel
from sdi.sampling import KernelAnalysis, analyse
from sdi.sampling.machine import MAX_OPERATIONS, Mode
from sdi.sampling.model import KernelAccess
from sdi.sampling.whole import WholeAccess

_log = logging.getLogger("sdi.access")


PROGRAM_OPERATIONS = 4_000_000
LEAST_OPERATIONS = 100_000
"""Of the analysis, for all kernels of a program together; but each kernel gets the least number."""


def accesses_of(
    compiled: CompiledProgram,
) -> tuple[tuple[KernelModel, ...], tuple[KernelAccess, ...]]:
    """All kernels with their access maps; one that is too long to analyse runs whole."""
    models, accesses, left = [], [], PROGRAM_OPERATIONS
    for model in compiled.kernels:
        access = access_of(compiled, model, max(LEAST_OPERATIONS, min(MAX_OPERATIONS, left)))
        left -= access.operations if isinstance(access, KernelAnalysis) else 0
        models.append(bounded(model, access))
        accesses.append(access)
    return tuple(models), tuple(accesses)


def bounded(model: KernelModel, access: KernelAccess) -> KernelModel:
    """The kernel, kept whole where it is too long to analyse."""
    why = access.too_long if isinstance(access, KernelAnalysis) else ""
    return replace(model, why_whole=why) if why and not model.why_whole else model


def access_of(
    compiled: CompiledProgram, model: KernelModel, operations: int = MAX_OPERATIONS
) -> KernelAccess:
    """The access maps found in the kernel's tree; a failure is our bug: it is logged and survived."""
    function = next(
        f for f in compiled.tree.functions.values() if f.name == model.name and f.body is not None
    )
    try:
        return _narrowed(analyse(compiled.tree, function, operations, compiled.member_options), model)
    except Exception:
        _log.exception("kernel %s: the analysis failed, so every member gets whole buffers", model.name)
        return WholeAccess(model)


def _narrowed(access: KernelAnalysis, model: KernelModel) -> KernelAnalysis:
    """Without what the front end knows that the kernel never does: whatever the path of an access that is not
    followed, it writes through no argument through which no path writes.
    """
    effects = tuple(
        replace(
            each,
            reads_anything=each.reads_anything and model.arguments[each.argument].reads,
            writes_anything=each.writes_anything and model.arguments[each.argument].writes,
        )
        for each in access.pointers
    )
    accesses = tuple(
        each for each in access.accesses if each.mode is Mode.READ or model.arguments[each.argument].writes
    )
    return replace(access, pointers=effects, accesses=accesses)
