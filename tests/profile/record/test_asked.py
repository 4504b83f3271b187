"""What commands ask for comes back from a profile as it was, but for bytes and what is of one alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

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
)
from sdi.profile.record.asked import command_of, comparable, row_of

PART = Rectangle(8, (4, 3, 2), 16, 64)
COMMANDS: list[Command] = [
    Read(1, PART, True, into=4096, record=b"r"),
    Write(1, PART, False, 5, data=b"x" * 24, record=b"r"),
    CopyBuffer(1, 2, PART, Rectangle(0, (4, 3, 2), 4, 12), member=2),
    Fill(3, PART, b"\0\xff"),
    Map(1, PART, True, False, True, False),
    Unmap(1, PART, True, False),
    Launch(7, 1, 2, (0, 0, 0), (64, 8, 1), None, b"\x01\0", 3, True, b"r", 0, (4, 5)),
    Launch(7, 1, 2, (0, 0, 0), (64, 8, 1), (8, 8, 1), b"\x01\0", 3),
    Marker(True),
    Migrate(((1, 0, 64), (2, 8, 8)), 1),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_command_comes_back_as_it_was(command: Command) -> None:
    known = comparable(command)
    found = command_of(json.loads(json.dumps(row_of(known))), b"17")
    assert found == known
    assert getattr(found, "record", b"17") == b"17"


def test_every_class_of_commands_is_tried() -> None:
    assert {type(command) for command in COMMANDS} == set(get_args(Command))


def test_commands_that_ask_for_the_same_are_the_same() -> None:
    write = Write(1, PART, False, data=b"x" * 24)
    others: list[Command] = [
        replace(write, data=b"y" * 24, written_ns=9),
        replace(write, data=b"", staged_at=64),
    ]
    assert {comparable(each) for each in (write, *others)} == {Write(1, PART, False)}
    assert comparable(replace(write, buffer=2)) != comparable(write)
    read = Read(1, PART, True)
    assert comparable(replace(read, into=64)) == comparable(read)


@pytest.mark.parametrize(
    "row", [[], ["Rm"], ["Marker"], ["Marker", 1, 2], ["Fill", 1, [0, [1, 1, 1], 0, 0], "?", 0]]
)
def test_rows_of_no_command_are_refused(row: list[Any]) -> None:
    with pytest.raises(ValueError):
        command_of(row, b"")
