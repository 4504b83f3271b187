"""What is printed to a descriptor is taken in pieces, each byte once."""

from __future__ import annotations

import os
from pathlib import Path

from sdi.service.kernel_output import Printed


def test_what_others_printed_does_not_get_into_a_line(tmp_path: Path) -> None:
    target = os.open(tmp_path / "out", os.O_RDWR | os.O_CREAT)
    printed = Printed(target)
    os.write(target, b"one\ntw")
    printed.add(b"of a node\n")
    assert printed.take() == b"one\nof a node\ntw"
    os.write(target, b"o\n")
    assert printed.take() == b"o\n"
    printed.close()
    os.close(target)


def test_text_is_taken_once_and_what_is_left_goes_where_it_went_before() -> None:
    read, write = os.pipe()
    printed = Printed(write)
    assert printed.take() == b""
    os.write(write, b"one\n")
    os.write(write, b"two\n")
    assert printed.take() == b"one\ntwo\n"
    large = bytes(range(1, 251)) * 40_000
    assert os.write(write, large) == len(large)
    assert printed.take() == large
    assert printed.take() == b""
    os.write(write, b"late\n")
    printed.close()
    os.close(write)
    with os.fdopen(read, "rb") as end:
        assert end.read() == b"late\n"
