"""How much of host memory and of files a session may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdi.vmem.spill import budget
from sdi.vmem.spill.budget import Spill, spill_of


def test_memory_for_buffers_and_for_what_is_on_its_way_are_the_hosts_together() -> None:
    small, large = Spill(Path("/x"), 1, 1 << 20), Spill(Path("/x"), 1, 1 << 40)
    assert (small.memory_nbytes, small.cache_nbytes) == (3 << 18, 1 << 18)
    assert large.cache_nbytes == 4 << 30 and large.memory_nbytes + large.cache_nbytes == 1 << 40
    assert Spill(Path("/x"), 1, 4097).memory_nbytes == 0


def test_what_is_not_given_is_half_of_what_is_free_and_not_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "free_nbytes", lambda: 10 << 30)
    assert spill_of(tmp_path, 5, 7, 0) == Spill(tmp_path, 5, 7)
    found = spill_of(tmp_path, None, None, 4 << 30)
    assert found.host_nbytes == 3 << 30 and found.limit_nbytes > 0
    assert spill_of(tmp_path, 5, None, 11 << 30).host_nbytes == 64 << 20, "some it needs"
    with pytest.raises(FileNotFoundError):
        spill_of(tmp_path / "gone", None, None, 0)
