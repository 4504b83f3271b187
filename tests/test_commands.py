"""Commands as values: the bytes that they name, and what the device itself writes."""

from __future__ import annotations

import pytest

from sdi.commands import (
    Command,
    CopyBuffer,
    Fill,
    Launch,
    Map,
    Marker,
    Migrate,
    Read,
    Rectangle,
    Unmap,
    Write,
    described,
    overwrites,
    regions,
)
from sdi.errors import BadRecord
from sdi.intervals import ByteRange

ROWS = Rectangle(16, (4, 3, 2), 10, 40)
RUN = Rectangle(100, (8, 2, 2), 8, 16)
LAUNCH = Launch(1, 0, 1, (0, 0, 0), (4, 1, 1), None, b"", 0)


def test_rectangles_know_their_bytes_with_and_without_those_between() -> None:
    assert (ROWS.contiguous, ROWS.nbytes, ROWS.bounds) == (False, 24, ByteRange(16, 80))
    assert [run.start for run in ROWS.strided.runs()] == [16, 26, 36, 56, 66, 76]
    assert (RUN.contiguous, RUN.nbytes, RUN.bounds) == (True, 32, ByteRange(100, 132))


COMMANDS: dict[str, tuple[Command, tuple[str, int], list[tuple[str, int]], int | None]] = {
    "read": (Read(1, ROWS, True), ("read", 24), [("buffer", 1)], None),
    "write": (Write(1, ROWS, True), ("write", 24), [("buffer", 1)], None),
    "unasked": (Read(1, ROWS, True, unasked=True), ("host pointer read", 24), [("buffer", 1)], None),
    "copy": (CopyBuffer(1, 2, RUN, ROWS), ("copy", 32), [("source", 1), ("target", 2)], 2),
    "fill": (Fill(3, RUN, b"\1"), ("fill", 32), [("buffer", 3)], 3),
    "map": (Map(1, RUN, True, True, False, True), ("map", 32), [("buffer", 1)], None),
    "unmap": (Unmap(1, RUN, True, False), ("unmap", 32), [("buffer", 1)], 1),
    "unmap to be copied": (Unmap(1, RUN, True, True), ("unmap", 32), [("buffer", 1)], None),
    "unmap of what was read": (Unmap(1, RUN, False, False), ("unmap", 32), [("buffer", 1)], None),
    "carried": (Write(1, RUN, True, data=bytes(32)), ("write", 32), [("buffer", 1)], 1),
    "staged": (Write(1, RUN, True, staged_at=4096), ("write", 32), [("buffer", 1)], 1),
    "early": (Write(1, RUN, True, 5), ("write", 32), [("buffer", 1)], 1),
    "launch": (LAUNCH, ("launch", 0), [], None),
    "marker": (Marker(True), ("marker", 0), [], None),
    "migrate": (Migrate(((4, 8, 16), (5, 0, 1))), ("migrate", 17), [("places", 4), ("places", 5)], None),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_say_what_they_are_and_which_bytes_they_name(name: str) -> None:
    command, what, named, written = COMMANDS[name]
    assert described(command) == what
    assert [(field, buffer) for field, buffer, _ in regions(command)] == named
    found = overwrites(command)
    assert (found and found[0]) == written


def test_a_write_whose_bytes_are_there_leaves_the_client_nothing_to_do() -> None:
    assert Write(1, RUN, True).is_transfer
    assert not Write(1, RUN, True, data=b"8").is_transfer and not Write(1, RUN, True, 5).is_transfer


def test_nothing_can_not_be_migrated() -> None:
    with pytest.raises(BadRecord, match="num_places"):
        Migrate(((4, 8, 0),))
