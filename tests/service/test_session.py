"""The service's side of a session, driven over the wire with real members."""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import pytest

from sdi.devices.base import KernelFacts, SubGroupQuery
from sdi.devices.discover import MemberSettings, open_members
from sdi.devices.handles import DeviceProgram
from sdi.devices.opencl.programs import OpenClMemberProgram
from sdi.devices.polling import Polling
from sdi.devices.testing.forwarding import ForwardingDevice
from sdi.errors import BadRecord, ClError, DeviceFailed, Status, require
from sdi.service.outbox import KEPT_MAX_NBYTES
from sdi.vmem.memory import Coherence
from sdi.wire.arguments import IMAGE_ARGUMENT, SAMPLER_ARGUMENT, ArgumentKind
from sdi.wire.layout import layout
from sdi.wire.opencl import DeviceInfo, u32
from sdi.wire.records import (
    CARRIED_MAX_NBYTES,
    HEADER,
    HEAP_OFFSET,
    MAX_RECORD_NBYTES,
    SLOTS_OFFSET,
    STAGED_MAX_NBYTES,
    STAGING_OFFSET,
    NoticeKind,
    Op,
    record_layout,
)
from tests.devices.testing.hooks import hooks
from tests.service.conftest import Serve
from tests.service.wire_client import QUEUE, WireClient

SCALE = """
__kernel void scale(__global int *a, int factor) {
    a[get_global_id(0)] = a[get_global_id(0)] * factor + (int)get_group_id(0);
}
"""


SUB_GROUPS = {"param": 0x2034, "given": (8, 4, 0), "num_given": 2, "num_answers": 1}
"""A query: how many sub-groups are in a work-group of 8 x 4."""


def ints(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}i", *values)


@pytest.mark.parametrize("members", [1, 3])
def test_a_kernel_runs_split_and_its_result_is_read(serve: Serve, members: int) -> None:
    client = serve(members)
    build, status, _ = client.build(SCALE)
    assert status == 0
    buffer = client.buffer(ints(*range(64)))
    client.launch(build, [(buffer, 0), ints(3)], [64], [8])
    client.launch(build, [(buffer, 0), ints(5)], [64], [8])
    once = [i * 3 + i // 8 for i in range(64)]
    assert client.read(buffer, 256) == ints(*(value * 5 + i // 8 for i, value in enumerate(once)))
    counters = client.session.counters.kernel("scale")
    assert counters.members_used == {members: 2}
    assert sum(counters.groups_per_member) == 16


def test_a_build_that_can_t_be_taken_is_answered(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or its application waits for ever."""
    client = serve(1)

    def refuse(*_: object) -> None:
        raise ClError(Status.OUT_OF_RESOURCES, "it has no room")

    with monkeypatch.context() as patched:
        patched.setattr(client.session._launcher, "add", refuse)
        _, status, log = client.build(SCALE)
    assert status == Status.OUT_OF_RESOURCES and b"it has no room" in log
    assert client.build(SCALE)[1] == 0


def test_a_write_after_a_launch_does_not_reach_the_launch(serve: Serve) -> None:
    client = serve(3)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*[1] * 32))
    kept = client.buffer(128)
    for value in (10, 20, 30):
        client.write(a, ints(*[value] * 32))
        client.launch(build, [(a, 0), ints(2)], [32], [4])
    client.command(Op.COPY, source=a, target=kept, region=[128, 1, 1])
    client.write(a, ints(*[7] * 32))
    assert client.read(kept, 128) == ints(*(60 + i // 4 for i in range(32)))
    assert client.read(a, 128) == ints(*[7] * 32)


def test_a_read_is_not_disturbed_by_a_later_launch(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*[1] * 32))
    read = client.command(Op.READ, buffer=a, region=[128, 1, 1])
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
    launch = client.launch(build, [(a, 0), ints(2)], [32], [4])
    write = client.command(Op.FILL, b"\0", buffer=a, region=(128, 1, 1), pattern_nbytes=1)
    at = client.offsets[a]
    assert client.slot(write)[0] > 0
    assert client.arena[at : at + 128] == ints(*[1] * 32)
    client.send(Op.TRANSFER_DONE, read)
    assert [client.wait(command) for command in (launch, write)] == [0, 0]
    assert client.read(a, 128) == bytes(128)


def test_a_read_is_not_disturbed_by_bytes_that_are_written_early_around_it(
    serve: Serve,
) -> None:
    client = serve(2, "never")
    old, other, third = bytes(range(64)), client.new_id(), client.new_id()
    for queue in (other, third):
        client.send(Op.CREATE_QUEUE, queue)
    a = client.buffer(old)
    read = client.command(Op.READ, buffer=a, offset=23, region=[35, 1, 1])
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
    at = client.offsets[a]
    client.arena[at] = 100  # a page of memory that the application shares: in it this byte was changed
    client.command(Op.WRITE, queue=other, buffer=a, region=[64, 1, 1], written_ns=1)
    fill = client.command(Op.FILL, b"\5", queue=other, buffer=a, region=(64, 1, 1), pattern_nbytes=1)
    for _ in range(100):  # it had time
        assert client.wait(client.command(Op.MARKER, queue=third)) == 0 and client.slot(fill)[0] > 0
    assert client.arena[at + 23 : at + 58] == old[23:58]
    client.send(Op.TRANSFER_DONE, read)
    assert client.wait(fill) == 0
    assert client.arena[at : at + 64] == b"\5" * 64


@pytest.mark.parametrize("way", ["put", "stage"])
@pytest.mark.parametrize("members", [1, 3])
def test_writes_that_bring_their_bytes_are_in_order_with_launches_and_reads(
    serve: Serve, members: int, way: str
) -> None:
    client = serve(members)
    put = getattr(client, way)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*range(64)))
    with client.at_once():
        put(a, ints(*[5] * 16), offset=64)
        client.launch(build, [(a, 0), ints(2)], [64], [8])
        # Two rows of two, and a third one beside them: what lies between stays as it is on its member.
        rows = {"region": [8, 3, 1], "row_pitch": 48, "slice_pitch": 0}
        put(a, ints(*[9] * 6), offset=16, **rows)
        client.launch(build, [(a, 0), ints(3)], [64], [8])
        put(a, ints(1), offset=252)
    expected = [2 * (5 if 16 <= i < 32 else i) + i // 8 for i in range(64)]
    for row in range(3):
        expected[4 + 12 * row : 6 + 12 * row] = [9, 9]
    expected = [3 * value + i // 8 for i, value in enumerate(expected)]
    expected[63] = 1
    assert client.read(a, 256) == ints(*expected)
    assert client.taken_nbytes == (92 if way == "stage" else 0)


def test_staged_bytes_are_taken_also_where_their_buffer_has_gone(serve: Serve) -> None:
    client = serve(1)
    a = client.buffer(bytes(64))
    client.send(Op.RELEASE_BUFFER, a)
    assert client.wait(client.stage(a, b"too late")) < 0
    assert client.taken_nbytes == 8


def test_staged_bytes_are_not_counted_before_their_turn_where_many_are_kept(serve: Serve) -> None:
    client = serve(1)
    a, event, data = client.buffer(STAGED_MAX_NBYTES), client.new_id(), bytes([7]) * STAGED_MAX_NBYTES
    client.send(Op.CREATE_USER_EVENT, event, slot=900)
    for _ in range(KEPT_MAX_NBYTES // len(data)):
        client.stage(a, data, waits=[event])
    client.stage(a, b"last one", waits=[event])
    client.buffer(64)  # its reply comes after what was before it
    assert client.taken_nbytes == KEPT_MAX_NBYTES
    client.send(Op.SET_USER_EVENT, event, status=0)
    client.finish()
    assert client.taken_nbytes == KEPT_MAX_NBYTES + 8
    client.stage(a, b"and more", offset=8)
    assert client.read(a, 24) == b"last oneand more" + data[:8]
    assert client.taken_nbytes == KEPT_MAX_NBYTES + 16


def test_a_write_that_carries_its_bytes_waits_for_what_is_at_those_of_the_arena(serve: Serve) -> None:
    client = serve(2)
    a, other = client.buffer(bytes(range(64))), client.new_id()
    client.send(Op.CREATE_QUEUE, other)
    read = client.command(Op.READ, buffer=a, region=[32, 1, 1])
    assert client.notice()[:2] == (NoticeKind.TRANSFER_READY, read)
    put = client.put(a, b"waits", queue=other)
    beside = client.put(a, b"need not", offset=40, queue=client.new_queue())
    assert client.wait(beside) == 0 and client.slot(put)[0] > 0
    at = client.offsets[a]
    assert client.arena[at : at + 32] == bytes(range(32))
    client.send(Op.TRANSFER_DONE, read)
    assert client.wait(put) == 0
    _, _, _, submitted, started, ended = client.slot(put)
    assert 0 < submitted <= started <= ended
    assert client.read(a, 64) == b"waits" + bytes(range(5, 40)) + b"need not" + bytes(range(48, 64))


def test_columns_that_come_with_their_record_go_where_the_rows_are(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    rows, row = 256, 256
    a = client.buffer(ints(*range(rows * row)))
    launch = client.launch(build, [(a, 0), ints(1)], [rows * row], [64])
    assert client.wait(launch) == 0
    moved = client.session._memory.moved
    before = moved.member_to_host
    client.put(a, ints(*range(rows)), offset=8, region=[4, rows, 1], row_pitch=4 * row)
    client.finish()
    assert moved.member_to_host == before
    expected = [value + value // 64 for value in range(rows * row)]
    expected[2::row] = range(rows)
    assert client.read(a, 4 * rows * row) == ints(*expected)


def test_sub_buffers_are_views_of_their_root(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*range(64)))
    client.launch(build, [(a, 128), ints(2)], [32], [8])
    assert client.read(a, 256) == ints(*range(32), *(2 * (i + 32) + i // 8 for i in range(32)))


@pytest.mark.parametrize("coherence", ["lazy", "host"])
@pytest.mark.parametrize("members", [1, 2])
def test_a_mapped_sub_buffer_is_left_alone_by_kernels_on_another(
    serve: Serve, members: int, coherence: Coherence
) -> None:
    client = serve(members, "always", coherence)
    source = "kernel void put(global int *a, global const int *at) { a[at[get_global_id(0)]] = 5; }"
    build, status, _ = client.build(source)  # nothing is known of where it writes
    assert status == 0
    a, at = client.buffer(ints(*range(64))), client.buffer(ints(*reversed(range(32))))
    mapped = client.command(Op.MAP, buffer=a, offset=128, region=(128, 1, 1), flags=3)
    assert client.wait(mapped) == 0
    start = client.offsets[a] + 128
    assert client.arena[start : start + 128] == ints(*range(32, 64))
    client.arena[start : start + 128] = ints(*[9] * 32)
    assert client.wait(client.launch(build, [(a, 0, 128), (at, 0)], [32], [8])) == 0
    assert client.arena[start : start + 128] == ints(*[9] * 32)
    causes = client.session._memory.accounting.report()["causes"]
    assert set(causes["put: a"].values()) == {128}  # over each link that was used at all
    client.command(Op.UNMAP, buffer=a, offset=128, region=(128, 1, 1), wrote=1)
    assert client.read(a, 256) == ints(*[5] * 32, *[9] * 32)


def test_rectangles_touch_their_rows_only(serve: Serve) -> None:
    client = serve(2)
    a, b = client.buffer(bytes(range(64))), client.buffer(bytes(64))
    client.command(
        Op.COPY,
        source=a,
        target=b,
        source_offset=9,
        target_offset=2,
        region=[3, 2, 2],
        source_row_pitch=8,
        source_slice_pitch=32,
        target_row_pitch=4,
        target_slice_pitch=16,
    )
    expected = bytearray(64)
    for z in range(2):
        for y in range(2):
            for x in range(3):
                expected[2 + x + 4 * y + 16 * z] = 9 + x + 8 * y + 32 * z
    assert client.read(b, 64) == bytes(expected)


def test_maps_see_current_bytes_and_unmaps_publish_them(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*[1] * 32))
    client.launch(build, [(a, 0), ints(5)], [32], [8])
    mapped = client.command(Op.MAP, buffer=a, region=(128, 1, 1), flags=3)
    assert client.wait(mapped) == 0
    at = client.offsets[a]
    assert client.arena[at : at + 128] == ints(*(5 + i // 8 for i in range(32)))
    client.arena[at : at + 8] = ints(100, 200)
    client.command(Op.UNMAP, buffer=a, region=(128, 1, 1), wrote=1)
    client.launch(build, [(a, 0), ints(2)], [32], [8])
    assert client.read(a, 8) == ints(200, 400)


@pytest.mark.parametrize("members", [1, 3])
def test_maps_show_what_lies_beside_as_far_as_that_is_cheap(serve: Serve, members: int) -> None:
    client = serve(members)
    build, _, _ = client.build("kernel void put(global int *a) { a[get_global_id(0)] = get_global_id(0); }")
    sizes = (1 << 18, 3 << 18)  # 1 MiB, of which the programs map too little, and 3
    buffers = [client.buffer(ints(*[-1] * num)) for num in sizes]
    for buffer, num in zip(buffers, sizes, strict=True):
        assert client.wait(client.launch(build, [(buffer, 0)], [num], [64])) == 0
        mapped = client.command(Op.MAP, buffer=buffer, offset=1 << 16, region=(4, 1, 1), flags=1)
        assert client.wait(mapped) == 0
    small, large = (
        struct.unpack_from(f"<{num}i", client.arena, client.offsets[buffer])
        for buffer, num in zip(buffers, sizes, strict=True)
    )
    assert small == tuple(range(sizes[0]))
    page = range(1 << 14, (1 << 14) + 1024)
    assert large == tuple(i if i in page else -1 for i in range(sizes[1]))


def test_commands_behind_a_user_event_wait_and_may_name_buffers_released_meanwhile(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a, b = client.buffer(ints(*[3] * 16)), client.buffer(64)
    event = client.new_id()
    client.send(Op.CREATE_USER_EVENT, event, slot=900)
    client.launch(build, [(a, 0), ints(2)], [16], [4])
    held = client.command(Op.COPY, source=a, target=b, region=[64, 1, 1], waits=[event])
    client.send(Op.RELEASE_BUFFER, a)
    client.send(Op.RELEASE_BUILD, build)
    assert client.slot(held)[0] > 0
    client.send(Op.SET_USER_EVENT, event, status=0)
    assert client.read(b, 64) == ints(*(6 + i // 4 for i in range(16)))


def test_what_the_application_has_as_a_binary_is_told_to_the_members(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[object] = []
    monkeypatch.setattr(OpenClMemberProgram, "keep", lambda program: kept.append(program.shared.key))
    client = serve(2)
    build, _, _ = client.build(SCALE)
    client.send(Op.KEEP_BUILD, build)
    client.send(Op.RELEASE_BUILD, build)
    client.send(Op.KEEP_BUILD, build)  # released meanwhile: no matter
    a = client.buffer(ints(3))
    assert client.read(a, 4) == ints(3)
    assert len(kept) == 2


def test_times_are_ordered_and_on_the_host_clock(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*[3] * 16))
    before = time.monotonic_ns()
    launch = client.launch(build, [(a, 0), ints(2)], [16], [4])
    assert client.wait(launch) == 0
    _, _, _, submitted, started, ended = client.slot(launch)
    assert before <= submitted <= started <= ended <= time.monotonic_ns()


def test_commands_on_what_is_gone_get_a_status_and_leave_the_session_alive(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*range(16)))
    cases = [
        (client.command(Op.READ, buffer=12345, region=[4, 1, 1]), Status.INVALID_MEM_OBJECT),
        (client.command(Op.MARKER, queue=777), Status.INVALID_COMMAND_QUEUE),
        (client.launch(build, [(999, 0), ints(1)], [16], [4]), Status.INVALID_MEM_OBJECT),
        (client.launch(build, [(a, 0), ints(1)], [16], [4], regions=[a, 999]), Status.INVALID_MEM_OBJECT),
        (client.launch(build, [(a, 0), ints(1)], [16], [5]), Status.INVALID_WORK_GROUP_SIZE),
        (client.launch(999, [(a, 0), ints(1)], [16], [4]), Status.INVALID_PROGRAM_EXECUTABLE),
    ]
    client.finish()
    assert [Status(client.slot(command)[0]) for command, _ in cases] == [status for _, status in cases]
    assert client.read(a, 64) == ints(*range(16))


def refused(client: WireClient, records: list[bytes]) -> list[str]:
    """What the door says of each of these records, which it must not let in."""
    said = []
    for record in records:
        with pytest.raises(BadRecord) as caught:
            client.session._dispatcher.door.check(record)
        said.append(str(caught.value))
    return said


def test_records_that_break_a_rule_are_refused_by_the_name_of_the_field(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*range(16)))
    one, far = [4, 1, 1], 1 << 63
    slices = {"region": [1, 1, 1 << 32], "slice_pitch": 0}
    with client.taken() as records:
        client.command(Op.READ, buffer=a, region=[65, 1, 1])
        client.command(Op.READ, buffer=a, offset=far, region=[far, 1, 1])
        client.command(Op.READ, buffer=a, region=[0, 1, 1])
        client.command(Op.UNMAP, buffer=a, wrote=1, **slices)
        client.command(Op.COPY, source=a, target=a, region=[1, 1, 1 << 32])
        client.command(Op.FILL, b"\0", buffer=a, region=(1, 1 << 40, 1), pattern_nbytes=1)
        client.command(Op.FILL, b"ab", buffer=a, region=(3, 1, 1), pattern_nbytes=2)
        client.command(Op.FILL, buffer=a, region=(3, 1, 1), pattern_nbytes=0)
        client.command(Op.FILL, bytes(8), buffer=a, region=one, pattern_nbytes=8, data_type=5)
        client.command(Op.WRITE, bytes(8), buffer=a, region=[8, 1, 1], carried_nbytes=4)
        client.command(Op.WRITE, bytes(4), buffer=a, region=[64, 1, 1], carried_nbytes=64)
        client.command(Op.WRITE, bytes(8), buffer=a, region=[64, 1, 1])
        client.put(a, bytes(CARRIED_MAX_NBYTES + 1))
        for at in (1, STAGING_OFFSET - 8, HEAP_OFFSET - 7):
            client.command(Op.WRITE, buffer=a, region=[8, 1, 1], staged_at=at)
        many = {"region": [STAGED_MAX_NBYTES, 2, 1], "row_pitch": 1 << 30}
        staged = {"buffer": a, "staged_at": STAGING_OFFSET}
        client.command(Op.WRITE, **many, **staged)
        client.command(Op.WRITE, region=[8, 1, 1], written_ns=1, **staged)
        client.command(Op.WRITE, bytes(8), region=[8, 1, 1], carried_nbytes=8, **staged)
        client.command(Op.READ, buffer=QUEUE, region=one)
        client.command(Op.MARKER, queue=a)
        client.command(Op.MARKER, waits=[a])
        client.launch(build, [(a, 0)], [16], [4])
        client.launch(build, [(a, 0), b"abcdefgh"], [16], [4])
        client.launch(build, [ints(1), ints(1)], [16], [4])
        client.launch(build, [(a, 0, 65), ints(1)], [16], [4])
        client.launch(build, [(a, 64), ints(1)], [16], [4])
        client.launch(build, [(QUEUE, 0), ints(1)], [16], [4])
        client.launch(build, [(a, 0), ints(1)], [16], [4], regions=[a, QUEUE])
        client.launch(build, [(a, 0), ints(1)], [16], [4], regions=[a], num_regions=2)
        client.launch(build, [(a, 0), ints(1)], [16], [4], regions=[a], num_regions=0)
        client.launch(build, [(a, 0), ints(1)], [16], [4], num_regions=(1 << 32) - 1)
        client.launch(build, [(a, 0), ints(1)], [16], [4], kernel_index=9)
        client.launch(a, [(a, 0), ints(1)], [16], [4])
        client.launch(build, [(a, 0), ints(1)], [0], [4])
        client.launch(build, [(a, 0), ints(1)], [16], [1 << 40])
        client.launch(build, [(a, 0), ints(1)], [16], [4], offset=[far, far, 0])
        client.send(Op.CREATE_BUFFER, a, buffer_nbytes=64)
        client.send(Op.CREATE_BUFFER, 0, buffer_nbytes=64)
        client.send(Op.CREATE_BUFFER, 900, buffer_nbytes=0)
        client.send(Op.CREATE_USER_EVENT, 901, slot=1 << 20)
        client.send(Op.RECYCLE_BUFFER, a, slot=0)
        client.send(Op.RECYCLE_BUFFER, 902, slot=5)
        client.send(Op.REUSE_BUFFER, a)
        client.send(Op.RELEASE_BUFFER, build)
        client.send(Op.BUILD, 903, b"abc", options_nbytes=4, directory_nbytes=4, source_nbytes=4)
        client.send(Op.BUILD, 904, b"a\0c", options_nbytes=3)
        client.send(Op.LINK, 905, num_objects=1 << 31)
        client.send(Op.COMPILE, 906, num_headers=1 << 31)
        for wrong in (
            {"param": 0x11B7},
            {"num_given": 0},
            {"num_given": 4},
            {"num_answers": 2},
            {"kernel_index": 1},
            {"build": a},
        ):
            client.send(Op.SUB_GROUPS, 908, **SUB_GROUPS | {"build": build} | wrong)
        client.send(Op.SUB_GROUPS, a, build=build, **SUB_GROUPS)
        client.send(Op.FACTS, 907)
    said = refused(client, records)
    fields = "region region region slice_pitch slice_pitch row_pitch region pattern_nbytes pattern_nbytes"
    fields += (
        " carried_nbytes" * 4
        + " staged_at" * 6
        + " buffer queue wait num_args arguments num_args argument argument argument regions"
        + " args_nbytes" * 3
        + " kernel_index build"
    )
    fields += " global_size local_size global_size id id buffer_nbytes slot slot id id id"
    fields += " options_nbytes options_nbytes num_objects num_headers"
    fields += " param num_given num_given num_answers kernel_index build id op"
    assert [text.replace(":", " ").split()[0] for text in said] == fields.split()
    assert client.read(a, 64) == ints(*range(16))


@pytest.mark.logs("no room for what came with it")
@pytest.mark.parametrize("way", ["taken", "issued"])
def test_what_a_write_that_was_over_did_not_write_is_not_read_as_it_was(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """The client was not told: to its application the write was complete when it was sent."""
    client = serve(2)
    build, _, _ = client.build(SCALE)
    a = client.buffer(ints(*range(32)))
    client.launch(build, [(a, 0), ints(2)], [32], [4])
    doubled = [2 * i + i // 4 for i in range(32)]
    assert client.read(a, 128) == ints(*doubled)

    def fails(*_: object) -> None:
        raise (MemoryError if way == "taken" else partial(DeviceFailed, "the host"))(
            "no room for what came with it"
        )

    with monkeypatch.context() as patch:
        if way == "taken":
            patch.setattr(client.session._outbox.page, "staged", fails)
        else:
            patch.setattr(client.session._engine._device, "_write_carried", fails)
        client.stage(a, ints(*[7] * 8), 32)
        client.finish()
    while not client.drained():
        client.notice()
    assert client.taken_nbytes == 32, "its memory is free again, whatever became of it"
    assert client.read(a, 32) == ints(*doubled[:8]), "what is beside it is as it was"
    assert client.wait(client.command(Op.READ, buffer=a, offset=60, region=[8, 1, 1])) < 0
    assert client.wait(client.launch(build, [(a, 0), ints(3)], [32], [4])) < 0
    client.stage(a, ints(*[5] * 32))
    client.launch(build, [(a, 0), ints(3)], [32], [4])
    assert client.read(a, 128) == ints(*(15 + i // 4 for i in range(32)))


class WithSubGroups(ForwardingDevice):
    """A member whose sub-groups have one work-item each; it refuses to speak of 1,000 and of 2,000 breaks."""

    def build(self, text: str, options: Sequence[str]) -> DeviceProgram:
        """With C for their functions."""
        return super().build("#define get_sub_group_id() ((uint)get_local_id(0))\n" + text, options)

    def kernel_info(
        self, program: DeviceProgram, kernel: str, asked: SubGroupQuery | None = None
    ) -> KernelFacts:
        """With what is asked."""
        found = super().kernel_info(program, kernel)
        if asked is None:
            return found
        require(asked.given[0] != 1000, Status.INVALID_VALUE, "1000")
        if asked.given[0] == 2000:
            raise DeviceFailed(self.capabilities.name, "2000")
        return replace(found, sub_groups=(prod(asked.given),) * asked.num_answers)


BY_SUB_GROUPS = """
__kernel void leads(__global int *a, __global int *b) {
    a[get_group_id(0) * get_local_size(0) + get_sub_group_id()] = b[get_global_id(0)] + 1;
}
"""


@pytest.mark.parametrize("members", [1, 2, 3, 5])
def test_kernels_with_sub_groups_are_split_and_members_say_what_these_are(members: int) -> None:
    polling = Polling()
    devices = [WithSubGroups(each) for each in open_members(MemberSettings(count=members), polling)]
    for device in devices:
        info = device.capabilities.info
        listed = info[DeviceInfo.EXTENSIONS].rstrip(b"\0") + b" cl_khr_subgroups\0"
        more = {int(DeviceInfo.EXTENSIONS): listed, int(DeviceInfo.MAX_NUM_SUB_GROUPS): u32(64)}
        device.capabilities = replace(device.capabilities, info={**info, **more})
    with WireClient(devices, polling=polling) as client:
        assert b"cl_khr_subgroups" in client.facts_body
        build, status, said = client.build(BY_SUB_GROUPS)
        assert status == 0, said
        a, b = client.buffer(256), client.buffer(ints(*range(64)))
        client.launch(build, [(a, 0), (b, 0)], [64], [4])
        assert client.read(a, 256) == ints(*range(1, 65))
        assert client.session.counters.kernel("leads").members_used == {members: 1}
        for given, answer in (
            ((8, 4, 0), (0, 0, struct.pack("<Q", 32))),
            ((8, 0, 0), (0, 0, bytes(8))),
            ((1000, 1, 0), (Status.INVALID_VALUE, 0, b"")),
            ((2000, 1, 0), (Status.OUT_OF_RESOURCES, 0, b"")),
        ):
            client.send(Op.SUB_GROUPS, client.new_id(), build=build, **SUB_GROUPS | {"given": given})
            assert client.reply() == answer
        client.send(Op.RELEASE_BUILD, build)
        client.send(Op.SUB_GROUPS, client.new_id(), build=build, **SUB_GROUPS)
        assert client.reply() == (Status.INVALID_KERNEL, 0, b"")


PICTURE = """
__kernel void look(read_only image2d_t image, sampler_t s, __global float *out) {
    int2 at = (int2)(get_global_id(0), get_global_id(1));
    out[at.y * get_global_size(0) + at.x] = read_imagef(image, s, at - 1).x;
}
"""
IMAGE, SAMPLER = layout(IMAGE_ARGUMENT), layout(SAMPLER_ARGUMENT)


def picture(*numbers: int) -> tuple[ArgumentKind, bytes]:
    """An image as an argument."""
    return ArgumentKind.IMAGE, IMAGE.pack(*numbers)


def test_images_and_samplers_are_arguments(serve: Serve) -> None:
    client = serve(3)
    build, _, _ = client.build(PICTURE)
    pixels, out = client.buffer(struct.pack("<32f", *range(1, 33))), client.buffer(4 * 24)
    image = picture(pixels, 8, 0x10F1, 0x10B0, 0x10DE, 0, 6, 4, 1, 28, 112)
    modes = (ArgumentKind.SAMPLER, SAMPLER.pack(0, 0x1132, 0x1140, 0))
    client.launch(build, [image, modes, (out, 0)], [6, 4], [2, 1])
    expected = [float(3 + 7 * (y - 1) + x - 1) if x and y else 0.0 for y in range(4) for x in range(6)]
    assert list(struct.unpack("<24f", client.read(out, 96))) == expected
    client.command(
        Op.FILL,
        struct.pack("<4f", 9, 0, 0, 0),
        buffer=pixels,
        offset=8,
        region=(24, 4, 1),
        row_pitch=28,
        slice_pitch=112,
        pattern_nbytes=16,
        order=0x10B0,
        data_type=0x10DE,
    )
    client.launch(build, [image, modes, (out, 0)], [6, 4], [2, 1])
    expected = [9.0 if x and y else 0.0 for y in range(4) for x in range(6)]
    assert list(struct.unpack("<24f", client.read(out, 96))) == expected
    kept = struct.unpack("<32f", client.read(pixels, 128))
    assert kept[:2] == (1, 2) and [kept[8 + 7 * y] for y in range(3)] == [9.0 + 7 * y for y in range(3)]


@pytest.mark.logs("16384 bytes of images at a time, 8192 of them missing of the 8192 there")
@pytest.mark.parametrize("copies", [True, False])
def test_copies_of_images_that_no_member_can_hold_fail_and_their_bytes_do_not(
    serve: Serve, copies: bool
) -> None:
    client = serve(2, memory_nbytes=8192)
    for device in client.session._memory.devices:
        device.capabilities = replace(device.capabilities, has_linear_images=not copies)
    build, _, _ = client.build(PICTURE)
    pixels, out = client.buffer(16384), client.buffer(4 * 24)
    image = picture(pixels, 0, 0x10F1, 0x10B0, 0x10DE, 0, 64, 64, 1, 256, 16384)
    modes = (ArgumentKind.SAMPLER, SAMPLER.pack(0, 0x1132, 0x1140, 0))
    expected = Status.MEM_OBJECT_ALLOCATION_FAILURE if copies else Status.SUCCESS
    assert client.wait(client.launch(build, [image, modes, (out, 0)], [6, 4], [2, 1])) == expected
    small = picture(pixels, 0, 0x10F1, 0x10B0, 0x10DE, 0, 6, 4, 1, 24, 96)
    assert client.wait(client.launch(build, [small, modes, (out, 0)], [6, 4], [2, 1])) == 0


def test_damaged_images_and_samplers_are_refused(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(PICTURE)
    pixels, out = client.buffer(128), client.buffer(4 * 24)
    good = (pixels, 0, 0x10F1, 0x10B0, 0x10DE, 0, 6, 4, 1, 28, 112)
    modes = (ArgumentKind.SAMPLER, SAMPLER.pack(0, 0x1132, 0x1140, 0))
    bad = [(1, 32), (1, 1 << 63), (2, 0x10F2), (2, 0x10F0), (3, 1), (4, 0x10D4), (6, 0), (6, 1 << 62)]
    bad += [(7, 0), (7, 5), (7, 1 << 62), (8, 2), (9, 23), (9, 1 << 62), (10, 111), (10, 1 << 62)]
    with client.taken() as records:
        for at, value in bad:
            image = picture(*(value if i == at else given for i, given in enumerate(good)))
            client.launch(build, [image, modes, (out, 0)], [6, 4], [2, 1])
        for wrong in ((0, 0x112F, 0x1140, 0), (0, 0x1132, 0x1150, 0)):
            given = [picture(*good), (ArgumentKind.SAMPLER, SAMPLER.pack(*wrong)), (out, 0)]
            client.launch(build, given, [6, 4], [2, 1])
    assert all("argument" in said and "look" in said for said in refused(client, records))
    unknown = picture(99999, *good[1:])
    lost = client.launch(build, [unknown, modes, (out, 0)], [6, 4], [2, 1])
    client.finish()
    assert Status(client.slot(lost)[0]) == Status.INVALID_MEM_OBJECT
    last = client.launch(build, [picture(*good), modes, (out, 0)], [6, 4], [2, 1])
    assert client.wait(last) == 0


def test_an_event_that_fails_fails_what_waits_for_it(serve: Serve) -> None:
    client = serve(1)
    a = client.buffer(ints(*range(16)))
    bad = client.command(Op.READ, buffer=12345, region=[4, 1, 1])
    after = client.command(Op.READ, buffer=a, region=[4, 1, 1], waits=[bad])
    client.finish()
    assert client.slot(after)[0] == Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST


@pytest.mark.logs("command .* failed")
def test_a_context_that_listens_hears_what_went_wrong_with_its_commands() -> None:
    source = SCALE + SCALE.replace("scale", "broken")
    members = open_members(MemberSettings(count=2, testing=hooks(faulty=(1, "broken"))))
    with WireClient(members, "always") as client:
        build, status, _ = client.build(source)
        a, listening = client.buffer(ints(*range(64))), client.new_id()
        assert status == 0
        client.send(Op.CREATE_QUEUE, listening, listener=4711)
        arguments = [(a, 0), ints(3)]
        failing = [client.launch(build, arguments, [64], [8], 1, queue=queue) for queue in (QUEUE, listening)]
        waiting = client.command(Op.MARKER, waits=failing[1:], queue=listening)
        assert client.notice() == (NoticeKind.FAILED, 4711, Status.OUT_OF_RESOURCES)
        assert client.text.startswith(f"launch {failing[1]} failed: ".encode())
        assert b"kernel broken fails because a test asked for it" in client.text
        bad = client.command(Op.READ, buffer=12345, region=[4, 1, 1], queue=listening)
        assert client.notice()[:2] == (
            NoticeKind.EVENT_STATUS,
            bad,
        )  # for the completion thread, which may hold a transfer
        assert client.notice()[:2] == (NoticeKind.FAILED, 4711)
        assert client.text.startswith(f"read {bad} failed: ".encode())
        assert client.wait(waiting) == Status.EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST
        assert client.drained()


@pytest.mark.logs("damaged")
@pytest.mark.parametrize(
    "data",
    [
        layout(HEADER).pack(MAX_RECORD_NBYTES + 8, Op.MARKER, 1),
        layout(HEADER).pack(8, Op.MARKER, 1),
        layout(HEADER).pack(33, Op.MARKER, 1) + bytes(20),
        # Not any noise: one of 128 begins like a long record, whose rest is waited for.
        random.Random(1).randbytes(512),
    ],
    ids=["oversized", "undersized", "unaligned", "noise"],
)
def test_a_damaged_stream_ends_the_session_and_nothing_else(serve: Serve, data: bytes) -> None:
    client = serve(1)
    client.commands.sendall(data)
    client._thread.join(timeout=30)
    assert not client._thread.is_alive()


def test_a_record_cut_off_by_the_end_of_the_application_is_dropped(serve: Serve) -> None:
    client = serve(1)
    client.commands.sendall(layout(HEADER).pack(record_layout(Op.FILL).size + 8, Op.FILL, 1) + bytes(10))


def test_scribbles_over_the_shared_page_harm_nobody_else(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    buffer = client.buffer(ints(*[1] * 4096))
    choose = random.Random(3)
    for _ in range(40):
        client.launch(build, [(buffer, 0), ints(1)], [4096], [64])
        client.arena[16:4096] = choose.randbytes(4080)
        at = SLOTS_OFFSET + 64 * choose.randrange(2000)
        client.arena[at : at + 4096] = choose.randbytes(4096)
    marker = client.command(Op.MARKER)
    client.send(Op.WATCH, marker)
    while client.notice()[1] != marker:
        pass
    assert client.session.counters.kernel("scale").members_used == {2: 40}


PUT = "kernel void put(global uchar *a, global const int *at) { a[at[get_global_id(0)]] += 1; }"


@pytest.mark.parametrize("members", [1, 2])
def test_mapped_rectangles_of_very_many_rows_leave_what_lies_between_them(serve: Serve, members: int) -> None:
    client = serve(members)
    build, _, _ = client.build(PUT)
    size, rows = 1 << 16, 1 << 15
    buffer, at = client.buffer(bytes([1]) * size), client.buffer(ints(*range(1, size, 2)))
    column = {"buffer": buffer, "region": [1, rows, 1], "row_pitch": 2}
    assert client.wait(client.command(Op.MAP, flags=3, **column)) == 0
    # Nothing is known of where it writes, so that the member has all of the buffer then.
    assert client.wait(client.launch(build, [(buffer, 0), (at, 0)], [rows], [64])) == 0
    first = client.offsets[buffer]
    client.arena[first : first + size : 2] = bytes([7]) * rows
    client.command(Op.UNMAP, wrote=1, **column)
    assert client.read(buffer, size) == bytes([7, 2]) * rows
    client.launch(build, [(buffer, 0), (at, 0)], [rows], [64])
    assert client.read(buffer, size) == bytes([7, 3]) * rows


def test_launches_of_more_work_items_than_anybody_counts_fail(serve: Serve) -> None:
    client = serve(2)
    build, _, _ = client.build(SCALE)
    buffer = client.buffer(64)
    for sizes in ([1 << 63], [1 << 40, 1 << 40], [(1 << 64) - 1] * 3):
        failed = client.launch(build, [(buffer, 0), ints(1)], sizes, None)
        assert client.wait(failed) == Status.OUT_OF_RESOURCES


def test_notices_that_do_not_fit_are_sent_when_there_is_room_whoever_sent_the_first(serve: Serve) -> None:
    client, count = serve(1), 5000

    def tell() -> None:
        for number in range(count):
            client.session._outbox.notice(NoticeKind.EVENT_STATUS, number, 0)

    for _ in range(3):
        client.finish()  # the session's thread waits for records, or will soon
        client.session.post(tell)
        assert [client.notice()[1] for _ in range(count)] == list(range(count))


def test_a_session_ends_although_nobody_reads_its_notices() -> None:
    with WireClient(open_members(MemberSettings(count=1))) as client:
        client.session.post(lambda: client.session._outbox.notice(NoticeKind.PRINTED, 1, 0, bytes(1 << 20)))
    assert "sdi-notices" not in {thread.name for thread in threading.enumerate()}
