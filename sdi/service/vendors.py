"""Whose platform and device the image says it is: its members', where these are alike.

Programs that know a vendor take other paths for it; SDI_PLATFORM_VENDOR and SDI_DEVICE_VENDOR turn them off.
Those that have tables by devices' names find the members' in them with SDI_DEVICE_NAME.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sdi.devices.capabilities import Capabilities
from sdi.settings import DeviceVendor
from sdi.wire.opencl import DeviceInfo

MEMBERS_NAME = "members"
OWN_NAME, OWN_ID = "sdi", 0x534449


@dataclass(frozen=True, slots=True)
class Vendors:
    """CL_PLATFORM_VENDOR, CL_DEVICE_VENDOR and CL_DEVICE_VENDOR_ID; CL_DEVICE_NAME, "": the image's own."""

    platform: str = OWN_NAME
    device: str = OWN_NAME
    device_id: int = OWN_ID
    name: str = ""


def vendors_of(
    facts: Sequence[Capabilities],
    platform: str | None = None,
    device: DeviceVendor | None = None,
    name: str = "",
) -> Vendors:
    """The members' vendors, if all have the same ones and are of one kind, else sdi's own.

    ``platform``, ``device``: what the user wants instead.  ``name``: of the device; "members": the members'.
    """
    alike = {
        (f.kind, f.platform_vendor, f.info.get(DeviceInfo.VENDOR), f.info.get(DeviceInfo.VENDOR_ID))
        for f in facts
    }
    found = Vendors()
    if len(alike) == 1:
        _, of_platform, vendor, number = alike.pop()
        if of_platform and vendor and number:
            text = vendor.rstrip(b"\0").decode(errors="replace").strip()
            found = Vendors(of_platform, text, int.from_bytes(number, "little"))
    name_, number_ = device if device is not None else (found.device, found.device_id)
    if number_ is None:
        number_ = found.device_id if name_ == found.device else OWN_ID
    names = {f.info.get(DeviceInfo.NAME, b"").rstrip(b"\0").decode(errors="replace").strip() for f in facts}
    if name == MEMBERS_NAME:
        name = names.pop() if len(names) == 1 else ""
    return Vendors(platform if platform is not None else found.platform, name_, number_, name)
