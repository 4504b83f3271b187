"""Programs whose data are larger than what their members may hold."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sdi.devices.base import Device, Place
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.issue import MEASURED, Timing
from sdi.devices.opencl.images import MemberImage
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.devices.ticket import Ticket
from sdi.launch import access_plans
from sdi.launch.plan import make_plan
from sdi.region import Region
from sdi.vmem.memory import Coherence
from sdi.wire.arguments import IMAGE_ARGUMENT, ArgumentKind
from sdi.wire.layout import layout
from tests.devices.short import ShortDevice
from tests.image_runs import computed, image_environ, plain_environ, run
from tests.service.wire_client import WireClient

PROGRAMS = ["conjugate_gradient", "jacobi", "matmul", "scatter", "sobel", "spmv", "transpose", "two_queues"]
LIMIT_NBYTES = 16 << 10


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return computed(PROGRAMS, tmp_path_factory.mktemp("plain"), plain_environ(), 100.0)


@pytest.mark.parametrize("coherence", ["lazy", "host"])
@pytest.mark.parametrize("members", [1, 3])
def test_programs_compute_the_same_bytes_within_the_limit(
    plain: dict[str, bytes], tmp_path: Path, members: int, coherence: str
) -> None:
    stats = tmp_path / "stats.json"
    limited = image_environ(
        members,
        SDI_SPLIT="always",
        SDI_COHERENCE=coherence,
        SDI_MEMBER_MEMORY=str(LIMIT_NBYTES),
        SDI_STATS=str(stats),
    )
    assert computed(PROGRAMS, tmp_path, limited, 100.0) == plain
    memory = json.loads(stats.read_text())["memory"]
    assert max(memory["peak_nbytes"]) <= LIMIT_NBYTES
    assert memory["chunks"] > 0 and memory["holds"] > 0 and memory["drops"] > 0
    assert (memory["spills"] > 0) == (coherence == "lazy")


TRIPLE = """
__kernel void triple(__global const int *from, __global int *to) {
    int i = get_global_id(0);
    to[i] = 3 * from[i] + i;
}
"""


@pytest.mark.parametrize("members", [1, 3])
def test_buffers_of_four_times_a_member_and_twice_all_members_together_are_worked_on(members: int) -> None:
    limit = 1 << 20
    count = max(4, members) * limit // 4  # two buffers of that: each four times a member, twice all of them
    with WireClient(open_members(MemberSettings(count=members, memory_nbytes=limit)), "always") as client:
        build, status, _ = client.build(TRIPLE)
        assert status == 0
        expected = np.arange(count, dtype=np.int32)
        buffers = [client.buffer(expected.tobytes()), client.buffer(4 * count)]
        for step in range(4):
            client.launch(build, [(buffers[step % 2], 0), (buffers[1 - step % 2], 0)], [count], [64])
            expected = 3 * expected + np.arange(count, dtype=np.int32)
        client.finish()
        memory = client.session._memory
        assert np.array_equal(np.frombuffer(client.read(buffers[0], 4 * count), np.int32), expected)
        assert max(memory.accounting.peak_nbytes) <= limit
        assert memory.accounting.events.chunks > 0 and memory.accounting.events.spills > 0
        del memory


@pytest.mark.parametrize("limit_nbytes", [1 << 20, None])
def test_a_filled_buffer_and_a_product_of_three_members_memory_are_right(
    tmp_path: Path, limit_nbytes: int | None
) -> None:
    """The program that is run with more than a GPU's memory, on less."""
    stats = tmp_path / "stats.json"
    limit = {} if limit_nbytes is None else {"SDI_MEMBER_MEMORY": str(limit_nbytes)}
    environ = image_environ(3, SDI_SPLIT="always", SDI_STATS=str(stats), **limit)
    program = Path(__file__).parents[2] / "bench" / "gpu_large.py"
    sizes = ["--mib", "3", "--rows", "256", "--columns", "64", "--items", "16384"]
    sizes += ["--only", "buffer", "matmul", *(["table"] if limit_nbytes else [])]
    ended = run([sys.executable, str(program), *sizes], environ, 100.0)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    found = json.loads(stats.read_text())
    assert all(kernel["launches_split"] > 0 for kernel in found["kernels"].values())
    memory, moved = found["memory"], found["bytes_moved"]
    if limit_nbytes is None:
        assert moved["host_to_member"] == 0, "fills, kernels and merges leave everything on the members"
        assert moved["member_to_host"] < 1 << 20, "results and samples"
    else:
        assert max(memory["peak_nbytes"]) <= limit_nbytes
        assert memory["chunks"] > 0 and memory["spills"] > 0
        assert memory["mapped"] > 0, "the table is used where the host has it"


NUMBERED = TRIPLE.replace("to[i] =", '__asm__ volatile("# %ctaid"); to[i] =')


def test_assembly_that_asks_for_numbers_of_work_groups_is_one_launch_whatever_fits() -> None:
    count = 1 << 15
    expected = np.arange(count, dtype=np.int32)
    with WireClient(open_members(MemberSettings(count=2, memory_nbytes=1 << 16)), "always") as client:
        build, status, _ = client.build(NUMBERED)
        assert status == 0
        buffers = [client.buffer(expected.tobytes()), client.buffer(4 * count)]
        client.launch(build, [(buffers[0], 0), (buffers[1], 0)], [count], [64])
        assert client.read(buffers[1], 4 * count) == (4 * expected).tobytes()
        events = client.session._memory.accounting.events
        assert events.chunks == 0 and events.mapped > 0


PARTLY = """
__kernel void total(__global const int *a, __global int *out) {
    int sum = 0;
    for (int k = 0; k < 2048; k++)
        sum += a[k];
    out[get_global_id(0)] = sum;
}
__kernel void first(__global const int *a, __global const int *b, __global int *out) {
    int i = get_global_id(0);
    out[i] = i < 64 ? b[i] + a[i] : b[i];
}
"""


@pytest.mark.parametrize("coherence", ["lazy", "host"])
def test_a_large_place_of_a_buffer_that_an_assignment_does_not_touch_makes_room(coherence: Coherence) -> None:
    limit = 3 * 4096
    members = open_members(MemberSettings(count=2, memory_nbytes=limit))
    with WireClient(members, "always", coherence) as client:
        build, status, _ = client.build(PARTLY)
        assert status == 0
        data = np.arange(2048, dtype=np.int32)
        a, b, out = client.buffer(data.tobytes()), client.buffer(data[:1024].tobytes()), client.buffer(512)
        client.launch(build, [(a, 0), (out, 0)], [128], [64])  # the two fill both members
        assert client.read(out, 512) == np.full(128, data.sum(), np.int32).tobytes()
        launch = client.launch(build, [(a, 0), (b, 0), (out, 0)], [128], [64], 1)
        assert client.wait(launch) == 0  # the second member touches nothing of ``a``
        expected = np.where(data[:128] < 64, 2 * data[:128], data[:128])
        assert client.read(out, 512) == expected.tobytes()
        assert max(client.session._memory.accounting.peak_nbytes) <= limit


PRODUCT = """
__kernel void product(__global const int *all, __global int *own) {
    int i = get_global_id(0), sum = 0;
    for (int k = 0; k < 3072; k++)
        sum += all[k];
    own[i] += sum;
}
"""


def test_an_argument_of_more_than_half_a_member_costs_few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(access_plans, "make_plan", lambda *given: made.append(given) or make_plan(*given))
    with WireClient(open_members(MemberSettings(count=2, memory_nbytes=4 * 4096)), "always") as client:
        build, status, _ = client.build(PRODUCT)
        assert status == 0
        data = np.arange(3072, dtype=np.int32)
        every, own = client.buffer(data.tobytes()), client.buffer(bytes(1 << 18))
        client.launch(build, [(every, 0), (own, 0)], [1 << 16], [64])
        assert client.read(own, 1 << 18) == np.full(1 << 16, data.sum(), np.int32).tobytes()
        events = client.session._memory.accounting.events
        assert events.chunks == 31 and events.mapped == 0  # all of the one and 4 KiB of the other at a time
    assert len(made) < 100  # each cut in halves, quarters ... down to single work-groups would be 1,000


@pytest.mark.parametrize("members", [1, 2])
def test_a_launch_for_which_a_driver_has_less_than_it_said_is_cut_anew(members: int) -> None:
    devices = [ShortDevice(device) for device in open_members(MemberSettings(count=members))]
    with WireClient(devices, "always") as client:
        build, status, _ = client.build("kernel void grow(global int *p) { p[get_global_id(0)] += 7; }")
        assert status == 0
        data = np.arange(1 << 18, dtype=np.int32)
        buffer = client.buffer(data.tobytes())
        for turn in (1, 2):
            assert client.wait(client.launch(build, [(buffer, 0)], [1 << 18], [64])) == 0
            assert client.read(buffer, 1 << 20) == (data + 7 * turn).tobytes()
        events = client.session._memory.accounting.events
        assert events.chunks >= 2 and events.mapped == 0
        assert max(client.session._memory.accounting.peak_nbytes) <= 1 << 18


class Painted(ForwardingDevice):
    """A member whose pixels come back from an image no sooner than somebody has asked for their bytes."""

    def __init__(self, device: Device) -> None:
        super().__init__(device)
        self.gate = Ticket()

    def copy(
        self,
        source: Place,
        target: Place,
        region: Region,
        source_waits: Sequence[Ticket],
        target_waits: Sequence[Ticket],
        timing: Timing = MEASURED,
    ) -> tuple[Ticket, Ticket]:
        if target.device is None:
            ends = super().copy(source, target, region, source_waits, target_waits, timing)
            if not self.gate.done:
                self.gate.complete()
            return ends
        is_from_image = isinstance(source.memory, MemberImage)
        waits = [*source_waits, self.gate] if is_from_image else source_waits
        return super().copy(source, target, region, waits, target_waits, timing)


PAINT = """
__kernel void paint(write_only image2d_t to, __global const uint *table, uint n) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    write_imageui(to, at, (uint4)(table[(at.y * 997u + at.x * at.x) % n]));
}
"""


def test_what_a_kernel_painted_is_waited_for_where_another_buffer_is_used_on_the_host() -> None:
    width, height, count = 32, 48, 1 << 14
    table = np.arange(count, dtype=np.uint32) * 3
    devices = [Painted(d) for d in open_members(MemberSettings(count=3, memory_nbytes=count * 2))]
    with WireClient(devices, "always") as client:
        build, status, _ = client.build(PAINT)
        assert status == 0
        pixels, large = client.buffer(bytes(4 * width * height)), client.buffer(table.tobytes())
        numbers = (pixels, 0, 0x10F1, 0x10B0, 0x10DC, 0, width, height, 1, 4 * width, 4 * width * height)
        image = (ArgumentKind.IMAGE, layout(IMAGE_ARGUMENT).pack(*numbers))
        client.launch(build, [image, (large, 0), np.uint32(count).tobytes()], [width, height], [8, 4])
        found = np.frombuffer(client.read(pixels, 4 * width * height), np.uint32)
        assert client.session._memory.accounting.events.mapped == 3
    y, x = np.divmod(np.arange(width * height), width)
    assert found.tolist() == table[(y * 997 + x * x) % count].tolist()
