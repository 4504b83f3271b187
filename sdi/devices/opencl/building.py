"""Building on an OpenCL driver beside other processes and threads."""

from __future__ import annotations

import functools
import threading
from typing import Final

import pyopencl as cl
from pyopencl import _cl, invoker

from sdi import cache

_generates: Final = threading.Lock()
_WRITER = "_generate_enqueue_and_set_args_module"
if hasattr(invoker, _WRITER):  # else each kernel object takes 0.3 ms, and memory that is never given back
    setattr(invoker, _WRITER, functools.lru_cache(maxsize=1024)(getattr(invoker, _WRITER)))


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

    pyopencl writes Python for each function, with names that threads must not choose at the same time.
    """
    with _generates:
        return cl.Kernel(program, name)
