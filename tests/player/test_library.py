"""What Python hands to the player is what C is given: structures and numbers, checked where C is compiled."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from sdi.player import library
from sdi.player.library import SOURCES, checks, generate


def compiles(folder: Path, more: str = "") -> bool:
    generate(folder)
    (folder / "checks.c").write_text(f"{checks()}\n{more}\n", encoding="utf-8")
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{folder}", "-fsyntax-only"]
    done = subprocess.run([*command, str(folder / "checks.c")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "static assertion failed" in done.stderr, done.stderr
    return done.returncode == 0


def test_a_number_that_differs_does_not_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compiles(tmp_path)
    for name in ("CLIENT_SHOWN", "END"):
        with monkeypatch.context() as changed:
            changed.setattr(library, name, getattr(library, name) + 1)
            assert not compiles(tmp_path)


def test_structures_are_laid_out_in_c_as_here(tmp_path: Path) -> None:
    structures: dict[str, type[ctypes.Structure]] = {
        "hole": library.Hole,
        "access": library.PlayerAccess,
        "op": library.PlayerOp,
        "cell_value": library.CellValue,
        "given": library.Given,
        "node_told": library.Told,
        "report": library.PlayerReport,
        "recycled": library.Recycled,
    }
    lines = ["#include <stddef.h>"]
    for name, made in structures.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(made)}, "{name}");')
        for field in (each[0] for each in made._fields_):
            at = f"offsetof(struct {name}, {field.rstrip('_')}) == {getattr(made, field).offset}"
            lines.append(f'_Static_assert({at}, "{name}.{field}");')
    assert compiles(tmp_path, "\n".join(lines))
    assert not compiles(tmp_path, '_Static_assert(sizeof(struct hole) == 16, "hole");')
