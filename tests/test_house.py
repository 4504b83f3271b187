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
    "predict",
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


def users_of(library: str) -> set[str]:
    """The modules of the package that import a library, at any place in them."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if library in {name.split(".")[0] for name in names}:
                found.add(module_of(path, PACKAGE))
    return found


@pytest.mark.parametrize(("library", "users"), [("sympy", {"sdi.explain.formula"}), ("islpy", set())])
def test_algebra_is_imported_for_formulas_only(library: str, users: set[str]) -> None:
    assert users_of(library) == users


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


def test_a_member_is_a_dozen_methods() -> None:
    """``native`` and ``signals`` are values that are asked for when they are there."""
    (device,) = (n for n in tree(PACKAGE / "devices" / "base.py").body if getattr(n, "name", "") == "Device")
    methods = [node.name for node in ast.walk(device) if isinstance(node, ast.FunctionDef)]
    assert len(set(methods) - {"native", "signals"}) == 13, methods


def test_the_page_says_what_each_thread_does() -> None:
    callers = "Thread|ThreadPoolExecutor|_Worker|Lane|Channel|Loopback|setname_np"
    given = re.compile(rf'(?:{callers})\([^"]*"(sdi-[a-z-]+)')
    texts = [path.read_text() for kind in ("*.py", "*.c") for path in (ROOT / "sdi").rglob(kind)]
    found = {name.rstrip("-") for text in texts for name in given.findall(text)}
    assert {"sdi-build", "sdi-watch", "sdi-issuer", "sdi-host", "sdi-gpu"} <= found
    page = (ROOT / "design" / "README.md").read_text()
    assert not [name for name in sorted(found) if f"`{name}" not in page]


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


@pytest.mark.parametrize("script", sorted(path.name for path in (ROOT / "bench").glob("*.sh")))
def test_files_that_a_script_names_exist(script: str) -> None:
    text = (ROOT / "bench" / script).read_text(encoding="utf-8").replace("$PWD/", "")
    named = set(re.findall(r"(?<![\w/.$-])(?:bench|tests|tools|sdi)/[\w/.{},*-]*\.(?:py|c|sh)\b", text))
    plain = {f"{head}{each}{tail}" for name in named for head, each, tail in braces(name)}
    assert {name for name in plain if not any(ROOT.glob(name))} == set()


def braces(name: str) -> list[tuple[str, str, str]]:
    """What a name with at most one list in braces stands for, in parts."""
    head, _, rest = name.partition("{")
    inner, _, tail = rest.partition("}")
    return [(head, each, tail) for each in inner.split(",")]


@cache
def names_of(module: str) -> frozenset[str] | None:
    """What a module of the package, or a package, has at its top; None: there is no such module."""
    path = ROOT.joinpath(*module.split("."))
    beside = {each.stem for each in path.iterdir()} if path.is_dir() else set()
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if not path.is_file():
        return frozenset(beside) if beside else None
    found = set(beside)
    for node in ast.walk(tree(path)):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {each.asname or each.name.split(".")[0] for each in names}
    return frozenset(found)


def stale_names(text: str) -> Iterator[str]:
    """What a script imports from the package, or uses of a module that it imports, and is not there."""
    whole = ast.parse(text)
    modules: dict[str, str] = {}
    for node in ast.walk(whole):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "sdi":
            assert node.module is not None
            for each in node.names:
                if each.name not in (names_of(node.module) or ()):
                    yield f"{node.module}.{each.name}"
                elif names_of(f"{node.module}.{each.name}") is not None:
                    modules[each.asname or each.name] = f"{node.module}.{each.name}"
    for node in ast.walk(whole):  # names that stand for something else, too, are left out
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                modules.pop(name, None)
    for node in ast.walk(whole):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            module = modules[node.value.id]
            if node.attr not in (names_of(module) or ()) and not node.attr.startswith("__"):
                yield f"{module}.{node.attr}"


SCRIPTS = [path for folder in ("bench", "demo", "tools", "tests") for path in (ROOT / folder).rglob("*.py")]


def test_scripts_use_what_the_package_has() -> None:
    """Also those that only run on other machines."""
    stale = {str(path.relative_to(ROOT)): list(stale_names(path.read_text())) for path in SCRIPTS}
    assert len(stale) > 200
    assert {path: names for path, names in stale.items() if names} == {}


def test_stale_names_of_scripts_are_found() -> None:
    text = "from sdi.devices import copying, gone\nfrom sdi.lost import x\ncopying.upload\ncopying.up"
    assert list(stale_names(text)) == ["sdi.devices.gone", "sdi.lost.x", "sdi.devices.copying.up"]


def does_something(module: ast.Module) -> bool:
    """Whether some function of it has more than a docstring."""
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    return any(not isinstance(node.body[-1], ast.Expr) or len(node.body) > 2 for node in functions)


def test_a_modules_test_has_its_name() -> None:
    """But for those that ``untested.txt`` lists: tests of what uses them reach them.  It may only shrink."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        within = path.relative_to(PACKAGE)
        test = ROOT / "tests" / within.parent / f"test_{within.name}"
        if path.name != "__init__.py" and not test.exists() and does_something(tree(path)):
            found.add(str(within))
    listed = (ROOT / "tests" / "untested.txt").read_text().split()
    assert listed == sorted(set(listed)), "one a line, sorted"
    assert found - set(listed) == set(), "new modules come with a test of their name"
    assert set(listed) - found == set(), "these have a test now, or are gone: no longer to be listed"
