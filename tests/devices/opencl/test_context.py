"""Members on one driver device build a program once between them, and never mix two programs up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.opencl.programs import OpenCLPrograms
from sdi.errors import BuildError
from tests.devices.conftest import finish

SOURCE = "kernel void k(global int *a) { a[get_global_id(0)] += NUMBER; }"
SIXTEEN = 64  # bytes of as many work-items


@pytest.fixture
def members(driver: DriverDevice) -> Iterator[list[OpenCLDevice]]:
    """Two on the CPU device."""
    opened = open_members(MemberSettings(count=2, devices=driver.name))
    yield [cast(OpenCLDevice, member) for member in opened]
    for member in reversed(opened):
        member.close()


def counted(members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options of each build that reaches the driver from now on."""
    built: list[str] = []
    original = OpenCLPrograms._built

    def build(self: OpenCLPrograms, text: str, options: str) -> object:
        built.append(options)
        return original(self, text, options)

    monkeypatch.setattr(OpenCLPrograms, "_built", build)
    return built


def test_members_of_one_device_build_a_program_once(
    members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = counted(members, monkeypatch)
    for number in ("1", "2", "1", "1"):  # the last two are different programs with the same text
        for member in members:
            member.build(SOURCE, [f"-DNUMBER={number}"])
    assert built == [f"-DNUMBER={number}" for number in ("1", "2", "1", "1")]


def test_a_member_that_builds_twice_has_two_programs(
    members: list[OpenCLDevice], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = counted(members, monkeypatch)
    members[0].build(SOURCE, ["-DNUMBER=1"])
    members[0].build(SOURCE, ["-DNUMBER=1"])
    members[1].build(SOURCE, ["-DNUMBER=1"])
    members[1].build(SOURCE, ["-DNUMBER=1"])
    assert len(built) == 3


def test_a_program_that_does_not_build_fails_on_every_member(members: list[OpenCLDevice]) -> None:
    for member in members:
        with pytest.raises(BuildError, match="nonsense"):
            member.build("kernel void k(void) { nonsense(); }", [])


def test_shared_programs_run_on_each_member_with_its_own_arguments(members: list[OpenCLDevice]) -> None:
    programs = [member.build(SOURCE, ["-DNUMBER=3"]) for member in members]
    buffers, launches = [], []
    for position, (member, program) in enumerate(zip(members, programs, strict=True)):
        buffer = member.allocate(SIXTEEN)
        ready = copying.upload(member, memoryview(np.full(16, position, np.int32)).cast("B"), buffer, 0, [])
        bound = member.bind(program, "k", [buffer])
        buffers.append(buffer)
        launches.append(member.launch(bound, (4, 1, 1), (4, 1, 1), 1, [ready]))
    for position, (member, buffer) in enumerate(zip(members, buffers, strict=True)):
        found = np.zeros(16, np.int32)
        finish(copying.download(member, buffer, 0, memoryview(found).cast("B"), [launches[position]]))
        assert found.tolist() == [position + 3] * 16
        member.free(buffer)
