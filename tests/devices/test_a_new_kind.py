"""A kind of members that the package does not know: registered by one call, it does what all members do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from sdi.devices.base import Device
from sdi.devices.capabilities import MemberKind
from sdi.devices.discover import MemberSettings, all_devices, pool_of, register, unregister
from sdi.devices.discover import open_members as open_wanted
from sdi.devices.kinds import Found
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.wire.opencl import DeviceType
from tests.devices import test_base as every_member
from tests.devices import test_comparing, test_copying, test_image
from tests.devices.conftest import OpenMembers
from tests.service.wire_client import WireClient

# The tests of every member run here once more, on the fixtures below.
for _tests in (every_member, test_comparing, test_copying, test_image):
    globals().update({name: test for name, test in vars(_tests).items() if name.startswith("test_")})
host = every_member.host

SLATE = MemberKind(
    "slate",
    DeviceType.GPU,
    is_host_processor=False,
    keeps_memory=True,
    merges=True,
    merge_ns_per_byte=0.5,
    assignment_ns=1_000.0,
    access_ns=0.1,
    host_ns_per_byte=0.1,
    peer_ns_per_byte=0.2,
    peer_copy_ns=40_000.0,
    peer_row_ns=300.0,
    host_share=0.5,
    trial_nbytes=1 << 16,
    group_items=64,
)


@dataclass(frozen=True, slots=True)
class Slate:
    """A device: what computes is the CPU driver, and nobody knows."""

    driver: DriverDevice
    number: int
    info: Mapping[int, bytes] = field(repr=False)
    platform: str = "Slates"
    name: str = "a slate"
    kind: MemberKind = SLATE
    memory_nbytes: int = 1 << 27
    node: int = 0

    @property
    def unit(self) -> str:
        return f"slate {self.number}"


class SlateMember(ForwardingDevice):
    """A member on one."""

    def __init__(self, slate: Slate, number: int, nbytes: int) -> None:
        super().__init__(OpenCLDevice(slate.driver, number, nbytes))
        self.capabilities = replace(
            self.capabilities, kind=slate.kind, unit=slate.unit, memory_nbytes=nbytes, is_host_memory=False
        )


class Slates:
    """All of them.  ``opened``: by number."""

    def __init__(self, driver: DriverDevice, count: int) -> None:
        self._found = [Slate(driver, number, driver.info) for number in range(count)]
        self.opened: list[int] = []

    def find(self) -> Sequence[Found]:
        return self._found

    def open(
        self, found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
    ) -> Device | None:
        if not isinstance(found, Slate):
            return None
        self.opened.append(found.number)
        return SlateMember(found, number, nbytes)

    def connection(self, one: Found, other: Found) -> str:
        return ""

    def pool(self, members: Sequence[Device]) -> PooledMemory | None:
        return None


@pytest.fixture
def slates(driver: DriverDevice) -> Iterator[Slates]:
    """Eight, registered."""
    made = Slates(driver, 8)
    register(made)
    yield made
    unregister(made)


@pytest.fixture(name="open_members")
def opener(slates: Slates) -> Iterator[OpenMembers]:
    """Opens members on them; closes them in reverse."""
    opened: list[Device] = []

    def open_(count: int) -> list[Device]:
        opened.extend(open_wanted(MemberSettings(count=count, devices="a slate")))
        return opened[-count:]

    yield open_
    for member in reversed(opened):
        member.close()


def test_facts_carry_the_bytes_that_the_driver_gives(member: Device) -> None:
    assert member.capabilities.kind is SLATE and member.native is None


def test_memory_is_limited_and_given_back(member: Device) -> None:
    buffer = member.allocate(1 << 20)
    assert member.memory.in_use == 1 << 20
    member.free(buffer)
    assert member.memory.in_use == 0


def test_they_are_found_behind_the_others_and_chosen_where_they_are_wanted(slates: Slates) -> None:
    found = all_devices()
    assert [each.name for each in found[-8:]] == ["a slate"] * 8
    opened = open_wanted(MemberSettings(count=2, devices=f"{len(found) - 3},{len(found) - 1}"))
    try:
        assert slates.opened == [5, 7] and pool_of(opened) is None
        assert [each.capabilities.unit for each in opened] == ["slate 5", "slate 7"]
    finally:
        for each in opened:
            each.close()


SOURCE = """
kernel void square(global const int *x, global int *y) {
    size_t i = get_global_id(0);
    y[i] = x[i] * x[i];
}
"""


@pytest.mark.parametrize("count", [1, 3])
def test_a_program_runs_on_them_through_a_session(open_members: OpenMembers, count: int) -> None:
    data = np.arange(1 << 12, dtype=np.int32)
    with WireClient(open_members(count)) as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        x, y = client.buffer(data.tobytes()), client.buffer(data.nbytes)
        client.launch(build, [(x, 0), (y, 0)], (data.size,), (64,))
        assert client.read(y, data.nbytes) == (data * data).tobytes()
        groups = client.session.counters.kernel("square").groups_per_member
        assert len(groups) == count and min(groups) > 0 and sum(groups) == data.size // 64
