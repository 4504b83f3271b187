"""Which drivers compute in the memory that they are given, and what members on others do."""

from __future__ import annotations

import numpy as np
import pyopencl as cl
import pytest

from sdi.devices import copying
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.opencl import memory
from sdi.devices.opencl.member import DriverDevice
from sdi.errors import ClError
from tests.devices.conftest import finish

BYTES = np.arange(64, dtype=np.uint8)


def copied(context: cl.Context, flags: int, nbytes: int = 0, hostbuf: object = None) -> cl.Buffer:
    """A buffer of a driver that keeps a copy of what it is given."""
    assert flags == memory.IN_HOST_MEMORY
    return original(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=hostbuf)


original = cl.Buffer


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.cl, "Buffer", copied)


def test_a_driver_that_computes_where_it_is_told_is_known(driver: DriverDevice) -> None:
    assert memory.is_in_place(cl.Context([driver.handle]), driver.handle)


@pytest.mark.usefixtures("copies")
def test_a_driver_that_keeps_a_copy_is_known(driver: DriverDevice) -> None:
    assert not memory.is_in_place(cl.Context([driver.handle]), driver.handle)


def test_a_driver_that_takes_no_host_memory_keeps_copies(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> cl.Buffer:
        raise cl.LogicError("clCreateBuffer", -37, "")

    monkeypatch.setattr(memory.cl, "Buffer", refuse)
    assert not memory.is_in_place(cl.Context([driver.handle]), driver.handle)


def test_members_on_such_a_driver_have_buffers_of_its_own(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sdi.devices.opencl.context.is_in_place", lambda context, device: False)
    one, two = members = open_members(MemberSettings(count=2, devices=driver.name))
    try:
        assert not (one.capabilities.maps_host or one.capabilities.has_linear_images)
        here, there = one.allocate(BYTES.nbytes), two.allocate(BYTES.nbytes)
        assert one.host_bytes(here) is None
        ready = copying.upload(one, memoryview(BYTES.copy()), here, 0, [])
        _, moved = copying.across(two, one, here, 0, there, 0, BYTES.nbytes, [ready], [])
        found = np.zeros_like(BYTES)
        finish(copying.download(two, there, 0, memoryview(found), [moved]))
        assert np.array_equal(found, BYTES)
        with pytest.raises(ClError, match="can't share"):
            one.allocate(memoryview(bytearray(64)))
        one.free(here)
        two.free(there)
    finally:
        for member in reversed(members):
            member.close()
