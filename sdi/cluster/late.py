"""A network that is far away: a test hook (SDI_TEST_NET_DELAY_US)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sdi.cluster.transport import Receiver, Transport
from sdi.devices.testing.due import DueCalls


class LateTransport:
    """``transport``, on which every message takes ``delay_ns`` more.  Implements ``Transport``."""

    def __init__(self, transport: Transport, delay_ns: int) -> None:
        self.rank = transport.rank
        self.size = transport.size
        self.is_spare = False
        self.traffic = transport.traffic
        self.deaf = transport.deaf
        self._transport: Final = transport
        self._delay_ns: Final = delay_ns
        self._due: Final = DueCalls("sdi-net-late")

    def start(self, receiver: Receiver) -> None:
        self._transport.start(receiver)

    def send(
        self, to: int, batch: bytes, bulk: memoryview | None = None, sent: Callable[[], None] | None = None
    ) -> None:
        due_ns = time.monotonic_ns() + self._delay_ns
        self._due.at(due_ns, lambda: self._transport.send(to, batch, bulk, sent))

    def refuse(self, rank: int, why: str, last: bytes = b"") -> None:
        self._transport.refuse(rank, why, last)

    def close(self) -> None:
        self._due.close()
        self._transport.close()
