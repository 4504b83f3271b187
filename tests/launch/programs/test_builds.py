"""What a build tells about kernels holds on every member."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from sdi.clc.model import CompiledProgram
from sdi.devices.base import Device, KernelFacts, SubGroupQuery
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import DeviceProgram
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.errors import BuildError, ClError, DeviceLost, Status, require
from sdi.explain.notes import KernelNote, note_kernel
from sdi.launch.programs import builds
from sdi.launch.programs.builds import (
    Compiled,
    Target,
    ask_sub_groups,
    build,
    compile_only,
    link,
    on_all,
    rebuild,
)

TINY = "kernel void tiny(global int *a) { a[get_global_id(0)] = 1; }"


class OtherLimits(ForwardingDevice):
    """A member whose kernels have limits of its own."""

    def __init__(self, device: Device, facts: KernelFacts) -> None:
        super().__init__(device)
        self._own = facts

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        """The same for all kernels."""
        return self._own


@pytest.fixture
def members() -> Iterator[list[Device]]:
    opened = list(open_members(MemberSettings(count=2)))
    yield opened
    for member in opened:
        member.close()


def test_the_limits_of_a_kernel_hold_on_every_member(members: list[Device]) -> None:
    limits = [KernelFacts(256, 8, 100, 7), KernelFacts(64, 32, 40, 9)]
    target = Target([OtherLimits(m, own) for m, own in zip(members, limits, strict=True)])
    made = build(TINY, "", "", target)
    assert made.facts == ((KernelFacts(64, 32, 100, 9),),)


def test_members_that_are_devices_have_their_own_limits(members: list[Device]) -> None:
    limits = [KernelFacts(256, 8, 100, 7), KernelFacts(64, 32, 40, 9)]
    devices = [OtherLimits(m, own) for m, own in zip(members, limits, strict=True)]
    assert build(TINY, "", "", Target(devices, is_image=False)).facts == (tuple(limits),)


def test_limits_of_real_members_are_those_of_each_alone(members: list[Device]) -> None:
    together = build(TINY, "", "", Target(members)).facts
    alone = [build(TINY, "", "", Target([member])).facts for member in members]
    assert together == alone[0] == alone[1]
    assert together[0][0].work_group_size > 0 and together[0][0].preferred_multiple > 0


def test_one_bad_part_fails_the_step_that_meets_it(members: list[Device]) -> None:
    target = Target(members)
    with pytest.raises(BuildError) as failed:
        build("kernel void f( {", "", "", target)
    assert failed.value.status is Status.BUILD_PROGRAM_FAILURE and "error:" in failed.value.log
    with pytest.raises(BuildError) as failed:
        compile_only("kernel void f( {", "", "", {}, target)
    assert failed.value.status is Status.COMPILE_PROGRAM_FAILURE
    with pytest.raises(BuildError) as failed:
        compile_only("kernel void f() {}", "-no-such-option", "", {}, target)
    assert failed.value.status is Status.INVALID_COMPILER_OPTIONS
    calling = compile_only("void g(void); kernel void f() { g(); }", "", "", {}, target)
    with pytest.raises(BuildError) as failed:
        link([calling.object], "", target)
    assert failed.value.status is Status.LINK_PROGRAM_FAILURE and "g" in failed.value.log
    for damaged in (b"", b"garbage", calling.object[:-1], b"x" + calling.object):
        with pytest.raises(ClError) as refused:
            link([damaged], "", target)
        assert refused.value.status is Status.INVALID_BINARY
        with pytest.raises(ClError) as refused:
            rebuild(damaged, target)
        assert refused.value.status is Status.INVALID_BINARY
    library = link([calling.object], "-create-library", target)
    assert isinstance(library, Compiled)


class NoSteps(ForwardingDevice):
    """A member whose driver calls kernels named ``step`` something else, as pocl does."""

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        """Those of all others."""
        require(kernel != "step", Status.INVALID_KERNEL_NAME, "kernel 'step': no such kernel")
        return super().kernel_info(program, kernel, asked)


def test_a_kernel_that_the_driver_does_not_find_is_none(members: list[Device]) -> None:
    target = Target([members[0], NoSteps(members[1])])
    made = build("kernel void step(global int *a) { a[0] = 1; } " + TINY, "", "", target)
    assert [kernel.model.name for kernel in made.kernels] == ["tiny"]
    assert len(made.facts) == 1 and made.log.startswith("warning: there is no kernel 'step'")


COUNT = SubGroupQuery(0x2034, (8, 4), 1)


class OwnSubGroups(ForwardingDevice):
    """A member with ``size`` work-items in a sub-group, 0: it is lost."""

    def __init__(self, device: Device, size: int) -> None:
        super().__init__(device)
        self.size = size

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        """For any kernel and query."""
        if not self.size:
            raise DeviceLost(self.capabilities.name, "it was pulled out")
        require(asked is None or asked.given != (0,), Status.INVALID_VALUE, "no work-items")
        found = super().kernel_info(program, kernel)
        return found if asked is None else replace(found, sub_groups=(math.prod(asked.given) // self.size,))


def test_the_first_member_that_is_not_lost_says_what_its_sub_groups_are(members: list[Device]) -> None:
    first, second = (OwnSubGroups(member, size) for member, size in zip(members, (4, 8), strict=True))
    made = build(TINY, "", "", Target([first, second]))
    assert ask_sub_groups(made, 0, COUNT, [first, second]) == (8,)
    with pytest.raises(ClError) as refused:
        ask_sub_groups(made, 0, SubGroupQuery(0x2034, (0,), 1), [first, second])
    assert refused.value.status is Status.INVALID_VALUE
    first.size = 0
    assert ask_sub_groups(made, 0, COUNT, [first, second]) == (4,)
    without = replace(made, programs=(None, made.programs[1]))
    first.size = 4
    assert ask_sub_groups(without, 0, COUNT, [first, second]) == (4,)
    second.size = 0
    with pytest.raises(DeviceLost, match="no device is left"):
        ask_sub_groups(without, 0, COUNT, [first, second])


def test_all_nodes_are_asked_at_once_and_the_members_of_each_in_turn() -> None:
    nodes = [0, 0, 1, 2, 2, 2]
    devices = [cast(Device, SimpleNamespace(capabilities=SimpleNamespace(node=node))) for node in nodes]
    first, asked = threading.Barrier(3), cast(dict[int, list[int]], {node: [] for node in nodes})

    def ask(member: int) -> int:
        asked[nodes[member]].append(member)
        if len(asked[nodes[member]]) == 1:
            first.wait(60.0)  # until the other nodes are asked too
        return 10 * member

    assert on_all(devices, ask) == [0, 10, 20, 30, 40, 50]
    assert asked == {0: [0, 1], 1: [2], 2: [3, 4, 5]}


def test_of_a_program_that_is_known_only_what_is_asked_for_is_parsed_again(
    members: list[Device], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applications build many programs of which they launch a few kernels."""
    text = TINY + f" // {id(monkeypatch)}"
    build(text, "", "", Target(members))

    def refuse(*_: object, **__: object) -> CompiledProgram:
        raise AssertionError("it is known")

    target = Target(members, note=note_kernel)
    with monkeypatch.context() as refusing:
        for name in ("compile_source", "compile_text"):
            refusing.setattr(builds, name, refuse)
        (kernel,) = build(text, "", "", target).kernels
    assert kernel.note is not None
    found = kernel.note()
    assert isinstance(found, KernelNote) and found.name == "tiny" and kernel.note() == found
