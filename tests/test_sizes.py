"""Numbers of bytes, for people."""

from __future__ import annotations

import pytest

from sdi.sizes import size

TEXTS = {
    0: "0 B",
    1023: "1023 B",
    1536: "1.5 KiB",
    1 << 20: "1.0 MiB",
    16 << 30: "16.0 GiB",
    3 << 41: "6.0 TiB",
    5 << 50: "5120.0 TiB",
}


@pytest.mark.parametrize("nbytes", TEXTS)
def test_sizes_have_the_largest_unit_of_which_there_is_one(nbytes: int) -> None:
    assert size(nbytes) == TEXTS[nbytes]
