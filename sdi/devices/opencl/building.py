"""Building on an OpenCL driver beside other processes and threads."""

from __future__ import annotations

import threading
from typing import Final

import pyopencl as cl
from pyopencl import _cl

from sdi import cache

_generates: Final = threading.Lock()


def build(program: _cl._Program, text: str, options: str) -> None:
    """Build ``program``, which was made of ``text``.  Blocks.  Raises ``cl.Error``.

    PoCL before 6.0 fails without a word, or aborts, where processes build the same text at the same moment:
    each removes what another has just put into the cache of both
    (https://github.com/pocl/pocl/issues/1480).  So this user's processes take turns.
    """
    with cache.turn("builds", f"{text}\0{options}"):
        program._build(options=options.encode())


def new_kernel(program: cl.Program | _cl._Program, name: str) -> cl.Kernel:
    """A kernel.  Raises ``cl.Error``.

    pyopencl writes Python for each of them, with names that threads must not choose at the same time.
    """
    with _generates:
        return cl.Kernel(program, name)
