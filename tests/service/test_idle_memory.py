"""A session that has nothing to do gives memory of GPUs back."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from sdi.devices.base import Device
from sdi.devices.capabilities import GPU
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import DeviceBuffer
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.service import session
from sdi.vmem import heap, recycling
from sdi.wire.records import Op
from tests.service.wire_client import WireClient

SOURCE = "__kernel void fill(__global int *a) { a[get_global_id(0)] = 7; }"
LONG = """
__kernel void grind(__global int *a)
{
    int x = get_global_id(0);
    for (int i = 0; i < 20000; i++) x = x * 1664525 + i;
    a[get_global_id(0)] = x;
}
"""
PATIENCE_S = 60.0


class Member(ForwardingDevice):
    """Says when it got memory back."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.freed = threading.Event()

    def free(self, buffer: DeviceBuffer) -> None:
        super().free(buffer)
        self.freed.set()


class Gpu(Member):
    """Says that it is a GPU, too."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.capabilities = replace(device.capabilities, kind=GPU)


@pytest.fixture
def kind() -> type[Member]:
    return Gpu


@pytest.fixture
def members(kind: type[Member], monkeypatch: pytest.MonkeyPatch) -> list[Member]:
    """Of a session that looks often, and lets them keep nothing for any time."""
    monkeypatch.setattr(session, "_IDLE_S", 0.01)
    monkeypatch.setattr(heap, "POOL_NBYTES", 0)
    return [kind(device) for device in open_members(MemberSettings(count=2))]


def test_an_idle_session_gives_back_what_gpus_keep_for_reuse(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap.MemberHeap.trim_pool, "__defaults__", (1 << 62,))
    with WireClient(members) as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        for _ in range(2):
            buffer = client.buffer(1 << 16)
            client.launch(build, [(buffer, 0)], [1 << 14], [64])
            assert client.read(buffer, 4) == b"\7\0\0\0"
            client.send(Op.RELEASE_BUFFER, buffer)
            client.finish()
            assert not any(member.freed.is_set() for member in members), "it was used just now"
        monkeypatch.setattr(heap.MemberHeap.trim_pool, "__defaults__", (0,))
        for member in members:
            assert member.freed.wait(PATIENCE_S), "nobody gives the memory back"


def test_memory_that_was_released_while_it_was_used_is_given_back_too(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap.MemberHeap.trim_pool, "__defaults__", (1 << 20,))
    with WireClient(members) as client:
        build, status, _ = client.build(LONG)
        assert status == 0
        buffer = client.buffer(1 << 16)
        client.launch(build, [(buffer, 0)], [1 << 14], [64])
        client.send(Op.RELEASE_BUFFER, buffer)
        assert any(member.freed.wait(PATIENCE_S) for member in members), "nobody gives the memory back"


@pytest.mark.parametrize("kind", [Gpu, Member], ids=["gpus", "cpus"])
def test_places_of_buffers_that_may_be_used_again_are_given_back_too(
    members: list[Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heap.MemberHeap.trim_pool, "__defaults__", (0,))
    with WireClient(members) as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        buffer = client.buffer(1 << 16)
        client.launch(build, [(buffer, 0)], [1 << 14], [64])
        assert client.read(buffer, 4) == b"\7\0\0\0"
        client.recycle(buffer)
        client.finish()
        assert not any(member.freed.is_set() for member in members), "it was used just now"
        monkeypatch.setattr(recycling, "KEEP_NS", 0)
        for member in members:
            assert member.freed.wait(PATIENCE_S), "nobody gives the memory back"
        client.reuse(buffer)
        client.launch(build, [(buffer, 0)], [1 << 14], [64])
        assert client.read(buffer, 4) == b"\7\0\0\0"
