"""Devices by what SDI_DEVICES says: numbers and parts of names, or a query (``sdi.selection``)."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import TypeVar

from sdi.devices.kinds import MemberCandidate
from sdi.errors import Status, require
from sdi.selection import Facts, is_query, parse_selection
from sdi.wire.opencl import DeviceInfo

C = TypeVar("C", bound=MemberCandidate)


def attributes(devices: Sequence[MemberCandidate], hosts: Mapping[int, str] | None = None) -> list[Facts]:
    """What a query can ask of each device.  ``hosts``: machines by node; this one without."""
    here = socket.gethostname()
    return [
        {
            "kind": device.kind.name,
            "name": device.name,
            "vendor": _text(device.info, DeviceInfo.VENDOR),
            "platform": device.platform,
            "driver": _text(device.info, DeviceInfo.DRIVER_VERSION),
            "memory": device.memory_nbytes,
            "units": _number(device.info, DeviceInfo.MAX_COMPUTE_UNITS),
            "clock": _number(device.info, DeviceInfo.MAX_CLOCK_FREQUENCY),
            "number": number,
            "node": device.node,
            "host": here if hosts is None else hosts[device.node],
            "unit": device.unit,
        }
        for number, device in enumerate(devices)
    ]


def select(devices: Sequence[C], text: str, hosts: Mapping[int, str] | None = None) -> list[C]:
    """The devices that ``text`` selects, in its order.  ``hosts``: see ``attributes``.

    Raises ClError where it selects nothing, ConditionError where it is no query.
    """
    names = [f"{device.platform}: {device.name}" for device in devices]
    known = "; ".join(f"{index} = {name}" for index, name in enumerate(names))
    if is_query(text):
        chosen = parse_selection(text).of(attributes(devices, hosts))
        require(chosen, Status.DEVICE_NOT_FOUND, f"SDI_DEVICES: {text!r} holds for none of {known}")
        return [devices[index] for index in chosen]
    pool: dict[int, C] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        if item.isdecimal():
            matches = [int(item)] if int(item) < len(devices) else []
        else:
            matches = [index for index, name in enumerate(names) if item.lower() in name.lower()]
        require(matches, Status.DEVICE_NOT_FOUND, f"SDI_DEVICES: {item!r} matches none of {known}")
        pool.update((index, devices[index]) for index in matches)
    require(pool, Status.DEVICE_NOT_FOUND, f"SDI_DEVICES={text!r} selects nothing")
    return list(pool.values())


def _text(info: Mapping[int, bytes], parameter: DeviceInfo) -> str:
    return info.get(parameter, b"").rstrip(b"\0").decode(errors="replace").strip()


def _number(info: Mapping[int, bytes], parameter: DeviceInfo) -> int:
    return int.from_bytes(info.get(parameter, b""), "little")
