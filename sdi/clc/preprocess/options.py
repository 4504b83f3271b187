"""Build options: what ``clBuildProgram`` may be given.

Source: OpenCL 3.0 API specification, section "Compiler Options".
"""

from __future__ import annotations

import enum
import itertools
import os
import re
from collections.abc import Sequence

from sdi.clc.frontend.names import LETTER
from sdi.dataclass import dataclass
from sdi.errors import BuildError, Status

_LETTER = re.compile(LETTER)
_IDENTIFIER = re.compile(rf"{LETTER}[\w$]*")
_QUOTE = re.compile(r'(\\?)"')
STANDARDS = {"CL1.0": 100, "CL1.1": 110, "CL1.2": 120, "CL2.0": 200, "CL3.0": 300}

# Options that clang's parser understands and that a member's compiler gets too.
SHARED_FLAGS = frozenset(
    {
        "-cl-single-precision-constant",
        "-cl-denorms-are-zero",
        "-cl-fp32-correctly-rounded-divide-sqrt",
        "-cl-opt-disable",
        "-cl-mad-enable",
        "-cl-no-signed-zeros",
        "-cl-unsafe-math-optimizations",
        "-cl-finite-math-only",
        "-cl-fast-relaxed-math",
    }
)
MATH_FLAGS = frozenset(
    {
        "-cl-denorms-are-zero",
        "-cl-no-signed-zeros",
        "-cl-unsafe-math-optimizations",
        "-cl-finite-math-only",
        "-cl-fast-relaxed-math",
    }
)
"""What a linker may be told too."""
# Options that change nothing here: drivers may dislike them, and argument info is ours.
_IGNORED_FLAGS = frozenset(
    {
        "-cl-kernel-arg-info",
        "-cl-strict-aliasing",
        "-cl-uniform-work-group-size",
        "-cl-no-subgroup-ifp",
        "-g",
    }
)


class Quotes(enum.Enum):
    """What a driver makes of the double quotes in an option, beside keeping spaces together.

    ESCAPED: they vanish, and ``\\"`` is one.  BLANK: each is a space (PoCL until 3.1 at least).  REMOVED:
    they vanish, and backslashes are as good as any character (PoCL today).
    """

    ESCAPED = "escaped"
    BLANK = "blank"
    REMOVED = "removed"

    def read(self, word: str) -> str:
        """The option that ``word`` is."""
        match self:
            case Quotes.ESCAPED:
                return _QUOTE.sub(lambda match: '"' if match[1] else "", word)
            case Quotes.BLANK:
                return word.replace('"', " ")
            case Quotes.REMOVED:
                return word.replace('"', "")


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Parsed build options.

    ``defines``: (name with its parameter list, replacement), in the order given.
    ``include_folders``: absolute, in search order; the application's working directory comes last.
    ``flags``: ``-cl-...`` options that change the meaning or speed of code.
    ``is_asked``: the standard is one of the options, not the default.
    """

    defines: tuple[tuple[str, str], ...]
    include_folders: tuple[str, ...]
    standard: str
    flags: tuple[str, ...]
    no_warnings: bool
    warnings_are_errors: bool
    is_asked: bool = True

    @property
    def version(self) -> int:
        """``__OPENCL_C_VERSION__``: 120 for CL1.2."""
        return STANDARDS[self.standard]

    @property
    def read_as(self) -> str:
        """The standard by which clang reads programs: of OpenCL C 2.0 an image has what it has of 3.0.

        There is no generic address space, without which clang has no 2.0.
        """
        return "CL3.0" if self.standard == "CL2.0" else self.standard

    @property
    def member_options(self) -> tuple[str, ...]:
        """What a member's compiler gets: no -D, no -I, no warnings.

        The text no longer asks for its version, and older versions lack words the emitter uses.
        """
        standard = self.standard if self.version > 120 else "CL1.2"
        return (f"-cl-std={standard}", *self.flags, "-w")


def _invalid(what: str) -> BuildError:
    return BuildError(f"error: {what}\n", Status.INVALID_BUILD_OPTIONS)


def split_options(options: str, quotes: Quotes = Quotes.ESCAPED) -> list[str]:
    """The words of ``options``, split at white space outside double quotes; single quotes mean nothing.

    As drivers do, not as a shell does: ``-DCLASS='S'`` keeps its quotes, and a backslash holds no space
    together.  Raises BuildError for a quote that is never closed: the driver's own options would be in it.
    """
    words: list[str] = []
    word = ""
    quoted = False
    for char in options:
        if char == '"':
            quoted = not quoted
            word += char
        elif quoted or char not in " \t\n\v\f\r\0":
            word += char
        elif word:
            words.append(word)
            word = ""
    if quoted:
        raise BuildError("error: a quote in the build options is never closed\n")
    if word:
        words.append(word)
    for before, each in itertools.pairwise(["", *words]):
        if each[0] == '"' and before not in ("-D", "-I") and quotes is not Quotes.ESCAPED:
            raise _invalid(f"unknown build option '{each}'")
    return [quotes.read(each) for each in words]


def parse_options(
    options: str | Sequence[str],
    working_directory: str | None,
    default: str = "CL1.2",
    quotes: Quotes = Quotes.ESCAPED,
) -> BuildOptions:
    """Parse ``options``: a line as for clBuildProgram, or its words.

    ``working_directory``: where relative folders are meant from.  ``default``: the version where none is
    asked for.  ``quotes``: as the members' drivers have it.
    Raises BuildError with INVALID_BUILD_OPTIONS for what the specification does not know, and for
    versions that no image has.
    """
    base = working_directory or os.getcwd()
    defines: list[tuple[str, str]] = []
    folders: list[str] = []
    flags: list[str] = []
    standard = ""
    no_warnings = warnings_are_errors = False
    words = iter(split_options(options, quotes) if isinstance(options, str) else options)
    for word in words:
        if word[:2] in ("-D", "-I"):
            given = word[2:] or next(words, None)
            value = (given or "").strip()
            if word[1] == "I" and given is not None:
                folders += [os.path.join(base, value)] if value else []  # -I "": no folder
                continue
            if not value:
                raise _invalid(f"{word} needs a value")
            name, equals, text = value.partition("=")
            if not _LETTER.match(name):
                raise BuildError(f"error: -D {value}: '{name}' is not a macro name\n")
            # As clang's driver: -DX is 1, -DX= is empty, and a new line ends the text.
            defines.append((name, text.partition("\n")[0].strip() if equals else "1"))
        elif word.startswith("-cl-std="):
            asked = word.removeprefix("-cl-std=")
            if asked not in STANDARDS:
                raise _invalid(f"{word}: the versions are {', '.join(STANDARDS)}")
            standard = standard or asked
        elif word in SHARED_FLAGS:
            if word not in flags:
                flags.append(word)
        elif word == "-w":
            no_warnings = True
        elif word == "-Werror":
            warnings_are_errors = True
        elif word not in _IGNORED_FLAGS:
            raise _invalid(f"unknown build option '{word}'")
    if working_directory is not None:
        folders.append(working_directory)
    return BuildOptions(
        tuple(defines),
        tuple(folders),
        standard or default,
        tuple(flags),
        no_warnings,
        warnings_are_errors,
        bool(standard),
    )


def as_lines(defines: Sequence[tuple[str, str]]) -> str:
    """The -D options as text; a later one replaces an earlier one, as on clang's command line."""
    lines = ['#line 1 "<options>"\n']
    for name, value in defines:
        lines.append(f"#undef {_identifier(name)}\n#define {name} {_on_its_line(value)}\n")
    return "".join(lines)


def _on_its_line(value: str) -> str:
    """A macro's value, whose last backslash would take the next line as well: drivers drop a lone one."""
    value = value.rstrip()
    backslashes = len(value) - len(value.rstrip("\\"))
    value = value[:-1] if backslashes % 2 else value
    return f"{value} /**/" if value.endswith(("\\", "??/")) else value


def _identifier(name: str) -> str:
    """What ``#define`` takes for the name: ``F`` of ``F(x)``, and of ``F-G``."""
    found = _IDENTIFIER.match(name)
    return found.group() if found else name
