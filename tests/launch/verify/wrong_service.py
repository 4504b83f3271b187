"""A service with wrong access maps: each box says that it writes only the first half of what it writes.

For kernels that write element i of 4 bytes in work-item i.  Runs in place of the service, with its arguments.
"""

import runpy
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sdi.clc.model import KernelModel
from sdi.intervals import ByteRange
from sdi.launch.kernel import Kernel
from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling.model import AccessRange, BoundAccess, KernelAccess, Precision


@dataclass(frozen=True, slots=True)
class HalfBound:
    """See the module."""

    bound: BoundAccess
    group_nbytes: int

    def over(self, box: GroupBox) -> tuple[AccessRange, ...]:
        start, stop = box.start[0] * self.group_nbytes, box.stop[0] * self.group_nbytes
        half = RegionSet((ByteRange(start, (start + stop) // 2),))
        return tuple(
            replace(item, writes=half, precision=Precision.EXACT) if item.writes else item
            for item in self.bound.over(box)
        )

    def bounds(self, box: GroupBox) -> tuple[AccessRange, ...]:
        return self.over(box)

    def foresee(self, boxes: Sequence[GroupBox], exact: bool) -> None:
        """Nothing is to be found out."""


@dataclass(frozen=True, slots=True)
class HalfAccess:
    """See the module."""

    access: KernelAccess

    def bind(
        self, ndrange: NDRange, values: tuple[bytes | None, ...], buffer_nbytes: tuple[int | None, ...]
    ) -> HalfBound:
        return HalfBound(self.access.bind(ndrange, values, buffer_nbytes), 4 * ndrange.local_size[0])


_make_kernel = Kernel.__init__


def _make_wrong_kernel(
    kernel: Kernel, model: KernelModel, access: KernelAccess, has_variables: bool = False
) -> None:
    _make_kernel(kernel, model, HalfAccess(access), has_variables)


if __name__ == "__main__":
    Kernel.__init__ = _make_wrong_kernel  # type: ignore[method-assign]
    sys.argv = ["server", *sys.argv[-4:]]
    runpy.run_module("sdi.service.main", run_name="__main__")
