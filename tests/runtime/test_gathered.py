"""Launches that run whole on a member that has everything: no ranges are asked for, and nothing is lost."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.sampling.parametric import Parametric
from tests.icd.wire_client import WireClient

SOURCE = """
__kernel void add(__global int *a, __global const int *b, int k) {
    int i = get_global_id(0);
    a[(i + k) & 255] += b[i] * k;
}
__kernel void halves(__global int *a) { a[get_global_id(0)] *= 3; }
"""


@pytest.fixture
def serve() -> Iterator[Callable[[str], WireClient]]:
    with ExitStack() as stack:
        yield lambda split: stack.enter_context(WireClient(open_members(MemberSettings(count=3)), split))


@pytest.mark.parametrize("split", ["never", "auto", "always"])
def test_new_scalars_and_host_writes_between_them_give_what_one_device_would(
    split: str, serve: Callable[[str], WireClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[int] = []
    bind = Parametric.bind
    monkeypatch.setattr(Parametric, "bind", lambda self, *a: (bound.append(1), bind(self, *a))[1])
    client = serve(split)
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
