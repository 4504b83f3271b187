"""What is known of a program from an earlier run is what would be found out now, or it is not used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sdi import cache
from sdi.clc.compile import compile_source
from sdi.clc.frontend import link
from sdi.clc.frontend.base_header import USUAL, Language
from sdi.clc.preprocess.files_seen import FilesSeen
from sdi.devices.cuda import translated as cuda_translated
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import DeviceProgram
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.launch.programs import access, builds
from sdi.launch.programs.analysed import (
    Analysed,
    analysed,
    find,
    find_object,
    keep,
    keep_object,
    name_of,
    name_of_object,
)
from sdi.sampling import KernelAnalysis
from tests.image_runs import ROOT

SOURCE = """#include "scale.h"
kernel void scale(global float *a, int n) { int i = get_global_id(0); if (i < n) a[i] = SCALE * a[i]; }
"""
KERNEL = "kernel void k(global int *a) { a[get_global_id(0)] = 1; }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def compiled_and_kept(source: str, options: str, directory: Path, language: Language = USUAL) -> Analysed:
    seen = FilesSeen()
    found = analysed(compile_source(source, options, str(directory), language, seen))
    keep(name_of(source, options, str(directory), language), found, seen, language)
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


def test_programs_that_ask_whether_a_file_exists_are_known_until_one_does(tmp_path: Path) -> None:
    source = '#if __has_include("x.h")\n#endif\nkernel void k(global int *a) { a[0] = 1; }'
    compiled_and_kept(source, "", tmp_path)
    assert known(source, "", tmp_path) is not None
    (tmp_path / "x.h").write_text("")
    assert known(source, "", tmp_path) is None


def test_programs_with_the_time_in_them_are_not_kept(tmp_path: Path) -> None:
    source = "constant char at[] = __TIME__; kernel void k(global char *a) { a[0] = at[0]; }"
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
    found = compiled_and_kept(source, "", tmp_path)
    name = name_of_object(found.object, USUAL)
    cache.write("objects", name, content)
    assert known(source, "", tmp_path) is None and find_object(name) is None
    keep_object(found, USUAL)
    assert known(source, "", tmp_path) == found
    cache.write("programs", name_of(source, "", str(tmp_path), USUAL), content)
    assert known(source, "", tmp_path) is None


class Counted:
    """How often programs were compiled, linked and analysed; ``calls`` are names of functions."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        for module, name in (
            (builds, "compile_source"),
            (builds, "compile_text"),
            (link, "_read"),
            (access, "analyse"),
        ):
            monkeypatch.setattr(module, name, partial(self._call, name, getattr(module, name)))

    def _call(self, name: str, function: Callable[..., object], *given: object, **named: object) -> object:
        self.calls.append(name)
        return function(*given, **named)

    def taken(self) -> list[str]:
        """The calls since the last question."""
        found, self.calls = self.calls, []
        return found


@pytest.fixture
def target() -> Iterator[builds.Target]:
    (member,) = open_members(MemberSettings(count=1))
    yield builds.Target([member])
    member.close()


def started_again(target: builds.Target) -> builds.Target:
    """The same members in a service that has built nothing."""
    return builds.Target(target.devices)


def assert_same(again: builds.Build, first: builds.Build) -> None:
    assert (again.facts, again.object) == (first.facts, first.object)
    assert [(k.model, k.access) for k in again.kernels] == [(k.model, k.access) for k in first.kernels]


def test_the_second_build_compiles_nothing_and_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    counted = Counted(monkeypatch)
    source = "#warning mind\nkernel void k(global int *a, int n) { a[get_global_id(0)] = n; }"
    first = builds.build(source, "", str(tmp_path), target)
    assert counted.taken() == ["compile_source", "analyse"]
    again = builds.build(source, "", str(tmp_path), started_again(target))
    assert counted.taken() == []
    assert_same(again, first)
    assert "mind" in first.log and again.log == first.log


def test_a_binary_of_a_program_that_was_built_is_not_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    source = "#warning mind\nkernel void k(global int *a, int n) { a[get_global_id(0)] = n; }"
    first = builds.build(source, "-cl-mad-enable -cl-mad-enable", str(tmp_path), target)
    counted = Counted(monkeypatch)
    again = builds.rebuild(first.object, started_again(target))
    assert counted.taken() == []
    assert_same(again, first)
    assert again.log == ""


def test_a_binary_from_elsewhere_is_analysed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    binary = builds.build(SOURCE.replace('#include "scale.h"', "#define SCALE 2"), "", "", target).object
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another account"))
    counted = Counted(monkeypatch)
    first = builds.rebuild(binary, started_again(target))
    assert counted.taken() == ["compile_text", "analyse"]
    again = builds.rebuild(binary, started_again(target))
    assert counted.taken() == []
    assert_same(again, first)


def test_what_is_known_of_a_binary_is_read_once_by_a_service(
    monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    first = builds.build("#warning mind\nkernel void k(global int *a) { a[0] = 1; }", "", "", target)
    binaries = [
        first.object,
        builds.build("kernel void k(global int *a) { a[0] = 2; }", "", "", target).object,
    ]
    read: list[str] = []
    find_object = builds.find_object
    monkeypatch.setattr(builds, "find_object", lambda name: (read.append(name), find_object(name))[1])
    service = started_again(target)
    for count, data in ((1, binaries[0]), (1, binaries[0]), (2, binaries[1]), (2, binaries[0])):
        again = builds.rebuild(data, service)
        assert again.object == data and again.log == "" and len(set(read)) == len(read) == count
    assert_same(again, first)
    assert_same(builds.rebuild(binaries[0], started_again(target)), first)
    assert len(read) == 3, "another service reads it, too"


def test_linking_the_same_objects_again_compiles_nothing(
    monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    kernel = "int twice(int); kernel void k(global int *a) { a[0] = twice(a[0]); }"
    helper = "int twice(int n) { return 2 * n; }"
    objects = [builds.compile_only(text, "", "", {}, target).object for text in (kernel, helper)]
    counted = Counted(monkeypatch)
    first = builds.link(objects, "-cl-denorms-are-zero", target)
    assert isinstance(first, builds.Build)
    assert counted.taken() == ["_read", "_read", "compile_text", "analyse"]
    again = builds.link(objects, "-cl-denorms-are-zero", started_again(target))
    assert counted.taken() == [] and isinstance(again, builds.Build)
    assert_same(again, first)
    assert_same(builds.rebuild(first.object, started_again(target)), first)
    assert counted.taken() == [], "nor when it comes from its binary"
    builds.link(objects, "", started_again(target))
    assert "compile_text" in counted.taken(), "other options are another program"


def test_members_build_while_the_program_is_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: builds.Target
) -> None:
    analysing, built = threading.Event(), threading.Event()
    analyse = access.analyse

    def waits(*given: Any) -> object:
        analysing.set()
        assert built.wait(60)
        return analyse(*given)

    class Waits(ForwardingDevice):
        def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
            assert analysing.wait(60)
            made = super().build(text, options)
            built.set()
            return made

    monkeypatch.setattr(access, "analyse", waits)
    made = builds.build(KERNEL, "", "", builds.Target([Waits(target.devices[0])]))
    assert isinstance(made.kernels[0].access, KernelAnalysis)


def test_programs_are_translated_once_for_all_members_and_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    translate, asked = cuda_translated.translate, []

    def counted(text: str, options: tuple[str, ...]) -> object:
        asked.append(options)
        return translate(text, options)

    monkeypatch.setattr(cuda_translated, "translate", counted)
    for options in ((), ("-cl-mad-enable",)):
        cuda_translated.translated.cache_clear()
        found = [cuda_translated.translated(KERNEL, options) for _ in range(3)]
        cuda_translated.translated.cache_clear()  # as in another process
        found.append(cuda_translated.translated(KERNEL, options))
        assert found == [translate(KERNEL, options)] * 4
    assert asked == [(), ("-cl-mad-enable",)]
    cuda_translated.translated.cache_clear()
