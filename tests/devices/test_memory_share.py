"""What a member may use of its device's memory."""

from __future__ import annotations

import pytest

from sdi.devices.memory_share import MemoryShare
from sdi.errors import ClError, Status


def test_it_gives_what_is_left_and_no_more() -> None:
    share = MemoryShare("one", 100)
    share.take(60)
    for nbytes in (41, 0, -1):
        with pytest.raises(ClError, match=f"one: {nbytes} bytes asked, 40 of 100 available") as caught:
            share.take(nbytes)
        assert caught.value.status == Status.MEM_OBJECT_ALLOCATION_FAILURE
    assert share.asked(40) == "one: 40 bytes asked, 40 of 100 available" and share.in_use == 60
    share.take(40)
    share.give(60)
    assert share.in_use == 40
