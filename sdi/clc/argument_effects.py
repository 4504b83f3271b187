"""What a kernel does to memory through one of its arguments: what ``EffectAnalysis`` adds up."""

from __future__ import annotations

from sdi.atomics import Update
from sdi.dataclass import dataclass, field

UNKNOWN_NBYTES = 0


@dataclass(slots=True)
class ArgumentEffects:
    """Effects through one argument; ``store_nbytes``: sizes of stored scalars, 0 for unknown ones.

    ``updates``: atomic ones that may be made on private copies; ``only_updates``: there is nothing else.
    ``is_claimed``: who writes there also uses the result of an atomic function.
    """

    reads: bool = False
    writes: bool = False
    atomic: bool = False
    store_nbytes: set[int] = field(default_factory=set)
    updates: set[Update] = field(default_factory=set)
    only_updates: bool = True
    is_claimed: bool = True

    @property
    def unit_nbytes(self) -> int:
        """Size of the largest stored scalar; 0 without stores, 1 when a size is unknown."""
        if not self.writes:
            return 0
        return 1 if UNKNOWN_NBYTES in self.store_nbytes else max(self.store_nbytes, default=1)

    @property
    def smallest_unit_nbytes(self) -> int:
        """Size of the smallest stored scalar; 0 without stores, 1 when a size is unknown."""
        if not self.writes:
            return 0
        return 1 if UNKNOWN_NBYTES in self.store_nbytes else min(self.store_nbytes, default=1)
