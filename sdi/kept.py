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
import sys

from sdi import cache
from sdi.clc.files_seen import digest_of

_log = logging.getLogger("sdi.cache")

_FOLDERS = ("", "clc", "sampling", "wire")
_FILES = ("launch/build/access.py", "launch/build/analysed.py")
"""Of sdi's sources: those that values depend on."""


def name_of(*asked: object) -> str:
    """The name of what is made from this; equal values have equal representations."""
    return hashlib.sha256(repr((*asked, _code())).encode("utf-8", "surrogateescape")).hexdigest()


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
    cache.write(kind, name, content)


@functools.cache
def _code() -> str:
    """A digest of the code that makes the values: sdi's sources, libclang and this Python."""
    root = os.path.dirname(os.path.abspath(__file__))
    files = list(_FILES)
    for folder in _FOLDERS:
        names = sorted(os.listdir(os.path.join(root, folder)))
        files += [
            os.path.join(folder, name) for name in names if name.endswith((".py", ".h", ".txt", ".json"))
        ]
    found = hashlib.sha256(sys.version.encode())
    for file in files:
        found.update(file.encode() + (digest_of(os.path.join(root, file)) or b""))
    clang = importlib.util.find_spec("clang")
    for folder in (clang.submodule_search_locations or []) if clang is not None else []:
        with contextlib.suppress(FileNotFoundError):
            library = os.stat(os.path.join(folder, "native", "libclang.so"))
            found.update(f"{folder} {library.st_size} {library.st_mtime_ns}".encode())
    return found.hexdigest()
