"""Launches that run whole on a member that has everything: no ranges are asked for, and nothing is lost."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from sdi.sampling.parametric import Parametric
from tests.service.conftest import Serve

SOURCE = """
__kernel void add(__global int *a, __global const int *b, int k) {
    int i = get_global_id(0);
    a[(i + k) & 255] += b[i] * k;
}
__kernel void halves(__global int *a) { a[get_global_id(0)] *= 3; }
"""
FEW = "__kernel void few(__global int *a, int k) { a[get_global_id(0) + k] += k; }"
N = 4096


@pytest.mark.parametrize("split", ["never", "auto", "always"])
def test_new_scalars_and_host_writes_between_them_give_what_one_device_would(
    split: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[int] = []
    bind = Parametric.bind
    monkeypatch.setattr(Parametric, "bind", lambda self, *a: (bound.append(1), bind(self, *a))[1])
    client = serve(3, split)
    build, status, _ = client.build(SOURCE)
    assert status == 0
    expected = np.arange(256, dtype=np.int32)
    weights = np.random.default_rng(5).integers(-9, 9, 256, np.int32)
    a, b = client.buffer(expected.tobytes()), client.buffer(weights.tobytes())
    for k in range(120):
        client.launch(build, [(a, 0), (b, 0), struct.pack("<i", k)], [256], [16])
        expected[(np.arange(256) + k) & 255] += weights * k
        if k % 40 == 13:
            piece = np.full(16, k, np.int32)
            client.write(a, piece.tobytes(), 64)
            expected[16:32] = piece
        if k % 40 == 27:
            client.launch(build, [(a, 0)], [256], [16], kernel_index=1)
            expected *= 3
    assert np.array_equal(np.frombuffer(client.read(a, 1024), np.int32), expected)
    if split != "auto":  # which depends on what was measured
        assert (len(bound) < 40) == (split == "never")


def test_data_that_others_spread_again_are_gathered_ever_more_seldom(
    serve: Serve,
) -> None:
    """``few`` runs on one member, ``halves`` on all, in turn: all is brought now and then."""
    client = serve(3)
    build, status, _ = client.build(SOURCE + FEW)
    assert status == 0
    expected = np.arange(N, dtype=np.int32)
    a = client.buffer(expected.tobytes())
    moved = client.session._memory.accounting.moved

    def total() -> int:
        return moved.host_to_member + moved.member_to_host + moved.member_to_member

    def few(k: int) -> int:
        """Launch it; the bytes that it moved."""
        client.finish()
        before = total()
        client.launch(build, [(a, 0), struct.pack("<i", k)], [32], [16], kernel_index=2)
        client.finish()
        expected[k : k + 32] += k
        return total() - before

    few(1)
    kernel = client.session._launcher._builds[build].kernels[2]
    history = kernel._last_history[1]
    history.decide((1, 1, 1), 1, "one member is enough")  # as `auto` would
    nbytes = []
    for k in [*range(2, 32), *[10, 11, 12] * 3]:  # those, too, that ran when all was brought
        client.launch(build, [(a, 0)], [N], [16], kernel_index=1)
        expected *= 3
        nbytes.append(few(k))
    assert [number for number, gathered in enumerate(nbytes) if gathered >= 4 * N // 3] == [8, 24], nbytes
    assert history.gathers == 2 and sorted(nbytes)[-3] <= 4 * 32, nbytes
    assert np.array_equal(np.frombuffer(client.read(a, 4 * N), np.int32), expected)


def test_a_launch_that_is_known_does_not_bring_all_together_each_time(serve: Serve) -> None:
    """``few`` with the same arguments, and ``halves`` on two members, in turn."""
    client = serve(2)
    build, status, _ = client.build(SOURCE + FEW)
    assert status == 0
    a, expected = client.buffer(bytes(4 * N)), np.zeros(N, np.int32)
    moved, found = client.session._memory.accounting.moved, []
    for turn in range(24):
        if turn >= 10:
            client.launch(build, [(a, 0)], [N], [16], kernel_index=1)
            expected *= 3
        client.finish()
        before = moved.host_to_member + moved.member_to_host + moved.member_to_member
        client.launch(build, [(a, 0), struct.pack("<i", 10)], [16], [16], kernel_index=2)
        client.finish()
        expected[10:26] += 10
        found.append(moved.host_to_member + moved.member_to_host + moved.member_to_member - before)
    assert sum(nbytes > 4 * 64 for nbytes in found[10:]) <= 1, found
    assert np.array_equal(np.frombuffer(client.read(a, 4 * N), np.int32), expected)


@pytest.mark.parametrize("members", [1, 2])
def test_what_a_kernel_only_overwrites_is_not_brought_first(members: int, serve: Serve) -> None:
    """The host has all of the buffer; one launch on one member writes half of it, each time elsewhere."""
    client = serve(members, "never")
    build, status, _ = client.build(
        "__kernel void set(__global int *a, int first) { a[first + get_global_id(0)] = get_global_id(0); }"
    )
    assert status == 0
    count, moved = 1 << 15, client.session._memory.accounting.moved
    for first in (0, count // 4, count // 2):
        expected = np.full(count, 7, np.int32)
        a = client.buffer(expected.tobytes())
        client.launch(build, [(a, 0), struct.pack("<i", first)], [count // 2], [64])
        expected[first : first + count // 2] = np.arange(count // 2)
        assert np.array_equal(np.frombuffer(client.read(a, 4 * count), np.int32), expected)
    assert moved.host_to_member == 0 and moved.member_to_host == 3 * 4 * count // 2
