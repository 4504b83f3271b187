"""What programs move between memories, to the byte and to the copy: ranges from the analysis, CPU members."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from sdi.devices.ticket import Ticket
from sdi.wire.records import Op
from tests.service.conftest import Serve
from tests.service.wire_client import WireClient

SOURCE = """
__kernel void mm(__global float *C, __global const float *A, __global const float *B, int n) {
    int i = get_global_id(0), j = get_global_id(1);
    float acc = 0.0f;
    for (int k = 0; k < n; k++)
        acc += A[k + j * n] * B[i + k * n];
    C[i + j * n] = acc;
}
__kernel void relax(__global const float *in, __global float *out, int n) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < n - 1 && y < n - 1)
        out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1]
                                  + in[(y - 1) * n + x] + in[(y + 1) * n + x]);
}
__kernel void across(__global const int *in, __global int *out, int width, int rows) {
    int x = get_global_id(0);
    for (int y = 0; y < rows; y++)
        if (x > 0 && x < width - 1)
            out[y * width + x] = in[y * width + x - 1] + in[y * width + x + 1];
}
__kernel void twice(__global const int *in, __global int *out) {
    int i = get_global_id(0);
    out[i] = 2 * in[i];
}
__kernel void start(__global int *out, int n) {
    for (int i = get_local_id(0); i < n; i += get_local_size(0))
        out[i] = i * i;
}
__kernel void total(__global const int *in, __global int *sums, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += in[i];
    sums[get_global_id(0)] = sum;
}
__kernel void grow(__global const int *state, __global int *out, int at, int m, int n) {
    int sum = 0;
    for (int k = 0; k < m; k++)
        sum += state[at + k];
    for (int i = get_local_id(0); i < n; i += get_local_size(0))
        out[i] += sum + i;
}
__kernel void meet(__global const int *large, __global const int *in, __global int *sums, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += in[i] + large[i] + large[n + i];
    sums[get_global_id(0)] += sum;
}
"""
MM, RELAX, ACROSS, TWICE, START, TOTAL, GROW, MEET = range(8)
Link = tuple[int, int]
"""Memories from and to which; 0 is the host."""


class Session:
    """A session of so many members, and what its links carried."""

    def __init__(self, client: WireClient) -> None:
        self.client = client
        self.build, status, log = client.build(SOURCE)
        assert status == 0, log
        self._before: dict[Link, tuple[int, int]] = {}

    def launch(self, kernel: int, arguments: list[int | bytes], *sizes: list[int]) -> None:
        given = [(value, 0) if isinstance(value, int) else value for value in arguments]
        self.client.launch(self.build, given, *sizes, kernel)

    def moved(self) -> dict[Link, tuple[int, int]]:
        """Copies and bytes of each link since the last call."""
        self.client.finish()
        now = {
            ends: (total.copies, total.nbytes)
            for ends, total in self.client.session._memory.accounting._links.items()
        }
        before, self._before = self._before, now
        changed = {
            ends: (now[ends][0] - before.get(ends, (0, 0))[0], now[ends][1] - before.get(ends, (0, 0))[1])
            for ends in now
        }
        return {ends: each for ends, each in changed.items() if each != (0, 0)}


def i32(value: int) -> bytes:
    return struct.pack("<i", value)


def neighbours(members: int) -> set[Link]:
    """Both directions between each member and the next."""
    return {ends for m in range(1, members) for ends in ((m, m + 1), (m + 1, m))}


def test_a_ping_pong_stencil_moves_halo_rows_and_nothing_to_or_from_the_host(serve: Serve) -> None:
    session, members, n = Session(serve(4)), 4, 64
    data = np.random.default_rng(1).random((n, n), np.float32)
    a, b = session.client.buffer(data.tobytes()), session.client.buffer(data.tobytes())

    def iterate() -> None:
        for source, target in ((a, b), (b, a)):
            session.launch(RELAX, [source, target, i32(n)], [n, n], [8, 8])

    iterate()
    iterate()
    session.moved()
    row = 4 * (n - 2)  # the first and last elements of rows are never written, and were there from the start
    for _ in range(5):
        iterate()
        assert session.moved() == dict.fromkeys(neighbours(members), (2, 2 * row))
    for _ in range(14):
        new = data.copy()
        new[1:-1, 1:-1] = np.float32(0.25) * (
            data[1:-1, :-2] + data[1:-1, 2:] + data[:-2, 1:-1] + data[2:, 1:-1]
        )
        data = new
    assert session.client.read(a, 4 * n * n) == data.tobytes()


@pytest.mark.parametrize("rows", [40, 100])
def test_a_cut_by_columns_moves_halo_columns_one_copy_each(serve: Serve, rows: int) -> None:
    session, members, width = Session(serve(4)), 4, 256
    data = np.arange(rows * width, dtype=np.int32).reshape(rows, width)
    a, b = session.client.buffer(data.tobytes()), session.client.buffer(data.tobytes())

    def iterate() -> None:
        for source, target in ((a, b), (b, a)):
            session.launch(ACROSS, [source, target, i32(width), i32(rows)], [width], [16])

    iterate()
    iterate()
    session.moved()
    for _ in range(5):
        iterate()
        assert session.moved() == dict.fromkeys(neighbours(members), (2, 2 * 4 * rows))
    for _ in range(14):
        new = data.copy()
        new[:, 1:-1] = data[:, :-2] + data[:, 2:]
        data = new
    assert session.client.read(a, data.nbytes) == data.tobytes()


def test_a_repeated_matrix_multiplication_moves_nothing_the_second_time(serve: Serve) -> None:
    session, n = Session(serve(4)), 64
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-9, 9, (n, n)).astype(np.float32) for _ in range(2))
    sources = [session.client.buffer(matrix.tobytes()) for matrix in (a, b)]
    target = session.client.buffer(4 * n * n)
    session.launch(MM, [target, *sources, i32(n)], [n, n], [8, 8])
    once = session.moved()
    assert set(once) == {(0, member) for member in range(1, 5)}  # inputs, from the host
    session.launch(MM, [target, *sources, i32(n)], [n, n], [8, 8])
    assert session.moved() == {}
    assert session.client.read(target, 4 * n * n) == (a @ b).tobytes()


def test_in_the_host_protocol_the_second_multiplication_moves_as_much_as_the_first(serve: Serve) -> None:
    session, n = Session(serve(4, coherence="host")), 64
    sources = [session.client.buffer(bytes(4 * n * n)) for _ in range(2)]
    target = session.client.buffer(4 * n * n)
    session.launch(MM, [target, *sources, i32(n)], [n, n], [8, 8])
    once = session.moved()
    assert {ends for ends in once if ends[0] == 0} and {ends for ends in once if ends[1] == 0}
    session.launch(MM, [target, *sources, i32(n)], [n, n], [8, 8])
    assert session.moved() == once


def test_what_each_member_alone_wrote_is_read_there_without_a_copy(serve: Serve) -> None:
    session, n = Session(serve(4)), 1024
    buffers = [session.client.buffer(np.arange(n, dtype=np.int32).tobytes()) for _ in range(3)]
    session.launch(TWICE, buffers[:2], [n], [64])
    assert session.moved() == {(0, member): (1, n) for member in range(1, 5)}  # a quarter of 4 n bytes each
    session.launch(TWICE, buffers[1:], [n], [64])
    session.launch(TWICE, [buffers[2], buffers[0]], [n], [64])
    assert session.moved() == {}
    assert session.client.read(buffers[0], 4 * n) == (8 * np.arange(n, dtype=np.int32)).tobytes()


def test_a_migration_brings_to_the_host_what_is_read_there_later(serve: Serve) -> None:
    session, nbytes = Session(serve(2)), 4 * 1024
    data = np.arange(1024, dtype=np.int32)
    source, target = session.client.buffer(data.tobytes()), session.client.buffer(bytes(nbytes))
    session.launch(TWICE, [source, target], [1024], [64])
    session.moved()
    places = struct.pack("<6Q", target, 1024, 2048, source, 0, nbytes)
    migrated = session.client.command(Op.MIGRATE, places, num_places=2)
    assert session.client.wait(migrated) == 0
    assert session.moved() == {(1, 0): (1, 1024), (2, 0): (1, 1024)}
    assert session.client.read(target, 2048, 1024) == (2 * data).tobytes()[1024:3072]
    assert session.moved() == {}
    assert session.client.read(target, nbytes) == (2 * data).tobytes()
    session.launch(TWICE, [target, source], [1024], [64])
    assert session.client.read(source, nbytes) == (4 * data).tobytes()


def test_a_migration_of_a_buffer_that_is_gone_fails(serve: Serve) -> None:
    client = serve(2)
    buffer, other = client.buffer(bytes(64)), client.buffer(bytes(64))
    places = struct.pack("<6Q", other, 0, 64, buffer, 0, 64)
    client.send(Op.RELEASE_BUFFER, buffer)
    assert client.wait(client.command(Op.MIGRATE, places, num_places=2)) < 0
    assert client.wait(client.command(Op.MIGRATE, places[:24], num_places=1)) == 0


def test_what_one_member_wrote_and_all_read_goes_along_a_tree(serve: Serve) -> None:
    session, members, n = Session(serve(8)), 8, 1 << 16
    links = session.client.session._memory.transfers.links
    links._now_ns = lambda: 0  # as if no copy were over before the last one is planned
    source, sums = session.client.buffer(4 * n), session.client.buffer(4 * 256)
    session.launch(START, [source, i32(n)], [16], [16])  # one work-group: one member
    assert session.moved() == {}
    session.launch(TOTAL, [source, sums, i32(n)], [256], [16])
    moved = session.moved()
    assert {target for _, target in moved} == set(range(2, members + 1))  # each of the others, once
    assert set(moved.values()) == {(1, 4 * n)}
    served = [sum(source == member for source, _ in moved) for member in range(members + 1)]
    assert served[0] == 0 and max(served) == 3  # three rounds: nobody serves more than one a round
    values = np.arange(n, dtype=np.int32)
    expected = np.full(256, np.sum(values * values, dtype=np.int32))
    assert session.client.read(sums, expected.nbytes) == expected.tobytes()


@pytest.mark.parametrize(("reads", "away"), [(64, 0), (256, 3)])
def test_a_launch_of_one_member_goes_where_its_results_are_fetched_each_time(
    serve: Serve, reads: int, away: int
) -> None:
    """It reads what the second member has, and writes 64 numbers that are needed on the first one."""
    session, n, at, writes = Session(serve(2)), 1024, 512, 64
    numbers = np.arange(n, dtype=np.int32)
    given, state, out = (session.client.buffer(numbers.tobytes()) for _ in range(3))
    large, sums = session.client.buffer(8 * n), session.client.buffer(bytes(4 * 16))
    session.launch(TWICE, [given, state], [n], [64])
    session.launch(START, [large, i32(2 * n)], [16], [16])
    session.launch(TWICE, [given, out], [n], [64])
    session.moved()
    moved, expected, values = [], np.zeros(16, np.int32), 2 * numbers[:writes]
    total = np.sum(2 * numbers[at : at + reads], dtype=np.int32)
    squares = np.sum(np.arange(2 * writes, dtype=np.int32) ** 2, dtype=np.int32)
    for _ in range(6):
        session.launch(GROW, [state, out, i32(at), i32(reads), i32(writes)], [16], [16])
        session.launch(MEET, [large, out, sums, i32(writes)], [16], [16])
        moved.append({(a, b): nbytes for (a, b), (_, nbytes) in session.moved().items() if a})
        values += total + numbers[:writes]
        expected += np.sum(values, dtype=np.int32) + squares
    fetched: list[dict[Link, int]] = [{(2, 1): 4 * writes} for _ in range(away)]
    if away:
        fetched[0][1, 2] = 4 * writes  # it adds to what is there
    assert moved == [*fetched, {(2, 1): 4 * reads}, *[{}] * (5 - away)]
    assert session.client.read(sums, 64) == expected.tobytes()
    assert session.client.read(out, 4 * writes) == values.tobytes()


def test_a_copy_finds_bytes_for_which_it_makes_room_itself(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member has no room for the copy's target beside all of its source, which goes at once."""
    client = serve(1, "auto", memory_nbytes=1 << 18)
    (member,), copy = client.session._memory.devices, client.session._memory.devices[0].copy

    def copy_at_once(*arguments: Any) -> tuple[Ticket, Ticket]:
        tickets = copy(*arguments)
        while not all(ticket.done for ticket in tickets):
            client.session.polling.poll()
        return tickets

    monkeypatch.setattr(member, "copy", copy_at_once)
    source = "kernel void bump(global int *a) { int i = get_global_id(0); a[i] = a[i] * 3 + 1; }"
    build, status, _ = client.build(source)
    assert status == 0
    for number in range(12):
        count = 1 << 16
        large = client.buffer(np.full(count, number, np.int32).tobytes())
        small = client.buffer(np.full(1 << 12, 5, np.int32).tobytes())
        client.launch(build, [(large, 0)], [count], [64])
        client.finish()
        over = {"source_offset": 4000, "target_offset": 400, "region": [4 * 1723, 1, 1]}
        client.command(Op.COPY, source=large, target=small, **over)
        found = np.frombuffer(client.read(small, 1 << 14), np.int32)
        np.testing.assert_array_equal(found[100:1823], 3 * number + 1)
        assert (found[:100] == 5).all() and (found[1823:] == 5).all()
        for buffer in (large, small):
            client.send(Op.RELEASE_BUFFER, buffer)
