"""Processes of rank 0's machine: bytes that lie where both ends reach them are not sent."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from sdi.cluster import near as doors
from sdi.cluster.arriving import CHUNK_NBYTES
from sdi.cluster.head import Heads
from sdi.cluster.hub import Hub
from sdi.cluster.job import Job, JobError
from sdi.cluster.members import facts_of, host_id, open_job_members
from sdi.cluster.near import NearError, NearListener, come
from sdi.cluster.records import strings, strings_of
from sdi.cluster.remote_device import RemoteDevice
from sdi.cluster.shared import POOL_NBYTES, Mapped, Pool
from sdi.cluster.staging import LENT_NBYTES
from sdi.devices import copying
from sdi.devices.discover import MemberSettings, all_devices
from sdi.devices.handles import DeviceBuffer
from sdi.devices.opencl.member import DriverDevice
from sdi.devices.page_locks import SLAB_NBYTES, PageLocks
from sdi.devices.ticket import Ticket
from sdi.errors import DeviceFailed, DeviceLost
from sdi.region import Region
from sdi.service.handover import HandoverError, take_over
from sdi.vmem.arena import PAGE_NBYTES, Arena
from tests.cluster.jobs import local_job, open_on_nodes
from tests.cluster.test_jobs import SDI_RUN, TIMEOUT_S, job_environ
from tests.devices.testing.hooks import hooks
from tests.image_runs import run
from tests.service.wire_client import WireClient

PATIENCE_S = 60.0
OTHER_UID = 4321
SIZES = (1, LENT_NBYTES, LENT_NBYTES + 1, CHUNK_NBYTES, 11 * CHUNK_NBYTES + 5)


class Shared:
    """A job of processes that share memory, with an arena that they have too."""

    def __init__(self, job: Job, driver: DriverDevice) -> None:
        self.job = job
        self.arena = Arena(1 << 32, PAGE_NBYTES)
        self.members = open_on_nodes(job, driver, 3)
        job.share(self.arena)

    def bytes(self, content: np.ndarray) -> memoryview:
        """``content`` in the arena."""
        view = self.arena.view(self.arena.allocate(content.nbytes), content.nbytes)
        view[:] = memoryview(content).cast("B")
        return view

    def sent(self) -> tuple[int, int]:
        """Bytes of buffers in messages and in shared memory, over all ranks of the session."""
        found = self.job.traffic().values()
        return sum(each.bulk_nbytes for each in found), sum(each.shared_nbytes for each in found)


@pytest.fixture(scope="module")
def near() -> Iterator[Job]:
    """Three other processes of this machine."""
    with local_job(3, host_id()) as job:
        yield job


@pytest.fixture
def shared(near: Job, driver: DriverDevice) -> Iterator[Shared]:
    made = Shared(near, driver)
    yield made
    near.end_session()
    made.arena.close()
    del made.arena  # the last test of a module is kept until the module is over, and with it its mapping


def finish(ticket: Ticket) -> Ticket:
    done = threading.Event()
    ticket.when_done(lambda _: done.set())
    assert done.wait(PATIENCE_S), "a ticket is not done in time"
    return ticket


def content(nbytes: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)


def test_uploads_and_downloads_of_the_arena_send_no_byte(shared: Shared) -> None:
    for member in shared.members:
        for nbytes in SIZES:
            data = content(nbytes)
            buffer = member.allocate(nbytes + 7)
            there = shared.bytes(data)
            back = shared.bytes(np.zeros(nbytes, np.uint8))
            up = copying.upload(member, there, buffer, 7, [])
            down = copying.download(member, buffer, 7, back, [up])
            assert finish(down).error is None and bytes(back) == data.tobytes()
            member.free(buffer)
    in_messages, in_memory = shared.sent()
    assert in_messages == 0 and in_memory == 2 * 3 * sum(SIZES)


def test_rows_of_the_arena_keep_what_lies_between_them(shared: Shared) -> None:
    member, rows = shared.members[0], Region(0, 24, ((1000, 100),))
    data, kept = content(rows.span_nbytes), content(rows.span_nbytes, 2)
    buffer = member.allocate(rows.span_nbytes)
    finish(copying.upload(member, shared.bytes(kept), buffer, 0, []))
    back = shared.bytes(kept[::-1].copy())
    up = copying.upload(member, shared.bytes(data), buffer, 0, [], rows)
    assert finish(copying.download(member, buffer, 0, back, [up], rows)).error is None
    wanted = kept[::-1].copy()
    for start in range(0, rows.span_nbytes, rows.levels[0][0]):
        wanted[start : start + rows.nbytes] = data[start : start + rows.nbytes]
    assert bytes(back) == wanted.tobytes()
    assert shared.sent()[0] == 0


@pytest.mark.parametrize("nbytes", SIZES)
def test_copies_between_processes_are_lent(shared: Shared, nbytes: int) -> None:
    first, second, third = shared.members
    data = content(nbytes)
    buffers = [member.allocate(nbytes) for member in shared.members]
    ticket = finish(copying.upload(first, shared.bytes(data), buffers[0], 0, []))
    for source, target in ((0, 1), (1, 2), (2, 0)):
        members = (first, second, third)
        _, ticket = copying.across(
            members[target],
            members[source],
            buffers[source],
            0,
            buffers[target],
            0,
            nbytes,
            [ticket],
            [ticket],
        )
    back = shared.bytes(np.zeros(nbytes, np.uint8))
    assert finish(copying.download(first, buffers[0], 0, back, [ticket])).error is None
    assert bytes(back) == data.tobytes()
    lent = nbytes - nbytes % CHUNK_NBYTES if nbytes > CHUNK_NBYTES else nbytes * (nbytes > LENT_NBYTES)
    assert shared.sent() == (3 * (nbytes - lent), 3 * lent + 2 * nbytes)


def test_rows_between_processes_are_lent(shared: Shared) -> None:
    first, second, _ = shared.members
    rows = Region(0, 1000, ((5000, 3000),))
    data, kept = content(rows.span_nbytes), content(rows.span_nbytes, 2)
    buffers = [first.allocate(rows.span_nbytes), second.allocate(rows.span_nbytes)]
    ups = [
        copying.upload(first, shared.bytes(data), buffers[0], 0, []),
        copying.upload(second, shared.bytes(kept), buffers[1], 0, []),
    ]
    before = shared.sent()
    _, ticket = copying.across(second, first, buffers[0], 0, buffers[1], 0, rows, [ups[0]], [ups[1]])
    back = shared.bytes(np.zeros(rows.span_nbytes, np.uint8))
    assert finish(copying.download(second, buffers[1], 0, back, [ticket])).error is None
    wanted = kept.copy()
    for start in range(0, rows.span_nbytes, rows.levels[0][0]):
        wanted[start : start + rows.nbytes] = data[start : start + rows.nbytes]
    assert bytes(back) == wanted.tobytes()
    after = shared.sent()
    assert after[0] == before[0] and after[1] - before[1] == rows.total_nbytes + rows.span_nbytes


def test_a_local_member_lends_and_borrows_as_others_do(shared: Shared, driver: DriverDevice) -> None:
    from sdi.devices.opencl.member import OpenCLDevice

    nbytes = 2 * CHUNK_NBYTES
    data, here = content(nbytes), OpenCLDevice(driver, 9, 1 << 26)
    buffer, there = here.allocate(nbytes), shared.members[0].allocate(nbytes)
    back = np.zeros(nbytes, np.uint8)
    try:
        up = copying.upload(here, memoryview(data), buffer, 0, [])
        _, out = copying.across(shared.members[0], here, buffer, 0, there, 0, nbytes, [up], [])
        finish(out)
        cleared = here.fill(buffer, 0, nbytes, b"\0", [up])
        bounced = copying.across(here, shared.members[0], there, 0, buffer, 0, nbytes, [out], [cleared])[1]
        assert finish(copying.download(here, buffer, 0, memoryview(back), [bounced])).error is None
        assert (back == data).all()
    finally:
        here.close()


def test_kernels_use_bytes_of_the_arena_where_they_are(shared: Shared) -> None:
    source = "kernel void add(global uchar *a, uchar b) { a[get_global_id(0)] += b; }"
    member, data = shared.members[1], content(PAGE_NBYTES)
    there = shared.bytes(data)
    buffer = member.allocate(there)
    kernel = member.bind(member.build(source, []), "add", [buffer, b"\5"])
    assert finish(member.launch(kernel, (PAGE_NBYTES // 16, 1, 1), (16, 1, 1), 1, [])).error is None
    assert bytes(there) == (data + np.uint8(5)).tobytes()
    member.free(buffer)


GATHER = """
kernel void gather(global const int *in, global int *out, int n) {
    int i = get_global_id(0);
    out[i] = 3 * in[i] + in[(in[i] * 7919u + 13) % n];
}
"""


def test_replays_wait_for_what_rank_0_brings_to_the_arena_in_the_same_replay(near: Job) -> None:
    """Its own member, which is late, has a part that the others get from the arena, twice as old there."""
    n, steps = 1 << 14, 8
    data = np.random.default_rng(1).integers(0, 1 << 20, n, np.int32)
    wanted, devices = data, all_devices()
    for _ in range(steps):
        wanted = 3 * wanted + wanted[(wanted.astype(np.uint32) * 7919 + 13) % n]
    members = open_job_members(
        MemberSettings(count=4, testing=hooks(late=0)), near, devices, facts_of(devices)
    )
    with WireClient(members, "always", share=near.share) as client:
        client.session.keep_parts(partial(Heads, near))
        links = client.session._memory.transfers.links
        links.through_host = lambda source, *_: source == 1  # type: ignore[method-assign]
        build, status, _ = client.build(GATHER)
        assert status == 0
        buffers = client.buffer(4 * n), client.buffer(4 * n)
        for turn in range(4):
            client.write(buffers[0], (data + turn).tobytes())
            client.write(buffers[0], data.tobytes())
            for step in range(steps):
                given = [(buffers[step % 2], 0), (buffers[1 - step % 2], 0), np.int32(n).tobytes()]
                client.launch(build, given, [n], [64])
            assert client.read(buffers[steps % 2], 4 * n) == wanted.tobytes(), f"turn {turn}"
        accounting = client.session.counters._accounting
        accounting.settle()
        assert accounting.events.node_replays > steps, "most are replayed"
    near.end_session()


def test_what_fails_at_one_end_fails_at_the_other_and_is_returned(shared: Shared) -> None:
    first, second, _ = shared.members
    nbytes = 3 * CHUNK_NBYTES
    buffers = [first.allocate(nbytes), second.allocate(nbytes)]
    for end in range(2):
        gate = Ticket()
        ends: tuple[list[Ticket], list[Ticket]] = ([gate], []) if end == 0 else ([], [gate])
        left, arrived = copying.across(second, first, buffers[0], 0, buffers[1], 0, nbytes, *ends)
        gate.complete(DeviceFailed("nobody", "on purpose"))
        assert isinstance(finish(arrived).error, DeviceFailed)
        assert (finish(left).error is None) == (end == 1)
    data = content(nbytes)
    up = copying.upload(first, shared.bytes(data), buffers[0], 0, [])
    back = shared.bytes(np.zeros(nbytes, np.uint8))
    for _ in range(40):  # more than would fit if anything was kept
        up = copying.across(second, first, buffers[0], 0, buffers[1], 0, nbytes, [up], [up])[1]
    assert finish(copying.download(second, buffers[1], 0, back, [up])).error is None
    assert bytes(back) == data.tobytes()


def test_processes_that_are_killed_while_they_copy_shared_memory_cost_what_was_on_them(
    driver: DriverDevice,
) -> None:
    nbytes = 12 * CHUNK_NBYTES
    data = content(nbytes)
    with local_job(3, host_id(), killed={1, 2}) as job:
        shared = Shared(job, driver)
        there = shared.bytes(data)
        buffers = [member.allocate(nbytes) for member in shared.members]
        ups = [copying.upload(m, there, b, 0, []) for m, b in zip(shared.members, buffers, strict=True)]
        last = shared.members[2]
        for victim in range(2):
            member, buffer = shared.members[victim], buffers[victim]
            assert isinstance(member, RemoteDevice) and not member.is_lost()
            back = shared.arena.view(shared.arena.allocate(nbytes), nbytes)
            tickets = [
                copying.upload(member, there, buffer, 0, [ups[victim]]),
                copying.download(member, buffer, 0, back, [ups[victim]]),
                *copying.across(last, member, buffer, 0, buffers[2], 0, nbytes, [ups[victim]], [ups[2]]),
                *copying.across(member, last, buffers[2], 0, buffer, 0, nbytes, [ups[2]], [ups[victim]]),
            ]
            if victim:  # in the midst of it, not before
                finish(ups[victim])
            os.kill(job.facts[member.node.rank].pid, signal.SIGKILL)
            for ticket in tickets:
                finish(ticket)
            assert isinstance(finish(member.fill(buffer, 0, 4, b"\0", [])).error, DeviceLost)
            assert tickets[4].error is None, "the other end of the copy is as good as ever"
            assert not last.is_lost()
            ups[2] = copying.upload(last, there, buffers[2], 0, [])
        back = shared.bytes(np.zeros(nbytes, np.uint8))
        assert finish(copying.download(last, buffers[2], 0, back, [ups[2]])).error is None
        assert bytes(back) == data.tobytes() == bytes(there)
        job.end_session()
        shared.arena.close()


def test_a_program_on_three_processes_of_one_machine_sends_no_bytes_of_buffers(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, pyopencl as cl\n"
        "context = cl.Context([cl.get_platforms()[0].get_devices()[0]])\n"
        "queue = cl.CommandQueue(context)\n"
        "n = 3 << 20\n"
        "data = np.random.default_rng(3).integers(0, 1 << 30, n, np.int32)\n"
        "flags = cl.mem_flags\n"
        "given = cl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=data)\n"
        "made = cl.Buffer(context, flags.WRITE_ONLY, data.nbytes)\n"
        "source = 'kernel void f(global const int *a, global int *b)"
        " { int i = get_global_id(0); b[i] = 3 * a[i] + i; }'\n"
        "cl.Program(context, source).build().f(queue, (n,), (64,), given, made)\n"
        "found = np.empty_like(data)\n"
        "cl.enqueue_copy(queue, found, made)\n"
        "assert (found == 3 * data + np.arange(n, dtype=np.int32)).all()\n"
    )
    stats = tmp_path / "stats.json"
    done = run([*SDI_RUN, sys.executable, program], job_environ(3, SDI_STATS=str(stats)), TIMEOUT_S)
    assert done.returncode == 0 and not done.remained and not done.stderr, done.describe()
    network = json.loads(stats.read_text())["network"]
    assert all(ends["bulk_nbytes"] == 0 for ends in network), network
    assert sum(ends["shared_nbytes"] for ends in network) == 2 * 2 * (4 << 20)


def test_only_who_knows_the_secret_gets_through_the_door(tmp_path: Path) -> None:
    door, pool = NearListener(), Pool()
    stranger = threading.Thread(target=lambda: _knock(door, tmp_path))
    try:
        stranger.start()
        assert door.wait([1], lambda rank: not stranger.is_alive()) == []
    finally:
        stranger.join()
        door.close()
        pool.close()
    assert (tmp_path / "refused").exists()
    assert not Path(_path(door)).parent.exists(), "the folder goes with the door"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_other_users_get_through_no_door_of_a_job() -> None:
    """Not even who knows the secret, where the folders are open."""
    door, pool, hub = NearListener(), Pool(), Hub()
    told: list[str] = []
    try:
        path, cookie = _path(door), strings_of(door.invitation)[1]
        assert _as_another(path, b"") == "denied" == _as_another(hub.path, b"")
        for each in (path, hub.path):
            os.chmod(Path(each).parent, 0o755)
            os.chmod(each, 0o666)
        hello = doors._HELLO.pack(cookie, 1, pool.nbytes)
        stranger = threading.Thread(target=lambda: told.append(_as_another(path, hello)))
        stranger.start()
        assert door.wait([1], lambda rank: not stranger.is_alive()) == []
        stranger.join()
        stranger = threading.Thread(target=lambda: told.append(_as_another(hub.path, hello)))
        stranger.start()
        connection, _ = hub._listener.accept()
        with connection, pytest.raises(HandoverError, match=f"belongs to user {OTHER_UID}"):
            take_over(connection)
        stranger.join()
    finally:
        hub.close(0)
        door.close()
        pool.close()
    assert told == ["nothing", "nothing"]


def _as_another(path: str, hello: bytes) -> str:
    """What another user's process gets at a door: "denied", or what comes after its hello with a memory."""
    program = f"""
import os, socket
os.setgroups([])
os.setgid({OTHER_UID})
os.setuid({OTHER_UID})
end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
try:
    end.connect({path!r})
    socket.send_fds(end, [{hello!r}], [os.memfd_create("pool")])
    print(end.recv(100) or "nothing")
except PermissionError:
    print("denied")
except ConnectionError:
    print("nothing")
"""
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _path(door: NearListener) -> str:
    return strings_of(door.invitation)[0].decode()


def _knock(door: NearListener, told: Path) -> None:
    pool = Pool()
    try:
        come(strings((_path(door), b"\0" * 32)), 1, pool)
    except NearError:
        (told / "refused").touch()
    finally:
        pool.close()


@pytest.mark.logs("rank 1 is on this machine and shares no memory")
def test_where_no_memory_is_shared_the_job_says_so_and_sends_messages(
    driver: DriverDevice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sdi.cluster.near.secrets.token_bytes", lambda nbytes: b"x" * (nbytes - 1))
    with local_job(1, host_id()) as job:
        assert "rank 1 is on this machine and shares no memory" in caplog.text
        caplog.clear()
        (member,) = open_on_nodes(job, driver, 1)
        assert not member.capabilities.is_near
        data, back = content(1000), np.zeros(1000, np.uint8)
        buffer = cast(DeviceBuffer, member.allocate(1000))
        up = copying.upload(member, memoryview(data), buffer, 0, [])
        assert finish(copying.download(member, buffer, 0, memoryview(back), [up])).error is None
        assert (back == data).all()
        job.end_session()


def pools_of(pid: int) -> tuple[int, int]:
    """How many pools a process has mapped, and how many descriptors of pools: one for each and its own."""
    maps = Path(f"/proc/{pid}/maps").read_text().count("/memfd:sdi-pool")
    opened = [os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()]
    return maps, sum("/memfd:sdi-pool" in each for each in opened)


def copied_round(shared: Shared) -> None:
    """Copy bytes to the first member, from one to the next, and back, and compare."""
    nbytes = CHUNK_NBYTES + LENT_NBYTES + 5
    data = content(nbytes)
    buffers = [member.allocate(nbytes) for member in shared.members]
    ticket = copying.upload(shared.members[0], shared.bytes(data), buffers[0], 0, [])
    for at in range(1, 3):
        source, target = shared.members[at - 1 : at + 1]
        ticket = copying.across(target, source, buffers[at - 1], 0, buffers[at], 0, nbytes, [ticket], [])[1]
    back = shared.bytes(np.zeros(nbytes, np.uint8))
    assert finish(copying.download(shared.members[2], buffers[2], 0, back, [ticket])).error is None
    assert bytes(back) == data.tobytes()


@pytest.mark.logs("rank 2 is on this machine and shares no memory")
def test_a_process_that_cannot_map_the_memory_of_others_says_so_and_sends_messages(
    driver: DriverDevice, caplog: pytest.LogCaptureFixture
) -> None:
    with local_job(3, host_id(), room={2: 2 * POOL_NBYTES - 1}) as job:  # its own pool, and no other
        assert "bytes go as messages: " in caplog.text and "Cannot allocate memory" in caplog.text
        caplog.clear()
        assert [job.nodes[rank].is_near for rank in (1, 2, 3)] == [True, False, True]
        assert [pools_of(job.facts[rank].pid) for rank in (1, 2, 3)] == [(3, 4), (0, 0), (3, 4)]
        shared = Shared(job, driver)
        assert [member.capabilities.is_near for member in shared.members] == [True, False, True]
        copied_round(shared)
        assert shared.sent()[1] > 0, "the others share memory"
        job.end_session()
        shared.arena.close()


@pytest.mark.logs("rank 1 is on this machine and shares no memory")
def test_a_process_whose_memory_rank_0_cannot_map_stays_apart(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing = [OSError("on purpose")]

    def mapped(descriptor: int, nbytes: int) -> Mapped:
        if failing:
            raise failing.pop()
        return Mapped(descriptor, nbytes)

    monkeypatch.setattr("sdi.cluster.near.Mapped", mapped)
    with local_job(2, host_id()) as job:
        assert "bytes go as messages: rank 0 can't map its memory: on purpose" in caplog.text
        caplog.clear()
        assert [job.nodes[rank].is_near for rank in (1, 2)] == [False, True]
        assert [pools_of(job.facts[rank].pid) for rank in (1, 2)] == [(0, 0), (2, 3)]


@pytest.mark.logs("rank 1 is on this machine and shares no memory")
def test_a_process_that_dies_on_its_way_through_the_door_ends_the_job_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    give = NearListener._give

    def given(door: NearListener, pool: Pool) -> dict[int, socket.socket]:
        signal.pidfd_send_signal(door._guests[1].process, signal.SIGKILL)
        return give(door, pool)

    monkeypatch.setattr(NearListener, "_give", given)
    with pytest.raises(JobError, match="rank 1"), local_job(2, host_id(), killed={1}):
        """Its meeting fails."""
    caplog.clear()


@pytest.mark.logs("rank 2 has not the application's memory")
def test_members_of_a_process_that_cannot_map_the_arena_are_not_near(
    driver: DriverDevice, caplog: pytest.LogCaptureFixture
) -> None:
    with local_job(3, host_id(), room={2: 5 * POOL_NBYTES - 1}) as job:  # four pools
        assert all(node.is_near for node in job.nodes.values())
        shared = Shared(job, driver)
        assert "rank 2 has not the application's memory, bytes go as messages: " in caplog.text
        caplog.clear()
        assert [member.capabilities.is_near for member in shared.members] == [True, False, True]
        copied_round(shared)
        job.end_session()
        shared.arena.close()


def test_pages_that_another_process_may_have_locked_are_not_given_back() -> None:
    locks, given = PageLocks(0), list[int]()
    arena = Arena(1 << 33, PAGE_NBYTES, locks)
    try:
        locks.keep(arena.address + (1 << 30), 4096)
        near, far = arena.address + (1 << 30) + SLAB_NBYTES - PAGE_NBYTES, arena.address + (1 << 32)
        assert not locks.unless_locked(near, PAGE_NBYTES, lambda: given.append(1))
        assert locks.unless_locked(far, PAGE_NBYTES, lambda: given.append(2))
        assert given == [2]
    finally:
        arena.close()
    assert locks.unless_locked(near, PAGE_NBYTES, lambda: given.append(3)), "the arena has gone"
