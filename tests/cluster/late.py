"""A network that is far away: SDI_TEST_TRANSPORT is this file, ":" and by how many us messages are late."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sdi.cluster.transport import Receiver, Transport

ROOT = str(Path(__file__).resolve().parents[2])
if ROOT not in sys.path:  # in a node, which has no other folders than Python's own
    sys.path.insert(0, ROOT)

from tests.devices.testing.due import DueCalls  # noqa: E402


def wrap(transport: Transport, what: str) -> Transport:
    """What stands for ``transport``."""
    return LateTransport(transport, int(what) * 1000)


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
