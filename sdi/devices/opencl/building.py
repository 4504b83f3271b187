"""Building on an OpenCL driver beside other processes."""

from __future__ import annotations

from pyopencl import _cl

from sdi import cache


def build(program: _cl._Program, text: str, options: str) -> None:
    """Build ``program``, which was made of ``text``.  Blocks.  Raises ``cl.Error``.

    PoCL before 6.0 fails without a word, or aborts, where processes build the same text at the same moment:
    each removes what another has just put into the cache of both
    (https://github.com/pocl/pocl/issues/1480).  So this user's processes take turns.
    """
    with cache.turn("builds", f"{text}\0{options}"):
        program._build(options=options.encode())
