"""``sdi devices``: the members that make the image."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sdi.cli.attributes import DevicesAsked, listed, selected
from sdi.cli.counters import table
from sdi.cluster import start
from sdi.errors import ClError, DeviceFailed
from sdi.locate import show_only_real_drivers
from sdi.service.progress import show
from sdi.settings import FineGrain, Settings
from sdi.sizes import size
from sdi.wire.opencl import DeviceInfo

if TYPE_CHECKING:
    from sdi.cli.copies import Copied
    from sdi.devices.kinds import Found


def show_devices(changes: Mapping[str, str], asked: DevicesAsked) -> int:
    """Print the tables; 1 when no image can be made, or copies that were measured fail."""
    settings = Settings.from_environ({**os.environ, **changes})
    if asked.where is not None:
        Settings.from_environ({"SDI_DEVICES": asked.where})
    place = start.place(os.environ)
    if place is not None:
        from sdi.cli import job

        return job.node(place) if place.rank else job.show_devices(place, settings, asked)
    show_only_real_drivers()
    # Not at the top: the drivers behind these imports read the environment set above.
    from sdi.devices.discover import all_devices, choose, memory_shares

    devices = all_devices()
    try:
        if asked.attributes or asked.where is not None:
            found = selected(devices, asked.where) if asked.where is not None else listed(devices)
            print("\n".join(found))
            return 0
        members = choose(devices, settings.num_gpus, settings.devices)
    except ClError as error:
        print(f"sdi devices: {error.what}", file=sys.stderr)
        if devices:
            print("\n".join(available(devices, [])), file=sys.stderr)
        return 1
    limit = settings.member_memory
    memory_nbytes = [share if limit is None else min(share, limit) for share in memory_shares(members)]
    print("\n".join([*image(members, memory_nbytes, settings), "", *available(devices, members)]))
    return _measure(settings) if asked.measures else 0


def _measure(settings: Settings) -> int:
    """Print GB/s between all members; how far it is on a terminal, where it takes longer than a moment."""
    from sdi.cli.copies import opened, try_copies

    begun = time.monotonic()

    def progress(done: int, total: int) -> None:
        if time.monotonic() - begun > 1.0:
            show(f"copies: {done} of {total}")

    try:
        with opened(settings) as members:
            nbytes = min(member.capabilities.kind.trial_nbytes for member in members)
            copies = try_copies(members, nbytes, progress)
    except (ClError, DeviceFailed) as error:
        print(f"sdi devices: copies can't be measured: {error}", file=sys.stderr)
        return 1
    finally:
        show("")
    print("\n".join(["", *rates(copies, len(members))]))
    return 1 if any(copied.failure for copied in copies) else 0


def rates(copies: Sequence[Copied], members: int) -> list[str]:
    """A table of GB/s, rows: from, columns: to; then what failed."""
    names = ["host", *map(str, range(members))]
    found = {(copied.source, copied.target): copied for copied in copies}
    rows = [("GB/s from", *(f"to {name}" for name in names))]
    for source in range(-1, members):
        cells = [found.get((source, target)) for target in range(-1, members)]
        rows.append(
            (
                names[source + 1],
                *("-" if c is None else "FAIL" if c.failure else f"{c.gb_s:.1f}" for c in cells),
            )
        )
    failed = [
        f"from {names[c.source + 1]} to {names[c.target + 1]}: {c.failure}" for c in copies if c.failure
    ]
    return [*table(rows, right=set(range(1, members + 2))), *failed]


def image(members: Sequence[Found], memory_nbytes: Sequence[int], settings: Settings) -> list[str]:
    """The members, their memory and what links them."""
    rows = [("member", "kind", "device", "driver", "memory")]
    for number, (member, nbytes) in enumerate(zip(members, memory_nbytes, strict=True)):
        rows.append((str(number), member.kind.name.upper(), member.name, driver(member), size(nbytes)))
    said = [*links(members), shared_virtual_memory(members, settings.fine_grain)]
    return [*table(rows, right={4}), *settings.said_of_devices, "", *said]


def links(members: Sequence[Found]) -> list[str]:
    """What a copy between members goes through."""
    if len(members) == 1:
        return ["links: none, the image has one member"]
    sharers: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        sharers.setdefault(member.unit, []).append(number)
    lines = [
        f"links: members {spans(numbers)} share one {members[numbers[0]].kind.name.upper()} and its memory"
        for numbers in sharers.values()
        if len(numbers) > 1
    ]
    return lines + _connections(members)


def shared_virtual_memory(members: Sequence[Found], fine_grain: FineGrain) -> str:
    """What applications are offered where they and the service have the same address free.

    Source: ``design/0022-shared-virtual-memory.md``.
    """
    update = fine_grain.update
    if not all(member.kind.is_host_processor for member in members):
        if not _reach_each_other(members):
            why = "members are neither all CPUs nor all CUDA GPUs that reach each other"
            return f"shared virtual memory: none, {why}"
        update = "eager" if update == "shared" else update
    how = "in place" if update == "shared" else f"of which members have copies ({update} update)"
    return f"shared virtual memory: coarse-grained, and fine-grained {how}"


def _reach_each_other(members: Sequence[Found]) -> bool:
    from sdi.devices.discover import connection

    pairs = itertools.combinations(members, 2)
    return all(member.platform == "CUDA" for member in members) and all(
        one.unit == other.unit or connection(one, other) for one, other in pairs
    )


def _connections(members: Sequence[Found]) -> list[str]:
    """What connects members on different devices, each kind of connection with the pairs that have it."""
    from sdi.devices.discover import connection

    pairs: dict[str, list[tuple[int, int]]] = {}
    for (a, one), (b, other) in itertools.combinations(enumerate(members), 2):
        if one.unit != other.unit:
            pairs.setdefault(connection(one, other), []).append((a, b))
    total = sum(map(len, pairs.values()))
    lines = []
    for kind, found in pairs.items():
        how = f"copies go directly, through {kind}" if kind else "copies go through host memory"
        which = "all members on different devices"
        if len(found) < total:
            which = ", ".join(f"{a}-{b}" for a, b in found)
        lines.append(f"links: {which}: {how}")
    return lines


def available(devices: Sequence[Found], members: Sequence[Found]) -> list[str]:
    """All devices, numbered as SDI_DEVICES numbers them, and the members on each."""
    rows = [("SDI_DEVICES", "kind", "platform", "device", "members")]
    for index, device in enumerate(devices):
        numbers = [number for number, member in enumerate(members) if member is device]
        rows.append(
            (str(index), device.kind.name.upper(), device.platform, device.name, spans(numbers) or "-")
        )
    return table(rows)


def driver(device: Found) -> str:
    """The driver's name and version."""
    version = device.info.get(DeviceInfo.DRIVER_VERSION, b"").rstrip(b"\0").decode(errors="replace")
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
