"""What the service tells the client's completion thread without being asked."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from sdi.wire.layout import padded
from sdi.wire.records import NoticeKind, Op, record_layout

_NOTICE = record_layout(Op.NOTICE)


class Notices:
    """Notices to one client, in order.  Nothing here blocks.  Owned by: whoever has the session's turn.

    What the socket does not take waits for room, on a thread of its own: the session's may wait for records
    by then, and would not see that it is to wait for something else too.
    """

    def __init__(self, end: socket.socket, post: Callable[[Callable[[], None]], None]) -> None:
        """``end``: stays the caller's.  ``post`` runs a call in a turn of the session, from any thread."""
        end.setblocking(False)
        self._end = end
        self._post = post
        self._unsent = bytearray()
        self._waiting: threading.Thread | None = None
        self._is_closed = False

    @property
    def is_behind(self) -> bool:
        """Whether something is not sent yet."""
        return bool(self._unsent)

    def send(self, kind: NoticeKind, event: int, status: int, text: bytes = b"") -> None:
        """Tell it now, or when there is room."""
        body = padded(text)
        self._unsent += (
            _NOTICE.pack(_NOTICE.size + len(body), Op.NOTICE, event, kind, status, len(text)) + body
        )
        self._send()

    def close(self) -> None:
        """Stop waiting for a client that does not read.  Nothing more is sent."""
        self._is_closed = True
        if (waiting := self._waiting) is not None:
            with suppress(OSError):  # the client has gone already
                self._end.shutdown(socket.SHUT_RDWR)
            waiting.join()

    def _send(self) -> None:
        try:
            sent = self._end.send(self._unsent)
            del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        if self._unsent and self._waiting is None and not self._is_closed:
            self._waiting = threading.Thread(target=self._await_room, name="sdi-notices", daemon=True)
            self._waiting.start()

    def _await_room(self) -> None:
        room = select.poll()
        room.register(self._end, select.POLLOUT)
        room.poll()
        self._post(self._go_on)

    def _go_on(self) -> None:
        self._waiting = None
        self._send()
