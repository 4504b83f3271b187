"""One self-contained text from a program with macros and includes.

clang has accepted the program before this runs, so directives are well-formed.  Lines stay where
they were: a directive becomes an empty line, an expansion stays on the line of its call, and
``#line`` marks the ends of included files, so that any compiler of the result still names the
user's lines.  Text without macros passes through byte for byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sdi.clc.conditions import evaluate
from sdi.clc.files_seen import FilesSeen, digest_of
from sdi.clc.macros import DYNAMIC, IDENTIFIER, Expander, MacroError, tokens_of

_MAX_INCLUDE_DEPTH = 200
_SPLICE = re.compile(r"\\[ \t]*\n")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|//[^\n]*" r"|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t\f\v]*#[ \t\f\v]*([A-Za-z_]\w*|)")
_DEFINED = re.compile(r"\bdefined\s*(\(\s*)?([A-Za-z_$\x80-\U0010ffff][\w$\x80-\U0010ffff]*)(?(1)\s*\))")
_HAS_FEATURE = re.compile(r"\b__has_\w+\s*\([^()]*\)")
_FILE_TEST = "__has_include"
_DEFERRED = "\x01"  # a newline that a splice or a comment took out of the line


def _clean(text: str) -> str:
    """Comments and splices gone; the newlines they held are marked, to be put back where they belong."""

    def comment(match: re.Match[str]) -> str:
        found = match.group()
        return " " + _DEFERRED * (found.count("\n") + found.count(_DEFERRED)) if found[0] == "/" else found

    if "\\" in text:
        lines: list[str] = []
        for line in _SPLICE.sub("\x02", text).split("\n"):
            count = line.count("\x02")
            lines.append(line.replace("\x02", "") + _DEFERRED * count if count else line)
        text = "\n".join(lines)
    return _COMMENT.sub(comment, text) if "/" in text else text


@dataclass(slots=True)
class _Branch:
    """One open ``#if``: is this part active, was one active before, was the whole active outside."""

    active: bool
    taken: bool
    outside: bool


@dataclass(slots=True)
class _Run:
    """One preprocessing; owned by its caller's thread."""

    include_folders: tuple[str, ...]
    expander: Expander
    file: str
    seen: FilesSeen
    line: int = 1
    out: list[str] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    depth: int = 0

    def place(self) -> tuple[str, int]:
        return (self.file, self.line)

    def newline(self) -> None:
        self.line += 1

    def read(self, text: str, path: str) -> None:
        """Process one file; ``path``: where it lies, for ``#include "..."``; '' has no folder."""
        branches: list[_Branch] = []
        pending: list[str] = []
        if _FILE_TEST in text:  # clang may have looked for files that are not looked for here
            self.seen.is_complete = False
        for line in _clean(text).split("\n"):
            match = _DIRECTIVE.match(line)
            if match is None:
                if not branches or branches[-1].active:
                    pending.append(line.replace(_DEFERRED, "\n") + "\n")
                else:
                    pending.append("\n" * (1 + line.count(_DEFERRED)))
                continue
            name = match.group(1)
            rest = line[match.end() :].replace(_DEFERRED, " ").strip()
            newlines = 1 + line.count(_DEFERRED)
            if name in ("if", "ifdef", "ifndef", "elif", "else", "endif", "elifdef", "elifndef"):
                self.flush(pending)
                self.condition(name, rest, branches)
                pending.append("\n" * newlines)
            elif branches and not branches[-1].active:
                pending.append("\n" * newlines)
            else:
                self.flush(pending)
                self.directive(name, rest, path, newlines)
        self.flush(pending)

    def flush(self, pending: list[str]) -> None:
        """Expand and put out the text gathered so far."""
        if not pending:
            return
        text = "".join(pending)
        pending.clear()
        if not self.expander.changes(set(IDENTIFIER.findall(text))):
            self.out.append(text)
            self.line += text.count("\n")
            return
        expanded = self.expander.expand(tokens_of(text), top=True)
        self.out.append("".join(token.text for token in expanded))

    def condition(self, name: str, rest: str, branches: list[_Branch]) -> None:
        if name in ("if", "ifdef", "ifndef"):
            outside = not branches or branches[-1].active
            value = outside and self.holds(name, rest)
            branches.append(_Branch(value, value, outside))
            return
        if not branches:
            raise MacroError(f"#{name} without #if")
        branch = branches[-1]
        if name == "endif":
            branches.pop()
        elif name == "else":
            branch.active = branch.outside and not branch.taken
            branch.taken = True
        else:
            branch.active = branch.outside and not branch.taken and self.holds(name.removeprefix("el"), rest)
            branch.taken = branch.taken or branch.active

    def holds(self, name: str, rest: str) -> bool:
        if name != "if":
            match = IDENTIFIER.match(rest)
            known = match is not None and self.is_defined(match.group())
            return known == (name == "ifdef")
        tokens = tokens_of(_HAS_FEATURE.sub("0", rest))
        expression = "".join(token.text for token in self.expander.expand(tokens, in_condition=True))
        expression = _DEFINED.sub(lambda m: str(int(self.is_defined(m.group(2)))), expression)
        return evaluate(expression) != 0

    def is_defined(self, name: str) -> bool:
        return name in self.expander.macros or name in DYNAMIC

    def directive(self, name: str, rest: str, path: str, newlines: int) -> None:
        kept = ""
        if name == "define":
            self.expander.define(rest)
        elif name == "undef":
            self.expander.macros.pop(rest.split()[0] if rest else "", None)
        elif name in ("include", "import", "include_next"):
            self.include(rest, path, newlines)
            return
        elif name == "pragma":
            kept = self.pragma(rest, path)
        elif name == "line" or (name == "" and rest[:1].isdigit()):
            self.set_line(rest, newlines)
            return
        elif name == "error":
            raise MacroError(f"#error {rest}")
        self.out.append(kept + "\n" * newlines)
        self.line += newlines

    def pragma(self, rest: str, path: str) -> str:
        match = IDENTIFIER.match(rest)
        word = match.group() if match is not None else ""
        if word == "once":
            self.once.add(os.path.abspath(path))
            return ""
        if word in ("unroll", "nounroll", "clang", "GCC"):
            rest = "".join(token.text for token in self.expander.expand(tokens_of(rest)))
        return f"#pragma {' '.join(rest.split())}"

    def set_line(self, rest: str, newlines: int) -> None:
        expanded = "".join(token.text for token in self.expander.expand(tokens_of(rest))).split(None, 1)
        if len(expanded) > 1 and expanded[1].startswith('"'):
            self.file = expanded[1].strip().rpartition('"')[0][1:]
        self.line = int(expanded[0])
        self.mark()

    def mark(self) -> None:
        """A ``#line`` that tells where the next line comes from."""
        name = self.file.replace("\\", "\\\\").replace('"', '\\"')
        self.out.append(f'#line {self.line} "{name}"\n')

    def include(self, rest: str, path: str, newlines: int) -> None:
        if rest[:1] not in '"<':
            rest = "".join(token.text for token in self.expander.expand(tokens_of(rest))).strip()
        closing = rest.find(">" if rest[:1] == "<" else '"', 1)
        if closing < 0:
            raise MacroError(f"#include {rest}: no file name")
        found = self.search(rest[1:closing], path, quoted=rest[0] == '"')
        saved = (self.file, self.line + newlines)
        if os.path.abspath(found) not in self.once:
            if self.depth >= _MAX_INCLUDE_DEPTH:
                raise MacroError(f"#include {rest}: nested too deeply")
            with open(found, encoding="utf-8", errors="surrogateescape", newline=None) as file:
                text = file.read().removeprefix("\ufeff")
            self.depth += 1
            self.file, self.line = found, 1
            self.mark()
            self.read(text.removesuffix("\n"), found)
            self.depth -= 1
        self.file, self.line = saved
        self.mark()

    def search(self, name: str, path: str, quoted: bool) -> str:
        folders = list(self.include_folders)
        if quoted and path:
            folders.insert(0, os.path.dirname(path))
        for folder in folders:
            candidate = os.path.join(folder, name)
            is_there = os.path.isfile(candidate)
            self.seen.digests[candidate] = digest_of(candidate)
            if is_there:
                return candidate
        raise MacroError(f"'{name}' file not found")


def preprocess(
    text: str,
    file: str,
    include_folders: tuple[str, ...],
    macros: Mapping[str, str],
    kept: frozenset[str],
    seen: FilesSeen | None = None,
) -> str:
    """The text with directives obeyed and macros expanded.

    ``text``: begins with ``#line 1 "..."`` or lines of its own; ``file``: its name until then.
    ``macros``: predefined, by name with parameter list.  ``kept``: names that ``#ifdef`` finds defined
    and that stay as they are.  ``seen``: gets the files that were included or looked for.
    Raises MacroError; about 1 s per MB of text with macros.
    """
    expander = Expander(place=lambda: ("", 0))
    run = _Run(include_folders, expander, file, seen if seen is not None else FilesSeen())
    expander.place, expander.on_newline = run.place, run.newline
    for name in kept:
        expander.define(f"{name} {name}")
    for name, value in macros.items():
        expander.define(f"{name} {value}")
    run.read(text.removesuffix("\n"), "")
    return "".join(run.out)
