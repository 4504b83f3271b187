"""Index spaces: the local size that is chosen, and what no device gets through."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from sdi.clc.model import KernelModel
from sdi.commands import Launch
from sdi.errors import ClError, Status
from sdi.launch.geometry import choose_local_size, ndrange_of
from sdi.ndrange import Int3


def launch(size: Int3, local: Int3 | None = None) -> Launch:
    return Launch(1, 0, 3, (0, 0, 0), size, local, b"", 0)


def model(required: Int3 | None = None) -> KernelModel:
    return cast(KernelModel, SimpleNamespace(name="k", required_work_group_size=required))


@pytest.mark.parametrize(
    ("size", "local"),
    [((1024, 1, 1), (64, 1, 1)), ((24, 10, 3), (24, 2, 1)), ((97, 8, 8), (1, 8, 8)), ((7, 7, 7), (7, 7, 1))],
)
def test_a_local_size_divides_and_has_at_most_64_items(size: Int3, local: Int3) -> None:
    assert choose_local_size(size) == local
    assert ndrange_of(model(), launch(size)).local_size == local


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
