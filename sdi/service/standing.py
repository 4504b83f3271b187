"""What a service believes to be under way, for whoever wonders why nothing happens.

``kill -RTMIN PID`` has a service write to stderr where its threads stand and, as soon as the thread that acts
for the session runs Python, this.  Where only members' work is waited for, the player has that thread, and
what it has in flight is not told.
"""

from __future__ import annotations

import faulthandler
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sdi.service.session import Session


def tell_at_signal(session: Session) -> None:
    """From now on, behind where its threads stand."""

    def tell(_number: int, _frame: object) -> None:
        with suppress(Exception):  # whatever the session does just now goes on
            print("\n".join(standing(session)), file=sys.stderr, flush=True)

    faulthandler.unregister(signal.SIGRTMIN)
    signal.signal(signal.SIGRTMIN, tell)
    faulthandler.register(signal.SIGRTMIN, chain=True)


def standing(session: Session) -> list[str]:
    """A line each: the session, what Python and the player have under way, the page."""
    player, open_ = session.player, "open" if session.is_open else "closed"
    lines = [f"session: {open_}, {'behind' if session.is_behind else 'nothing posted'}"]
    lines += [f"engine: {each}" for each in session.under_way()]
    if player is not None:
        lines += [f"player: {each}" for each in player.under_way()]
    lines += [f"page: {session.page.standing()}"]
    return lines
