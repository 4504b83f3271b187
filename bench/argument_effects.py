"""Whether arguments of real kernels are read and written as LLVM finds by itself.

    python bench/argument_effects.py FOLDER... [--clang PATH] [--define NAME=VALUE]...

Each kernel of the programs below the folders (as in ``corpus.py``, ``--define`` too) is compiled by clang,
whose optimiser marks pointer arguments that are only read, only written, or neither.  Prints each argument
that LLVM does not mark so and that the front end or the access maps take for it.  Two kinds are no mistakes:
what is given to built-in functions, of which this clang knows nothing (programs with ``vload`` and ``vstore``
are left out), and a component of a vector that is stored, of which clang makes a read and a write of the
vector.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.corpus import programs, tree_or_none
from sdi.clc.appends import find_appends
from sdi.clc.effects import EffectAnalysis
from sdi.clc.frontend.syntax import Function, Tree
from sdi.clc.preprocess.lines import LineMap
from sdi.sampling import analyse
from sdi.sampling.machine import Mode

_OPTIONS = ("-x", "cl", "-target", "spir64", "-O2", "-w", "-S", "-emit-llvm", "-Xclang")
_OPTIONS += ("-finclude-default-header", "-o", "-", "-")
_KERNEL = re.compile(r"^define [^@\n]*spir_kernel void @(\w+)\(", re.MULTILINE)
_OUTER = re.compile(r"addrspace\([12]\)\* ")
_NOT_PLAIN = re.compile(r"byval|opencl\.")
_EMPTY = 8  # nodes of a body


def parameters_of(clang: str, text: str) -> dict[str, list[str]] | None:
    """The parameters of each kernel as LLVM declares them; None: it does not compile."""
    for version in ("CL1.2", "CL2.0"):
        command = [clang, f"-cl-std={version}", *_OPTIONS]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return {m[1]: _split(done.stdout, m.end()) for m in _KERNEL.finditer(done.stdout)}
    return None


def _split(ir: str, at: int) -> list[str]:
    """What stands between commas up to the parenthesis that closes."""
    found, depth = [""], 0
    while depth or ir[at] != ")":
        depth += (ir[at] in "({[<") - (ir[at] in ")}]>")
        if ir[at] == "," and not depth:
            found.append("")
        else:
            found[-1] += ir[at]
        at += 1
    return found if found[0] else []


def is_compared(declared: str) -> bool:
    """Whether a parameter leads to memory of an argument."""
    return bool(_OUTER.search(declared)) and not _NOT_PLAIN.search(declared)


def disagreements(tree: Tree, kernel: Function, declared: list[str]) -> list[str]:
    """Arguments that LLVM may see read or written, and that one of ours does not."""
    lines = LineMap(tree.text)
    model = EffectAnalysis(tree, kernel, lines, find_appends(tree, kernel, lines)).arguments
    found = analyse(tree, kernel)
    maps: dict[Mode, set[int]] = {
        mode: {a.argument for a in found.accesses if a.mode is mode} for mode in Mode
    }
    maps[Mode.READ] |= {a.argument for a in found.accesses if a.update is not None}
    maps[Mode.READ] |= {each.argument for each in found.pointers if each.reads_anything}
    maps[Mode.WRITE] |= {each.argument for each in found.pointers if each.writes_anything}
    left = []
    for at, (text, effects, parameter) in enumerate(zip(declared, model, kernel.parameters, strict=True)):
        if not is_compared(text) or "readnone" in text:
            continue
        seen = {Mode.READ: effects.reads or effects.atomic, Mode.WRITE: effects.writes}
        for mode, mark in ((Mode.READ, "writeonly"), (Mode.WRITE, "readonly")):
            if mark in text:
                continue
            knows = {"front end": seen[mode], "maps": found.too_long or at in maps[mode]}
            left += [
                f"{kernel.name}, {parameter.name}: no {mode.value} in {who}"
                for who in knows
                if not knows[who]
            ]
    return left


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--clang", default="clang-15")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    if shutil.which(args.clang) is None:
        parser.error(f"there is no {args.clang}: --clang names another one")
    defined = dict(given.partition("=")[::2] for given in args.define)
    counts: Counter[str] = Counter()
    for root in args.folders:
        for path, source in programs(root):
            tree = tree_or_none(source, path.parent, defined)
            if tree is None or "vload" in tree.text or "vstore" in tree.text:
                counts["programs left out"] += 1
                continue
            declared = parameters_of(args.clang, tree.text)
            if declared is None:
                counts["programs that clang does not compile"] += 1
                continue
            for kernel in tree.functions.values():
                parameters = declared.get(kernel.name)
                if parameters is None or kernel.body is None or len(list(kernel.body.walk())) < _EMPTY:
                    continue
                counts["kernels"] += 1
                counts["arguments"] += sum(map(is_compared, parameters))
                for line in disagreements(tree, kernel, parameters):
                    counts["disagreements"] += 1
                    print(f"{path.relative_to(root)}: {line}")
    print(", ".join(f"{count} {what}" for what, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
