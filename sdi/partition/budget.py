"""What finding out how launches run best may cost a session, over its whole life."""

from __future__ import annotations

import time
from collections.abc import Callable

LEAST_NS, PART = 20e6, 0.02
"""The promise: never more than the larger of a time and a part of the session's life."""
THINK_NS = 10e6
"""To choose among cuts of a kernel takes so long before that was measured.  [M] on hosts with H100s and H200s
5 to 60 ms."""
_MOST = 5.0
"""What took longer than so many times that was no ordinary kernel, and says nothing of the next one."""
_AGAIN = 0.25
"""Part of the time to choose that it takes to choose again, ``THINK_NS`` at most: plans are remembered."""
_AT_ONCE = 0.5
"""One question may take so much of what is left: others come later."""


class Budget:
    """Time that epochs may cost beyond what one member would have taken.  Owned by: sdi-scheduler.

    ``lost_ns``: what launches in several assignments, and what they left apart, have cost so far beyond what
    they saved.  ``think_ns``: what it took to choose among cuts of the last kernels that were new;
    ``begin_ns``: and to issue their first launches in several assignments.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.now_ns = now_ns
        self._begun_ns = now_ns()
        self.spent_ns = 0.0
        self.lost_ns = 0.0
        self.think_ns = THINK_NS
        self.begin_ns = 0.0

    def _allowed_ns(self) -> float:
        return max(LEAST_NS, PART * (self.now_ns() - self._begun_ns))

    def left_ns(self) -> float:
        """What may still be spent; it grows while the session goes on."""
        return self._allowed_ns() - self.spent_ns - self.lost_ns

    def overdrawn_ns(self) -> float:
        """What was lost beyond what may be; 0 where nothing was."""
        return max(0.0, self.lost_ns - self._allowed_ns())

    def lose(self, ns: float) -> None:
        """Launches took so much longer than on one member; negative: so much less."""
        self.lost_ns = max(0.0, self.lost_ns + ns)

    def affords(self, risk_ns: float) -> bool:
        """Whether an epoch may be made that could cost so much in vain."""
        return risk_ns <= _AT_ONCE * self.left_ns()

    def spend(self, ns: float) -> None:
        """So much was spent, or is at stake; negative: what was at stake was not lost."""
        self.spent_ns = max(0.0, self.spent_ns + ns)

    def began(self, took_ns: float) -> None:
        """It took so long to issue the first launch of a way."""
        self.spend(took_ns)
        self.begin_ns = min((self.begin_ns + took_ns) / 2, _MOST * THINK_NS)

    def thought(self, took_ns: float, known_ns: float) -> float:
        """It took so long to choose among cuts; what it is taken to cost once more.

        ``known_ns``: what it was taken to cost, 0.0 where that was not known.
        """
        self.spend(took_ns)
        if not known_ns:
            self.think_ns = min((self.think_ns + took_ns) / 2, _MOST * THINK_NS)
        return min(max(_AGAIN * took_ns, 1.0), THINK_NS)
