"""Host memory for bytes on their way: where it comes from, and that it is used again."""

from __future__ import annotations

from sdi.cluster.shared import Pool
from sdi.cluster.staging import LENT_NBYTES, Staging


def test_what_is_short_lies_in_the_pool_and_what_is_long_beside_it() -> None:
    staging = Staging()
    staging.pool = pool = Pool(1 << 20)
    short, long = staging.take(LENT_NBYTES), staging.take(LENT_NBYTES + 1)
    assert pool.place(short) >= 0 and pool.place(long) < 0
    assert (short.nbytes, long.nbytes) == (LENT_NBYTES, LENT_NBYTES + 1)
    place = pool.place(short)
    staging.give(short)
    again = staging.take(10)
    assert pool.place(again) == place
    del short, long, again
    pool.close()


def test_memory_is_used_again_also_for_less() -> None:
    staging = Staging()
    first = staging.take(100_000)
    first[0] = 7
    staging.give(first)
    second = staging.take(99_000)
    assert second.nbytes == 99_000 and second.obj is first.obj
    assert staging.take(99_000).obj is not first.obj
