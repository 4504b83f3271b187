"""Whose platform and device the image says it is: its members', where these are alike.

Programs that know a vendor take other paths for it; SDI_PLATFORM_VENDOR and SDI_DEVICE_VENDOR turn them off.
Those that have tables by devices' names find the members' in them with SDI_DEVICE_NAME, those that know a
driver by its platform's name find that with SDI_PLATFORM_NAME.
"""

from __future__ import annotations

from collections.abc import Sequence

from sdi import __version__
from sdi.dataclass import dataclass
from sdi.devices.capabilities import Capabilities
from sdi.settings import DeviceVendor
from sdi.wire.opencl import DeviceInfo

MEMBERS_NAME = "members"
OWN_NAME, OWN_ID = "sdi", 0x534449
OWN_PLATFORM, OWN_VERSION = "SDI", f"sdi {__version__}"


@dataclass(frozen=True, slots=True)
class Vendors:
    """CL_PLATFORM_VENDOR, CL_DEVICE_VENDOR and CL_DEVICE_VENDOR_ID; CL_DEVICE_NAME, "": the image's own.

    ``platform_name``, ``platform_version``: CL_PLATFORM_NAME, and of its version what follows OpenCL's.
    """

    platform: str = OWN_NAME
    device: str = OWN_NAME
    device_id: int = OWN_ID
    name: str = ""
    platform_name: str = OWN_PLATFORM
    platform_version: str = OWN_VERSION


def vendors_of(
    facts: Sequence[Capabilities],
    platform: str | None = None,
    device: DeviceVendor | None = None,
    name: str = "",
    platform_name: str = OWN_PLATFORM,
) -> Vendors:
    """The members' vendors, if all have the same ones and are of one kind, else sdi's own.

    ``platform``, ``device``: what the user wants instead.  ``name``, ``platform_name``: of the device and
    the platform; "members": the members', where all have one.
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
    told = platform if platform is not None else found.platform
    return Vendors(told, name_, number_, name, *_platform(facts, platform_name))


def _platform(facts: Sequence[Capabilities], wanted: str) -> tuple[str, str]:
    """Its name and version: the members', with sdi's behind it, where it is called as theirs.

    Programs that know a driver by its platform's name look for the driver's version there too.
    """
    platforms = {(f.platform_name, f.platform_version) for f in facts}
    name, version = platforms.pop() if len(platforms) == 1 else ("", "")
    if wanted == MEMBERS_NAME:
        wanted = name or OWN_PLATFORM
    return wanted, f"{version} ({OWN_VERSION})" if version and wanted == name else OWN_VERSION
