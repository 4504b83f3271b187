"""The kernel that brings few bytes of another GPU, and the members' others: they compile (no GPU needed)."""

from __future__ import annotations

import pytest

from sdi.clc.cuda.translate import nvrtc_options
from sdi.devices.cuda import nvrtc
from sdi.devices.cuda.compare import DIFF_TEXT
from sdi.devices.cuda.fetch import FETCH_TEXT, fetch_launch


@pytest.mark.parametrize("text", [DIFF_TEXT, FETCH_TEXT])
def test_kernels_of_members_themselves_compile(text: str) -> None:
    try:
        nvrtc.version()
    except nvrtc.NvrtcMissing as cause:
        pytest.skip(str(cause))
    assert nvrtc.compile_text(text, nvrtc_options((), contracts=True), (9, 0))


@pytest.mark.parametrize(("nbytes", "groups"), [(1, 1), (4096, 1), (4097, 2), (1 << 18, 64)])
def test_few_bytes_are_fetched_by_as_many_groups_as_have_something_to_do(nbytes: int, groups: int) -> None:
    found, block = fetch_launch(16, 48, nbytes)
    assert found == groups and block == b"".join(n.to_bytes(8, "little") for n in (16, 48, nbytes))
