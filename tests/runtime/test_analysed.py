"""What is known of a program from an earlier run is what would be found out now, or it is not used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sdi import cache
from sdi.clc import compile_source
from sdi.clc.base_header import USUAL, Language
from sdi.clc.files_seen import FilesSeen
from sdi.devices.discover import MemberSettings, open_members
from sdi.runtime import access, builds
from sdi.runtime.analysed import Analysed, analysed, find, keep, name_of
from tests.image_runs import ROOT

SOURCE = """#include "scale.h"
kernel void scale(global float *a, int n) { int i = get_global_id(0); if (i < n) a[i] = SCALE * a[i]; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def compiled_and_kept(source: str, options: str, directory: Path, language: Language = USUAL) -> Analysed:
    seen = FilesSeen()
    found = analysed(compile_source(source, options, str(directory), language, seen))
    keep(name_of(source, options, str(directory), language), found, seen)
    return found


def known(source: str, options: str, directory: Path, language: Language = USUAL) -> Analysed | None:
    return find(name_of(source, options, str(directory), language))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "tests" / "kernels").glob("*.cl")), ids=lambda path: path.stem
)
def test_what_is_known_is_what_was_found_out(path: Path, tmp_path: Path) -> None:
    source = path.read_text()
    assert known(source, "", tmp_path) is None
    found = compiled_and_kept(source, "", tmp_path)
    assert found.kernels
    assert known(source, "", tmp_path) == found


def test_other_programs_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "scale.h").write_text("#define SCALE 2")
    compiled_and_kept(SOURCE, "-DX", tmp_path)
    less = replace(USUAL, extensions=USUAL.extensions[1:])
    (tmp_path / "other").mkdir()
    assert known(SOURCE, "-DX", tmp_path) is not None
    assert known(SOURCE + " ", "-DX", tmp_path) is None
    assert known(SOURCE, "-DX -cl-opt-disable", tmp_path) is None
    assert known(SOURCE, "-DX", tmp_path / "other") is None
    assert known(SOURCE, "-DX", tmp_path, less) is None


CHANGES: dict[str, Callable[[Path], object]] = {
    "changed": lambda folder: (folder / "last" / "scale.h").write_text("#define SCALE 3"),
    "removed": lambda folder: (folder / "last" / "scale.h").unlink(),
    "found earlier": lambda folder: (folder / "first" / "scale.h").write_text("#define SCALE 2"),
    "includes another": lambda folder: (folder / "last" / "deep.h").write_text("float unused(void);"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_programs_are_not_known_once_a_header_has_changed(change: str, tmp_path: Path) -> None:
    for name in ("first", "last"):
        (tmp_path / name).mkdir()
    (tmp_path / "last" / "scale.h").write_text('#include "deep.h"\n#define SCALE 2')
    (tmp_path / "last" / "deep.h").write_text("")
    found = compiled_and_kept(SOURCE, "-Ifirst -Ilast", tmp_path)
    assert "2" in found.object.text
    assert known(SOURCE, "-Ifirst -Ilast", tmp_path) == found
    CHANGES[change](tmp_path)
    assert known(SOURCE, "-Ifirst -Ilast", tmp_path) is None


def test_programs_that_ask_whether_files_exist_are_not_kept(tmp_path: Path) -> None:
    source = '#if __has_include("x.h")\n#endif\nkernel void k(global int *a) { a[0] = 1; }'
    compiled_and_kept(source, "", tmp_path)
    assert known(source, "", tmp_path) is None


@pytest.mark.logs("the analysis failed")
def test_programs_whose_analysis_failed_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(access, "analyse", fail)
    source = "kernel void k(global int *a) { a[0] = 1; }"
    compiled_and_kept(source, "", tmp_path)
    assert known(source, "", tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\x80\x05N."], ids=["empty", "nonsense", "None"])
def test_files_that_are_no_program_count_as_none(content: bytes, tmp_path: Path) -> None:
    source = "kernel void k(global int *a) { a[0] = 1; }"
    compiled_and_kept(source, "", tmp_path)
    cache.write("programs", name_of(source, "", str(tmp_path), USUAL), content)
    assert known(source, "", tmp_path) is None


def test_the_second_build_compiles_nothing_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "#warning mind\nkernel void k(global int *a, int n) { a[get_global_id(0)] = n; }"
    (member,) = open_members(MemberSettings(count=1))
    try:
        first = builds.build(source, "", str(tmp_path), builds.Target([member]))
        monkeypatch.setattr(builds, "compile_source", None)
        again = builds.build(source, "", str(tmp_path), builds.Target([member]))
    finally:
        member.close()
    assert (again.facts, again.log, again.object) == (first.facts, first.log, first.object)
    assert [(k.model, k.access) for k in again.kernels] == [(k.model, k.access) for k in first.kernels]
    assert "mind" in first.log
