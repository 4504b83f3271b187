"""What a build needs to know of a program besides the members' own programs; kept on disk from run to run.

To parse a program, check it, and find its access maps takes 30 to 100 ms of processor time.  The result is
data, and depends on the text, the options, the folder, the files that were included or looked for, what the
members have, and this code: all of that is in the name of the file, or looked at when it is read.  Drivers
keep their compiled kernels on disk in the same way.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import pickle
import sys
from dataclasses import dataclass

from sdi import cache
from sdi.clc.base_header import Language
from sdi.clc.files_seen import FilesSeen, digest_of
from sdi.clc.model import CompiledProgram, KernelModel
from sdi.clc.objects import ObjectText
from sdi.runtime.access import access_of
from sdi.sampling.model import KernelAccess
from sdi.sampling.whole import WholeAccess

_log = logging.getLogger("sdi.cache")

_KIND = "programs"
_FOLDERS = ("", "clc", "sampling")
_FILES = ("runtime/access.py", "runtime/analysed.py")
"""Of sdi's sources: those that the result depends on."""


@dataclass(frozen=True, slots=True)
class Analysed:
    """A program's kernels and their access maps; otherwise as in ``CompiledProgram``."""

    kernels: tuple[KernelModel, ...]
    accesses: tuple[KernelAccess, ...]
    text: str
    member_options: tuple[str, ...]
    log: str
    object: ObjectText
    has_global_variables: bool


@dataclass(frozen=True, slots=True)
class _Kept:
    """The content of a file: the answer, and what the files that it came from held."""

    digests: dict[str, bytes | None]
    found: Analysed


def analysed(compiled: CompiledProgram) -> Analysed:
    """With the access maps of all kernels."""
    return Analysed(
        compiled.kernels,
        tuple(access_of(compiled, model) for model in compiled.kernels),
        compiled.text,
        compiled.member_options,
        compiled.log,
        compiled.object,
        compiled.tree.has_global_variables,
    )


def name_of(source: str, options: str, directory: str, language: Language) -> str:
    """The name under which such a program is kept."""
    asked = repr((source, options, directory or os.getcwd(), language, _code()))
    return hashlib.sha256(asked.encode("utf-8", "surrogateescape")).hexdigest()


def find(name: str) -> Analysed | None:
    """What was kept; None when there is nothing, or a file that it came from has changed."""
    content = cache.read(_KIND, name)
    if content is None:
        return None
    try:
        kept = pickle.loads(content)
    except Exception as cause:  # whatever unpickling meets; the program is compiled as if there were nothing
        _log.debug("%s can't be read: %r", name, cause)
        return None
    if not isinstance(kept, _Kept):
        return None
    if any(digest_of(path) != digest for path, digest in kept.digests.items()):
        return None
    return kept.found


def keep(name: str, found: Analysed, seen: FilesSeen) -> None:
    """Keep it, unless it depends on more than ``seen``, or its analysis failed."""
    if not seen.is_complete or any(isinstance(access, WholeAccess) for access in found.accesses):
        return
    try:
        content = pickle.dumps(_Kept(seen.digests, found), pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        _log.debug("%s is nested too deeply to be kept", name)
        return
    cache.write(_KIND, name, content)


@functools.cache
def _code() -> str:
    """A digest of the code that makes the result: sdi's sources, libclang and this Python."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = list(_FILES)
    for folder in _FOLDERS:
        names = sorted(os.listdir(os.path.join(root, folder)))
        files += [os.path.join(folder, name) for name in names if name.endswith((".py", ".h"))]
    found = hashlib.sha256(sys.version.encode())
    for file in files:
        found.update(file.encode() + (digest_of(os.path.join(root, file)) or b""))
    clang = importlib.util.find_spec("clang")
    for folder in (clang.submodule_search_locations or []) if clang is not None else []:
        with contextlib.suppress(FileNotFoundError):
            library = os.stat(os.path.join(folder, "native", "libclang.so"))
            found.update(f"{folder} {library.st_size} {library.st_mtime_ns}".encode())
    return found.hexdigest()
