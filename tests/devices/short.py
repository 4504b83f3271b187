"""Members of tests that have less memory than they say."""

from __future__ import annotations

from sdi.devices.base import Device
from sdi.devices.handles import DeviceBuffer, HostBytes
from sdi.devices.image import ImageShape
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.errors import ClError, Status


class ShortDevice(ForwardingDevice):
    """``device``, whose driver gives no more than ``has`` bytes in all, and no images."""

    def __init__(self, device: Device, has: int = 1 << 18) -> None:
        super().__init__(device)
        self.has = has

    def allocate(self, wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, ImageShape):
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, f"no image of {wanted.nbytes} bytes")
        if isinstance(wanted, int) and self.memory.in_use + wanted > self.has:
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "the driver has no more")
        return super().allocate(wanted, on_host)


def refuse_host_memory(device: Device) -> None:
    """``device`` has no use for the host's bytes from now on."""
    allocate = device.allocate

    def refusing(wanted: int | ImageShape | HostBytes, on_host: bool = False) -> DeviceBuffer:
        if isinstance(wanted, memoryview):
            what = f"{wanted.nbytes} bytes of host memory are refused"
            raise ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, what)
        return allocate(wanted, on_host)

    device.allocate = refusing  # type: ignore[method-assign]
