"""Memory of members on other nodes: what is larger than them, and what their drivers refuse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from sdi.cluster.job import Job
from sdi.cluster.members import facts_of, node_memories, open_job_members
from sdi.devices.discover import MemberSettings, all_devices
from sdi.devices.opencl.member import DriverDevice
from sdi.errors import Status
from tests.cluster import jobs
from tests.devices.short import ShortDevice
from tests.service.wire_client import WireClient

LIMIT_NBYTES, COUNT = 64 << 10, 1 << 16
SOURCE = """
kernel void total(global const int *all, global int *own) {
    int i = get_global_id(0), sum = 0;
    for (int k = 0; k < 65536; k += 64)
        sum += all[k + i % 64];
    own[i] += sum;
}
kernel void scatter(global int *to, global const int *where, int by) {
    int i = get_global_id(0);
    to[where[i]] = i + by;
}
kernel void grow(global int *p) { p[get_global_id(0)] += 7; }
"""
TOTAL, SCATTER, GROW = range(3)


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    """Whose nodes share no memory with rank 0, as on other machines."""
    with jobs.local_job(2, None) as found:
        yield found


@pytest.mark.parametrize("devices", [None, "1,2"])
def test_buffers_larger_than_members_lie_in_the_memory_of_their_hosts(job: Job, devices: str | None) -> None:
    """Also where rank 0 has no member."""
    settings = MemberSettings(3, devices, LIMIT_NBYTES)
    here = all_devices()
    with WireClient(open_job_members(settings, job, here, facts_of(here)), "always") as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        numbers = np.random.default_rng(2)
        table = numbers.integers(0, 1 << 10, COUNT, np.int32)
        where = numbers.permutation(COUNT).astype(np.int32)
        large, places = client.buffer(table.tobytes()), client.buffer(where.tobytes())
        own = client.buffer(bytes(512))
        sums = np.zeros(128, np.int32)
        for by in range(3):
            client.launch(build, [(large, 0), (own, 0)], [128], [16], TOTAL)
            sums += np.tile(table.reshape(-1, 64).sum(0, np.int32), 2)
            client.launch(build, [(large, 0), (places, 0), np.int32(by).tobytes()], [COUNT], [64], SCATTER)
            table[where] = np.arange(COUNT, dtype=np.int32) + by
            client.launch(build, [(large, 0)], [COUNT], [64], GROW)
            table += 7
        assert client.read(own, 512) == sums.tobytes()
        assert client.read(large, 4 * COUNT) == table.tobytes()
        accounting = client.session._memory.accounting
        assert accounting.events.mapped > 0 and max(accounting.peak_nbytes) <= LIMIT_NBYTES
    job.end_session()


SUM = (
    "kernel void sum(global const int *a, global int *b) { b[get_global_id(0)] += 3 * a[get_global_id(0)]; }"
)
NUM_BUFFERS, TURNS = 6, 4


@pytest.mark.parametrize("node_nbytes", [None, 0, 256 << 10])
def test_what_members_have_no_room_for_lies_in_their_nodes_memory_as_far_as_there_is_room(
    job: Job, node_nbytes: int | None
) -> None:
    """Twice as much as they have: nothing of it passes rank 0 but what the application writes and reads."""
    nbytes = 4 * COUNT
    settings = MemberSettings(3, "0,1,2", NUM_BUFFERS * nbytes // 6, node_nbytes)
    here = all_devices()
    members = open_job_members(settings, job, here, facts_of(here))
    with WireClient(members, "always", nodes=node_memories(settings, job, members)) as client:
        build, status, _ = client.build(SUM)
        assert status == 0
        data = [np.arange(COUNT, dtype=np.int32) + 1000 * number for number in range(NUM_BUFFERS)]
        buffers = [client.buffer(each.tobytes()) for each in data]
        for _ in range(TURNS):
            for one, other in zip(range(NUM_BUFFERS), (*range(1, NUM_BUFFERS), 0), strict=True):
                client.launch(build, [(buffers[one], 0), (buffers[other], 0)], [COUNT], [64])
                data[other] += 3 * data[one]
        for each, wanted in zip(buffers, data, strict=True):
            assert client.read(each, nbytes) == wanted.tobytes()
        accounting = client.session._memory.accounting
        events = accounting.events
        assert max(accounting.peak_nbytes) <= settings.memory_nbytes
        sent = {ends: each.bulk_nbytes for ends, each in job.traffic().items()}
    own = NUM_BUFFERS * nbytes // 3
    through_root = [sent[0, node] + sent[node, 0] for node in (1, 2)]
    slack = 4 * (2 << 10) * NUM_BUFFERS  # places begin at pages
    if node_nbytes is None:
        assert max(through_root) <= 2 * own + slack, sent
        assert events.node_refused_nbytes == 0 < events.node_spilled_nbytes
    else:
        assert min(through_root) > 3 * own, sent
        assert (events.node_refused_nbytes > 0) == (events.node_spilled_nbytes > 0) == (node_nbytes > 0)
    assert sent[1, 2] + sent[2, 1] <= slack * TURNS
    job.end_session()


@pytest.mark.logs("the driver has no more")
def test_buffers_that_a_nodes_driver_refuses_fail_what_uses_them_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, driver: DriverDevice
) -> None:
    open_all = jobs.open_here
    monkeypatch.setattr(jobs, "open_here", lambda *given: [ShortDevice(each) for each in open_all(*given)])
    data = np.arange(1 << 14, dtype=np.int32)
    with jobs.threads(1) as made, WireClient(jobs.open_on_nodes(made.job, driver, 1), "always") as client:
        build, status, _ = client.build(SOURCE)
        assert status == 0
        buffers = [client.buffer((data + number).tobytes()) for number in range(8)]  # four of them fit
        for turn in (1, 2):
            statuses = [client.wait(client.launch(build, [(b, 0)], [1 << 14], [64], GROW)) for b in buffers]
            assert statuses == [0] * 4 + [Status.MEM_OBJECT_ALLOCATION_FAILURE] * 4
            for number, buffer in enumerate(buffers[:4]):
                assert client.read(buffer, 1 << 16) == (data + number + 7 * turn).tobytes()
        assert not made.nodes[0]._exchange._coming, "bytes for what was refused are dropped"
