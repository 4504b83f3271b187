"""Members that do nothing, or pass everything on; and what tests put in place of members and networks."""

from __future__ import annotations

import runpy
from typing import TypeVar

T = TypeVar("T")


def stand_in(said: str, real: T, *more: object) -> T:
    """What stands for ``real``: ``wrap(real, *more, WHAT)`` of a file of Python, by ``said``, "FILE:WHAT"."""
    path, _, what = said.partition(":")
    made: T = runpy.run_path(path)["wrap"](real, *more, what)
    return made
