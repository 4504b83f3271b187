"""Macro expansion of C99, as the members' text needs it.

Source: ISO C99, section 6.10.3; the algorithm with hide sets is Dave Prosser's for X3J11.
A token is its text and the macros it may no longer expand.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

LEXER = re.compile(
    r"[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*"
    r"|\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'(?:\\.|[^'\\\n])*'"
    r"|\n|[ \t\f\v\r]+"
    r"|\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#"
    r"|[\s\S]"
)
IDENTIFIER = re.compile(r"[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*")
_NOTHING: frozenset[str] = frozenset()
_MAX_STEPS = 2_000_000
DYNAMIC = frozenset({"__LINE__", "__FILE__", "__COUNTER__"})


class Token(NamedTuple):
    """A preprocessing token; white space is a token too."""

    text: str
    hidden: frozenset[str] = _NOTHING


SPACE = Token(" ")
# Around expansions, so that tokens don't run together; "#" does not see it.
PADDING = Token(" ", frozenset({" "}))
NEWLINE = Token("\n")


@dataclass(frozen=True, slots=True)
class Macro:
    """A definition.  ``parameters``: None for an object-like macro; ``variadic`` names the rest, or ''."""

    name: str
    parameters: tuple[str, ...] | None
    variadic: str
    body: tuple[str, ...]

    @property
    def is_itself(self) -> bool:
        """Defined as its own name: known to ``#ifdef``, and never changed."""
        return self.parameters is None and self.body == (self.name,)


class MacroError(Exception):
    """A directive or an expansion that is not C99; clang has normally reported it before."""


def tokens_of(text: str) -> list[Token]:
    """Split into tokens; joining their texts gives ``text`` back."""
    return [Token(each) for each in LEXER.findall(text)]


def _is_space(text: str) -> bool:
    return text.isspace()


def parse_definition(text: str) -> Macro:
    """Parse what follows ``#define``: a name, perhaps parameters, and the replacement."""
    match = IDENTIFIER.match(text)
    if match is None:
        raise MacroError(f"#define {text}: no macro name")
    name, rest = match.group(), text[match.end() :]
    parameters: tuple[str, ...] | None = None
    variadic = ""
    if rest.startswith("("):
        inside, closing, rest = rest[1:].partition(")")
        if not closing:
            raise MacroError(f"#define {name}: the parameter list is never closed")
        names = [each.strip() for each in inside.split(",")] if inside.strip() else []
        if names and names[-1].endswith("..."):
            variadic = names.pop().removesuffix("...").strip() or "__VA_ARGS__"
        parameters = tuple(names)
    body: list[str] = []
    for each in LEXER.findall(rest.strip()):
        if not _is_space(each):
            body.append(each)
        elif body and body[-1] != " ":
            body.append(" ")
    return Macro(name, parameters, variadic, tuple(body))


def _strip(tokens: list[Token]) -> list[Token]:
    start, stop = 0, len(tokens)
    while start < stop and _is_space(tokens[start].text):
        start += 1
    while stop > start and _is_space(tokens[stop - 1].text):
        stop -= 1
    return tokens[start:stop]


def _string_of(tokens: list[Token]) -> Token:
    """The ``#`` operator."""
    parts: list[str] = []
    for token in _strip(tokens):
        if _is_space(token.text):
            if parts and parts[-1] != " " and " " not in token.hidden:
                parts.append(" ")
        elif token.text[0] in "\"'" and len(token.text) > 1:
            parts.append(token.text.replace("\\", "\\\\").replace('"', '\\"'))
        else:
            parts.append(token.text)
    return Token('"' + "".join(parts) + '"')


def _move_operand(stack: list[Token], out: list[Token]) -> None:
    """Move the operand of ``defined``, with its parentheses, without expanding it."""
    wrapped = False
    while stack:
        token = stack.pop()
        out.append(token)
        if token.text == "(":
            wrapped = True
        elif token.text == ")" or (not wrapped and not _is_space(token.text)):
            return


@dataclass(slots=True)
class Expander:
    """The macros in force, and expansion with them.

    ``place``: answers the current (file, line) for ``__FILE__`` and ``__LINE__``.
    Owned by: one preprocessor run.
    """

    place: Callable[[], tuple[str, int]]
    macros: dict[str, Macro] = field(default_factory=dict)
    counter: int = 0
    steps: int = 0
    on_newline: Callable[[], None] | None = None

    def define(self, definition: str) -> None:
        """``definition``: the text after ``#define``."""
        macro = parse_definition(definition)
        self.macros[macro.name] = macro

    def changes(self, names: set[str]) -> bool:
        """Whether any of these identifiers means something else than itself."""
        if not DYNAMIC.isdisjoint(names):
            return True
        return any(not self.macros[name].is_itself for name in names & self.macros.keys())

    def expand(self, tokens: list[Token], top: bool = False, in_condition: bool = False) -> list[Token]:
        """All macros expanded.

        ``top``: newlines passed are reported, so that ``__LINE__`` is right.  ``in_condition``: the
        operand of ``defined`` stays as it is, also when a macro expands to ``defined X`` (as in clang).
        """
        out: list[Token] = []
        stack = tokens[::-1]
        macros = self.macros
        while stack:
            token = stack.pop()
            text = token.text
            if text == "\n" and top and self.on_newline is not None:
                self.on_newline()
            if text in DYNAMIC:
                out.append(self._dynamic(text))
                continue
            if text == "defined" and in_condition:
                out.append(token)
                _move_operand(stack, out)
                continue
            macro = macros.get(text)
            if macro is None or text in token.hidden or macro.is_itself:
                out.append(token)
                continue
            self.steps += 1
            if self.steps > _MAX_STEPS:
                raise MacroError(f"expansion of {text} does not end")
            if macro.parameters is None:
                hidden = token.hidden | {text}
                body = self._substitute(macro, {}, hidden)
                stack.append(PADDING)
                stack.extend(reversed(body))
                stack.append(PADDING)
                continue
            call = self._arguments(macro, stack)
            if call is None:
                out.append(token)
                continue
            arguments, closing, newlines = call
            hidden = (token.hidden & closing.hidden) | {text}
            body = self._substitute(macro, arguments, hidden)
            stack.extend([NEWLINE] * newlines)
            stack.append(PADDING)
            stack.extend(reversed(body))
            stack.append(PADDING)
        return out

    def _dynamic(self, name: str) -> Token:
        if name == "__COUNTER__":
            self.counter += 1
            return Token(str(self.counter - 1))
        file, line = self.place()
        if name == "__LINE__":
            return Token(str(line))
        return Token('"' + file.replace("\\", "\\\\").replace('"', '\\"') + '"')

    def _arguments(
        self, macro: Macro, stack: list[Token]
    ) -> tuple[dict[str, list[Token]], Token, int] | None:
        """Take a call's arguments from ``stack``; None, and nothing taken, when this is no call."""
        at = len(stack) - 1
        while at >= 0 and _is_space(stack[at].text):
            at -= 1
        if at < 0 or stack[at].text != "(":
            return None
        depth, found, current = 0, [], list[Token]()
        start = at
        while at >= 0:
            token = stack[at]
            at -= 1
            text = token.text
            if text == "(":
                depth += 1
                if depth == 1:
                    continue
            elif text == ")":
                depth -= 1
                if depth == 0:
                    found.append(current)
                    break
            elif (
                text == ","
                and depth == 1
                and not (macro.variadic and len(found) == len(macro.parameters or ()))
            ):
                found.append(current)
                current = []
                continue
            current.append(SPACE if text == "\n" else token)
        else:
            return None
        newlines = sum(token.text == "\n" for token in stack[at + 1 :])
        closing = stack[at + 1]
        assert start > at
        del stack[at + 1 :]
        names = list(macro.parameters or ())
        if macro.variadic:
            names.append(macro.variadic)
            if len(found) == len(names) - 1:
                found.append([])
        if not names and len(found) == 1 and not _strip(found[0]):
            found = []
        if len(found) != len(names):
            raise MacroError(f"macro {macro.name} takes {len(names)} arguments, not {len(found)}")
        return {name: _strip(each) for name, each in zip(names, found, strict=True)}, closing, newlines

    def _substitute(
        self, macro: Macro, arguments: dict[str, list[Token]], hidden: frozenset[str]
    ) -> list[Token]:
        """The replacement list with arguments in place, ``#`` and ``##`` done, and ``hidden`` added."""
        body = macro.body
        expanded: dict[str, list[Token]] = {}
        out: list[Token] = []
        at = 0
        paste = False
        while at < len(body):
            text = body[at]
            at += 1
            if text == " ":
                following = body[at] if at < len(body) else ""
                if following != "##" and not paste:
                    out.append(SPACE)
                continue
            if text == "##":
                paste = True
                continue
            if text == "#" and macro.parameters is not None:
                follow = at + 1 if at < len(body) and body[at] == " " else at
                if follow < len(body) and body[follow] in arguments:
                    piece = [_string_of(arguments[body[follow]])]
                    at = follow + 1
                else:
                    piece = [Token(text)]
            elif text in arguments:
                follow = at + 1 if at < len(body) and body[at] == " " else at
                pasted_next = follow < len(body) and body[follow] == "##"
                if paste and text == macro.variadic and out and out[-1].text == ",":
                    # GNU: ", ## __VA_ARGS__" drops the comma when there are no arguments.
                    paste = False
                    if not arguments[text]:
                        out.pop()
                if paste or pasted_next:
                    piece = list(arguments[text])
                else:
                    if text not in expanded:
                        expanded[text] = self.expand(list(arguments[text]))
                    piece = [PADDING, *expanded[text], PADDING]
                if pasted_next and not piece:
                    piece = [Token("")]
            else:
                piece = [Token(text)]
            if paste:
                paste = False
                left = out.pop() if out else Token("")
                right = piece[0] if piece else Token("")
                out.append(Token(left.text + right.text, left.hidden & right.hidden))
                out.extend(piece[1:])
            else:
                out.extend(piece)
        return [Token(token.text, token.hidden | hidden) for token in out if token.text]
