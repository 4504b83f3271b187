"""What is free on the machine and in control groups, and that nothing is where mappings are limited."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from sdi import free_memory
from sdi.free_memory import free_nbytes


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 1 GiB free, where this process is in the group job/step."""
    files = {
        "_MEMINFO": "MemTotal:       8388608 kB\nMemAvailable:   1048576 kB\n",
        "_OVERCOMMIT": "0\n",
        "_OWN_GROUP": "1:name=other:/elsewhere\n0::/job/step\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        monkeypatch.setattr(free_memory, name, tmp_path / name)
    (tmp_path / "groups" / "job" / "step").mkdir(parents=True)
    monkeypatch.setattr(free_memory, "_GROUPS", tmp_path / "groups")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    return tmp_path


def limit(folder: Path, most: str, used: int) -> None:
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")


def test_what_the_machine_has_left_is_free_where_no_group_limits_it(root: Path) -> None:
    limit(root / "groups" / "job", "max", 1 << 20)
    assert free_nbytes() == 1 << 30


def test_the_group_that_leaves_least_counts_also_one_further_up(root: Path) -> None:
    limit(root / "groups" / "job" / "step", str(900 << 20), 100 << 20)
    assert free_nbytes() == 800 << 20
    limit(root / "groups" / "job", str(500 << 20), 200 << 20)
    assert free_nbytes() == 300 << 20
    limit(root / "groups", str(100 << 20), 200 << 20)
    assert free_nbytes() == 0


def test_nothing_is_free_where_large_mappings_may_be_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "_OVERCOMMIT").write_text("2\n")
    assert free_nbytes() == 0
    (root / "_OVERCOMMIT").write_text("1\n")
    assert free_nbytes() == 1 << 30
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1 << 40, 1 << 40))
    assert free_nbytes() == 0


def test_nothing_is_free_where_the_machine_does_not_say(root: Path) -> None:
    (root / "_MEMINFO").write_text("MemTotal: 8388608 kB\n")
    assert free_nbytes() == 0
    (root / "_MEMINFO").unlink()
    assert free_nbytes() == 0
