"""From a source to its tree, as a build does it."""

from __future__ import annotations

import os

from sdi.clc.arguments import is_kernel
from sdi.clc.frontend.base_header import USUAL, language_macros
from sdi.clc.frontend.diagnostics import report
from sdi.clc.frontend.parse import TreeBuilder, parse_unit
from sdi.clc.frontend.syntax import Function, Tree
from sdi.clc.preprocess.dialect import Definitions
from sdi.clc.preprocess.lines import KERNEL_FILE
from sdi.clc.preprocess.options import parse_options
from sdi.clc.preprocess.preprocess import preprocess


def tree_of(source: str, options: str = "", folder: str | None = None) -> Tree:
    """The tree of a program.  Raises ValueError with clang's diagnostics."""
    parsed = parse_options(options, folder)
    macros = language_macros(parsed.version, USUAL)
    if "cl_khr_fp16" in source:
        macros["cl_khr_fp16"] = "1"
    defines = "".join(f"#define {name} {value}\n" for name, value in parsed.defines)
    preamble = f'{defines}#line 1 "{KERNEL_FILE}"\n{source.rstrip(chr(0)).removeprefix(chr(0xFEFF))}\n'
    preamble = preamble.replace("\r\n", "\n").replace("\r", "\n")
    plain = preprocess(preamble, "<options>", parsed.include_folders, Definitions(USUAL, parsed))
    plain = plain[plain.index(f'#line 1 "{KERNEL_FILE}"') :]
    text = plain.encode("utf-8", "surrogateescape")
    path = os.path.join(folder or os.getcwd(), KERNEL_FILE)
    with parse_unit(path, text, parsed, macros, ["-w"]) as unit:
        found = report(unit, text, no_warnings=True)
        if found.errors:
            raise ValueError(found.text)
        return TreeBuilder(unit, text).build()


def kernels_of(tree: Tree) -> dict[str, Function]:
    """The kernels with a body, by name."""
    return {f.name: f for f in tree.functions.values() if f.body is not None and is_kernel(tree, f)}
