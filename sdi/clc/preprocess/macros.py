"""Macro expansion of C99, as the members' text needs it.

Source: ISO C99, section 6.10.3; the algorithm with hide sets is Dave Prosser's for X3J11.
A token is its text and the macros it may no longer expand.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sdi.clc.frontend.names import LETTER_OR_DIGIT, NAME
from sdi.dataclass import dataclass, field

LEXER = re.compile(
    r'L?"(?:\\.|[^"\\\n])*"'
    r"|L?'(?:\\.|[^'\\\n])*'"
    rf"|{NAME}"
    rf"|\.?[0-9](?:[eEpP][+-]|{LETTER_OR_DIGIT}|\.)*"
    r"|\n|[ \t\f\v\r]+"
    r"|\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|%:%:|[<%]:|[:%]>|<%"
    r"|[\s\S]"
)
IDENTIFIER = re.compile(NAME)
_NOTHING: frozenset[str] = frozenset()
_MAX_STEPS = 2_000_000
_VA_OPT = "__VA_OPT__"
_DIGRAPHS = {"%:": "#", "%:%:": "##"}


class Token(NamedTuple):
    """A preprocessing token; white space is a token too.

    ``line``: where it is, when that is another line than the one that is read: in a call of several lines.
    """

    text: str
    hidden: frozenset[str] = _NOTHING
    line: int = 0


SPACE = Token(" ")
# Around expansions, so that tokens don't run together; "#" does not see it.
PADDING = Token(" ", frozenset({" "}))
NEWLINE = Token("\n")


class Origin(enum.Enum):
    """Who defined a macro, which says what becomes of its name.

    USER: the program.  DRIVER: the members' compilers; replaced as they would.  KEPT: they as well, and the
    name stays: only ``#``, ``##`` and conditions see its text.  PLACE: known where it is read (``__LINE__``).
    TEST: an operator such as ``__has_builtin``, for the members' compilers to answer.
    """

    USER = "user"
    DRIVER = "driver"
    KEPT = "kept"
    PLACE = "place"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Macro:
    """A definition.  ``parameters``: None for an object-like macro; ``variadic`` names the rest, or ''."""

    name: str
    parameters: tuple[str, ...] | None
    variadic: str
    body: tuple[str, ...]
    origin: Origin = Origin.USER


class MacroError(Exception):
    """A directive or an expansion that is not C99; clang has normally reported it before."""


def tokens_of(text: str) -> list[Token]:
    """Split into tokens; joining their texts gives ``text`` back."""
    return [Token(each) for each in LEXER.findall(text)]


def _is_space(text: str) -> bool:
    return text.isspace()


def parse_definition(text: str, origin: Origin = Origin.USER) -> Macro:
    """Parse what follows ``#define``: a name, perhaps parameters, and the replacement."""
    match = IDENTIFIER.match(text)
    if match is None or match.group() == "defined":
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
    body = body_of(rest)
    if parameters is not None:
        taken = {*parameters, variadic, _VA_OPT} - {""}
        followed = [each for each in body if each != " "]
        for each, following in itertools.zip_longest(followed, followed[1:]):
            if each == "#" and following not in taken:
                raise MacroError(f"#define {name}: '#' is not followed by a parameter")
    if "##" in (body[:1] + body[-1:]):
        raise MacroError(f"#define {name}: '##' at an end")
    return Macro(name, parameters, variadic, body, origin)


def body_of(text: str) -> tuple[str, ...]:
    """The tokens of a replacement; white space between them is one blank."""
    body: list[str] = []
    for each in LEXER.findall(text.strip()):
        if not _is_space(each):
            body.append(_DIGRAPHS.get(each, each))
        elif body and body[-1] != " ":
            body.append(" ")
    return tuple(body)


def _leading(tokens: list[Token]) -> list[Token]:
    """The white space that they begin with, if they are more than that."""
    return [SPACE] if tokens and _is_space(tokens[0].text) and _strip(tokens) else []


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
        elif token.text[-1] in "\"'" and len(token.text) > 1:
            parts.append(token.text.replace("\\", "\\\\").replace('"', '\\"'))
        else:
            parts.append(token.text)
    text = "".join(parts).removesuffix(" ")
    if (len(text) - len(text.rstrip("\\"))) % 2:  # it would escape the closing quote
        text = text[:-1]
    return Token(f'"{text}"')


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


def _closing(body: Sequence[str], at: int) -> int:
    """Where the parenthesis that opens at ``at`` closes, or the end."""
    depth = 0
    for index in range(at, len(body)):
        depth += (body[index] == "(") - (body[index] == ")")
        if depth == 0:
            return index
    raise MacroError(f"{_VA_OPT} is never closed")


def _with_options(body: tuple[str, ...], is_given: Callable[[], bool]) -> tuple[str, ...]:
    """The body with ``__VA_OPT__(...)`` there or gone; an empty token stays in its place for ``##``."""
    at = body.index(_VA_OPT)
    opening = at + 1 + (body[at + 1 : at + 2] == (" ",))
    if body[opening : opening + 1] != ("(",):
        raise MacroError(f"{_VA_OPT} without an operand")
    closing = _closing(body, opening)
    inside = body[opening + 1 : closing]
    if inside and not is_given():  # in clang blanks that are left out with their tokens are seen
        inside = ("", " ") if " " in inside else ()
    found = (*body[:at], *(inside or ("",)), *body[closing + 1 :])
    return _with_options(found, is_given) if _VA_OPT in found else found


class _Open(Exception):
    """A call whose parentheses do not close in the text at hand."""


@dataclass(slots=True)
class _Call:
    """``lines``: newlines within it; ``line``: where it ends, 0 for the line that is read."""

    arguments: dict[str, list[Token]]
    is_elided: bool
    hidden: frozenset[str]
    lines: int
    line: int


@dataclass(slots=True)
class Expander:
    """The macros in force, and expansion with them.

    ``line``: answers where reading is.  ``place``: the text of a macro of origin PLACE, by name and line.
    ``test``: an operator's answer, given what is between its parentheses.  ``meet``: is called with names
    that ``##`` made, before they are looked up.
    Owned by: one preprocessor run.
    """

    line: Callable[[], int]
    place: Callable[[str, int], str]
    test: Callable[[str, str], str]
    meet: Callable[[str], None]
    on_newline: Callable[[], None]
    macros: dict[str, Macro] = field(default_factory=dict)
    steps: int = 0

    def changes(self, names: set[str]) -> bool:
        """Whether any of these identifiers means something else than itself."""
        return any(self.macros[name].origin is not Origin.KEPT for name in names & self.macros.keys())

    def expand(self, tokens: list[Token], in_condition: bool = False) -> list[Token]:
        """All macros expanded.

        ``in_condition``: the operand of ``defined`` stays as it is, also when a macro expands to
        ``defined X`` (as in clang), and kept names are replaced by the driver's text.
        """
        return self._run(tokens[::-1], False, in_condition)

    def expand_text(self, tokens: list[Token]) -> tuple[list[Token], list[Token]]:
        """Text with its newlines, expanded, and the part of it from a call on that is still open."""
        stack = tokens[::-1]
        out = self._run(stack, True, False)
        return out, stack[::-1]

    def _run(self, stack: list[Token], top: bool, in_condition: bool) -> list[Token]:
        """``stack``: what to expand, last token first; what is left of it is an open call."""
        out: list[Token] = []
        macros = self.macros
        while stack:
            token = stack.pop()
            text = token.text
            if text == "\n" and top:
                self.on_newline()
            macro = macros.get(text)
            if macro is None or text in token.hidden:
                out.append(token)
                if in_condition and text == "defined":
                    _move_operand(stack, out)
                continue
            self.steps += 1
            if self.steps > _MAX_STEPS:
                raise MacroError(f"expansion of {text} does not end")
            try:
                self._replace(macro, token, stack, out, top, in_condition)
            except _Open:
                stack.append(token)
                return out
        return out

    def _replace(
        self,
        macro: Macro,
        token: Token,
        stack: list[Token],
        out: list[Token],
        top: bool,
        in_condition: bool,
    ) -> None:
        """Put what ``token`` stands for on ``stack``, or where nothing is left to do to ``out``."""
        match macro.origin:
            case Origin.PLACE:
                out.append(Token(self.place(macro.name, token.line or self.line())))
                return
            case Origin.KEPT if not in_condition:
                out.append(Token(token.text, token.hidden | {token.text}))
                return
            case Origin.TEST:
                self._ask(macro, token, stack, out)
                return
        hidden, line, lines = token.hidden, token.line, 0
        arguments: dict[str, list[Token]] = {}
        is_elided = False
        if macro.parameters is not None:
            call = self._call(macro, stack, top)
            if call is None:
                out.append(token)
                return
            arguments, is_elided, lines, line = call.arguments, call.is_elided, call.lines, call.line
            hidden = hidden & call.hidden
        body = self._substitute(macro, arguments, is_elided, hidden | {macro.name}, line)
        stack.extend([NEWLINE] * lines)
        stack.append(PADDING)
        stack.extend(reversed(body))
        stack.append(PADDING)

    def _ask(self, macro: Macro, token: Token, stack: list[Token], out: list[Token]) -> None:
        """An operator with its operand, which is not expanded."""
        at = len(stack) - 1
        while at >= 0 and _is_space(stack[at].text):
            at -= 1
        depth, operand, start = 0, list[str](), at
        while at >= 0:
            text = stack[at].text
            depth += (text == "(") - (text == ")")
            if depth == 0:
                break
            if at != start:
                operand.append(" " if _is_space(text) else text)
            at -= 1
        else:
            raise MacroError(f"{macro.name} without an operand")
        if at == start:
            raise MacroError(f"{macro.name} without an operand")
        del stack[at:]
        given = "".join(operand).strip()
        if macro.name.startswith("__has_include") and given[:1] not in ("<", '"'):
            given = "".join(each.text for each in self.expand(tokens_of(given))).strip()
        out.append(Token(self.test(macro.name, given)))

    def _call(self, macro: Macro, stack: list[Token], top: bool) -> _Call | None:
        """Take a call's arguments from ``stack``; None, and nothing taken, when this is no call."""
        at = len(stack) - 1
        while at >= 0 and _is_space(stack[at].text):
            at -= 1
        if at < 0 or stack[at].text != "(":
            return None
        lines = sum(token.text == "\n" for token in stack[at + 1 :])
        first, depth = self.line(), 0
        found: list[list[Token]] = []
        current: list[Token] = []
        count = len(macro.parameters or ())
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
            elif text == "," and depth == 1 and not (macro.variadic and len(found) == count):
                found.append(current)
                current = []
                continue
            if text == "\n":
                lines += 1
                token = SPACE
            elif lines and not token.line:
                token = Token(text, token.hidden, first + lines)
            current.append(token)
        else:
            if top:
                raise _Open
            raise MacroError(f"the call of {macro.name} is never closed")
        closing = stack[at + 1]
        del stack[at + 1 :]
        line = closing.line or (first + lines if lines else 0)
        arguments, is_elided = self._named(macro, found)
        return _Call(arguments, is_elided, closing.hidden, lines if top else 0, line)

    def _named(self, macro: Macro, found: list[list[Token]]) -> tuple[dict[str, list[Token]], bool]:
        """The arguments by name, and whether those that ``...`` stands for are left out."""
        names = list(macro.parameters or ())
        is_elided = False
        if macro.variadic:
            names.append(macro.variadic)
            if len(found) == len(names) - 1:
                is_elided = True
                found.append([])
        if not names and len(found) == 1 and not _strip(found[0]):
            found = []
        if len(found) != len(names):
            raise MacroError(f"macro {macro.name} takes {len(names)} arguments, not {len(found)}")
        return dict(zip(names, found, strict=True)), is_elided

    def _substitute(
        self,
        macro: Macro,
        given: dict[str, list[Token]],
        is_elided: bool,
        hidden: frozenset[str],
        line: int,
    ) -> list[Token]:
        """The replacement list with arguments in place, ``#`` and ``##`` done, and ``hidden`` added."""
        body = macro.body
        arguments = {name: _strip(tokens) for name, tokens in given.items()}
        expanded: dict[str, list[Token]] = {}
        if macro.variadic and _VA_OPT in body:

            def is_given() -> bool:
                if macro.variadic not in expanded:
                    expanded[macro.variadic] = self.expand(list(arguments[macro.variadic]))
                return bool(_strip(expanded[macro.variadic]))

            body = _with_options(body, is_given)
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
            if text == "##" and out:
                paste = True
                continue
            follow = at + 1 if at < len(body) and body[at] == " " else at
            next_text = body[follow] if follow < len(body) else ""
            if text == "#" and macro.parameters is not None and next_text in arguments:
                piece = [_string_of(self._as_driver(arguments[next_text]))]
                at = follow + 1
            elif text in arguments:
                if paste and text == macro.variadic and out and out[-1].text == ",":
                    # GNU: ", ## __VA_ARGS__" drops the comma where nothing was given; not so in C99 where the
                    # macro takes nothing else.  Otherwise nothing is pasted, and nothing expanded before.
                    paste = False
                    if is_elided and macro.parameters:
                        out.pop()
                        while out and _is_space(out[-1].text):
                            out.pop()
                    piece = [*_leading(given[text]), *self._unexpanded(arguments[text], line)]
                elif paste or next_text == "##":
                    piece = self._unexpanded(arguments[text], line) or [Token("")]
                else:
                    if text not in expanded:
                        expanded[text] = self.expand(list(arguments[text]))
                    piece = [PADDING, *_strip(expanded[text]), PADDING]
            else:
                piece = [Token(text, _NOTHING, line)]
            if paste:
                paste = False
                out.append(self._pasted(out.pop(), piece[0]))
                out.extend(piece[1:])
            else:
                out.extend(piece)
        found = [Token(token.text, token.hidden | hidden, token.line) for token in out if token.text]
        start = next((at for at, token in enumerate(found) if not _is_space(token.text)), 0)
        return found[start:]

    def _pasted(self, left: Token, right: Token) -> Token:
        text = left.text + right.text
        if not (left.text and right.text):
            return Token(text, left.hidden or right.hidden, left.line or right.line)
        if LEXER.match(text).end() != len(text):  # type: ignore[union-attr]
            raise MacroError(f"'{left.text}' and '{right.text}' make no token")
        if IDENTIFIER.fullmatch(text):
            self.meet(text)
        return Token(text, left.hidden & right.hidden, left.line)

    def _unexpanded(self, argument: list[Token], line: int) -> list[Token]:
        """An argument as it was given; what it expands to later is where the call is."""
        return [Token(each.text, each.hidden, line) for each in self._as_driver(argument)]

    def _as_driver(self, tokens: list[Token]) -> list[Token]:
        """Kept names that were looked at already as the driver replaces them."""
        macros, found = self.macros, list[Token]()
        for token in tokens:
            macro = macros.get(token.text) if token.text in token.hidden else None
            if macro is not None and macro.origin is Origin.KEPT:
                found += [Token(each, token.hidden, token.line) for each in macro.body]
            else:
                found.append(token)
        return found
