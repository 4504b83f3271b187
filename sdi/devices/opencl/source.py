"""Members on installed OpenCL drivers, as one of the kinds."""

from __future__ import annotations

from collections.abc import Sequence

from sdi.devices.base import Device
from sdi.devices.kinds import Found
from sdi.devices.opencl.member import DriverDevice, OpenCLDevice, driver_devices
from sdi.devices.polling import Polling
from sdi.devices.pooled import PooledMemory


class OpenCLSource:
    """Implements ``MemberSource``."""

    def find(self) -> Sequence[Found]:
        return driver_devices()

    def open(
        self, found: Found, number: int, nbytes: int, beside: Sequence[Device], polling: Polling | None
    ) -> Device | None:
        if not isinstance(found, DriverDevice):
            return None
        own = (member for member in beside if isinstance(member, OpenCLDevice))
        shared = next((member.shared for member in own if member.shared.device is found.handle), None)
        return OpenCLDevice(found, number, nbytes, shared)

    def connection(self, one: Found, other: Found) -> str:
        return ""

    def pool(self, members: Sequence[Device]) -> PooledMemory | None:
        return None
