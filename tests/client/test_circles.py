"""No circle of C files that call each other is larger than three: computed from the sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from sdi.player.library import SOURCES
from sdi.wire.generate import CLIENT, dispatch_source

MOST = 3
_NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_MACRO = re.compile(r"^#define (\w+)((?:.*\\\n)*.*)$", re.MULTILINE)
_DIRECTIVE = re.compile(r"^#(?:.*\\\n)*.*$", re.MULTILINE)
_DEFINITION = re.compile(
    r"^(?=[a-zA-Z])(?P<head>[^;={}()\n]*?)\b(?P<name>\w+)\((?:[^;{}\n]|\n )*\)\s*\{", re.MULTILINE
)
_REGISTRATION = re.compile(r"\b\w*_register_\w*\([^;]*\);")
_NAME = re.compile(r"(?<![.>\w])[a-zA-Z_]\w*")


def functions(text: str) -> dict[str, str]:
    """The body of each function that begins at column 0, by name; of those for other files only."""
    found = {}
    for match in _DEFINITION.finditer(text):
        end, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        if "static" not in match["head"].split() or "inline" in match["head"].split():
            found[match["name"]] = text[match.end() : end]
    return found


def calls(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which files each ``.c`` file calls, or takes functions of, by name.

    What a file does through an inline function or a macro of a header, it does itself.  A function that is
    handed to one with ``_register_`` in its name is not called there.
    """
    texts = {name: _NOISE.sub(" ", text) for name, text in sources.items()}
    shared: dict[str, str] = {}
    for name, text in texts.items():
        if name.endswith(".h"):
            shared |= functions(text)
            shared |= {macro[1]: macro[2] for macro in _MACRO.finditer(text)}
    plain = {name: _DIRECTIVE.sub("", text) for name, text in texts.items() if name.endswith(".c")}
    owner = {function: name for name, text in plain.items() for function in functions(text)}
    found = {}
    for name, text in plain.items():
        macros = {macro[1]: macro[2] for macro in _MACRO.finditer(texts[name])}
        used, left = set(), set(_NAME.findall(_REGISTRATION.sub("", text)))
        while left:
            used |= left
            left = {word for at in left for word in _NAME.findall((shared | macros).get(at, ""))} - used
        found[name] = {owner[word] for word in used if word in owner} - {name}
    return found


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The strongly connected components of more than one file."""

    def reached(start: str) -> set[str]:
        seen, left = set(), [start]
        while left:
            for name in edges.get(left.pop(), ()):
                if name not in seen:
                    seen.add(name)
                    left.append(name)
        return seen

    far = {name: reached(name) for name in edges}
    found = {tuple(sorted(b for b in far[a] if a in far.get(b, ()))) for a in edges if a in far[a]}
    return sorted(list(each) for each in found)


def files(folder: Path) -> dict[str, str]:
    """The C of a folder and those below, by path."""
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.[ch]"))}


SETS = {
    "client": {**files(CLIENT), "sdi_dispatch.c": dispatch_source()},
    "player": files(SOURCES),
}


@pytest.mark.parametrize("which", SETS)
def test_no_more_than_three_files_call_each_other_in_a_circle(which: str) -> None:
    edges = calls(SETS[which])
    assert len(edges) > MOST and sum(map(len, edges.values())) > len(edges), "nothing was found to check"
    assert [each for each in circles(edges) if len(each) > MOST] == []


def test_the_client_includes_and_calls_down_only_from_folder_to_folder() -> None:
    order = ["", "link", "threads", "objects", "enqueue"]  # "": what all share
    sources = files(CLIENT)
    uses = {name: set(re.findall(r'#include "(\w+/\w+\.h)"', text)) for name, text in sources.items()}
    assert sum(map(len, uses.values())) > len(order)
    for name, others in calls(sources).items():
        uses[name] |= others

    def floor(name: str) -> int:
        return order.index(name.rpartition("/")[0])

    assert [(a, b) for a, others in uses.items() for b in others if floor(b) > floor(a)] == []


def ring(number: int, close: str) -> dict[str, str]:
    """So many files that each call the next; the last does ``close`` with the first's function."""
    called = [f"call_{k}();" for k in range(1, number)] + [close]
    return {f"{k}.c": f"int call_{k}(void)\n{{\n    {what}\n}}\n" for k, what in enumerate(called)}


HEADER = "static inline void again(void)\n{\n    call_0();\n}\n#define ONCE_MORE() \\\n    again()\n"


@pytest.mark.parametrize(
    ("close", "is_circle"),
    [
        ("call_0();", True),
        ("table = {call_0};", True),
        ("again();", True),
        ("ONCE_MORE();", True),
        ("sdi_register_next(call_0);", False),
        ('/* call_0(); */ text = "call_0()";', False),
        ("thing->call_0 = thing.call_0;", False),
    ],
)
def test_a_circle_of_four_is_found_and_a_registration_is_none(close: str, is_circle: bool) -> None:
    sources = {"all.h": HEADER, **ring(4, close)}
    assert circles(calls(sources)) == ([["0.c", "1.c", "2.c", "3.c"]] if is_circle else [])


def test_two_functions_of_one_name_for_their_own_files_are_no_call() -> None:
    own = "static int run(void)\n{\n    return 0;\n}\nint call_{}(void)\n{{\n    return run();\n}}\n"
    sources = {
        f"{k}.c": own.replace("call_{}", f"call_{k}").replace("{{", "{").replace("}}", "}") for k in (1, 2)
    }
    assert calls(sources) == {"1.c": set(), "2.c": set()}
