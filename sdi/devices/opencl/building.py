"""Building on an OpenCL driver beside other processes and threads."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Final, NoReturn, cast

import pyopencl as cl
from pyopencl import _cl, invoker

from sdi import cache

_WRITER: Final = "generate_enqueue_and_set_args"
_makes: Final = threading.local()


def _is_never_called(*_: object, **__: object) -> NoReturn:
    raise NotImplementedError("a kernel of sdi's own is called by nobody")


def _without_python(write: Callable[..., object]) -> Callable[..., object]:
    """pyopencl's writer of a kernel object's two functions, but for the kernels that are made here."""

    @functools.wraps(write)
    def written(*asked: object, **named: object) -> object:
        return (_is_never_called,) * 2 if getattr(_makes, "kernel", False) else write(*asked, **named)

    return written


if hasattr(invoker, _WRITER):
    setattr(invoker, _WRITER, _without_python(getattr(invoker, _WRITER)))


def build(program: _cl._Program, text: str, options: str) -> None:
    """Build ``program``, which was made of ``text``.  Blocks.  Raises ``cl.Error``.

    PoCL before 6.0 fails without a word, or aborts, where processes build the same text at the same moment:
    each removes what another has just put into the cache of both
    (https://github.com/pocl/pocl/issues/1480).  So this user's processes take turns.
    """
    with cache.turn("builds", f"{text}\0{options}"):
        program._build(options=options.encode())


def new_kernel(program: cl.Program | _cl._Program, name: str) -> cl.Kernel:
    """A kernel, for launches alone.  Raises ``cl.Error``.

    pyopencl writes Python for each function, which takes 1 to 2 ms the first time, memory that is never given
    back, and names that threads must not choose at the same time: for functions that nobody calls.
    """
    _makes.kernel = True
    try:
        return cl.Kernel(program, name)
    finally:
        _makes.kernel = False


def binary_of(program: _cl._Program) -> bytes:
    """What the driver can make it from, for its one device.  Blocks.  Raises ``cl.Error``.

    The size comes first, by a call that does not hold Python's lock: PoCL compiles all kernels then.
    """
    info = ctypes.CDLL(_cl.__file__).clGetProgramInfo
    info.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    size = ctypes.c_size_t()
    info(program.int_ptr, cl.program_info.BINARY_SIZES, ctypes.sizeof(size), ctypes.byref(size), None)
    # What that says of an error the next call says, too.
    return cast(list[bytes], program.get_info(cl.program_info.BINARIES))[0]
