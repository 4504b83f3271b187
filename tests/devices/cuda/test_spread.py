"""How much local memory keeps groups evenly spread over a GPU's units."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from sdi.devices.cuda.spread import Units, spread_nbytes

H200 = Units(132, 2048, 233_472, 1024, 48 << 10)


@dataclass(frozen=True, slots=True)
class Kernel:
    """Groups that also have room for no more than ``most`` on a unit, by their registers."""

    items: int
    local_nbytes: int
    most: int

    def fitting(self, more_nbytes: int) -> int:
        nbytes = self.local_nbytes + more_nbytes + H200.reserved_nbytes
        return min(self.most, H200.items // self.items, H200.local_nbytes // nbytes)

    def besides(self, groups: int) -> int:
        return spread_nbytes(H200, groups, self.items, self.local_nbytes, self.fitting)


@pytest.mark.parametrize(("groups", "each"), [(3 * 132 + 1, 4), (528, 4), (529, 5)])
def test_a_unit_takes_no_more_than_its_share(groups: int, each: int) -> None:
    kernel = Kernel(256, 10_240, 6)
    nbytes = kernel.besides(groups)
    assert nbytes > 0 and kernel.fitting(nbytes) == each and kernel.local_nbytes + nbytes <= 48 << 10


@pytest.mark.parametrize(
    ("kernel", "groups"),
    [
        (Kernel(256, 10_240, 4), 528),  # no unit can take more
        (Kernel(256, 10_240, 6), 100_000),  # they come one after the other
        (Kernel(256, 10_240, 6), 132),  # one would have to ask for more than it gets
        (Kernel(256, 0, 6), 528),  # it may live by the cache
        (Kernel(64, 512, 32), 792),  # small ones leave room for others
    ],
)
def test_others_are_left_alone(kernel: Kernel, groups: int) -> None:
    assert kernel.besides(groups) == 0
