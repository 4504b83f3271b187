"""Members on one driver device build a program once between them, and never mix two programs up."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.devices import copying
from sdi.devices.opencl.member import OpenCLDevice
from sdi.errors import BuildError
from tests.devices.conftest import finish

SOURCE = "kernel void k(global int *a) { a[get_global_id(0)] += NUMBER; }"
SIXTEEN = 64  # bytes of as many work-items


def test_members_of_one_device_build_a_program_once(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
    for number in ("1", "2", "1", "1"):  # the last two are different programs with the same text
        for member in members:
            member.build(SOURCE, [f"-DNUMBER={number}"])
    assert built == [(SOURCE, f"-DNUMBER={number}") for number in ("1", "2", "1", "1")]


def test_a_member_that_builds_twice_has_two_programs(
    members: list[OpenCLDevice], built: list[tuple[str, str]]
) -> None:
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
