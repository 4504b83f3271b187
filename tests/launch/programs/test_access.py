"""A kernel that is too long to analyse runs whole on one member, says so, and is right."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from sdi.launch.programs import access
from tests.service.conftest import Serve

SOURCE = """
kernel void shift(global int *to, global const int *from) {
    int i = get_global_id(0);
    to[i] = from[(i + 17) % get_global_size(0)] + 1;
}
"""
N = 1 << 12


@pytest.mark.logs("kernel shift runs whole on one member: line 2: is too long to analyse")
@pytest.mark.parametrize("members", [1, 3])
def test_it_runs_on_one_member_and_leaves_the_same_bytes(
    serve: Serve,
    members: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: object,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(access, "PROGRAM_OPERATIONS", 10)
    monkeypatch.setattr(access, "LEAST_OPERATIONS", 10)
    client = serve(members)
    for start in range(2):  # the second build finds the first one's analysis
        build, status, _ = client.build(SOURCE)
        assert status == 0
        given = np.arange(start, start + N, dtype=np.int32)
        one, other = client.buffer(given.tobytes()), client.buffer(4 * N)
        for _ in range(3):
            client.launch(build, [(other, 0), (one, 0)], [N], [64])
            client.launch(build, [(one, 0), (other, 0)], [N], [64])
        client.finish()
        found = np.frombuffer(client.read(one, 4 * N), np.int32)
        assert np.array_equal(found, np.roll(given, -17 * 6) + 6)
    counts = client.session.counters.kernel("shift")
    assert (counts.launches_whole, counts.launches_split) == (12, 0)
    assert counts.why_whole == "line 2: is too long to analyse"
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 2, "at each start"
