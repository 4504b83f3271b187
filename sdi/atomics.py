"""Atomic updates whose order nobody can see: the noun in which kernels, plans and merges speak of them."""

from __future__ import annotations

from typing import Literal

from sdi.dataclass import dataclass

Operation = Literal["add", "xor", "and", "or", "min", "max"]


@dataclass(frozen=True, slots=True, order=True)
class Update:
    """Integers of ``nbytes`` (4 or 8) are changed by ``operation`` alone, and nobody looks at the result.

    Updates of one kind may run in any order, so also on private copies that are combined afterwards.
    "add" stands for sub, inc and dec too.  ``signed`` matters for "min" and "max", else it is False.
    """

    operation: Operation
    nbytes: int
    signed: bool = False

    def __post_init__(self) -> None:
        if self.nbytes not in (4, 8) or (self.signed and self.operation not in ("min", "max")):
            raise ValueError(f"no such update: {self}")
