"""Sessions of the service with real members, without the C library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.runtime.launcher import SplitMode
from sdi.settings import Balance
from sdi.vmem.memory import Coherence
from tests.icd.wire_client import WireClient

Serve = Callable[..., WireClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A function that starts a session with that many members; closed at the end of the test."""
    with ExitStack() as stack:

        def start(
            members: int = 2,
            split: SplitMode = "always",
            coherence: Coherence = "lazy",
            memory_nbytes: int | None = None,
            plays: bool = False,
            balance: Balance = ("off", 0),
        ) -> WireClient:
            devices = open_members(MemberSettings(count=members, memory_nbytes=memory_nbytes))
            return stack.enter_context(WireClient(devices, split, coherence, plays=plays, balance=balance))

        yield start
