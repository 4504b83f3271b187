"""Status codes and the exceptions that carry them."""

from __future__ import annotations

import pytest

from sdi.errors import BadRecord, BuildError, ClError, DeviceFailed, DeviceLost, Status, insist, require


def test_what_is_required_and_is_not_there_says_its_code_and_what() -> None:
    require(1, Status.INVALID_VALUE, "never seen")
    with pytest.raises(ClError, match="INVALID_VALUE: buffer 3: 0 bytes") as caught:
        require(0, Status.INVALID_VALUE, "buffer 3: 0 bytes")
    assert (caught.value.status, caught.value.what) == (Status.INVALID_VALUE, "buffer 3: 0 bytes")


def test_damaged_records_name_their_field() -> None:
    insist([1], "region", "never seen")
    with pytest.raises(BadRecord, match=r"^region: past its end$"):
        insist([], "region", "past its end")


def test_a_build_says_the_first_line_of_its_log_and_keeps_all_of_it() -> None:
    log = "\n<kernel>:3: error: what\nand more\n"
    error = BuildError(log)
    assert error.what == "<kernel>:3: error: what" and error.log == log
    assert error.status == Status.BUILD_PROGRAM_FAILURE
    assert BuildError("", Status.LINK_PROGRAM_FAILURE).what == "build failed"


def test_what_is_lost_has_failed() -> None:
    lost = DeviceLost("member 2", "was lost")
    assert isinstance(lost, DeviceFailed) and (lost.device, str(lost)) == ("member 2", "member 2: was lost")
