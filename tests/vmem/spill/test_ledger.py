"""What the files of all services have together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.errors import ClError, Status
from sdi.vmem.spill.ledger import UNIT_NBYTES, SpillLedger

LIMIT = 20 * UNIT_NBYTES
HOLDER = """
import sys
from pathlib import Path
from sdi.vmem.spill.ledger import UNIT_NBYTES, SpillLedger
ledger = SpillLedger(Path(sys.argv[1]), 20 * UNIT_NBYTES)
ledger.take(15 * UNIT_NBYTES)
print("taken", flush=True)
sys.stdin.read()
"""


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-6, 9)), max_size=40))
def test_services_have_no_more_than_the_limit_together_and_get_what_it_leaves(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]]
) -> None:
    path = tmp_path_factory.mktemp("ledger") / "locks"
    ledgers = [SpillLedger(path, LIMIT) for _ in range(3)]
    taken = [0, 0, 0]
    try:
        for who, units in steps:
            nbytes = abs(units) * UNIT_NBYTES - (units > 0)
            if units <= 0:
                nbytes = min(nbytes, taken[who])
                ledgers[who].give(nbytes)
                taken[who] -= nbytes
                continue
            used = [-(-each // UNIT_NBYTES) for each in taken]
            used[who] = -(-(taken[who] + nbytes) // UNIT_NBYTES)
            if sum(used) > LIMIT // UNIT_NBYTES:
                with pytest.raises(ClError, match=r"more asked, .* of the limit of 20.0 MiB") as caught:
                    ledgers[who].take(nbytes)
                assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
            else:
                ledgers[who].take(nbytes)
                taken[who] += nbytes
        assert [ledger.taken_nbytes for ledger in ledgers] == taken
    finally:
        for ledger in ledgers:
            ledger.close()


def test_what_a_service_had_that_was_killed_is_free(tmp_path: Path) -> None:
    path = tmp_path / "locks"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"taken\n"
        ledger = SpillLedger(path, LIMIT)
        with pytest.raises(ClError):
            ledger.take(6 * UNIT_NBYTES)
        ledger.take(5 * UNIT_NBYTES)
        holder.kill()
        holder.wait()
    ledger.take(15 * UNIT_NBYTES)
    assert path.stat().st_size == 0
    ledger.close()
    assert not path.exists()


def test_the_last_one_takes_the_file_away_and_who_had_opened_it_before_counts_in_the_next(
    tmp_path: Path,
) -> None:
    path = tmp_path / "locks"
    one, other = SpillLedger(path, LIMIT), SpillLedger(path, LIMIT)
    one.take(LIMIT)
    one.close()
    assert not path.exists()
    third = SpillLedger(path, LIMIT)
    third.take(15 * UNIT_NBYTES)
    with pytest.raises(ClError):
        other.take(6 * UNIT_NBYTES)
    other.take(5 * UNIT_NBYTES)
    third.close()
    assert path.exists()
    other.close()
    assert not path.exists()
