"""Programs as CUDA C++: one translation for all members of an image, kept from run to run."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from sdi.clc import kept
from sdi.clc.cuda.emit import TOO_LARGE
from sdi.clc.cuda.translate import CudaProgram, translate
from sdi.devices.cuda.nvrtc import cached
from sdi.errors import BuildError

_KIND = "cuda-texts"
_PROGRAMS_MAX = 4
_TOO_MUCH = re.compile(r"Entry function '(\w+)' uses too much shared data \((0x[0-9a-f]+) bytes")


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


def compiled(
    program: CudaProgram, words: Sequence[str], capability: tuple[int, int]
) -> tuple[bytes, dict[str, int]]:
    """The code, and the bytes of local memory of kernels that have too much, by symbol.

    They cost the program nothing, as with the vendor's compiler.  ``words``: NVRTC's options.
    Raises BuildError.
    """
    too_large: dict[str, int] = {}
    while True:
        left_out = [f"-D{TOO_LARGE}{symbol}" for symbol in too_large]
        try:
            return cached(program.text, (*words, *left_out), capability), too_large
        except BuildError as error:
            found = {name: int(nbytes, 16) for name, nbytes in _TOO_MUCH.findall(error.log)}
            if found.keys() <= too_large.keys():
                raise
            too_large |= found
