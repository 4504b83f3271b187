"""Places that buffers have on members stay while operations there were given them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdi.devices.base import Device
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import BoundKernel, DeviceBuffer
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.ndrange import Int3
from tests.service.wire_client import WireClient

LIMIT_NBYTES = 256 << 10  # of which a quarter may be kept for reuse
SOURCE = """
kernel void whole(global int *a, global const int *b) { a[get_global_id(0)] = b[get_global_id(0)]; }
kernel void first(global int *a, global const int *b)
{
    int i = get_global_id(0);
    if (i < 64)
        a[i] += b[i];
}
kernel void fill(global int *c) { c[get_global_id(0)] = 7; }
"""
GROUPS, LOCAL = 800, 64
N = GROUPS * LOCAL


class LateDevice(ForwardingDevice):
    """Launches begin when ``gate`` is complete; notes what is freed."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.gate = Ticket()
        self.gate.complete()
        self.freed: list[DeviceBuffer] = []

    def launch(
        self,
        bound: BoundKernel,
        groups: Int3,
        local_size: Int3,
        work_dim: int,
        wait: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> Ticket:
        return super().launch(bound, groups, local_size, work_dim, [*wait, self.gate], timing)

    def free(self, buffer: DeviceBuffer) -> None:
        self.freed.append(buffer)
        super().free(buffer)


def test_a_place_stays_while_a_launch_was_given_it_that_does_not_touch_it() -> None:
    devices = [LateDevice(d) for d in open_members(MemberSettings(count=2, memory_nbytes=LIMIT_NBYTES))]
    late = devices[1]
    with WireClient(devices) as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        b = np.arange(N, dtype=np.int32)
        buffers = [client.buffer(bytes(4 * N)), client.buffer(b.tobytes()), client.buffer(4 * N)]
        pointers = [(buffer, 0) for buffer in buffers]
        client.launch(build, pointers[:2], [N], [LOCAL])  # both members have a half of each
        client.finish()
        extent = client.session._memory.buffer(buffers[1]).allocations[1]
        assert extent is not None and extent.over.nbytes > LIMIT_NBYTES // 4
        late.gate = Ticket()
        client.launch(build, pointers[:2], [N], [LOCAL], kernel_index=1)
        client.launch(build, pointers[2:], [N], [LOCAL], kernel_index=2)  # for which there is no room
        client.buffer(4096)  # the service has done all before it
        assert extent.device_buffer not in late.freed
        late.gate.complete()
        client.finish()
        assert extent.device_buffer in late.freed
        expected = np.where(np.arange(N) < LOCAL, 2 * b, b)
        assert np.array_equal(np.frombuffer(client.read(buffers[0], 4 * N), np.int32), expected)
        assert np.all(np.frombuffer(client.read(buffers[2], 4 * N), np.int32) == 7)
