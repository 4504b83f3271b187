"""Linking: one text from several compiled objects.

The texts are put one after the other.  What each object has for itself (types, enumerators, ``static`` and
``inline`` functions, ``static`` variables) is kept once where all objects agree, as with a common header,
and gets a name per object where they differ.  Functions and variables with external linkage may be defined
once.  Not covered: a structure's member that has the name of something renamed.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from sdi.clc.frontend.base_header import USUAL, Language
from sdi.clc.frontend.names import NAME
from sdi.clc.frontend.objects import ObjectText
from sdi.clc.frontend.syntax import NodeKind, Tree
from sdi.clc.preprocess.lines import KERNEL_FILE
from sdi.clc.preprocess.options import MATH_FLAGS
from sdi.dataclass import dataclass, field
from sdi.errors import BuildError, Status

_STATIC = 3  # CX_SC_Static
_WORD = re.compile(NAME)
# Words outside strings; the word after a point or an arrow names a member.
_TOKEN = re.compile(rf'"(?:\\.|[^"\\\n])*"|(?:\.|->)\s*{NAME}|{NAME}')
_LINE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)
_SPACES = re.compile(r" ?([^\w ]) ?")
_INLINE = re.compile(r"\b(__)?inline(__)?\b")
_TYPES = frozenset({NodeKind.STRUCT_DECL, NodeKind.UNION_DECL, NodeKind.ENUM_DECL, NodeKind.TYPEDEF_DECL})


@dataclass(slots=True)
class _Piece:
    """A top-level declaration: its extent, what it declares, and its text without layout.

    ``own``: the object has it for itself; ``defines``: names it defines for all objects.  ``body``: of a type
    with a name, its braces; ``is_inside``: that stands in the declaration of something else.
    """

    begin: int
    end: int
    names: set[str]
    own: bool
    defines: set[str]
    text: str = ""
    body: tuple[int, int] | None = None
    is_inside: bool = False


@dataclass(slots=True)
class _Object:
    """An object being merged."""

    text: str
    pieces: list[_Piece]
    names: dict[str, list[_Piece]] = field(default_factory=dict)


def link_options(words: Sequence[str]) -> tuple[bool, tuple[str, ...]]:
    """Whether a library is asked for, and the flags for all objects.  Raises INVALID_LINKER_OPTIONS."""
    library = "-create-library" in words
    for word in words:
        known = (
            word in MATH_FLAGS or word == "-create-library" or (word == "-enable-link-options" and library)
        )
        if not known:
            raise BuildError(f"error: unknown link option '{word}'\n", Status.INVALID_LINKER_OPTIONS)
    return library, tuple(word for word in words if word in MATH_FLAGS)


def merge(
    objects: Sequence[ObjectText], language: Language = USUAL, more_flags: tuple[str, ...] = ()
) -> ObjectText:
    """The objects (at least one) as one; ``more_flags``: for all of them.

    Raises BuildError with LINK_PROGRAM_FAILURE when they contradict each other.  Other flags hold for the
    whole only where every object was compiled with them.
    """
    standard = max(o.standard for o in objects)
    common = [f for f in objects[0].flags if all(f in o.flags for o in objects)]
    flags = tuple(dict.fromkeys([*common, *more_flags]))
    if len(objects) == 1:
        return ObjectText(objects[0].text, standard, flags)
    parts = [_read(o, language) for o in objects]
    defined = Counter(name for part in parts for name in set().union(*(p.defines for p in part.pieces)))
    twice = sorted(name for name, count in defined.items() if count > 1)
    if twice:
        log = "".join(f"error: '{name}' is defined in more than one object\n" for name in twice)
        raise BuildError(log, Status.LINK_PROGRAM_FAILURE)
    differing = _differing(parts)
    shared = {name for part in parts for name, pieces in part.names.items() if not any(p.own for p in pieces)}
    seen: set[str] = set()
    texts = []
    for number, part in enumerate(parts):
        renamed = {name for name in differing & part.names.keys() if any(p.own for p in part.names[name])}
        if number == 0:
            renamed &= shared  # or it would stand for what another object gives to all
        text = part.text
        for piece in reversed(part.pieces):
            if piece.own and piece.text in seen and not piece.names & differing:
                begin, end = piece.begin, piece.end
                if piece.is_inside and piece.body is not None:  # its name stays, for what is declared there
                    begin, end = piece.body
                text = text[:begin] + "\n" * text.count("\n", begin, end) + text[end:]
        seen |= {piece.text for piece in part.pieces if piece.own}
        texts.append(_rename(text, renamed, f"__o{number}"))
    return ObjectText("\n".join(texts) + "\n", standard, flags)


def require_definitions(tree: Tree) -> None:
    """Raise LINK_PROGRAM_FAILURE if a kernel may call a function that is only declared."""
    declared = {f.name for f in tree.functions.values() if f.definition is None}
    missing = set()
    for function in tree.functions.values():
        if declared and function.body is not None:
            missing |= {
                n.name for n in function.body.walk() if n.kind is NodeKind.DECL_REF and n.name in declared
            }
    if missing:
        log = "".join(f"error: undefined symbol '{name}'\n" for name in sorted(missing))
        raise BuildError(log, Status.LINK_PROGRAM_FAILURE)


def _read(given: ObjectText, language: Language) -> _Object:
    """The top-level declarations of an object, as clang finds them."""
    from sdi.clc.frontend.diagnostics import report
    from sdi.clc.frontend.libclang import text_of
    from sdi.clc.frontend.parse import parse_unit, target_for

    options = given.options
    encoded = given.text.encode("utf-8", "surrogateescape")
    macros = given.macros(language)
    path = os.path.join("/", KERNEL_FILE)
    pieces: list[_Piece] = []
    target = target_for(given.text, language.assembly)
    with parse_unit(path, encoded, options, macros, ["-w"], target) as unit:
        found = report(unit, encoded, no_warnings=True)
        if found.errors:
            raise BuildError(found.text, Status.LINK_PROGRAM_FAILURE)
        lib, main = unit.lib, unit.main_file()
        for cursor in unit.children(unit.root()):
            if unit.file_offset(lib.clang_getCursorLocation(cursor))[0] != main:
                continue
            begin, end = unit.extent(cursor)
            name = text_of(lib.clang_getCursorSpelling(cursor))
            storage = int(lib.clang_Cursor_getStorageClass(cursor))
            is_type = cursor.kind in _TYPES
            own = is_type or storage == _STATIC
            if cursor.kind == NodeKind.FUNCTION_DECL:
                head = encoded[begin:end].partition(b"{")[0].decode("utf-8", "replace")
                own = own or bool(_INLINE.search(head))
            names = {name} if _WORD.fullmatch(name) else set()
            if cursor.kind == NodeKind.ENUM_DECL:
                names |= {text_of(lib.clang_getCursorSpelling(c)) for c in unit.children(cursor)}
            is_definition = bool(lib.clang_isCursorDefinition(cursor))
            brace = encoded.find(b"{", begin, end) if is_type and names else -1
            body = (brace, end) if brace >= 0 and cursor.kind != NodeKind.TYPEDEF_DECL else None
            defines = names if is_definition and not own else set()
            if cursor.kind != NodeKind.FUNCTION_DECL or not is_definition:
                semicolon = encoded.find(b";", end)
                end = semicolon + 1 if semicolon >= 0 else end
            last = pieces[-1] if pieces and begin < pieces[-1].end else None
            if last is not None and last.body is not None and not own:  # struct name {...} a;
                last.end, last.is_inside = last.body[1], True
                pieces.append(_Piece(begin, end, set(names), own, set(defines)))
            elif last is not None:  # int a, b; or typedef struct {...} name;
                last.body = None
                last.begin = min(last.begin, begin)
                last.end = max(last.end, end)
                last.names |= names
                last.defines |= defines
                last.own = last.own and own
            else:
                pieces.append(_Piece(begin, end, set(names), own, set(defines), body=body))
    # Offsets count bytes: one character per byte until the text is put together.
    text = encoded.decode("latin-1")
    names_of: dict[str, list[_Piece]] = {}
    for piece in pieces:
        words = " ".join(_LINE.sub("", text[piece.begin : piece.end]).split())
        piece.text = words if piece.body is None else _SPACES.sub(r"\1", words).removesuffix(";")
        for name in piece.names:
            names_of.setdefault(name, []).append(piece)
    return _Object(text, pieces, names_of)


def _differing(parts: Sequence[_Object]) -> set[str]:
    """Names that objects have for themselves and that do not mean the same in all objects that have them."""
    shared = Counter(name for part in parts for name in part.names)
    candidates = {
        name
        for part in parts
        for name, pieces in part.names.items()
        if shared[name] > 1 and any(piece.own for piece in pieces)
    }

    def texts(part: _Object, name: str) -> frozenset[str]:
        return frozenset(piece.text if piece.own else "" for piece in part.names[name])

    differing = {
        name for name in candidates if len({texts(part, name) for part in parts if name in part.names}) > 1
    }
    while True:  # what mentions a differing name differs
        more = {
            name
            for name in candidates - differing
            if any(
                differing & set(_WORD.findall(piece.text))
                for part in parts
                for piece in part.names.get(name, ())
            )
        }
        if not more:
            return differing
        differing |= more


def _rename(text: str, names: set[str], suffix: str) -> str:
    if not names:
        return text
    return _TOKEN.sub(lambda m: m.group() + suffix if m.group() in names else m.group(), text)
