"""What ``SDI_TEST_MEMBERS`` loads: members that are late, fail, are slow, are lost, go through streams, have
memory together, or opaque copies of images.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from sdi.devices.base import Device
from sdi.devices.discover import register
from sdi.wire.opencl import DeviceType

ROOT = str(Path(__file__).resolve().parents[3])
if ROOT not in sys.path:  # in a service, which has no other folders than Python's own
    sys.path.insert(0, ROOT)

from tests.devices.testing.faulty import FaultyDevice, LosingDevice  # noqa: E402
from tests.devices.testing.late import DelayedDevice  # noqa: E402
from tests.devices.testing.pool import PoolSource  # noqa: E402
from tests.devices.testing.slow import SlowedDevice  # noqa: E402
from tests.devices.testing.streamed import StreamedDevice  # noqa: E402


def hooks(
    *,
    faulty: tuple[int, str] | None = None,
    slowed: tuple[int, float] | None = None,
    lost: tuple[int, int] | None = None,
    signals: bool = False,
    late: int | None = None,
    pooled: bool = False,
    copies: bool = False,
    apart: bool = False,
) -> str:
    """The setting.

    ``faulty``: a member and the kernel whose launches fail there; ``slowed``: a member and how many times as
    long its launches take; ``lost``: a member and how many operations it does before it is lost; ``signals``:
    members of processes of a machine wait for each other's signals; ``late``: the member that is late;
    ``pooled``: all have memory together; ``copies``: kernels use opaque copies of images, whose rows the
    application's library lays out as it does for GPUs; ``apart``: their memory counts as their own.
    """
    given = {"faulty": faulty, "slowed": slowed, "lost": lost}
    words = [f"{name}={of[0]}:{of[1]}" for name, of in given.items() if of is not None]
    words += ["signals="] * signals + ["pooled=0"] * pooled + ["copies="] * copies + ["apart="] * apart
    words += [f"late={late}"] if late is not None else []
    return f"{Path(__file__).resolve()}:{','.join(words)}"


def wrap(member: Device, number: int, what: str) -> Device:
    """``member``, or what stands before it."""
    for word in filter(None, what.split(",")):
        name, _, given = word.partition("=")
        of, _, value = given.partition(":")
        if name == "signals":
            member = StreamedDevice(member) if member.signals is None else member
        elif name == "copies":
            kind = replace(member.capabilities.kind, device_type=DeviceType.GPU)
            member.capabilities = replace(member.capabilities, has_linear_images=False, kind=kind)
        elif name == "apart":
            member.capabilities = replace(member.capabilities, is_host_memory=False)
        elif int(of) != number:
            continue
        elif name == "pooled":
            register(PoolSource())
        elif name == "faulty":
            member = FaultyDevice(member, value)
        elif name == "slowed":
            member = SlowedDevice(member, float(value))
        elif name == "lost":
            member = LosingDevice(member, int(value))
        elif name == "late":
            member = DelayedDevice(member)
        else:
            raise ValueError(f"SDI_TEST_MEMBERS: no such word: {word}")
    return member
