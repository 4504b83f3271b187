"""NVIDIA's run-time compiler; what it compiled is kept in files of ``sdi.cache``.

The library comes with the wheel nvidia-cuda-nvrtc or with a CUDA toolkit; it is found and loaded by the
first compilation.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdi import cache
from sdi.errors import BuildError, Status

_KIND = "cuda"
_CACHED_MAX = 4096
# NVRTC's own cache takes a text compiled with and without --use_fast_math for the same (13.0).
# Source: NVRTC user guide, "Caching (CUDA 12.9+)".
_ITS_CACHE_SINCE = (12, 9)


class NvrtcMissing(Exception):
    """NVRTC is not installed, or its library can't be loaded."""


def _candidates() -> Iterator[str]:
    """Paths and names to try, the wheels' first."""
    with contextlib.suppress(ImportError, ValueError):
        for package in ("nvidia.cu13", "nvidia.cuda_nvrtc"):
            spec = importlib.util.find_spec(package)
            for folder in (spec.submodule_search_locations or []) if spec is not None else []:
                yield from sorted(map(str, Path(folder, "lib").glob("libnvrtc.so.*")), reverse=True)
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            yield from sorted(map(str, Path(home).glob("**/libnvrtc.so.1[0-9]")), reverse=True)
    yield from ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")


@functools.cache
def library() -> ctypes.CDLL:
    """NVRTC; loads it on the first call (about 50 ms).  Raises NvrtcMissing."""
    tried: list[str] = []
    for path in _candidates():
        if path in tried:
            continue
        try:
            # NVRTC opens its second library by name alone, which finds it only if it is loaded.
            for other in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")) if "/" in path else ():
                ctypes.CDLL(str(other), ctypes.RTLD_GLOBAL)
            lib = ctypes.CDLL(path)
        except OSError:
            tried.append(path)
            continue
        lib.nvrtcGetErrorString.restype = ctypes.c_char_p
        return lib
    raise NvrtcMissing(f"NVRTC (the package nvidia-cuda-nvrtc) is not installed; tried {', '.join(tried)}")


def version() -> tuple[int, int]:
    """The compiler's version.  Raises NvrtcMissing."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


def _own_options() -> tuple[str, ...]:
    return ("--no-cache",) if version() >= _ITS_CACHE_SINCE else ()


def _supported() -> list[int]:
    lib, count = library(), ctypes.c_int()
    lib.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    lib.nvrtcGetSupportedArchs(found)
    return list(found)


def compile_text(text: str, options: Sequence[str], capability: tuple[int, int]) -> bytes:
    """Machine code (PTX for a GPU newer than the compiler), not from the cache.

    Raises BuildError with the compiler's log.  ctypes releases the GIL meanwhile; any thread.
    """
    try:
        lib = library()
    except NvrtcMissing as cause:
        raise BuildError(f"error: {cause}\n", Status.COMPILER_NOT_AVAILABLE) from cause
    wanted = 10 * capability[0] + capability[1]
    known = _supported()
    is_native = wanted in known
    arch = f"sm_{wanted}" if is_native else f"compute_{max((k for k in known if k < wanted), default=wanted)}"
    arguments = [each.encode() for each in (f"--gpu-architecture={arch}", *_own_options(), *options)]
    program = ctypes.c_void_p()
    _checked(lib.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"program.cu", 0, None, None))
    try:
        argv = (ctypes.c_char_p * len(arguments))(*arguments)
        status = lib.nvrtcCompileProgram(program, len(arguments), argv)
        if status:
            log = _result(program, "nvrtcGetProgramLog").rstrip(b"\0").decode(errors="replace")
            said = lib.nvrtcGetErrorString(status).decode()
            raise BuildError(log or f"error: {said}\n")
        return _result(program, "nvrtcGetCUBIN" if is_native else "nvrtcGetPTX")
    finally:
        lib.nvrtcDestroyProgram(ctypes.byref(program))


def _checked(status: int) -> None:
    if status:
        raise BuildError(f"error: NVRTC: {library().nvrtcGetErrorString(status).decode()}\n")


def _result(program: ctypes.c_void_p, name: str) -> bytes:
    lib, nbytes = library(), ctypes.c_size_t()
    _checked(getattr(lib, f"{name}Size")(program, ctypes.byref(nbytes)))
    buffer = ctypes.create_string_buffer(nbytes.value)
    _checked(getattr(lib, name)(program, buffer))
    return buffer.raw


def cached(text: str, options: Sequence[str], capability: tuple[int, int]) -> bytes:
    """As ``compile_text``, perhaps from the cache.  Raises BuildError."""
    try:
        compiler = " ".join(("{}.{}".format(*version()), *_own_options()))
    except NvrtcMissing as cause:
        raise BuildError(f"error: {cause}\n", Status.COMPILER_NOT_AVAILABLE) from cause
    name = repr((text, tuple(options), capability, compiler))
    code = cache.read(_KIND, name)
    if code is None:
        code = compile_text(text, options, capability)
        cache.write(_KIND, name, code, most=_CACHED_MAX)
    return code
