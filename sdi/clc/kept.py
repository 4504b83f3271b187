"""Values that this code made of texts, kept from run to run.

A value depends on what it was made from and on the code that made it: both are in its name.  Values are
pickles in files of ``sdi/cache.py``, which are right, or as good as absent.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import pickle
import re
import sys
from pathlib import Path

from sdi import cache
from sdi.clc.preprocess.files_seen import digest_of

_log = logging.getLogger("sdi.cache")

_ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = ("clc", "launch/programs", "sampling", "wire")
_FILES_MAX = 4096
"""Applications may have hundreds of programs, and users several applications: some 60 KiB each."""
_INCLUDE = re.compile(
    r"(?:include(?:_next)?|incbin|(?:#|%:|\?\?=)[^\r\n#]*(?:import|embed))(?![A-Za-z0-9_$])"
)
_SPLICE = re.compile(r"(?:\\|\?\?/)[ \t\v\f]*(?:\r\n?|\n\r?)")
_SUFFIXES = (".py", ".h", ".txt", ".json")
"""Of sdi's sources: those that values depend on, beside all at the top."""


def name_of(*asked: object) -> str:
    """The name of what is made from this; equal values have equal representations."""
    return hashlib.sha256(repr((*asked, _code())).encode("utf-8", "surrogateescape")).hexdigest()


def may_include(text: str) -> bool:
    """Whether a program may depend on more than its text: tomorrow a file may be another one.

    ``include`` by any name that ends in it, wherever it is, and a directive's ``import`` or ``embed``; not
    names that go on, as ``includeTile`` does.
    """
    return _INCLUDE.search(_SPLICE.sub("", text)) is not None


def find(kind: str, name: str) -> object:
    """The value, None when there is none or it can't be read."""
    content = cache.read(kind, name)
    if content is None:
        return None
    try:
        found: object = pickle.loads(content)
    except Exception as cause:  # whatever unpickling meets; the value is made as if there were nothing
        _log.debug("%s can't be read: %r", name, cause)
        return None
    return found


def keep(kind: str, name: str, value: object) -> None:
    """Keep a value, unless it can't be written."""
    try:
        content = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except RecursionError:
        _log.debug("%s is nested too deeply to be kept", name)
        return
    cache.write(kind, name, content, _FILES_MAX)


def sources() -> list[Path]:
    """The files whose text values depend on, relative to the package's folder."""
    found = [*_ROOT.iterdir(), *(path for folder in _FOLDERS for path in (_ROOT / folder).rglob("*"))]
    return sorted(path.relative_to(_ROOT) for path in found if path.suffix in _SUFFIXES)


@functools.cache
def _code() -> str:
    """A digest of the code that makes the values: sdi's sources, libclang and this Python."""
    found = hashlib.sha256(sys.version.encode())
    for path in sources():
        found.update(str(path).encode() + (digest_of(str(_ROOT / path)) or b""))
    clang = importlib.util.find_spec("clang")
    for folder in (clang.submodule_search_locations or []) if clang is not None else []:
        with contextlib.suppress(FileNotFoundError):
            library = os.stat(os.path.join(folder, "native", "libclang.so"))
            found.update(f"{folder} {library.st_size} {library.st_mtime_ns}".encode())
    return found.hexdigest()
