"""NDRanges and boxes of work-groups, as OpenCL has them: dimension 0 (x) first, padded to 3."""

from __future__ import annotations

from sdi.dataclass import dataclass

Int3 = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class NDRange:
    """One launch's index space in work-items; unused dimensions have offset 0, size 1, local size 1."""

    work_dim: int
    offset: Int3
    global_size: Int3
    local_size: Int3

    def __post_init__(self) -> None:
        if not 1 <= self.work_dim <= 3:
            raise ValueError(f"work_dim {self.work_dim} is not 1, 2 or 3")
        for dim in range(3):
            size, local = self.global_size[dim], self.local_size[dim]
            if size < 1 or local < 1 or size % local:
                raise ValueError(f"dimension {dim}: local size {local} does not divide global size {size}")
            if dim >= self.work_dim and (size, local, self.offset[dim]) != (1, 1, 0):
                raise ValueError(f"dimension {dim} is used, but work_dim is {self.work_dim}")

    @property
    def num_groups(self) -> Int3:
        """Work-groups per dimension."""
        g, n = self.global_size, self.local_size
        return (g[0] // n[0], g[1] // n[1], g[2] // n[2])

    @property
    def total_groups(self) -> int:
        """Work-groups in all."""
        x, y, z = self.num_groups
        return x * y * z


@dataclass(frozen=True, slots=True)
class GroupBox:
    """A rectangle of work-groups: ``start`` <= group id < ``stop`` in each dimension, never empty."""

    start: Int3
    stop: Int3

    def __post_init__(self) -> None:
        if any(a < 0 or a >= b for a, b in zip(self.start, self.stop, strict=True)):
            raise ValueError(f"empty box {self.start}..{self.stop}")

    @property
    def extent(self) -> Int3:
        """Work-groups per dimension."""
        a, b = self.start, self.stop
        return (b[0] - a[0], b[1] - a[1], b[2] - a[2])

    @property
    def total_groups(self) -> int:
        """Work-groups in all."""
        x, y, z = self.extent
        return x * y * z
