"""``tools/prepare.sh`` says or installs what is missing, and nothing else.  apt-get and id are stand-ins."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PREPARE = ROOT / "tools" / "prepare.sh"
EVERYTHING = "gcc libc6-dev ocl-icd-opencl-dev opencl-headers clinfo"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A PATH with what the script itself needs: no compiler, no clinfo, and an apt-get that only notes."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "mktemp", "rm", "cat", "tail", "ls", "env", "ld"):
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    script(folder / "python3", f'exec "{sys.base_prefix}/bin/python3" "$@"')
    script(folder / "apt-get", f'echo "$*" >>"{tmp_path}/apt"; test ! -e "{tmp_path}/refuse-$1"')
    script(folder / "id", "echo 0")
    return folder


def script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def prepare(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", str(PREPARE), *arguments],
        env={"PATH": str(path), "HOME": "/"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_complete_machine_lacks_nothing() -> None:
    done = subprocess.run([str(PREPARE), "--dry-run"], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")


def test_missing_packages_are_named(bare: Path) -> None:
    assert prepare(bare, "--dry-run").stdout == f"{EVERYTHING}\n"


def test_a_missing_python_is_named(bare: Path) -> None:
    (bare / "python3").unlink()
    assert prepare(bare, "--dry-run").stdout == (
        "python3 python3-venv gcc libc6-dev ocl-icd-opencl-dev opencl-headers"
        " ocl-icd-libopencl1 pocl-opencl-icd clinfo\n"
    )


def test_root_installs(bare: Path, tmp_path: Path) -> None:
    done = prepare(bare)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"Installing with apt-get: {EVERYTHING}\n", "")
    assert (tmp_path / "apt").read_text().splitlines()[-1].endswith(EVERYTHING)


def test_lists_are_fetched_when_the_first_try_fails(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "refuse-install").touch()
    done = prepare(bare)
    assert done.returncode == 1
    assert done.stderr.endswith(f"apt-get failed (above). Packages wanted: {EVERYTHING}\n")
    steps = [line.split()[0] for line in (tmp_path / "apt").read_text().splitlines()]
    assert steps[-2:] == ["update", "install"]


def test_others_are_told_what_to_install(bare: Path, tmp_path: Path) -> None:
    script(bare / "id", "echo 1000")
    done = prepare(bare)
    assert done.returncode == 1
    assert f"    sudo apt-get install {EVERYTHING}\n" in done.stderr
    assert not (tmp_path / "apt").exists()


def test_an_old_python_is_refused(bare: Path) -> None:
    script(bare / "python3", 'case "$1" in -V) echo Python 3.10.2;; *) exit 1;; esac')
    done = prepare(bare)
    assert done.returncode == 1
    assert "needs Python 3.11 or newer; python3 is Python 3.10.2" in done.stderr
