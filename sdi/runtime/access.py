"""Which access maps a kernel of a build gets."""

from __future__ import annotations

import logging

from sdi.clc.model import CompiledProgram, KernelModel
from sdi.sampling import analyse
from sdi.sampling.model import KernelAccess
from sdi.sampling.whole import WholeAccess

_log = logging.getLogger("sdi.access")


def access_of(compiled: CompiledProgram, model: KernelModel) -> KernelAccess:
    """The access maps found in the kernel's tree; a failure is our bug: it is logged and survived."""
    function = next(
        f for f in compiled.tree.functions.values() if f.name == model.name and f.body is not None
    )
    try:
        return analyse(compiled.tree, function)
    except Exception:
        _log.exception("kernel %s: the analysis failed, so every member gets whole buffers", model.name)
        return WholeAccess(model)
