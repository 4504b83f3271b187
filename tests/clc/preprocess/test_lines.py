"""Which line of the user's text an offset comes from."""

from __future__ import annotations

from sdi.clc.preprocess.lines import KERNEL_FILE, LineMap

TEXT = 'one\ntwo\n#line 7 "a \\"b\\".h"\nseven\neight\n#line 3 "<kernel>"\nthree\n'


def test_offsets_are_placed_by_the_last_directive_before_them() -> None:
    lines = LineMap(TEXT)
    found = {word: lines.place(TEXT.index(word)) for word in ("one", "two", "seven", "eight", "three")}
    assert found == {
        "one": (KERNEL_FILE, 1),
        "two": (KERNEL_FILE, 2),
        "seven": ('a "b".h', 7),
        "eight": ('a "b".h', 8),
        "three": (KERNEL_FILE, 3),
    }


def test_lines_of_included_files_are_said_with_their_file() -> None:
    lines = LineMap(TEXT)
    assert lines.describe(TEXT.index("eight")) == 'line 8 of a "b".h'
    assert lines.describe(TEXT.index("three")) == "line 3"
