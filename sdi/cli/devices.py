"""``sdi devices``: the members that make the image."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sdi.cli.counters import size, table
from sdi.cli.locate import show_only_real_drivers
from sdi.errors import ClError
from sdi.settings import Settings

if TYPE_CHECKING:
    from sdi.devices.discover import Found

_DRIVER_VERSION = 0x102D  # CL_DRIVER_VERSION


def show_devices(changes: Mapping[str, str]) -> int:
    """Print the tables; 1 when no image can be made."""
    settings = Settings.from_environ({**os.environ, **changes})
    show_only_real_drivers()
    # Not at the top: the drivers behind these imports read the environment set above.
    from sdi.devices.discover import all_devices, choose, memory_shares

    devices = all_devices()
    try:
        members = choose(devices, settings.num_gpus, settings.devices)
    except ClError as error:
        print(f"sdi devices: {error.what}", file=sys.stderr)
        if devices:
            print("\n".join(available(devices, [])), file=sys.stderr)
        return 1
    limit = settings.member_memory
    memory_nbytes = [share if limit is None else min(share, limit) for share in memory_shares(members)]
    print("\n".join([*image(members, memory_nbytes), "", *available(devices, members)]))
    return 0


def image(members: Sequence[Found], memory_nbytes: Sequence[int]) -> list[str]:
    """The members, their memory and what links them."""
    rows = [("member", "kind", "device", "driver", "memory")]
    for number, (member, nbytes) in enumerate(zip(members, memory_nbytes, strict=True)):
        rows.append((str(number), member.kind.upper(), member.name, driver(member), size(nbytes)))
    return [*table(rows, right={4}), "", *links(members)]


def links(members: Sequence[Found]) -> list[str]:
    """What a copy between members goes through."""
    if len(members) == 1:
        return ["links: none, the image has one member"]
    sharers: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        sharers.setdefault(member.unit, []).append(number)
    lines = [
        f"links: members {spans(numbers)} share one {members[numbers[0]].kind.upper()} and its memory"
        for numbers in sharers.values()
        if len(numbers) > 1
    ]
    if len(sharers) > 1:
        lines.append("links: copies between different devices go through host memory")
    return lines


def available(devices: Sequence[Found], members: Sequence[Found]) -> list[str]:
    """All devices, numbered as SDI_DEVICES numbers them, and the members on each."""
    rows = [("SDI_DEVICES", "kind", "platform", "device", "members")]
    for index, device in enumerate(devices):
        numbers = [number for number, member in enumerate(members) if member is device]
        rows.append((str(index), device.kind.upper(), device.platform, device.name, spans(numbers) or "-"))
    return table(rows)


def driver(device: Found) -> str:
    """The driver's name and version."""
    version = device.info.get(_DRIVER_VERSION, b"").rstrip(b"\0").decode(errors="replace")
    return f"{device.platform} {version}".strip()


def spans(numbers: Sequence[int]) -> str:
    """Rising ``numbers`` for people: "0-3, 5"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] + 1 == number:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
