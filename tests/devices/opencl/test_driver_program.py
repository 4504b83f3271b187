"""Programs that were built before are built when a kernel of them is launched, and answer before that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.base import LocalBytes
from sdi.devices.opencl import driver_program
from sdi.devices.opencl.driver_program import DriverProgram
from sdi.devices.opencl.member import OpenCLDevice
from sdi.devices.opencl.programs import OpenCLPrograms
from sdi.errors import BuildError, ClError, DeviceFailed, Status
from tests.devices.conftest import finish

SOURCE = """
kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }
kernel void more(global int *a, local int *b) { b[get_local_id(0)] = 1; a[get_global_id(0)] += b[0]; }
"""
OPTIONS = ("-DUNUSED",)
BUILT = (SOURCE, OPTIONS[0])


@pytest.fixture(autouse=True)
def nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Yet; and whatever a build takes here is quick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(driver_program, "PUT_OFF_NS", 1 << 60)


def asked(members: list[OpenCLDevice], text: str = SOURCE) -> list[object]:
    """What each member says of all kernels of the program, and the program."""
    programs = [member.build(text, OPTIONS) for member in members]
    return [
        *[m.kernel_info(p, "twice") for m, p in zip(members, programs, strict=True)],
        *[m.kernel_info(p, "more") for m, p in zip(members, programs, strict=True)],
    ]


def test_the_second_build_answers_as_the_first_and_waits_for_a_launch(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    facts = asked(members)
    assert built == [BUILT]
    assert asked(members) == facts
    assert built == [BUILT]
    for member in members:
        program = member.build(SOURCE, OPTIONS)
        buffer = member.allocate(64)
        ready = copying.upload(member, memoryview(np.arange(16, dtype=np.int32)).cast("B"), buffer, 0, [])
        bound = member.bind(program, "twice", [buffer])
        done = member.launch(bound, (4, 1, 1), (4, 1, 1), 1, [ready])
        found = np.zeros(16, np.int32)
        finish(copying.download(member, buffer, 0, memoryview(found).cast("B"), [done]))
        assert found.tolist() == list(range(0, 32, 2))
        member.free(buffer)
        assert built == [BUILT] * 2, "members build what was put off once between them"


def test_what_was_launched_in_an_earlier_run_is_built_ahead(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    asked(members)
    buffer = members[0].allocate(64)
    for times in (2, 3):
        program = members[0].build(SOURCE, OPTIONS)
        behind = threading.Event()
        members[0].shared.ahead.add(behind.set)
        assert behind.wait(60)
        assert built == [BUILT] * (1 if times == 2 else 3), "only what was launched before"
        for _ in range(2):
            members[0].bind(program, "twice", [buffer])
        assert built == [BUILT] * times
    members[0].free(buffer)


def test_that_one_kernel_was_launched_does_not_tell_of_others(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    buffer = members[0].allocate(64)
    for times in (1, 2):
        program = members[0].build(SOURCE, OPTIONS)
        members[0].kernel_info(program, "twice")
        members[0].bind(program, "twice", [buffer])
        assert built == [BUILT] * times, "it is built at once"
    members[0].free(buffer)


def test_what_was_asked_of_some_kernels_only_is_not_known(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    for times in (1, 2):
        members[0].kernel_info(members[0].build(SOURCE, OPTIONS), "twice")
        assert built == [BUILT] * times


def test_a_kernel_that_is_not_there_is_asked_of_the_driver(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    asked(members)
    for times in (2, 3):
        program = members[0].build(SOURCE, OPTIONS)
        with pytest.raises(ClError) as caught:
            members[0].kernel_info(program, "none")
        assert caught.value.status is Status.INVALID_KERNEL_NAME
        assert built == [BUILT] * times


def test_what_is_slow_to_build_is_built_at_once_until_it_is_quick(
    members: list[OpenCLDevice], built: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_program, "PUT_OFF_NS", 100)
    clock = iter([0, 101, 0, 100])
    monkeypatch.setattr(driver_program.time, "monotonic_ns", lambda: next(clock))
    for times in (1, 2, 2):
        asked(members[:1])
        assert built == [BUILT] * times


def test_what_includes_files_is_never_put_off(
    members: list[OpenCLDevice], built: list[tuple[str, str]], tmp_path: Path
) -> None:
    header = tmp_path / "header.h"
    header.write_text("")
    text = f'#include "{header}"\n{SOURCE}'
    for times in (1, 2):
        asked(members[:1], text)
        assert built == [(text, OPTIONS[0])] * times


def test_other_compilers_have_their_own_answers(
    members: list[OpenCLDevice], built: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(members[:1])
    monkeypatch.setattr(members[0]._programs, "_compiler", "another")
    asked(members[:1])
    assert built == [BUILT] * 2


def test_what_was_kept_of_other_facts_is_not_read(
    members: list[OpenCLDevice], built: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(members[:1])
    monkeypatch.setattr(driver_program, "_FACTS", [*driver_program._FACTS, "one_more"])
    asked(members[:1])
    assert built == [BUILT] * 2


def test_what_builds_no_more_fails_the_launch(
    members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(members[:1])

    def fail(_self: OpenCLPrograms, text: str, options: str, binary: bytes | None = None) -> object:
        raise BuildError("no space left")

    monkeypatch.setattr(OpenCLPrograms, "_built", fail)
    program = members[0].build(SOURCE, OPTIONS)
    buffer = members[0].allocate(64)
    for _ in range(2):
        with pytest.raises(DeviceFailed, match="no space left"):
            members[0].bind(program, "twice", [buffer])
    members[0].free(buffer)


@pytest.fixture
def from_binary(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each build that reaches the driver whether it is of a binary; nothing was launched before."""
    monkeypatch.setattr(driver_program, "_launched", set[str]())
    found: list[bool] = []
    original = OpenCLPrograms._built

    def build(self: OpenCLPrograms, text: str, options: str, binary: bytes | None = None) -> object:
        found.append(binary is not None)
        return original(self, text, options, binary)

    monkeypatch.setattr(OpenCLPrograms, "_built", build)
    return found


def launched(members: list[OpenCLDevice], is_kept: bool, text: str = SOURCE) -> None:
    """In a run of its own, on each member in turn."""
    driver_program._launched.clear()
    programs = [member.build(text, OPTIONS) for member in members]
    for member, program in zip(members, programs, strict=True):
        for kernel in ("twice", "more"):
            member.kernel_info(program, kernel)
        if is_kept:
            program.keep()
    for member, program in zip(members, programs, strict=True):
        found = np.arange(8, dtype=np.int32)
        buffer = member.allocate(found.nbytes)
        ready = copying.upload(member, memoryview(found).cast("B"), buffer, 0, [])
        bound = member.bind(program, "more", [buffer, LocalBytes(16)])
        for _ in range(2):
            ready = member.launch(bound, (2, 1, 1), (4, 1, 1), 1, [ready])
        finish(copying.download(member, buffer, 0, memoryview(found).cast("B"), [ready]))
        assert found.tolist() == list(range(2, 10))
        member.free(buffer)


def test_what_the_application_keeps_and_launches_is_built_from_the_driver_s_binary(
    members: list[OpenCLDevice], from_binary: list[bool]
) -> None:
    launched(members, is_kept=True)
    assert from_binary == [False]
    for is_kept in (True, False):
        launched(members, is_kept)
    assert from_binary == [False, True, True]


def test_what_is_not_launched_or_not_kept_has_no_binary(
    members: list[OpenCLDevice], from_binary: list[bool]
) -> None:
    program = members[0].build(SOURCE, OPTIONS)
    members[0].kernel_info(program, "twice")
    members[0].kernel_info(program, "more")
    program.keep()
    for _ in range(2):
        launched(members, is_kept=False)
    assert from_binary == [False] * 3


def test_no_binary_is_made_of_what_was_launched_already(
    members: list[OpenCLDevice], from_binary: list[bool]
) -> None:
    """PoCL 3.1 ends the process where the program's kernels run meanwhile."""
    buffer = members[0].allocate(64)
    for _ in range(2):
        program = members[0].build(SOURCE, OPTIONS)
        members[0].kernel_info(program, "twice")
        members[0].kernel_info(program, "more")
        members[0].bind(program, "twice", [buffer])
        program.keep()
        members[0].bind(program, "more", [buffer, LocalBytes(4)])
    launched(members, is_kept=False)
    assert from_binary == [False] * 3
    members[0].free(buffer)


def test_of_many_kernels_no_binary_is_made(
    members: list[OpenCLDevice], from_binary: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_program, "_KERNELS_MAX", 1)
    for _ in range(2):
        launched(members, is_kept=True)
    assert from_binary == [False] * 2


def test_where_nothing_can_be_kept_no_binary_is_made(
    members: list[OpenCLDevice], from_binary: list[bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[object] = []
    monkeypatch.setattr(driver_program, "binary_of", made.append)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "sdi").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    for _ in range(2):
        launched(members, is_kept=True)
    assert from_binary == [False] * 2 and made == []


def test_a_binary_that_the_driver_refuses_is_as_good_as_absent(
    members: list[OpenCLDevice], from_binary: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_program, "binary_of", lambda _: b"of another driver")
    for _ in range(2):
        launched(members, is_kept=True)
    assert from_binary == [False, True, False]


def test_what_can_not_be_read_is_as_good_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    build = cast(Callable[[bytes | None], object], lambda _: made.append(1))
    monkeypatch.setattr(driver_program.kept, "find", lambda _kind, _name: ["something else"])
    DriverProgram(("text", ""), "compiler", build)  # type: ignore[arg-type]
    assert made == [1]
