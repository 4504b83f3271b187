"""One self-contained text from a program with macros and includes.

clang has accepted the program before this runs, so directives are well-formed.  Lines stay where
they were: a directive becomes an empty line, an expansion stays on the line of its call, and
``#line`` marks the ends of included files, so that any compiler of the result still names the
user's lines.  Text without macros passes through byte for byte.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping
from typing import Protocol

from sdi.clc.frontend.names import LETTER
from sdi.clc.preprocess.conditions import evaluate
from sdi.clc.preprocess.files_seen import FilesSeen, digest_of
from sdi.clc.preprocess.macros import (
    IDENTIFIER,
    Expander,
    Macro,
    MacroError,
    Origin,
    Token,
    parse_definition,
    tokens_of,
)
from sdi.dataclass import dataclass, field

_MAX_INCLUDE_DEPTH = 200
_SPLICE = re.compile(r"\\[ \t]*\n")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"' r"|'(?:\\.|[^'\\\n])*'" r"|//[^\n]*" r"|/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"[ \t\f\v]*(?:#|%:)[ \t\f\v]*([A-Za-z_]\w*|)")
_DEFINED = re.compile(rf"\bdefined\s*(\(\s*)?({LETTER}[\w$]*)(?(1)\s*\))")
_TEST = re.compile(r"\b(__(?:has|is)_\w+)\s*\(\s*([^()]*?)\s*\)")
_TRIGRAPH = re.compile(r"\?\?([=/'()!<>-])")
_TRIGRAPHS = dict(zip("=/'()!<>-", "#\\^[]|{}~", strict=True))
_STRING = re.compile(r'L?"((?:\\.|[^"\\])*)"\Z')
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_CONDITIONS = frozenset({"if", "ifdef", "ifndef", "elif", "else", "endif", "elifdef", "elifndef"})
_NOT_IN_CALLS = frozenset({"include", "import", "include_next", "pragma", "line", ""})
_DEFERRED = "\x01"  # a newline that a splice or a comment took out of the line


class Predefined(Protocol):
    """What is defined before the first line: asked when names are met, so that only those count."""

    @property
    def width(self) -> int:
        """Bits of the integers of conditions."""

    def look_up(self, names: Collection[str], in_directives: Collection[str]) -> Mapping[str, Macro]:
        """Those of ``names``, all that a text mentions, that are macros.

        ``in_directives``: names in its directives, and tests there, such as ``__has_builtin(name)``.
        """

    def test(self, operator: str, operand: str) -> str:
        """The value of ``__has_builtin(operand)`` and others, but for files."""


def _clean(text: str) -> str:
    """Comments and splices gone; the newlines they held are marked, to be put back where they belong."""

    def comment(match: re.Match[str]) -> str:
        found = match.group()
        return " " + _DEFERRED * (found.count("\n") + found.count(_DEFERRED)) if found[0] == "/" else found

    if "??" in text:
        text = _TRIGRAPH.sub(lambda match: _TRIGRAPHS[match[1]], text)
    if "\\" in text:
        lines: list[str] = []
        for line in _SPLICE.sub("\x02", text).split("\n"):
            lines.append(_joined(line) if "\x02" in line else line)
        text = "\n".join(lines)
    return _COMMENT.sub(comment, text) if "/" in text else text


def _joined(line: str) -> str:
    """A line of several: splices between tokens stay where they are, others go to its end.

    As in clang, a splice belongs to what follows, which matters where that ends a call: its line is before.
    """
    first, *parts = line.split("\x02")
    later = 0
    for part in parts:
        is_within = first[-1:].strip() or first.count('"') % 2 or first.count("'") % 2
        if is_within or part.startswith(")"):
            later += 1
        else:
            first += _DEFERRED
        first += part
    return first + _DEFERRED * later


@dataclass(slots=True)
class _Branch:
    """One open ``#if``: is this part active, was one active before, was the whole active outside."""

    active: bool
    taken: bool
    outside: bool


@dataclass(slots=True)
class _Preprocessing:
    """One preprocessing; owned by its caller's thread.

    ``found_in``: which of the folders the file that is read was found in, -1 for none of them.  ``met``:
    names that were looked up.  ``undone``: where in ``out`` the program took a name of the drivers' for
    itself.  ``pending``: a call that is still open.
    """

    include_folders: tuple[str, ...]
    predefined: Predefined
    file: str
    seen: FilesSeen
    line: int = 1
    out: list[str] = field(default_factory=list)
    once: set[str] = field(default_factory=set)
    depth: int = 0
    path: str = ""
    found_in: int = -1
    counter: int = 0
    met: set[str] = field(default_factory=set)
    undone: list[tuple[int, str]] = field(default_factory=list)
    pending: list[Token] = field(default_factory=list)
    started: time.struct_time = field(default_factory=time.localtime)
    expander: Expander = field(init=False)

    def __post_init__(self) -> None:
        self.expander = Expander(
            lambda: self.line, self.place, self.test, lambda name: self.meet({name}, ()), self.newline
        )

    def newline(self) -> None:
        self.line += 1

    def place(self, name: str, line: int) -> str:
        """The text of ``__LINE__`` and its like."""
        now = self.started
        match name:
            case "__LINE__":
                return str(line)
            case "__COUNTER__":
                self.counter += 1
                return str(self.counter - 1)
            case "__INCLUDE_LEVEL__":
                return str(self.depth)
            case "__FILE__" | "__BASE_FILE__":
                return _quoted(self.file)
            case "__FILE_NAME__":
                return _quoted(os.path.basename(self.file))
        self.seen.is_complete = False  # another time it is another text
        day = f"{_MONTHS[now.tm_mon - 1]} {now.tm_mday:2d}"
        clock = f"{now.tm_hour:02d}:{now.tm_min:02d}:{now.tm_sec:02d}"
        match name:
            case "__DATE__":
                return f'"{day} {now.tm_year}"'
            case "__TIME__":
                return f'"{clock}"'
            case _:
                return f'"{_DAYS[now.tm_wday]} {day} {clock} {now.tm_year}"'

    def test(self, operator: str, operand: str) -> str:
        if operator in ("__has_include", "__has_include_next"):
            name = _file_named(operand)
            return str(int(self.search(name, operand[0] == '"', operator.endswith("next")) is not None))
        return self.predefined.test(operator, operand)

    def meet(self, names: set[str], in_directives: Collection[str]) -> None:
        """Look up what is met for the first time; what the program defined since then stays."""
        new = names - self.met
        self.met |= new
        if new:
            self.expander.macros.update(self.predefined.look_up(new, in_directives))

    def read(self, text: str) -> None:
        """Process one file."""
        lines = _clean(text).split("\n")
        directives = "\n".join(line for line in lines if _DIRECTIVE.match(line))
        asked = set(IDENTIFIER.findall(directives))
        asked |= {f"{operator}({operand})" for operator, operand in _TEST.findall(directives)}
        self.meet(set(IDENTIFIER.findall(text.replace("\\\n", ""))), asked)
        branches: list[_Branch] = []
        waiting: list[str] = []
        for line in lines:
            match = _DIRECTIVE.match(line)
            if match is None:
                if not branches or branches[-1].active:
                    waiting.append(line.replace(_DEFERRED, "\n") + "\n")
                else:
                    waiting.append("\n" * (1 + line.count(_DEFERRED)))
                continue
            name = match.group(1)
            rest = line[match.end() :].replace(_DEFERRED, " ").strip()
            newlines = 1 + line.count(_DEFERRED)
            if name in _CONDITIONS:
                self.flush(waiting)
                self.condition(name, rest, branches)
                waiting.append("\n" * newlines)
            elif branches and not branches[-1].active:
                waiting.append("\n" * newlines)
            else:
                self.flush(waiting)
                self.directive(name, rest, newlines)
        self.flush(waiting)
        if branches:
            raise MacroError("#if without #endif")
        if self.pending:
            raise MacroError(f"the call of {self.pending[0].text} is never closed")

    def flush(self, waiting: list[str]) -> None:
        """Expand and put out the text gathered so far, but for a call that goes on after a directive."""
        if not waiting:
            return
        text = "".join(waiting)
        waiting.clear()
        names = set(IDENTIFIER.findall(text))
        if not self.pending and not self.expander.changes(names) and "_Pragma" not in names:
            self.out.append(text)
            self.line += text.count("\n")
            return
        line = self.line
        expanded, self.pending = self.expander.expand_text([*self.pending, *tokens_of(text)])
        self.put(expanded, line)

    def put(self, tokens: list[Token], line: int = 0) -> None:
        """``line``: of the first token."""
        if all(token.text != "_Pragma" for token in tokens):
            self.out.append("".join(token.text for token in tokens))
            return
        given = iter(tokens)
        for token in given:
            line += token.text == "\n"
            if token.text != "_Pragma":
                self.out.append(token.text)
                continue
            operand = [each.text for each in (next(given, token), next(given, token), next(given, token))]
            string = _STRING.match(operand[1])
            if operand[0] != "(" or operand[2] != ")" or string is None:
                raise MacroError("_Pragma takes a string")
            words = string[1].replace('\\"', '"').replace("\\\\", "\\")
            self.out.append(f"\n#pragma {words}\n#line {line} {_quoted(self.file)}\n")

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
            if match is None:
                raise MacroError(f"#{name} without a name")
            return (match.group() in self.expander.macros) == (name == "ifdef")
        open_lines = sum(token.text == "\n" for token in self.pending)
        self.line += open_lines
        tokens = self.expander.expand(tokens_of(rest), in_condition=True)
        self.line -= open_lines
        expression = "".join(token.text for token in tokens)
        expression = _DEFINED.sub(lambda m: str(int(m.group(2) in self.expander.macros)), expression)
        return evaluate(expression, self.predefined.width) != 0

    def directive(self, name: str, rest: str, newlines: int) -> None:
        if self.pending and name in _NOT_IN_CALLS:
            raise MacroError(f"#{name} within the arguments of a macro")
        kept = ""
        if name == "define":
            macro = parse_definition(rest)
            self.undo(macro.name)
            self.expander.macros[macro.name] = macro
        elif name == "undef":
            match = IDENTIFIER.match(rest)
            if match is not None:
                self.undo(match.group())
        elif name in ("include", "import", "include_next"):
            self.include(name, rest, newlines)
            return
        elif name == "pragma":
            kept = self.pragma(rest)
        elif name == "line" or (name == "" and rest[:1].isdigit()):
            self.set_line(rest, newlines)
            return
        elif name == "error":
            raise MacroError(f"#error {rest}")
        if self.pending:
            self.pending += tokens_of("\n" * newlines)
            return
        self.out.append(kept + "\n" * newlines)
        self.line += newlines

    def undo(self, name: str) -> None:
        """Take a name's definition away; where it was the drivers' own, they have to be told."""
        macro = self.expander.macros.pop(name, None)
        if macro is not None and macro.origin in (Origin.DRIVER, Origin.KEPT) and not self.pending:
            self.undone.append((len(self.out), name))

    def pragma(self, rest: str) -> str:
        match = IDENTIFIER.match(rest)
        word = match.group() if match is not None else ""
        if word == "once":
            self.once.add(os.path.abspath(self.path))
            return ""
        if word in ("unroll", "nounroll", "clang", "GCC"):
            rest = "".join(token.text for token in self.expander.expand(tokens_of(rest)))
        return f"#pragma {' '.join(rest.split())}"

    def set_line(self, rest: str, newlines: int) -> None:
        words = "".join(token.text for token in self.expander.expand(tokens_of(rest))).split(None, 1)
        if not words or not re.fullmatch("[0-9]+", words[0]):
            raise MacroError(f"#line {rest}: no line number")
        if len(words) > 1 and words[1].startswith('"'):
            self.file = words[1].strip().rpartition('"')[0][1:]
        self.line = int(words[0])
        self.mark()

    def mark(self) -> None:
        """A ``#line`` that tells where the next line comes from."""
        self.out.append(f"#line {self.line} {_quoted(self.file)}\n")

    def include(self, directive: str, rest: str, newlines: int) -> None:
        if rest[:1] not in ('"', "<"):
            rest = "".join(token.text for token in self.expander.expand(tokens_of(rest))).strip()
        name = _file_named(rest)
        place = self.search(name, rest[0] == '"', directive == "include_next")
        if place is None:
            raise MacroError(f"'{name}' file not found")
        saved = (self.file, self.line + newlines, self.path, self.found_in)
        self.path, self.found_in = place
        if os.path.abspath(self.path) not in self.once:
            if self.depth >= _MAX_INCLUDE_DEPTH:
                raise MacroError(f"#include {rest}: nested too deeply")
            if directive == "import":
                self.once.add(os.path.abspath(self.path))
            with open(self.path, encoding="utf-8", errors="surrogateescape", newline=None) as file:
                text = file.read().removeprefix("\ufeff")
            self.depth += 1
            self.file, self.line = self.path, 1
            self.mark()
            self.read(text.removesuffix("\n"))
            self.depth -= 1
        self.file, self.line, self.path, self.found_in = saved
        self.mark()

    def search(self, name: str, is_quoted: bool, is_next: bool) -> tuple[str, int] | None:
        """Where a file is, and in which of the folders; None when it is nowhere."""
        folders = list(enumerate(self.include_folders))
        if is_next and self.path:
            folders = folders[self.found_in + 1 :]
        elif is_quoted and self.path:
            folders.insert(0, (-1, os.path.dirname(self.path)))
        for number, folder in folders:
            candidate = os.path.join(folder, name)
            is_there = os.path.isfile(candidate)
            self.seen.digests[candidate] = digest_of(candidate)
            if is_there:
                return candidate, number
        return None

    def text(self) -> str:
        """All that was put out.  Where a name of the drivers' means itself from some line on, it says so."""
        for index, name in self.undone:
            later = "".join(self.out[index + 1 :])
            if name in IDENTIFIER.findall(later):
                self.out[index] = f"#undef {name}{self.out[index]}"
        return "".join(self.out)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _file_named(given: str) -> str:
    closing = given.find(">" if given[:1] == "<" else '"', 1)
    if given[:1] not in ("<", '"') or closing < 0:
        raise MacroError(f"{given}: no file name")
    return given[1:closing]


def preprocess(
    text: str,
    file: str,
    include_folders: tuple[str, ...],
    predefined: Predefined,
    seen: FilesSeen | None = None,
) -> str:
    """The text with directives obeyed and macros expanded.

    ``text``: begins with ``#line 1 "..."`` or lines of its own; ``file``: its name until then.
    ``seen``: gets the files that were included or looked for.
    Raises MacroError; about 1 s per MB of text with macros.
    """
    run = _Preprocessing(include_folders, predefined, file, seen if seen is not None else FilesSeen())
    run.read(text.removesuffix("\n"))
    return run.text()
