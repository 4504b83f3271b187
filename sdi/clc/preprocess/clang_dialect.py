"""clang's own answers, for where no driver can be asked: ``sdi explain`` needs none."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from ctypes import c_char_p, c_void_p

from sdi.clc.frontend.base_header import header_text, predefined_macros
from sdi.clc.preprocess.compiler import Compiler
from sdi.clc.preprocess.probe import ANSWERS, Answers, answers, probe_text

_PATH = "/__sdi__/probe.cl"
_TARGET = "spir64"
_STANDARD = "-cl-std=CL1.2"


def ask(questions: Sequence[str], options: Sequence[str]) -> Answers:
    """See ``Ask``; some 20 ms.  The macros of the language, which clang leaves to headers, are sdi's own."""
    from sdi.clc.frontend.libclang import (  # libclang is large: it is loaded by the first build
        CXCursor,
        Unit,
        text_of,
    )

    standard = next((each for each in options if each.startswith("-cl-std=")), _STANDARD)
    version = 300 if standard.endswith("3.0") else int(float(standard[-3:]) * 100)
    given = predefined_macros(version, tuple(options))
    header = "".join(f"#define {n} {v}\n" for n, v in given.items() if not n.startswith("__STDC"))
    arguments = ["-x", "cl", standard, "-target", _TARGET, "-cl-no-stdinc", "-nostdinc", "-w"]
    arguments += [each for each in options if each.startswith("-cl-") and each != standard]
    text = header + header_text() + probe_text(questions)
    with Unit({_PATH: text.encode()}, arguments) as unit:
        lib = unit.lib
        lib.clang_Cursor_Evaluate.argtypes, lib.clang_Cursor_Evaluate.restype = [CXCursor], c_void_p
        lib.clang_EvalResult_getAsStr.argtypes, lib.clang_EvalResult_getAsStr.restype = [c_void_p], c_char_p
        lib.clang_EvalResult_dispose.argtypes, lib.clang_EvalResult_dispose.restype = [c_void_p], None
        for cursor in unit.children(unit.root()):
            if text_of(lib.clang_getCursorSpelling(cursor)) == ANSWERS:
                value = lib.clang_Cursor_Evaluate(cursor)
                said = lib.clang_EvalResult_getAsStr(value)
                lib.clang_EvalResult_dispose(value)
                return answers(questions, said or b"")
    raise AssertionError("the probe does not compile")


@functools.cache
def clang_dialect() -> Compiler:
    """The dialect of the clang that parses programs."""
    return Compiler("clang", ask, is_kept=False)
