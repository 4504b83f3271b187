"""Kernels as CUDA C++ that run on this machine, one work-item after the other: without barriers."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from sdi.clc.compile import compile_source
from sdi.clc.cuda.builtins import header_part
from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda.nvrtc import NvrtcMissing, compile_text
from tests.clc.host_cpp import host_library, host_text
from tests.clc.members import build, queue

_WORDS = """
#include <type_traits>
#include <utility>
struct _host_index { unsigned x, y, z; };
static _host_index threadIdx, blockIdx, blockDim;
#define __constant__
#define __restrict__
"""
_CALL = """
template<class T> static T _host_argument(void *p, const _cl_grid &g) {
  if constexpr (std::is_same_v<T, _cl_grid>) return g;
  else if constexpr (std::is_pointer_v<T>) return (T)p;
  else return *(T *)p;
}
template<class... A, std::size_t... N>
static void _host_call(void (*kernel)(A...), void **p, const _cl_grid &g, std::index_sequence<N...>) {
  kernel(_host_argument<A>(p[N], g)...);
}
template<class... A>
static void _host_launch(void (*kernel)(A...), void **p, unsigned groups, unsigned items) {
  _cl_grid g = {{0, 0, 0}, {groups, 1, 1}, 1};
  blockDim = {items, 1, 1};
  for (blockIdx.x = 0; blockIdx.x < groups; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < items; threadIdx.x++)
      _host_call(kernel, p, g, std::index_sequence_for<A...>());
}
"""
Array = np.ndarray[Any, Any]


def _geometry() -> str:
    """What asks for ids: the begin of its part of the header, up to what needs a GPU."""
    part = header_part("compat_memory.h")
    return part[: part.index("_CL void _cl_barrier")]


class HostKernels:
    """A program's kernels in place of an OpenCL program's.  Skips the test without a compiler."""

    def __init__(self, source: str, folder: Path) -> None:
        program = translate(source, ())
        text = program.text[program.text.index("namespace sdi_program") :]
        shared = next(line for line in text.splitlines() if line.startswith("extern __shared__"))
        entries = "".join(
            f'extern "C" void run_{k.symbol}(void **p, unsigned groups, unsigned items) '
            f"{{ _host_launch(sdi_program::{k.symbol}, p, groups, items); }}\n"
            for k in program.kernels
        )
        header = host_text("compat.h") + _geometry()
        self._library = host_library(_WORDS + header + text.replace(shared, "") + _CALL + entries, folder)
        self._symbols = {k.name: k.symbol for k in program.kernels}

    def launch(self, name: str, items: int, local: int, *arguments: Array | np.generic) -> None:
        """Arrays are buffers, zero-dimensional ones and scalars values."""
        held = [np.asarray(each) for each in arguments]
        pointers = (ctypes.c_void_p * (len(held) + 1))(*(each.ctypes.data for each in held), None)
        getattr(self._library, f"run_{self._symbols[name]}")(pointers, items // local, local)


def aligned(array: Array) -> Array:
    """A copy that lies as buffers do."""
    room = np.zeros(array.nbytes + 128, np.uint8)
    begin = -room.ctypes.data % 128
    made = room[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


def calls(kernels: HostKernels, *names: str) -> tuple[Any, ...]:
    """The named kernels, called as pyopencl's: queue, global size, local size, arguments."""

    def call_of(name: str) -> Any:
        def call(_: object, items: tuple[int], local: tuple[int], *arguments: Array) -> None:
            kernels.launch(name, *itertools.chain(items, local), *arguments)

        return call

    return tuple(call_of(name) for name in names)


_ITEMS, _NUMBERS = 4, 64
_KERNEL = "\nkernel void k(global int *o, global float *f) {{ int g = get_global_id(0); {body} }}\n"


def agree(body: str, folder: Path, before: str = "") -> None:
    """A kernel makes the same of zeros on the driver and as CUDA C++ on this machine; and NVRTC takes it.

    ``body``: of ``k(global int *o, global float *f)`` with the item's number ``g``; 64 of each for 4 items.
    """
    source = before + _KERNEL.format(body=body)
    on_driver, here = ([np.zeros(_NUMBERS, kind) for kind in (np.int32, np.float32)] for _ in range(2))
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(queue().context, flags, hostbuf=each) for each in on_driver]
    cl.Kernel(build(source, ["-w"]), "k")(queue(), (_ITEMS,), (1,), *buffers)
    for array, buffer in zip(on_driver, buffers, strict=True):
        cl.enqueue_copy(queue(), array, buffer)
    compiled = compile_source(source, "")
    build(compiled.text, compiled.member_options)
    with contextlib.suppress(NvrtcMissing):
        program = translate(compiled.text, compiled.member_options)
        words = nvrtc_options(compiled.member_options, program.contracts)
        assert compile_text(program.text, (*words, "--Ofast-compile=max"), (9, 0))
    here = [aligned(each) for each in here]
    HostKernels(source, folder).launch("k", _ITEMS, 1, *here)
    for ours, theirs in zip(here, on_driver, strict=True):
        assert ours.tobytes() == theirs.tobytes(), (ours.tolist(), theirs.tolist())
