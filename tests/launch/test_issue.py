"""Issuing: what copies take, and because of whom."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.wire.records import Op
from tests.service.conftest import Serve

SOURCE = """
__kernel void triple(__global int *a) { a[get_global_id(0)] *= 3; }
__kernel void sum(__global const int *a, __global int *s, int n) {
    int found = 0;
    for (int i = 0; i < n; i++) found += a[i];
    s[0] = found;
}
"""
N = 1 << 16


@pytest.mark.parametrize("parts", [1, 3])
def test_who_leaves_data_in_parts_owes_what_one_member_takes_to_bring_them_together(
    parts: int, serve: Serve
) -> None:
    client = serve(3, "auto")
    build, status, _ = client.build(SOURCE)
    assert status == 0
    expected = np.arange(N, dtype=np.int32)
    a, s = client.buffer(expected.tobytes()), client.buffer(bytes(4))
    client.session._launcher._cutter._is_one_device = False
    client.launch(build, [(a, 0)], [N], [16])
    client.finish()
    expected *= 3
    history = client.session._launcher._builds[build].kernels[0]._last_history[1]
    history.decide((parts, 1, 1), parts, "as `auto` would")
    for _ in range(3):
        history.recheck_at, history.decided_at = -1, history.launches
        client.launch(build, [(a, 0)], [N], [16])
        client.launch(build, [(a, 0), (s, 0), N.to_bytes(4, "little")], [1], [1], kernel_index=1)
        client.finish()
        expected *= 3
        found = np.frombuffer(client.read(s, 4), np.int32)
        assert found[0] == expected.sum(dtype=np.int32)
    each = history.owing(parts)
    assert (each > 0) == (parts > 1)
    history.decide((1, 1, 1), 1, "one member is enough")
    assert history.owed_ns == 0 and history.owing(parts) == each, "what that way costs is not forgotten"
    apart = client.session._launcher._issuer._apart
    assert set(apart) == ({a} if parts > 1 else set())
    client.send(Op.RELEASE_BUFFER, a)
    client.finish()
    assert not apart, "its number may be another buffer's"
