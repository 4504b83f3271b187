"""The wheel: its tag, what is in it, and that it works in a fresh environment without a compiler."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path("lib/sdi/libsdi_icd.so")
PLAYER = LIBRARY.with_name("libsdi_player.so")
BUILD = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq"]


def run(*command: object, timeout_s: float = 120, **environ: str) -> str:
    """Its output; the test fails with what it said when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert done.returncode == 0, f"{command[0]}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources, so that nothing is built in the working tree."""
    target = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, target)
    shutil.copytree(ROOT / "sdi", target / "sdi", ignore=shutil.ignore_patterns("__pycache__"))
    return target


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(*BUILD, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    (found,) = folder.iterdir()
    return found


def fresh_venv(folder: Path) -> Path:
    """An environment that sees this one's dependencies, but not its sdi."""
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path in a .pth file is searched, but .pth files found there (this environment's sdi) are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("platlib") + "\n")
    return folder


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel in it."""
    venv = fresh_venv(tmp_path_factory.mktemp("fresh") / "venv")
    python = venv / "bin" / "python3"
    run(*BUILD[:3], "--python", python, *BUILD[3:], "install", "--no-deps", "--no-index", wheel)
    return venv


def test_the_tag_is_for_any_python_on_this_kind_of_machine(wheel: Path) -> None:
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"sdi-0.1.0-py3-none-{platform}.whl"
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read("sdi-0.1.0.dist-info/WHEEL").decode().splitlines()
    assert f"Tag: py3-none-{platform}" in lines
    assert "Root-Is-Purelib: false" in lines


def test_the_wheel_holds_the_library_and_all_modules_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "sdi").rglob("*.py")}
    folders = (ROOT / "sdi" / "clc", ROOT / "sdi" / "include")
    headers = {str(path.relative_to(ROOT)) for folder in folders for path in folder.rglob("*.h")}
    assert "sdi/include/CL/cl_sdi.h" in headers
    data = {
        "sdi/py.typed",
        "sdi/clc/preprocess/nvidia_macros.json",
        "sdi/clc/preprocess/predefined_names.txt",
        "sdi/predict/rates.toml",
    }
    libraries = {f"sdi-0.1.0.data/data/{each}" for each in (LIBRARY, PLAYER)}
    assert names - modules - headers == data | libraries
    assert headers <= names
    assert modules <= names


@pytest.mark.parametrize("library", [LIBRARY, PLAYER], ids=["client", "player"])
def test_the_libraries_need_libc_only(installed: Path, library: Path) -> None:
    shown = run("readelf", "-d", installed / library, LC_ALL="C")
    needed = [line.split("[")[1].rstrip("]") for line in shown.splitlines() if "(NEEDED)" in line]
    assert set(needed) <= {"libc.so.6", "ld-linux-x86-64.so.2"}


def test_the_library_exports_what_loaders_and_the_service_ask_for_and_nothing_else(installed: Path) -> None:
    shown = run("nm", "-D", "--defined-only", installed / LIBRARY)
    assert sorted(line.split()[-1] for line in shown.splitlines()) == [
        "clGetExtensionFunctionAddress",
        "clGetPlatformInfo",
        "clIcdGetPlatformIDsKHR",
        "sdi_tell_signals",
        "sdi_watch_client",
    ]


def test_a_fresh_environment_finds_its_own_parts(installed: Path) -> None:
    vendors = Path(run(installed / "bin" / "sdi", "env", "--vendors").strip())
    assert vendors == installed / "lib" / "sdi" / "vendors"
    assert (vendors / "sdi.icd").read_text() == f"{installed / LIBRARY}\n"
    code = "import sdi; print(sdi.__file__)"
    assert run(installed / "bin" / "python3", "-I", "-c", code).startswith(str(installed))


def test_a_fresh_environment_works_without_a_compiler(installed: Path, tmp_path: Path) -> None:
    """The doctor uses the image through the loaders as an application does.  PoCL itself needs a linker."""
    linker = shutil.which("ld")
    assert linker is not None
    (tmp_path / "ld").symlink_to(linker)
    shown = run(installed / "bin" / "sdi", "doctor", "-n", "3", PATH=str(tmp_path))
    assert "FAIL" not in shown
    assert "SDI (3 x " in shown


def test_editable_installs_get_the_library_too(source: Path, tmp_path: Path) -> None:
    venv = fresh_venv(tmp_path / "venv")
    python = venv / "bin" / "python3"
    arguments = ["install", "--no-deps", "--no-index", "--no-build-isolation", "-e", str(source)]
    run(*BUILD[:3], "--python", python, *BUILD[3:], *arguments)
    assert (venv / LIBRARY).is_file() and (venv / PLAYER).is_file()
    assert run(python, "-I", "-c", "import sdi; print(sdi.__file__)").startswith(str(source))
    built = {path for pattern in ("*.so", "*.o", "*.c") for path in (source / "sdi").rglob(pattern)}
    assert {path.relative_to(source) for path in built} == {
        path.relative_to(ROOT) for path in (ROOT / "sdi").rglob("*.c")
    }, "nothing is generated into the sources"
