"""What a build needs to know of a program besides the members' own programs; kept on disk from run to run.

To parse a program, check it, and find its access maps takes 30 to 100 ms of processor time.  The result is
data, and depends on the text, the options, the folder, the files that were included or looked for, what the
members have, and this code: all of that is in the name of the file, or looked at when it is read.  Drivers
keep their compiled kernels on disk in the same way.

There are two kinds of files.  One has what is known of a preprocessed program (an object), whether it came
from its source, from linking or from a binary.  The other tells which object a source, or objects that are
linked, become.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sdi.clc import kept
from sdi.clc.frontend.base_header import Language
from sdi.clc.frontend.objects import ObjectText
from sdi.clc.model import CompiledProgram, KernelModel
from sdi.clc.preprocess.files_seen import FilesSeen, digest_of
from sdi.dataclass import dataclass, replace
from sdi.launch.programs.access import accesses_of
from sdi.sampling.model import KernelAccess
from sdi.sampling.ops import OPERATIONS
from sdi.sampling.whole import WholeAccess

_PROGRAMS, _OBJECTS = "programs", "objects"


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
class _Become:
    """What a program becomes: the name of its object, the log, and what the files that it came from held."""

    digests: dict[str, bytes | None]
    name: str
    log: str


def analysed(compiled: CompiledProgram) -> Analysed:
    """With the access maps of all kernels."""
    kernels, accesses = accesses_of(compiled)
    return Analysed(
        kernels,
        accesses,
        compiled.text,
        compiled.member_options,
        compiled.log,
        compiled.object,
        compiled.tree.has_global_variables,
    )


def name_of(source: str, options: str, directory: str, language: Language) -> str:
    """The name under which such a program is kept."""
    return _name("source", source, options, directory or os.getcwd(), language)


def name_of_linked(objects: Sequence[ObjectText], flags: Sequence[str], language: Language) -> str:
    """The name under which what such objects are linked to is kept."""
    return _name("linked", tuple(objects), tuple(flags), language)


def name_of_object(made: ObjectText, language: Language) -> str:
    """The name under which what is known of an object is kept."""
    return _name("object", made, language)


def _name(*parts: object) -> str:
    return kept.name_of(*parts, tuple(OPERATIONS))


def find(name: str) -> Analysed | None:
    """What was kept of a program; None when there is nothing, or a file that it came from has changed."""
    become = kept.find(_PROGRAMS, name)
    if not isinstance(become, _Become):
        return None
    if any(digest_of(path) != digest for path, digest in become.digests.items()):
        return None
    found = find_object(become.name)
    return None if found is None else replace(found, log=become.log)


def find_object(name: str) -> Analysed | None:
    """What was kept of an object; None when there is nothing."""
    found = kept.find(_OBJECTS, name)
    return found if isinstance(found, Analysed) else None


def keep(name: str, found: Analysed, seen: FilesSeen, language: Language) -> None:
    """Keep what a program became, unless it depends on more than ``seen``; see ``keep_object``."""
    keep_object(found, language)
    if seen.is_complete:
        become = _Become(seen.digests, name_of_object(found.object, language), found.log)
        kept.keep(_PROGRAMS, name, become)


def keep_object(found: Analysed, language: Language) -> None:
    """Keep what is known of an object, unless its analysis failed."""
    if not any(isinstance(access, WholeAccess) for access in found.accesses):
        kept.keep(_OBJECTS, name_of_object(found.object, language), replace(found, log=""))
