"""A member is lost while launches, reads and writes are replayed, at each of their operations.

Commands end with the right bytes or with an error, and nothing is replayed on it any more.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from ctypes import POINTER, c_int, c_size_t, c_uint32, c_void_p
from typing import cast

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.native import NativeMember
from sdi.devices.ticket import Ticket, completed
from sdi.errors import DeviceLost, Status
from sdi.player import face
from sdi.player.drivers import opencl_table
from sdi.player.face import Player
from sdi.wire.records import NoticeKind, Op
from tests.devices.testing.faulty import LosingDevice
from tests.devices.testing.hooks import hooks
from tests.player.test_player import ITEMS, MIX, SOURCE, STEP, Array
from tests.service.wire_client import WireClient

NBYTES = 4 * ITEMS
ROUND_COMMANDS = 10
_EVENT = (c_uint32, c_void_p, POINTER(c_void_p))
_HOST = (c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_EVENT)
_WITHIN = (c_void_p, c_void_p, c_void_p, c_size_t, c_size_t, c_size_t, *_EVENT)
_INFO = (c_void_p, c_uint32, c_size_t, c_void_p, c_void_p)
_ISSUED: dict[int, tuple[type, ...]] = {
    0: (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, *_EVENT),
    2: _HOST,
    3: _HOST,
    4: _WITHIN,
    5: _WITHIN,
}
_ASKED: dict[int, tuple[type, ...]] = {6: (c_void_p,), 7: _INFO, 9: _INFO}
_FREE = 8
"""Entry points by their place in ``struct opencl_table``, with their arguments: those that begin something in
a queue, those that ask for it, and the one after which an event is another one.
"""


class LosingNative:
    """``native`` of a member, of which nothing is known to be done once it is lost."""

    def __init__(self, device: LosingDevice, native: NativeMember) -> None:
        self._device, self._native = device, native

    def __getattr__(self, name: str) -> object:
        return getattr(self._native, name)

    def marker(self) -> Ticket:
        if not self._device.is_lost():
            return self._native.marker()
        return completed(DeviceLost(self._device.capabilities.name, "a test asked for it"))


class LosingDriver:
    """OpenCL's entry points as the player gets them: those of one member fail once that is lost.

    What is begun on it counts among its operations.  ``late``: so do questions for that, and what is begun
    once it is lost fails only when it is asked for.  ``begun``: how much that was, whatever came of it.
    """

    def __init__(self, device: LosingDevice, late: bool) -> None:
        native = device.behind.native
        lane = None if native is None else native.lane()
        assert native is not None and lane is not None
        device.native = cast(NativeMember, LosingNative(device, native))
        self.device, self._late, self.begun = device, late, 0
        self._queue = lane.stream
        self._events: set[int] = set()
        self.table = opencl_table()
        self._kept = [
            *(self._instead(at, shape, self._begin) for at, shape in _ISSUED.items()),
            *(self._instead(at, shape, self._ask) for at, shape in _ASKED.items()),
            self._instead(_FREE, (c_void_p,), self._free),
        ]

    def _instead(self, at: int, shape: tuple[type, ...], call: Callable[..., int]) -> object:
        """Have ``call`` made, with what it takes the place of."""
        kind = ctypes.CFUNCTYPE(c_int, *shape)
        real = kind(self.table[at])
        found = kind(lambda *arguments: call(real, *arguments))
        self.table[at] = ctypes.cast(found, c_void_p).value
        return found

    def _begin(self, real: Callable[..., int], queue: int, *arguments: object) -> int:
        if queue != self._queue:
            return real(queue, *arguments)
        self.begun += 1
        self.device.operations += 1
        if self.device.is_lost() and not self._late:
            return int(Status.OUT_OF_RESOURCES)
        status = real(queue, *arguments)
        if status == 0:
            self._events.add(cast("ctypes._Pointer[c_void_p]", arguments[-1])[0])
        return status

    def _ask(self, real: Callable[..., int], of: int, *arguments: object) -> int:
        if of not in self._events and (self._late or of != self._queue):
            return real(of, *arguments)
        self.device.operations += self._late
        return int(Status.OUT_OF_RESOURCES) if self.device.is_lost() else real(of, *arguments)

    def _free(self, real: Callable[..., int], event: int) -> int:
        self._events.discard(event)
        return real(event)


class Application:
    """Each round writes two buffers, launches on both and reads them.  ``failed``: commands that did."""

    def __init__(self, client: WireClient, driver: LosingDriver) -> None:
        self.client, self.driver, self.failed = client, driver, 0
        self.build, status, _ = client.build(SOURCE)
        assert status == 0
        self.a, self.b = client.buffer(bytes(NBYTES)), client.buffer(bytes(NBYTES))

    @property
    def player(self) -> Player:
        found = self.client.session.player
        assert found is not None
        return found

    def round(self, number: int, in_a_row: bool) -> bool:
        """Whether all went well; what is read is right or fails."""
        client, failed = self.client, self.failed
        first, second = (np.arange(number, number + ITEMS, dtype=np.int32) * k for k in (1, 3))
        with client.at_once() if in_a_row else nullcontext():
            commands = [client.put(self.a, first.tobytes()), client.put(self.b, second.tobytes())]
            for _ in range(3):
                values = (np.int32(number).tobytes(), np.float32(0).tobytes())
                commands.append(
                    client.launch(self.build, [(self.a, 0), *values], [ITEMS], [16], kernel_index=STEP)
                )
                commands.append(
                    client.launch(self.build, [(self.b, 0), (self.a, 0)], [ITEMS], [16], kernel_index=MIX)
                )
                first = first * np.int32(3) + np.int32(number)
                second = second ^ first
                if not in_a_row:
                    self._wait(commands)
        self._wait(commands)
        for buffer, truth in ((self.a, first), (self.b, second)):
            self._read(buffer, truth)
        return self.failed == failed

    def settle(self, in_a_row: bool) -> None:
        """Until all of a round is replayed."""
        for number in range(200):
            before = self.player.replayed()
            assert self.round(number, in_a_row)
            if self.player.replayed() - before == ROUND_COMMANDS:
                return
        raise AssertionError(self.player.summary())

    def _wait(self, commands: list[int]) -> None:
        for command in commands:
            status = self.client.wait(command)
            assert status <= 0
            self.failed += status < 0
        commands.clear()

    def _read(self, buffer: int, truth: Array) -> None:
        read = self.client.command(Op.READ, buffer=buffer, region=[NBYTES, 1, 1])
        kind, event, status = self.client.notice()
        assert event == read
        if kind is NoticeKind.EVENT_STATUS:
            assert status < 0
            self.failed += 1
            return
        at = self.client.offsets[buffer]
        assert self.client.arena[at : at + NBYTES] == truth.tobytes()
        self.client.send(Op.TRANSFER_DONE, read)
        assert self.client.wait(read) == 0


@contextmanager
def application(
    members: int, lost: int, late: bool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Application]:
    """With known commands, on ``members`` members of which ``lost`` can be lost."""
    devices = open_members(MemberSettings(count=members, testing=hooks(lost=(lost, 1 << 30))))
    driver = LosingDriver(cast(LosingDevice, devices[lost]), late)
    monkeypatch.setattr(face, "opencl_table", lambda: driver.table)
    with WireClient(devices, "always") as client:
        yield Application(client, driver)


def goes_on(app: Application, lost: int, in_a_row: bool) -> None:
    """On the other members, and the player leaves the one that is lost alone."""
    session, begun = app.client.session, app.driver.begun
    for number in range(8):
        assert app.round(number, in_a_row)
    assert app.driver.begun == begun and not app.player.is_on
    assert session._memory.accounting.events.members_lost == 1 and lost not in session._memory.members


IN_A_ROW = pytest.mark.parametrize("in_a_row", [False, True], ids=["each waited for", "in a row"])


@pytest.mark.logs("lost: |a test asked for it|failed|refused")
@IN_A_ROW
@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize(("members", "lost"), [(2, 0), (3, 1)])
def test_a_member_that_is_lost_at_any_call_of_the_player_takes_nothing_else_with_it(
    members: int, lost: int, late: bool, in_a_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lasts in range(12):
        with application(members, lost, late, monkeypatch) as app:
            app.settle(in_a_row)
            device, begun = app.driver.device, app.driver.begun
            device._lasts = device.operations + lasts  # type: ignore[misc]
            worked = [app.round(number, in_a_row) for number in range(4)]
            assert device.is_lost() and not all(worked)
            assert late or app.driver.begun - begun > lasts, "it was lost in what the player gave it"
            goes_on(app, lost, in_a_row)


@pytest.mark.logs("lost: |a test asked for it|failed")
@IN_A_ROW
def test_nothing_is_replayed_on_a_member_that_python_found_lost(
    in_a_row: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with application(2, 1, False, monkeypatch) as app:
        app.settle(in_a_row)
        client, device = app.client, app.driver.device
        device._lasts = device.operations  # type: ignore[misc]
        unknown = [(client.buffer(bytes(NBYTES)), 0), (client.buffer(bytes(NBYTES)), 0)]
        assert client.wait(client.launch(app.build, unknown, [ITEMS], [16], kernel_index=MIX)) < 0
        goes_on(app, 1, in_a_row)
