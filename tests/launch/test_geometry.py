"""Index spaces: the local size that is chosen, and what no device gets through."""

from __future__ import annotations

import struct
from math import prod
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.devices.base import KernelFacts
from sdi.devices.capabilities import CPU, GPU, Capabilities, MemberKind
from sdi.errors import ClError, Status
from sdi.launch.geometry import GroupRule, choose_local_size, group_rule, ndrange_of
from sdi.ndrange import Int3
from sdi.wire.opencl import DeviceInfo


def launch(size: Int3, local: Int3 | None = None) -> Launch:
    return Launch(1, 0, 3, (0, 0, 0), size, local, b"", 0)


def model(required: Int3 | None = None) -> KernelModel:
    return cast(KernelModel, SimpleNamespace(name="k", required_work_group_size=required))


CPU_RULE, GPU_RULE = GroupRule(1024, 4096, 8), GroupRule(256, 1024, 32)


@pytest.mark.parametrize(
    ("size", "on_cpus", "on_gpus"),
    [
        ((1 << 20, 1, 1), (1024, 1, 1), (256, 1, 1)),
        ((1024, 1, 1), (64, 1, 1), (64, 1, 1)),  # there are to be some groups
        ((5025, 1, 1), (201, 1, 1), (201, 1, 1)),
        ((512, 512, 1), (512, 2, 1), (256, 1, 1)),
        ((640, 480, 1), (640, 1, 1), (160, 1, 1)),
        ((1, 1000, 1), (1, 20, 1), (1, 10, 1)),
        ((24, 10, 3), (24, 2, 1), (24, 2, 1)),
        ((97, 8, 8), (97, 2, 1), (97, 1, 1)),
        ((1009, 1, 1), (1009, 1, 1), (1009, 1, 1)),  # one group, but not of one work-item each
        ((100_003, 1, 1), (1, 1, 1), (1, 1, 1)),
        ((7, 1, 1), (7, 1, 1), (7, 1, 1)),
    ],
)
def test_a_local_size_divides_and_is_about_what_drivers_choose(
    size: Int3, on_cpus: Int3, on_gpus: Int3
) -> None:
    assert (choose_local_size(size, CPU_RULE), choose_local_size(size, GPU_RULE)) == (on_cpus, on_gpus)
    assert ndrange_of(model(), launch(size), GPU_RULE).local_size == on_gpus


@given(st.tuples(*[st.integers(1, 3000)] * 3), st.integers(1, 1024), st.integers(1, 128))
def test_a_local_size_is_one_that_all_members_can_run(size: Int3, limit: int, lanes: int) -> None:
    local = choose_local_size(size, GroupRule(min(limit, 256), limit, lanes))
    assert prod(local) <= limit and not any(whole % part for whole, part in zip(size, local, strict=True))


def test_groups_are_of_what_the_weakest_member_can_run() -> None:
    def member(kind: MemberKind, *sizes: int) -> Capabilities:
        info = {DeviceInfo.MAX_WORK_ITEM_SIZES: struct.pack("<3Q", *sizes)} if sizes else {}
        return cast(Capabilities, SimpleNamespace(kind=kind, info=info))

    cpu, gpu = member(CPU), member(GPU, 1024, 1024, 64)
    assert group_rule([cpu], KernelFacts(4096, 8, 0, 0)) == GroupRule(1024, 4096, 8)
    both = GroupRule(128, 128, 32, (1024, 1024, 64))
    assert group_rule([gpu, cpu], KernelFacts(128, 32, 0, 0)) == both
    assert group_rule([gpu, cpu], KernelFacts(4096, 8, 0, 0), 2) == GroupRule(1024, 4096, 8), "it runs there"
    assert group_rule([cpu], KernelFacts(0, 0, 0, 0)) == GroupRule(1, 1, 1), "a driver that does not say"
    assert choose_local_size((1, 1, 1 << 20), group_rule([gpu], KernelFacts(1024, 32, 0, 0))) == (1, 1, 64)


def test_the_applications_local_size_comes_first_then_the_kernels() -> None:
    assert ndrange_of(model((4, 1, 1)), launch((16, 1, 1), (8, 1, 1))).local_size == (8, 1, 1)
    assert ndrange_of(model((4, 1, 1)), launch((16, 1, 1))).local_size == (4, 1, 1)


def test_what_does_not_divide_or_has_no_end_is_refused() -> None:
    for size, local, status in (
        ((16, 1, 1), (5, 1, 1), Status.INVALID_WORK_GROUP_SIZE),
        ((1 << 30, 1 << 30, 1), (1, 1, 1), Status.OUT_OF_RESOURCES),
    ):
        with pytest.raises(ClError) as refused:
            ndrange_of(model(), launch(size, local))
        assert refused.value.status is status
