"""Who acts for a session now: the scheduler is a role, taken in turns.

``Session.run`` takes it for each batch of records, a thread that posts (a member's ``-done`` thread with a
completion, say) takes it if it is free and else leaves its call to whoever has it.  So a completion reaches
the application without waking another thread of ours first.  Nothing that is done in a turn waits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable

from sdi.devices.polling import Polling
from sdi.profile.record.recorder import Recorder

_log = logging.getLogger("sdi.session")


class Turns:
    """``settle``: called at the end of what was posted, by whoever has the turn.

    ``poke``: has whoever executes without Python return, since something was posted.
    """

    def __init__(self, polling: Polling, settle: Callable[[], None], recorder: Recorder | None) -> None:
        self._polling = polling
        self._settle = settle
        self._recorder = recorder
        self._inbox: deque[Callable[[], None]] = deque()
        self._turn = threading.Lock()
        self.poke: Callable[[], None] | None = None

    def post(self, call: Callable[[], None]) -> None:
        """Run ``call`` in a turn: now, or by the thread that has the turn.  Any thread."""
        self._inbox.append(call)
        if self.poke is not None:
            self.poke()
        self.take()

    @property
    def is_behind(self) -> bool:
        """Whether something was posted that did not run yet."""
        return bool(self._inbox)

    def take(self) -> None:
        """Run what was posted while nobody had the turn; after the release look again, or a call is lost."""
        while self._inbox and self._turn.acquire(blocking=False):
            if self._recorder is not None:
                self._recorder.turn_begins()
            try:
                self.drain()
            finally:
                if self._recorder is not None:
                    self._recorder.turn_ends()
                self._turn.release()

    def begin_with(self, calls: Iterable[Callable[[], None]]) -> None:
        """A turn that begins with these, by the thread that issues: it will look what is complete soon."""
        self._polling.is_busy = True
        with self._turn:
            if self._recorder is not None:
                self._recorder.turn_begins()
            for call in calls:
                call()
            self.drain()
            if self._recorder is not None:
                self._recorder.turn_ends()
        self.take()

    def look(self) -> bool:
        """Complete what is done on members; whether anything is left there."""
        with self._turn:
            is_left = self._polling.poll()
            self.drain()
        self.take()
        return is_left

    def drain(self) -> None:
        """Run what was posted, then settle.  The caller has the turn."""
        inbox = self._inbox
        if inbox:
            self._polling.gathers = True
            while inbox:
                _guarded(inbox.popleft())
            self._polling.send()
        self._settle()


def _guarded(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        _log.exception("our bug")
