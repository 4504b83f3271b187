"""Programs as CUDA C++: one translation for all members of an image, kept from run to run."""

from __future__ import annotations

import functools

from sdi.clc import kept
from sdi.clc.cuda.translate import CudaProgram, translate

_KIND = "cuda-texts"
_PROGRAMS_MAX = 4


@functools.lru_cache(_PROGRAMS_MAX)
def translated(text: str, options: tuple[str, ...]) -> CudaProgram:
    """See ``translate``; what is known is not found out again.  Raises BuildError."""
    if kept.may_include(text):
        return translate(text, options)
    name = kept.name_of(text, options)
    found = kept.find(_KIND, name)
    if not isinstance(found, CudaProgram):
        found = translate(text, options)
        kept.keep(_KIND, name, found)
    return found
