"""How many kernels of folders of OpenCL programs the access analysis understands.

    python bench/corpus.py FOLDER... [--list] [--define NAME=VALUE]...

Every ``.cl`` and ``.opencl`` file below each folder is parsed as it is.  Names that a program expects to be
defined by its host are as ``--define`` says, or guessed: 16 for values, ``float`` for types.  Prints one
table, and what is left by class; ``--list`` names each kernel that is not all affine or quasi-affine.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.access_shapes import Shape, kernel_shapes, shape_of, shapes
from sdi.clc.appends import find_appends
from sdi.clc.effects import EffectAnalysis
from sdi.clc.preprocess.lines import LineMap
from sdi.sampling import KernelAnalysis, analyse
from sdi.sampling.machine import Mode
from tests.sampling.sources import kernels_of, tree_of

_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'|implicit declaration of function '(\w+)'")
_UNKNOWN_TYPE = re.compile(r"unknown type name '(\w+)'")
_RAW = re.compile(r'R"\((.*?)\)"', re.DOTALL)
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel of the corpus."""

    suite: str
    path: str
    name: str
    worst: Shape
    writes: Shape
    left: tuple[str, ...]
    ms: float


def tree_or_none(source: str, folder: Path, defined: dict[str, str]):  # type: ignore[no-untyped-def]
    """The tree, with guesses for names that nothing defines; None when it does not compile."""
    guesses = dict(defined)
    for _ in range(ROUNDS):
        options = " ".join(f"-D{n}={v}" for n, v in guesses.items())
        try:
            return tree_of(source, f'-I"{folder}" -I"{folder.parent}" {options}', str(folder))
        except ValueError as cause:
            text = str(cause)
        except Exception:
            return None
        if not (found := guesses_of(text, guesses)):
            return None
        guesses |= found
    return None


def guesses_of(log: str, known: Container[str]) -> dict[str, str]:
    """What names that a compiler does not know, and that are not ``known``, may stand for."""
    found = {a or b: "16" for a, b in _UNDECLARED.findall(log)}
    found |= dict.fromkeys(_UNKNOWN_TYPE.findall(log), "float")
    return {name: value for name, value in found.items() if name not in known}


def left_over(analysis: KernelAnalysis) -> tuple[str, ...]:
    """Why a kernel is not all affine or quasi-affine."""
    found: set[str] = set()
    known = shapes(analysis.table)
    for access in analysis.accesses:
        shape = shape_of(access, analysis, known)
        verb = "write" if access.mode is Mode.WRITE else "read"
        if shape is Shape.DATA:
            inner = known[access.offset] is Shape.DATA
            found.add(f"{verb}: {'index from data' if inner else 'loop bounded by data'}")
        elif shape is Shape.COMPUTED:
            found.add(f"{verb}: computed index")
    for reason in analysis.reasons:
        if reason.text.startswith("the kernel") or "not followed" in reason.text:
            found.add(reason.text)
    return tuple(sorted(found))


def programs(root: Path) -> list[tuple[Path, str]]:
    """Each program of a folder.  ``.opencl`` files are parts, in C++ raw strings, that need common ones."""
    found = [(path, path.read_text("utf-8", "replace")) for path in sorted(root.rglob("*.cl"))]
    parts: dict[Path, list[str]] = {}
    shared: dict[Path, list[str]] = {}
    common: list[str] = []
    for path in sorted(root.rglob("*.opencl")):
        text = path.read_text("utf-8", "replace")
        text = "\n".join(_RAW.findall(text)) or text
        if path.stem == "common":
            common.append(text)
        elif re.fullmatch(r"level\d", path.stem):
            shared.setdefault(path.parent, []).append(text)
        else:
            parts.setdefault(path.with_name(re.sub(r"_part\d", "", path.name)), []).append(text)
    for path, texts in parts.items():
        found.append((path, "\n".join([*common, *shared.get(path.parent, []), *texts])))
    return found


def measure(root: Path, defined: dict[str, str]) -> tuple[list[Kernel], list[str]]:
    """All kernels of one folder, and the files that do not parse."""
    kernels: list[Kernel] = []
    failed: list[str] = []
    seen: set[str] = set()
    for path, source in programs(root):
        if source in seen:
            continue  # a copy of another file
        seen.add(source)
        tree = tree_or_none(source, path.parent, defined)
        name = str(path.relative_to(root))
        if tree is None:
            failed.append(name)
            continue
        lines = LineMap(tree.text)
        for function in kernels_of(tree).values():
            start = time.process_time()
            analysis = analyse(tree, function)
            ms = 1e3 * (time.process_time() - start)
            effects = EffectAnalysis(tree, function, lines, find_appends(tree, function, lines))
            if not any(a.reads or a.writes for a in effects.arguments):
                continue
            worst, writes = kernel_shapes(analysis)
            kernels.append(Kernel(root.name, name, function.name, worst, writes, left_over(analysis), ms))
    return kernels, failed


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:5.1f}" if whole else "    -"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--list", action="store_true", help="name the kernels that are left")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    defined = dict(given.partition("=")[::2] for given in args.define)
    every: list[Kernel] = []
    print(f"{'suite':42} kernels  affine  +quasi  writes  +computed  not parsed   (% of kernels)")
    rows = [(root, *measure(root, defined)) for root in args.folders]
    for root, kernels, failed in rows:
        every += kernels
        show(root.name, kernels, len(failed))
    show("all", every, sum(len(f) for _, _, f in rows))
    print(
        f"\nextraction: median {statistics.median(k.ms for k in every):.2f} ms per kernel, "
        f"95 % below {sorted(k.ms for k in every)[int(0.95 * len(every))]:.1f} ms"
    )
    print("\nleft, kernels by class:")
    for what, count in Counter(w for k in every for w in k.left).most_common():
        print(f"  {count:5}  {what}")
    if args.list:
        for kernel in every:
            if kernel.left:
                print(f"{kernel.suite}/{kernel.path} {kernel.name}: {'; '.join(kernel.left)}")
    return 0


def show(name: str, kernels: list[Kernel], failed: int) -> None:
    n = len(kernels)
    affine = sum(k.worst <= Shape.AFFINE for k in kernels)
    quasi = sum(k.worst <= Shape.QUASI_AFFINE for k in kernels)
    writes = sum(k.writes <= Shape.QUASI_AFFINE for k in kernels)
    computed = sum(k.worst <= Shape.COMPUTED for k in kernels)
    print(
        f"{name[:42]:42} {n:7}   {percent(affine, n)}   {percent(quasi, n)}   {percent(writes, n)}"
        f"      {percent(computed, n)}  {failed:10}"
    )


if __name__ == "__main__":
    sys.exit(main())
