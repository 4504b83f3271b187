"""Build options: what ``clBuildProgram`` may be given.

Source: OpenCL 3.0 API specification, section "Compiler Options".
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from sdi.errors import BuildError, Status

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(\([^()]*\))?\Z")
STANDARDS = {"CL1.0": 100, "CL1.1": 110, "CL1.2": 120, "CL3.0": 300}

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


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """Parsed build options.

    ``defines``: (name with its parameter list, replacement), in the order given.
    ``include_folders``: absolute, in search order; the application's working directory comes last.
    ``flags``: ``-cl-...`` options that change the meaning or speed of code.
    """

    defines: tuple[tuple[str, str], ...]
    include_folders: tuple[str, ...]
    standard: str
    flags: tuple[str, ...]
    no_warnings: bool
    warnings_are_errors: bool

    @property
    def version(self) -> int:
        """``__OPENCL_C_VERSION__``: 120 for CL1.2."""
        return STANDARDS[self.standard]

    @property
    def member_options(self) -> tuple[str, ...]:
        """What a member's compiler gets: no -D, no -I, no warnings.

        The text no longer asks for its version, and older versions lack words the emitter uses.
        """
        standard = self.standard if self.version > 120 else "CL1.2"
        return (f"-cl-std={standard}", *self.flags, "-w")


def _invalid(what: str) -> BuildError:
    return BuildError(f"error: {what}\n", Status.INVALID_BUILD_OPTIONS)


def _words(options: str) -> list[str]:
    """Split at white space outside quotes; quotes vanish, ``\\"`` and ``\\\\`` are themselves."""
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    at = 0
    while at < len(options):
        char = options[at]
        at += 1
        if char == "\\" and quote != "'" and at < len(options) and options[at] in '"\\ ':
            word = [*(word or []), options[at]]
            at += 1
        elif quote:
            if char == quote:
                quote = ""
            else:
                assert word is not None
                word.append(char)
        elif char in "\"'":
            quote = char
            word = word or []
        elif char.isspace() or char == "\0":
            if word is not None:
                words.append("".join(word))
            word = None
        else:
            if word is None:
                word = []
            word.append(char)
    if quote:
        raise _invalid(f"a {quote} in the build options is never closed")
    if word is not None:
        words.append("".join(word))
    return words


def parse_options(options: str, working_directory: str | None) -> BuildOptions:
    """Parse ``options``; relative folders are meant from ``working_directory``.

    Raises BuildError with INVALID_BUILD_OPTIONS for what the specification does not know, and for
    ``-cl-std=CL2.0`` and other versions that the image doesn't have.
    """
    base = working_directory or os.getcwd()
    defines: list[tuple[str, str]] = []
    folders: list[str] = []
    flags: list[str] = []
    standard = "CL1.2"
    no_warnings = warnings_are_errors = False
    words = iter(_words(options))
    for word in words:
        if word[:2] in ("-D", "-I") and not word.startswith("--"):
            value = word[2:].strip() or next(words, "")
            if not value:
                raise _invalid(f"{word} needs a value")
            if word[1] == "I":
                folders.append(os.path.join(base, value))
                continue
            name, equals, text = value.partition("=")
            if not _NAME.match(name):
                raise _invalid(f"-D {value}: '{name}' is not a macro name")
            # As clang's driver: -DX is 1, -DX= is empty, and a new line ends the text.
            defines.append((name, text.partition("\n")[0] if equals else "1"))
        elif word.startswith("-cl-std="):
            standard = word.removeprefix("-cl-std=")
            if standard not in STANDARDS:
                raise _invalid(f"{word}: the versions are {', '.join(STANDARDS)}")
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
        tuple(defines), tuple(folders), standard, tuple(flags), no_warnings, warnings_are_errors
    )
