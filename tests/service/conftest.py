"""Sessions of the service with real members, without the C library."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory
from sdi.launch.launcher import SplitMode
from sdi.launch.profiling import opening
from sdi.profile.record.recorder import Recorder
from sdi.settings import Balance
from sdi.vmem.memory import Coherence
from tests.service.wire_client import WireClient

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
            profile: Path | None = None,
            is_image: bool = True,
            pool: Callable[[Sequence[Device]], PooledMemory] | None = None,
            has_limits: bool = True,
            apart: bool = False,
        ) -> WireClient:
            polling = Polling()
            devices = open_members(MemberSettings(count=members, memory_nbytes=memory_nbytes), polling)
            for device in devices if apart else ():  # as a GPU: their memory is not the host's
                device.capabilities = replace(device.capabilities, is_host_memory=False)
            recorder = None if profile is None else Recorder(profile, opening(devices, os.getpid(), split))
            client = WireClient(
                devices,
                split,
                coherence,
                plays=plays,
                balance=balance,
                recorder=recorder,
                polling=polling,
                is_image=is_image,
                pooled=None if pool is None else pool(devices),
                has_limits=has_limits,
            )
            return stack.enter_context(client)

        yield start
