"""What Python hands to the player is what C is given: structures and numbers, which C has from there."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from sdi import cells
from sdi.player import library
from sdi.player.library import SOURCES, generate


def compiles(folder: Path, text: str) -> bool:
    generate(folder)
    (folder / "checks.c").write_text(f'#include "player.h"\n{text}\n', encoding="utf-8")
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", f"-I{SOURCES}", f"-I{folder}", "-fsyntax-only"]
    done = subprocess.run([*command, str(folder / "checks.c")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 or "static assertion failed" in done.stderr, done.stderr
    return done.returncode == 0


def test_c_has_the_numbers_of_python(tmp_path: Path) -> None:
    numbers = {
        "CLIENT_SHOWN": library.CLIENT_SHOWN,
        "SDI_END": library.END,
        "NO_RECORDING": library.NO_RECORDING,
        "CELLS_RESERVED": cells.CELLS_RESERVED,
        "WHY_LANES": library.WHYS.index("lanes"),
        "WHY_COUNT": len(library.WHYS),
    }
    assert compiles(tmp_path, "".join(f'_Static_assert({n} == {v}, "");' for n, v in numbers.items()))
    assert not compiles(tmp_path, '_Static_assert(PLAYED == 1, "");')


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
