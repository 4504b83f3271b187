"""Compiled objects and libraries: preprocessed programs that can be stored, linked and built anywhere.

An object keeps text, not code: what a member's driver makes of it is made when the program is built or
linked, on whatever members the image then has.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from sdi.clc.frontend.base_header import Language, language_macros
from sdi.clc.preprocess.options import SHARED_FLAGS, STANDARDS, BuildOptions
from sdi.dataclass import dataclass
from sdi.errors import ClError, Status


@dataclass(frozen=True, slots=True)
class ObjectText:
    """One preprocessed program, and the options that still matter for it.

    ``text``: begins with a ``#line`` directive; needs no macro and no other file.
    """

    text: str
    standard: str
    flags: tuple[str, ...]

    @property
    def options(self) -> BuildOptions:
        """Options for parsing the text again."""
        return BuildOptions((), (), self.standard, self.flags, no_warnings=True, warnings_are_errors=False)

    def macros(self, language: Language) -> dict[str, str]:
        """The macros that clang sees with this text, which uses none."""
        return language_macros(self.options.version, language)


def pack_objects(objects: Iterable[ObjectText]) -> bytes:
    """The objects as bytes, for a binary."""
    found = [{"text": o.text, "standard": o.standard, "flags": list(o.flags)} for o in objects]
    return json.dumps(found).encode("ascii")


def unpack_objects(data: bytes) -> list[ObjectText]:
    """What ``pack_objects`` packed.  Raises ClError with INVALID_BINARY for anything else."""
    try:
        given = json.loads(data)
        if not isinstance(given, list) or not given:
            raise ValueError("no list of objects")
        return [_object_of(one) for one in given]
    except (ValueError, RecursionError) as cause:
        raise ClError(Status.INVALID_BINARY, f"not a compiled object: {cause}") from cause


def _object_of(given: object) -> ObjectText:
    """One object of a binary.  Raises ValueError for what no compiler of ours has written."""
    if not isinstance(given, dict) or given.keys() != {"text", "standard", "flags"}:
        raise ValueError("an object has a text, a standard and flags")
    text, standard, flags = given["text"], given["standard"], given["flags"]
    if not isinstance(text, str) or not isinstance(standard, str) or not isinstance(flags, list):
        raise ValueError("text and standard are strings, flags are a list")
    if standard not in STANDARDS or not all(isinstance(f, str) and f in SHARED_FLAGS for f in flags):
        raise ValueError(f"unknown standard or flags: {standard!r}, {flags!r}")
    text.encode("utf-8", "surrogateescape")  # a UnicodeEncodeError is a ValueError
    return ObjectText(text, standard, tuple(flags))
