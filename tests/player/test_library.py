"""What Python hands to the player is what C is given: structures and numbers, checked where C is compiled."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from sdi.player import library
from sdi.player.library import SOURCES, checks
from sdi.wire.generate import generate


def compiles(folder: Path) -> bool:
    generate(folder)
    (folder / "checks.c").write_text(checks(), encoding="utf-8")
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{folder}", "-fsyntax-only"]
    done = subprocess.run([*command, str(folder / "checks.c")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "static assertion failed" in done.stderr, done.stderr
    return done.returncode == 0


class Access(ctypes.Structure):
    """With its fields the other way round."""

    _fields_ = [("writes", ctypes.c_uint32), ("segment", ctypes.c_uint32)]


def test_a_structure_or_a_number_that_differs_does_not_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiles(tmp_path)
    with monkeypatch.context() as changed:
        changed.setitem(library._STRUCTURES, "access", Access)
        assert not compiles(tmp_path)
    with monkeypatch.context() as changed:
        changed.setattr(library, "CLIENT_SHOWN", library.CLIENT_SHOWN + 1)
        assert not compiles(tmp_path)
    with monkeypatch.context() as changed:
        changed.setattr(library, "END", library.END + 1)
        assert not compiles(tmp_path)
