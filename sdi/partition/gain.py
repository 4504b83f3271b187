"""Whether a launch is worth splitting (``SDI_SPLIT=auto``): a small cost model with measured times.

Source: DESIGN "Splitting or not".
"""

from __future__ import annotations

from dataclasses import dataclass

COPY_BYTES_PER_NS = 8.0
"""Host copies to and from members, and comparing with twins: what one core does."""
LAUNCH_NS = 60_000
"""What one more piece costs: issuing it and seeing its end."""
_WEIGHT = 0.25


@dataclass(slots=True)
class KernelTime:
    """Measured time per work-group of one kernel, over all members, smoothed.  None: not measured yet."""

    group_ns: float | None = None

    def record(self, total_ns: int, groups: int) -> None:
        """``groups`` work-groups took ``total_ns`` in all, added up over the pieces."""
        now = total_ns / groups
        self.group_ns = now if self.group_ns is None else (1 - _WEIGHT) * self.group_ns + _WEIGHT * now


@dataclass(frozen=True, slots=True)
class Estimate:
    """Predicted time of one way to run a launch, in ns."""

    run_ns: float
    move_ns: float
    issue_ns: float

    @property
    def total_ns(self) -> float:
        """All of it, one after the other."""
        return self.run_ns + self.move_ns + self.issue_ns


def estimate(group_ns: float, groups: int, pieces: int, moved_nbytes: int) -> Estimate:
    """``groups`` work-groups in ``pieces`` equal pieces that run side by side, after moving some bytes."""
    return Estimate(group_ns * groups / pieces, moved_nbytes / COPY_BYTES_PER_NS, pieces * LAUNCH_NS)


def loss(whole: Estimate, split: Estimate) -> str:
    """Why not to split, in one sentence with figures; empty when splitting is predicted to gain."""
    if split.total_ns < whole.total_ns:
        return ""
    return (
        f"predicted {split.total_ns / 1e6:.2f} ms split ({split.move_ns / 1e6:.2f} ms of it for copies), "
        f"{whole.total_ns / 1e6:.2f} ms whole"
    )
