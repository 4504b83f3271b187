"""NVIDIA's run-time compiler, and a cache of what it compiled on disk.

The library comes with the wheel nvidia-cuda-nvrtc or with a CUDA toolkit; it is found and loaded by the
first compilation.  The cache is shared by all processes: a file appears by renaming, so it is whole or
absent; each carries a checksum, and a damaged one counts as absent.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sdi.errors import BuildError, Status

_log = logging.getLogger(__name__)
_MAGIC = b"sdi cuda 1\n"
_DIGEST_NBYTES = 32
CACHE_MAX_NBYTES = 512 << 20
"""Cached files in all; the least recently used go first."""


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
    arguments = [f"--gpu-architecture={arch}".encode(), *(each.encode() for each in options)]
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


def cache_folder() -> Path:
    """Where compiled programs are kept; not created here."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "sdi" / "cuda"


class Cache:
    """Values of bytes by keys of bytes, in one folder.  Any thread, any number of processes.

    Without a writable folder it holds nothing; it never raises.
    """

    def __init__(self, folder: Path, max_nbytes: int = CACHE_MAX_NBYTES) -> None:
        self.folder = folder
        self.max_nbytes = max_nbytes

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{hashlib.sha256(key).hexdigest()}.bin"

    def get(self, key: bytes) -> bytes | None:
        """The value, or None when there is none or its file is damaged."""
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        value = content[len(_MAGIC) + _DIGEST_NBYTES :]
        if content[: len(_MAGIC)] != _MAGIC or content[len(_MAGIC) :][:_DIGEST_NBYTES] != _digest(value):
            _log.warning("%s is damaged: compiling again", path)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Keep ``value``; the last of several writers wins."""
        temporary = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, suffix=".part")
            with os.fdopen(descriptor, "wb") as file:
                file.write(_MAGIC + _digest(value) + value)
            os.replace(temporary, self._path(key))
            temporary = None
            self._trim()
        except OSError as cause:
            _log.debug("%s: not cached: %s", self.folder, cause)
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def _trim(self) -> None:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    status = entry.stat()
                    found.append((status.st_mtime_ns, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.max_nbytes:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def key_of(*parts: str) -> bytes:
    """A key that differs when any part differs."""
    return b"".join(len(data).to_bytes(8, "little") + data for data in (part.encode() for part in parts))
