"""A program that asks its compiler which macros it has, and what its ``__has_...`` tests answer.

The compiler writes the answers into a string in constant memory, and the kernel copies them out.  A question
is a name, ``__SIZEOF_INT__``, or a test with its operand, ``__has_builtin(abs)``; an answer is what the name
is replaced by, after all expansion, or None where it is not defined.  What takes arguments is answered by its
name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

KERNEL = "sdi_answer"
ANSWERS = "sdi_answers"
"""The variable that holds the answers."""
ROOM_NBYTES = 1 << 20
"""What the kernel's argument has to hold."""
WIDTH = "__SDI_WIDTH__"
"""Asks for the bits of the integers of ``#if``."""
QUOTED = "SDI_QUOTED"
"""Asks how the option ``QUOTED_OPTION`` was read."""
QUOTED_OPTION = f'-D{QUOTED}=x\\"y\\"z'

Answers = Mapping[str, str | None]


class Dialect(Protocol):
    """A compiler, or several at once, that can be asked.  Equal names give equal answers."""

    @property
    def name(self) -> str: ...

    def answers(self, questions: Collection[str], options: tuple[str, ...]) -> Answers:
        """``options``: as for clBuildProgram, those that macros may depend on.  Blocks."""


_NEXT, _END = "\036", "\004"
_IS_DEFINED = "="
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_TEST = re.compile(r"(__(?:has|is)_\w+|__building_module)\((?:[A-Za-z_]\w*|\"-W[\w=+-]*\")\)\Z")
_OPERATOR = re.compile(r"__(?:has|is)_\w+\Z|__building_module\Z")
PLACES = frozenset(
    {
        "__LINE__",
        "__FILE__",
        "__COUNTER__",
        "__DATE__",
        "__TIME__",
        "__TIMESTAMP__",
        "__INCLUDE_LEVEL__",
        "__BASE_FILE__",
        "__FILE_NAME__",
    }
)
"""Macros whose text depends on where they are read."""


def is_question(text: str) -> bool:
    """Whether a compiler can be asked this."""
    return bool(_NAME.match(text) or _TEST.match(text))


def is_operator(name: str) -> bool:
    """Whether a name is that of a test; such a macro is nothing without an operand."""
    return bool(_OPERATOR.match(name))


@functools.cache
def usual_questions() -> tuple[str, ...]:
    """What is asked at once, so that most programs need no answer that is not there."""
    functions = builtin_functions()
    return (WIDTH, *(name for name in _listed() if name not in functions), *sorted(functions))


@functools.cache
def builtin_functions() -> frozenset[str]:
    """Functions of the language, which a driver may rename by macros."""
    _, _, functions = _text().partition("\n# Built-in functions")
    return frozenset(_words("#" + functions))


@functools.cache
def listed_names() -> frozenset[str]:
    """Names that may be macros without looking as if they were."""
    return frozenset(_listed())


def _listed() -> list[str]:
    return _words(_text())


def _text() -> str:
    return Path(__file__).with_name("predefined_names.txt").read_text(encoding="ascii")


def _words(text: str) -> list[str]:
    return [word for line in text.split("\n") if not line.startswith("#") for word in line.split()]


def probe_text(questions: Iterable[str]) -> str:
    """The program: one string literal made of one piece per question.

    NVIDIA's compiler refuses macros of any number of arguments before OpenCL C 2.0; it then has no answer for
    a macro with a comma in its text.
    """
    pieces = "".join(_piece(question) for question in questions)
    return f"""
#if defined(__NV_CL_C_VERSION) && __OPENCL_C_VERSION__ < 200
#define SDI_SPELLED(text) #text
#define SDI_TEXT(text) SDI_SPELLED(text)
#else
#define SDI_SPELLED(...) #__VA_ARGS__
#define SDI_TEXT(...) SDI_SPELLED(__VA_ARGS__)
#endif
__constant char {ANSWERS}[] =
{pieces}"\\004";
__kernel void {KERNEL}(__global char *out)
{{
    for (uint i = 0; i < sizeof({ANSWERS}) && i < {ROOM_NBYTES}u; i++)
        out[i] = {ANSWERS}[i];
}}
"""


def _piece(question: str) -> str:
    if question == WIDTH:
        return '#if (1 << 64) != 0\n"=128"\n#else\n"=64"\n#endif\n"\\036"\n'
    name = question.partition("(")[0]
    said = f" SDI_TEXT({question})" if name != question or not (is_operator(name) or name in PLACES) else ""
    return f'#ifdef {name}\n"{_IS_DEFINED}"{said}\n#endif\n"\\036"\n'


def answers(questions: Sequence[str], said: bytes) -> dict[str, str | None]:
    """What was answered.  Raises ValueError for what can't be an answer to this many questions."""
    text, end, _ = said.decode("utf-8", "replace").partition(_END)
    pieces = text.split(_NEXT)
    if not end or len(pieces) != len(questions) + 1:
        raise ValueError(f"{len(pieces) - 1} answers to {len(questions)} questions")
    return {q: p.removeprefix(_IS_DEFINED) if p else None for q, p in zip(questions, pieces, strict=False)}
