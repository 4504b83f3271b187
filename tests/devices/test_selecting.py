"""Devices by numbers, by parts of names and by queries."""

from __future__ import annotations

import socket
from typing import cast

import pyopencl as cl
import pytest

from sdi.devices import capabilities as kinds
from sdi.devices.discover import choose
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.selecting import attributes, select
from sdi.errors import ClError, Status
from sdi.selection import ATTRIBUTES
from sdi.wire.opencl import DeviceInfo


def device(name: str, kind: kinds.MemberKind, unit: str, memory_nbytes: int, units: int) -> DriverDevice:
    info = {
        int(DeviceInfo.VENDOR): b"Some Vendor\0",
        int(DeviceInfo.DRIVER_VERSION): b" 1.2.3 \0",
        int(DeviceInfo.MAX_COMPUTE_UNITS): units.to_bytes(4, "little"),
    }
    return DriverDevice("Some", name, kind, unit, memory_nbytes, info, cast(cl.Device, None))


CPU = device("processor", kinds.CPU, "cpu", 64 << 30, 16)
SMALL, LARGE = (
    device("small", kinds.GPU, "pci 1", 8 << 30, 20),
    device("large", kinds.GPU, "pci 2", 80 << 30, 100),
)
ALL = [CPU, SMALL, LARGE]


def test_every_attribute_has_a_value_also_where_the_driver_gives_none() -> None:
    facts = attributes(ALL)
    assert [each.keys() for each in facts] == [ATTRIBUTES.keys()] * 3
    assert all(isinstance(each[name], str) == of.is_text for each in facts for name, of in ATTRIBUTES.items())
    assert facts[2]["units"] == 100 and facts[2]["clock"] == 0 and facts[2]["number"] == 2
    assert (facts[0]["vendor"], facts[0]["driver"]) == ("Some Vendor", "1.2.3")
    assert facts[0]["host"] == socket.gethostname() and attributes(ALL, {0: "other"})[0]["host"] == "other"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2,0", [LARGE, CPU]),
        ("some: l", [LARGE]),
        ("gpu order by memory desc", [LARGE, SMALL]),
        ("memory >= 64G", [CPU, LARGE]),
        ("gpu", [SMALL, LARGE]),
    ],
)
def test_devices_are_selected_in_the_order_that_is_asked_for(text: str, found: list[DriverDevice]) -> None:
    assert select(ALL, text) == found


def test_a_query_that_holds_for_none_says_what_there_is() -> None:
    with pytest.raises(
        ClError, match="'gpu and units > 200' holds for none of 0 = Some: processor; 1 ="
    ) as caught:
        select(ALL, "gpu and units > 200")
    assert caught.value.status == Status.DEVICE_NOT_FOUND


def test_members_of_an_image_are_those_that_a_query_selects() -> None:
    assert choose(ALL, None, "order by memory top 2") == [SMALL, CPU]
    assert choose(ALL, 1, "gpu order by memory desc") == [LARGE]
    assert choose(ALL, 3, "cpu") == [CPU] * 3
