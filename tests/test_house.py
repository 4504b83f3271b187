"""The house: which way imports point, what names stand for, and lists of files that can't go stale."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import sdi
from sdi.clc import kept

PACKAGE = Path(sdi.__file__).resolve().parent
ROOT = PACKAGE.parent
FLOORS = (
    "nouns",
    "wire",
    "clc",
    "sampling",
    "partition",
    "devices",
    "profile.record",
    "vmem",
    "launch",
    "explain",
    "player",
    "runtime",
    "service",
    "cluster",
    "profile.analyse",
    "profile.show",
    "cli",
)
"""The package's floors, the lowest first; "nouns": modules at its top.  None imports from one above it."""


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def module_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor_of(module: str, package: Path) -> str:
    parts = module.split(".")[1:]
    if len(parts) > 1 and parts[0] == "profile":
        return ".".join(parts[:2])
    is_top = not parts or (len(parts) == 1 and not package.joinpath(*parts).is_dir())
    return "nouns" if is_top else parts[0]


def imports_of(package: Path) -> dict[str, set[str]]:
    """What each module imports of the package, at any place in it, also for types only."""
    files = {module_of(path, package): path for path in package.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for module, path in files.items():
        names = set()
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: imports are written whole"
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {name if name in files else str(node.module) for name in whole}
        found[module] = (names & files.keys()) - {module}
    return found


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """What reaches itself: each such set of nodes (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        path.append(node)
        for other in graph[node]:
            if other not in order:
                visit(other)
            if other in path:
                low[node] = min(low[node], low[other])
        if low[node] == order[node]:
            circle = path[path.index(node) :]
            del path[path.index(node) :]
            if len(circle) > 1:
                found.append(sorted(circle))

    for node in graph:
        if node not in order:
            visit(node)
    return found


def upward(graph: dict[str, set[str]], package: Path) -> list[tuple[str, str]]:
    """Imports from a higher floor."""
    height = {floor: number for number, floor in enumerate(FLOORS)}
    return [
        (module, other)
        for module, others in graph.items()
        for other in others
        if module != "sdi" and height[floor_of(other, package)] > height[floor_of(module, package)]
    ]


@cache
def imports() -> dict[str, set[str]]:
    return imports_of(PACKAGE)


def test_no_import_runs_in_a_circle() -> None:
    assert circles(imports()) == []


def test_no_import_points_upwards() -> None:
    assert upward(imports(), PACKAGE) == []


def test_circles_and_imports_upwards_are_found(tmp_path: Path) -> None:
    package = tmp_path / "sdi"
    for name, text in {
        "__init__.py": "",
        "errors.py": "def late():\n    from sdi.vmem.arena import Arena\n",
        "vmem/__init__.py": "",
        "vmem/arena.py": "from sdi.vmem import heap\n",
        "vmem/heap.py": "import typing\nif typing.TYPE_CHECKING:\n    import sdi.vmem.arena\n",
        "cli/__init__.py": "from sdi.errors import late\n",
    }.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text)
    found = imports_of(package)
    assert circles(found) == [["sdi.vmem.arena", "sdi.vmem.heap"]]
    assert upward(found, package) == [("sdi.errors", "sdi.vmem.arena")]


def classes() -> Iterator[tuple[str, Path]]:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                yield node.name, path.relative_to(PACKAGE)


def test_a_class_name_stands_once_in_the_package() -> None:
    where: dict[str, list[str]] = {}
    for name, path in classes():
        where.setdefault(name, []).append(str(path))
    assert {name: paths for name, paths in where.items() if len(paths) > 1} == {}


def test_no_file_of_code_has_more_than_six_hundred_lines() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.suffix in (".py", ".c", ".h")]
    lengths = {str(path.relative_to(PACKAGE)): path.read_text().count("\n") for path in files}
    assert len(lengths) > 300
    assert not {name: lines for name, lines in lengths.items() if lines > 600}, "a noun is missing"


def test_what_is_kept_of_programs_depends_on_all_that_makes_it() -> None:
    """Sources that are imported to analyse, translate and keep programs are among those whose text counts."""
    files = {module_of(path, PACKAGE): path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    makers = {"sdi.launch.programs.analysed", "sdi.launch.programs.access", "sdi.clc.cuda.translate"}
    reached = set(makers)
    while more := {other for module in reached for other in imports()[module]} - reached:
        reached |= more
    assert len(reached) > 50
    assert {files[module] for module in reached} - set(kept.sources()) == set()


def test_files_that_are_no_python_are_in_wheels_or_compiled() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["sdi"]
    packed = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    others = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    compiled = {path for folder in ("client", "player") for path in (PACKAGE / folder).rglob("*.[ch]")}
    assert all(any(PACKAGE.glob(pattern)) for pattern in patterns)
    assert others == packed | compiled


def test_the_libraries_are_compiled_anew_when_a_source_of_theirs_changes() -> None:
    """The list in the Makefile has all C sources, and all modules that generate C and compile it."""
    line = re.search(r"^LIBRARY_SOURCES := \$\(wildcard (.*)\)$", (ROOT / "Makefile").read_text(), re.M)
    assert line is not None
    watched = {path for pattern in line[1].split() for path in ROOT.glob(pattern) if path.is_file()}
    needed = {path for folder in ("client", "player") for path in (PACKAGE / folder).rglob("*.[ch]")}
    reached = {"sdi.wire.generate", "sdi.player.library"}
    while more := {other for module in reached for other in imports()[module]} - reached:
        reached |= more
    needed |= {path for path in PACKAGE.rglob("*.py") if module_of(path, PACKAGE) in reached}
    assert {path for path in needed - watched if path.name != "__init__.py"} == set()


@cache
def files() -> tuple[str, ...]:
    folders = ("sdi", "tests", "bench", "design", "tools", "demo")
    return tuple(
        [f"/{path.relative_to(ROOT)}" for folder in folders for path in (ROOT / folder).rglob("*.*")]
    )


@pytest.mark.parametrize(
    "page", ["README.md", *[f"design/{path.name}" for path in sorted((ROOT / "design").glob("*.md"))]]
)
def test_files_that_a_page_names_exist(page: str) -> None:
    """By their whole path, or by its end where the page says before what it is about."""
    text = (ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/.-]*\w\.(?:py|c|h|md|sh|txt|json))`", text))
    assert {name for name in named if not any(path.endswith(f"/{name}") for path in files())} == set()
