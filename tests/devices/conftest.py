"""Members to test: each kind is a way to wrap the member on the CPU driver."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import pytest

from sdi.cluster.job import Job
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU
from sdi.devices.discover import choose, memory_shares
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice, driver_devices
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed
from tests.cluster.jobs import open_on_nodes, process_job, threaded_job
from tests.devices.testing.faulty import FaultyDevice
from tests.devices.testing.late import DelayedDevice

PATIENCE_S = 60.0

OpenMembers = Callable[[int], list[Device]]


def finish(ticket: Ticket) -> None:
    """Wait for ``ticket``; raises its error."""
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    assert done.wait(PATIENCE_S), "a ticket is not done in time"
    if ticket.error is not None:
        raise ticket.error


def failure(ticket: Ticket) -> BaseException:
    """Why it fails, in time."""
    with pytest.raises(DeviceFailed) as found:
        finish(ticket)
    return found.value


def _late(device: Device, seed: int) -> DelayedDevice:
    numbers = random.Random(seed)
    return DelayedDevice(device, lambda: numbers.randrange(0, 400_000))


KINDS: dict[str, Callable[[Device, int], Device]] = {
    "opencl": lambda device, seed: device,
    "delayed": _late,
    "faulty": lambda device, seed: FaultyDevice(device, "no_kernel_has_this_name"),
}


@pytest.fixture(scope="session")
def driver() -> DriverDevice:
    """The CPU device."""
    devices = [device for device in driver_devices() if device.kind is CPU]
    if not devices:
        pytest.skip("no OpenCL driver offers a CPU device")
    return devices[0]


REMOTE = ("near", "remote")
"""Members of another node in this process, and of three other processes in turn."""


@pytest.fixture(scope="module")
def processes() -> Iterator[Job]:
    """A job with nodes in processes of their own: in one, pocl's order would bind several nodes' kernels."""
    with process_job(3) as job:
        yield job


@pytest.fixture(params=[*KINDS, *REMOTE])
def open_members(request: pytest.FixtureRequest, driver: DriverDevice) -> Iterator[OpenMembers]:
    """Opens members of each kind in turn; closes them in reverse."""
    if request.param == "near":
        with threaded_job(1) as job:
            yield lambda count: open_on_nodes(job, driver, count)
        return
    if request.param == "remote":
        job = request.getfixturevalue("processes")
        yield lambda count: open_on_nodes(job, driver, count)
        job.end_session()
        return
    opened: list[Device] = []

    def open_(count: int) -> list[Device]:
        chosen = choose([driver], count, None)
        context = None
        for number, (device, nbytes) in enumerate(zip(chosen, memory_shares(chosen), strict=True)):
            member = OpenCLDevice(device, number, nbytes, context)
            context = member.shared
            opened.append(KINDS[request.param](member, number))
        return opened[-count:]

    yield open_
    for member in reversed(opened):
        member.close()


@pytest.fixture
def member(open_members: OpenMembers) -> Device:
    """One member."""
    return open_members(1)[0]
