"""How many random cases a test tries."""

from __future__ import annotations

import os


def num_seeds(usual: int, all_of_them: int) -> int:
    """The first ``usual`` of them; all in ``make soak``, and where ALL_SEEDS is set."""
    return all_of_them if os.environ.get("ALL_SEEDS") else usual
