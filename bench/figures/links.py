"""Figure 7: how long copies between host and members, and between members, take by size.

``python -m bench.figures.links --members N --most NBYTES`` prints them as JSON; a process of its own, since
members belong to the process that opens them.
"""

from __future__ import annotations

import argparse
import json
import mmap
import statistics
import sys
import time
from collections.abc import Callable

from sdi.cli.copies import wait
from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import DeviceBuffer
from sdi.devices.ticket import Ticket

SMALLEST_NBYTES = 1 << 16
REPETITIONS = 5


def main() -> int:
    """Measure all sizes up to the largest asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, required=True)
    parser.add_argument("--most", type=int, required=True)
    options = parser.parse_args()
    members = open_members(MemberSettings(count=options.members))
    try:
        found = measure(members, options.most)
    finally:
        for member in reversed(members):
            member.close()
    json.dump({"devices": [member.capabilities.name for member in members], "seconds": found}, sys.stdout)
    return 0


def measure(members: list[Device], most_nbytes: int) -> dict[str, dict[int, float]]:
    """Median seconds by link and number of bytes, from issue to completion; host memory is not registered."""
    found: dict[str, dict[int, float]] = {}
    nbytes = SMALLEST_NBYTES
    while nbytes <= most_nbytes:
        host = memoryview(mmap.mmap(-1, nbytes)).cast("B")
        buffers = [member.allocate(nbytes) for member in members[:2]]
        for link, way in ways(members, buffers, host).items():
            wait(way())
            times = []
            for _ in range(REPETITIONS):
                start = time.perf_counter()
                wait(way())
                times.append(time.perf_counter() - start)
            found.setdefault(link, {})[nbytes] = statistics.median(times)
        for member, buffer in zip(members, buffers, strict=False):
            member.free(buffer)
        nbytes *= 4
    return found


def ways(
    members: list[Device], buffers: list[DeviceBuffer], host: memoryview
) -> dict[str, Callable[[], Ticket]]:
    """How to issue a copy of all bytes over each link."""
    one, at_one = members[0], buffers[0]
    found: dict[str, Callable[[], Ticket]] = {
        "host to member": lambda: copying.upload(one, host, at_one, 0, []),
        "member to host": lambda: copying.download(one, at_one, 0, host, []),
    }
    if len(members) > 1:
        two, at_two = members[1], buffers[1]
        found["member to member"] = lambda: copying.across(
            two, one, at_one, 0, at_two, 0, host.nbytes, [], []
        )[1]
        found["member to member, through the host"] = lambda: copying.upload(
            two, host, at_two, 0, [copying.download(one, at_one, 0, host, [])]
        )
    return found


if __name__ == "__main__":
    sys.exit(main())
