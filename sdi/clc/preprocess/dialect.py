"""What the members' compilers have defined before a program's first line, by asking them.

A program may mention a name that one compiler has and another has not, so only the compilers that will build
it know: each kind is asked once, with a probe (``probe.py``), and what it said is kept on disk.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from sdi.clc.frontend.base_header import (
    FUNCTION_MACROS,
    FUNCTION_PARAMETERS,
    FUNCTION_TEXT,
    Language,
    language_macros,
    language_names,
)
from sdi.clc.preprocess.clang_dialect import clang_dialect
from sdi.clc.preprocess.macros import Macro, MacroError, Origin, body_of, parse_definition
from sdi.clc.preprocess.options import BuildOptions, Quotes
from sdi.clc.preprocess.probe import (
    PLACES,
    QUOTED,
    WIDTH,
    Answers,
    Dialect,
    builtin_functions,
    is_operator,
    is_question,
    listed_names,
)
from sdi.dataclass import dataclass
from sdi.errors import BuildError, Status

_RESERVED = re.compile(r"__\w+__\Z|_[A-Z]\w*\Z|cl_\w+\Z|CL_\w+\Z")
_UNDERSCORED = re.compile(r"__\w+\Z")
_VERSION = "__OPENCL_C_VERSION__"
_VERSIONS = {"100": "CL1.0", "110": "CL1.1", "120": "CL1.2", "300": "CL3.0"}
_BY_QUOTES = {"x y z": Quotes.BLANK, "xyz": Quotes.REMOVED}
_DEFAULT_WIDTH = 128
_PRAGMA = "_Pragma"
_CLANGS = frozenset({"__opencl_c_named_address_space_builtins"})
"""What clang needs to see defined to have the built-in functions."""


@dataclass(frozen=True, slots=True)
class Common:
    """What all of several compilers have, and with one value; of widths the least."""

    parts: tuple[Dialect, ...]

    @property
    def name(self) -> str:
        return " + ".join(part.name for part in self.parts)

    def answers(self, questions: Collection[str], options: tuple[str, ...]) -> Answers:
        found = [part.answers(questions, options) for part in self.parts]
        common: dict[str, str | None] = {}
        for question in questions:
            values = [each[question] for each in found]
            if question in (WIDTH, _VERSION):
                common[question] = min(values, key=lambda value: int(value or 0))
            else:
                common[question] = values[0] if len(set(values)) == 1 else None
        return common


def dialect_of(language: Language) -> Dialect:
    """Its members' dialect; clang's, which parses programs, where there are none."""
    if language.dialect is not None:
        return language.dialect
    return clang_dialect()


def common(parts: Sequence[Dialect]) -> Dialect:
    """For an image of members with these compilers, at least one."""
    kinds = tuple({part.name: part for part in reversed(parts)}.values())
    return kinds[0] if len(kinds) == 1 else Common(kinds)


def default_standard(dialect: Dialect) -> str:
    """The value of ``-cl-std=`` that a program is compiled with that does not say."""
    return _VERSIONS.get(dialect.answers([_VERSION], ())[_VERSION] or "", "CL1.2")


def require_standard(options: BuildOptions, dialect: Dialect) -> None:
    """Raise BuildError where ``options`` ask for a version that not every device has and these don't.

    Drivers of OpenCL 3.0 need not list OpenCL C 2.0 to take it, as PoCL does.
    """
    if options.standard == "CL2.0":
        said = dialect.answers([_VERSION], ("-cl-std=CL2.0",))[_VERSION]
        if said != "200":
            what = "-cl-std=CL2.0: not all members have OpenCL C 2.0"
            raise BuildError(f"error: {what}\n", Status.INVALID_BUILD_OPTIONS)


def quotes_of(dialect: Dialect) -> Quotes:
    """What becomes of quotes in build options."""
    return _BY_QUOTES.get(dialect.answers([QUOTED], ())[QUOTED] or "", Quotes.ESCAPED)


class Definitions:
    """What is defined for one program; as ``Predefined`` in ``preprocess.py``.  Owned by: its thread.

    ``macros``: what was looked up, None for what is not defined.  ``tests``: what was asked
    of the compilers beside names.
    """

    def __init__(self, language: Language, options: BuildOptions) -> None:
        self._dialect = dialect_of(language)
        self._language = language
        self._version = options.version
        self._options = (*((f"-cl-std={options.standard}",) if options.is_asked else ()), *options.flags)
        self.macros: dict[str, Macro | None] = {}
        self.tests: dict[str, str | None] = {}

    @property
    def width(self) -> int:
        return int(self._answers([WIDTH])[WIDTH] or _DEFAULT_WIDTH)

    def look_up(self, names: Collection[str], in_directives: Collection[str]) -> Mapping[str, Macro]:
        asked = {name for name in names if _RESERVED.match(name) or name in listed_names()}
        asked |= {n for n in in_directives if _UNDERSCORED.match(n) or ("(" in n and is_question(n))}
        asked = {name for name in asked if is_question(name) and not name.startswith("__builtin_")}
        found: dict[str, Macro] = {}
        for name, text in self._answers(asked).items():
            text = self._claimed(name, text)
            if "(" in name or is_operator(name):
                self.tests[name] = text
            if text is not None and "(" not in name:
                found[name] = _macro(name, text)
            if "(" not in name:
                self.macros[name] = found.get(name)
        return found

    def test(self, operator: str, operand: str) -> str:
        question = f"{operator}({operand})"
        if not is_question(question):
            raise MacroError(f"{question}: this can't be asked")
        answer = self.tests[question] = self._answers([question])[question]
        return answer or "0"

    def header(self) -> dict[str, str | None]:
        """What clang has to see defined, or undefined, to read the program as the members' compilers do."""
        found: dict[str, str | None] = {}
        for name, macro in self.macros.items():
            if name == _PRAGMA:
                continue
            if macro is None:
                # What is no macro to a compiler of the language is a name of another kind to it.
                if name not in (_CLANGS | language_names() | builtin_functions()):
                    found[name] = None
            elif macro.origin is Origin.KEPT:
                found[name] = name
            elif macro.origin is Origin.DRIVER:
                found[name + _parameters(macro)] = "".join(macro.body)
        return found

    def agrees_with_clang(self) -> bool:
        """Whether the clang that parses programs answers all tests as the members' compilers did."""
        needed = language_macros(self._version, self._language)
        if any(name in needed and macro is None for name, macro in self.macros.items()):
            return False  # defined for clang only, which finds functions by it
        own = clang_dialect().answers(self.tests.keys(), self._options) if self.tests else {}
        return all((own[q] or "0", own[q] is None) == (a or "0", a is None) for q, a in self.tests.items())

    def _answers(self, questions: Collection[str]) -> Answers:
        return self._dialect.answers(questions, self._options) if questions else {}

    def _claimed(self, name: str, text: str | None) -> str | None:
        """As far as the image says what it has, that is what programs see, whatever its members have."""
        language = self._language
        if name == "__OPENCL_VERSION__":
            return "300"
        if name == _VERSION:
            return str(self._version)
        if name in language.extensions or (name in language.features and self._version >= 300):
            return text or "1"
        if name.startswith("cl_") or name in language.withheld:
            return None
        return text if name != "__IMAGE_SUPPORT__" or language.images else None


def _parameters(macro: Macro) -> str:
    return "" if macro.parameters is None else f"({','.join(macro.parameters)})"


def _macro(name: str, text: str) -> Macro:
    if is_operator(name):
        return Macro(name, None, "", (), Origin.TEST)
    if name in PLACES:
        return Macro(name, None, "", (), Origin.PLACE)
    if name == _PRAGMA:  # clang counts it as a macro, of which it is not told the text
        return Macro(name, None, "", body_of(name), Origin.KEPT)
    if name in FUNCTION_MACROS:
        return parse_definition(f"{name}{FUNCTION_PARAMETERS} {FUNCTION_TEXT}", Origin.DRIVER)
    stays = text == name or name == "inline" or name in language_names() or name in builtin_functions()
    return Macro(name, None, "", body_of(text), Origin.KEPT if stays else Origin.DRIVER)
