"""Each member a device of its own: what a command that names its member does there, to the byte."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.errors import Status
from sdi.wire.records import Op
from tests.devices.testing.hooks import hooks
from tests.runtime.test_moves import Session, i32
from tests.service.conftest import Serve
from tests.service.wire_client import WireClient

SOURCE = """
__kernel void grow(__global int *data, int by) { data[get_global_id(0)] += by; }
__kernel void near(__global const int *from, __global int *to, int n) {
    int i = get_global_id(0);
    to[i] = from[i] + (i > 0 ? from[i - 1] : 0) + (i < n - 1 ? from[i + 1] : 0);
}
"""
GROW, NEAR = range(2)
N = 1 << 14
NBYTES = 4 * N
START = np.arange(N, dtype=np.int32)


class Apart(Session):
    """A session whose members are devices of their own; ``member`` as records have it: 1 is the first."""

    def __init__(self, client: WireClient) -> None:
        super().__init__(client)
        self.build, status, _ = client.build(SOURCE)
        assert status == 0
        self.queues: dict[int, int] = {}

    def on(self, member: int) -> int:
        """That member's queue."""
        return self.queues.setdefault(member, self.client.new_queue())

    def run(
        self, member: int, kernel: int, *arguments: tuple[int, int] | bytes, first: int = 0, n: int = N
    ) -> int:
        fields = {"queue": self.on(member), "member": member, "offset": [first, 0, 0]}
        return self.client.launch(self.build, arguments, [n], [16], kernel, **fields)

    def copy(self, member: int, source: int, target: int, nbytes: int = NBYTES, **more: int) -> int:
        where = {"queue": self.on(member), "member": member, "region": [nbytes, 1, 1], **more}
        return self.client.command(Op.COPY, source=source, target=target, **where)

    def migrate(self, member: int, buffer: int, nbytes: int = NBYTES) -> int:
        place = np.array([buffer, 0, nbytes], np.uint64).tobytes()
        return self.client.command(Op.MIGRATE, place, queue=self.on(member), member=member, num_places=1)

    def numbers(self, buffer: int) -> np.ndarray:
        return np.frombuffer(self.client.read(buffer, NBYTES), np.int32)

    def groups(self, kernel: str) -> list[int]:
        return self.client.session.counters.kernel(kernel).groups_per_member


def test_a_launch_runs_on_the_member_of_its_queue_with_the_bytes_that_it_lacks(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a, b = (apart.client.buffer(START.tobytes()) for _ in range(2))
    for member in (1, 2, 3):
        apart.run(member, GROW, (a, 0), i32(member), first=(member - 1) * 1024, n=1024)
    assert apart.moved() == {(0, member): (1, 4096) for member in (1, 2, 3)}
    assert apart.groups("grow") == [64, 64, 64]
    apart.run(2, NEAR, (a, 0), (b, 0), i32(3072), first=1024, n=1024)
    assert apart.moved() == {(1, 2): (1, 4), (3, 2): (1, 4)}
    grown = START[:3072] + np.repeat([1, 2, 3], 1024)
    expected = grown[1024:2048] + grown[1023:2047] + grown[1025:2049]
    np.testing.assert_array_equal(apart.numbers(b)[1024:2048], expected)


def test_a_copy_goes_from_the_member_that_has_the_bytes_to_its_queues(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a, b = (apart.client.buffer(START.tobytes()) for _ in range(2))
    apart.run(1, GROW, (a, 0), i32(1))
    apart.moved()
    apart.copy(3, a, b)
    assert apart.moved() == {(1, 3): (1, NBYTES)}
    apart.run(3, GROW, (b, 0), i32(1))
    assert apart.moved() == {}
    apart.copy(3, b, a, 64, source_offset=64)
    assert apart.moved() == {}
    expected = START + 1
    np.testing.assert_array_equal(apart.numbers(b), expected + 1)
    expected[:16] = START[16:32] + 2
    np.testing.assert_array_equal(apart.numbers(a), expected)


def test_a_copy_of_rows_of_another_member_leaves_what_lies_between(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a, b = (apart.client.buffer(START.tobytes()) for _ in range(2))
    apart.run(1, GROW, (a, 0), i32(5))
    apart.run(2, GROW, (b, 0), i32(7))
    pitches = dict.fromkeys(("source_row_pitch", "target_row_pitch"), 256)
    fields = {"queue": apart.on(3), "member": 3, "region": [64, 16, 1], **pitches}
    apart.client.command(Op.COPY, source=a, target=b, **fields)
    expected = (START + 7).reshape(-1, 64)
    expected[:16, :16] = (START + 5).reshape(-1, 64)[:16, :16]
    np.testing.assert_array_equal(apart.numbers(b), expected.ravel())


def test_a_fill_is_made_on_its_queues_member(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a = apart.client.buffer(NBYTES)
    fields = {"queue": apart.on(2), "member": 2, "region": [NBYTES, 1, 1], "pattern_nbytes": 4}
    apart.client.command(Op.FILL, i32(9), buffer=a, **fields)
    apart.run(2, GROW, (a, 0), i32(1))
    assert apart.moved() == {}
    assert (apart.numbers(a) == 10).all()


def test_what_is_migrated_need_not_move_again(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a = apart.client.buffer(START.tobytes())
    apart.run(1, GROW, (a, 0), i32(1))
    apart.moved()
    apart.migrate(3, a)
    assert apart.moved() == {(1, 3): (1, NBYTES)}
    apart.migrate(3, a)
    apart.run(3, GROW, (a, 0), i32(1))
    assert apart.moved() == {}
    apart.migrate(0, a)
    assert apart.moved() == {(3, 0): (1, NBYTES)}
    np.testing.assert_array_equal(apart.numbers(a), START + 2)


def test_a_recording_of_one_members_queue_is_never_replayed_for_another(serve: Serve) -> None:
    apart = Apart(serve(2, is_image=False, plays=True))
    player = apart.client.session.player
    assert player is not None
    a = apart.client.buffer(START.tobytes())
    times = 0
    while player.replayed() < 8:
        apart.run(1, GROW, (a, 0), i32(1))
        times += 1
        apart.client.finish()
        apart.client.wait(apart.client.command(Op.MARKER, queue=apart.on(1)))
        assert times < 200, player.summary()
    assert apart.groups("grow") == [times * N // 16, 0]
    for _ in range(4):  # the record is the same but for its member, and the buffer is as it was recorded
        apart.run(2, GROW, (a, 0), i32(1))
        apart.run(1, GROW, (a, 0), i32(1))
    np.testing.assert_array_equal(apart.numbers(a), START + times + 8)
    assert apart.groups("grow") == [(times + 4) * N // 16, 4 * N // 16]


def test_one_device_is_told_for_each_member(serve: Serve) -> None:
    together, several = serve(3).facts_body, serve(3, is_image=False).facts_body
    next_device = (0x80000003).to_bytes(4, "little") + bytes(4)
    assert (together.count(next_device), several.count(next_device)) == (0, 2)


@pytest.mark.logs("damaged")
@pytest.mark.parametrize("is_image", [True, False])
def test_a_member_that_there_is_not_ends_the_session(serve: Serve, is_image: bool) -> None:
    client = serve(2, is_image=is_image)
    buffer = client.buffer(64)
    fields = {"region": [64, 1, 1], "pattern_nbytes": 4}
    client.command(Op.FILL, i32(1), buffer=buffer, member=1 if is_image else 3, **fields)
    assert client.commands.recv(1) == b""


@pytest.mark.logs("lost|failed")
def test_a_lost_members_device_fails_and_the_others_go_on() -> None:
    devices = open_members(MemberSettings(count=3, testing=hooks(lost=(1, 3))))
    with WireClient(devices, is_image=False) as client:
        apart = Apart(client)
        a, b = (client.buffer(START.tobytes()) for _ in range(2))
        ended = []
        for _ in range(4):
            last = apart.run(2, GROW, (b, 0), i32(1))
            ended.append(client.wait(last))
            client.wait(apart.run(1, GROW, (a, 0), i32(1)))
            client.wait(apart.run(3, GROW, (a, 0), i32(1)))
        assert ended[0] == 0 and ended[-1] == Status.OUT_OF_RESOURCES
        for lost in (apart.copy(2, a, b), apart.migrate(2, a)):
            assert client.wait(lost) == Status.OUT_OF_RESOURCES
        np.testing.assert_array_equal(apart.numbers(a), START + 8)


def test_a_device_that_alone_has_a_buffer_gets_all_of_it_after_a_while(serve: Serve) -> None:
    apart = Apart(serve(3, is_image=False))
    a, expected = apart.client.buffer(START.tobytes()), START.copy()

    def step(member: int, number: int) -> bool:
        """Whether no ranges were asked for."""
        apart.run(member, GROW, (a, 0), i32(1), first=64 * number, n=64)
        expected[64 * number : 64 * number + 64] += 1
        apart.client.finish()
        *_, last = apart.client.session._launcher.known.values.values()
        return last.launch_plan.is_trivial

    assert not any(step(1, number) for number in range(8))
    apart.moved()
    assert step(1, 8)
    assert apart.moved()[0, 1][1] == NBYTES - 8 * 256
    assert all(step(1, number) for number in range(9, 30))
    assert apart.moved() == {}
    assert not step(2, 100)
    assert apart.moved() == {(1, 2): (1, 256)}
    assert not step(1, 101)
    np.testing.assert_array_equal(apart.numbers(a), expected)
