"""What work-items add for a group: each result in a variable of its own."""

from __future__ import annotations

import pytest

from sdi.clc.frontend.syntax import NodeKind
from sdi.clc.group_parts import CountedPart, GroupParts
from sdi.clc.local_places import LocalPlaces
from sdi.clc.work_item_choices import Choices
from tests.clc.clc_texts import text_of


@pytest.mark.parametrize(
    ("statement", "counts"),
    [
        ("uint x = atomic_inc(lm);", True),
        ("int x = (int)(atomic_inc(lm));", True),
        ("int c; c = atomic_add(lm, 3);", True),
        ("uchar x = atomic_inc(lm);", False),
        ("uint x = atomic_inc(lm) + 1;", False),
        ("int c = 0; c += atomic_inc(lm);", False),
        ("local uint x; x = atomic_inc(lm);", False),
        ("uint x = atomic_inc(lm); uint *y = &x;", False),
        ("uint x = atomic_sub(lm, 1);", False),
    ],
)
def test_a_part_is_a_result_in_a_variable_of_its_own(statement: str, counts: bool) -> None:
    text = text_of(statement)
    choices = Choices(text.tree, text.body, text.locals, text.parameters)
    pointers = [each for each in text.parameters if each not in text.locals.changed]
    places = LocalPlaces(text.tree, text.body, text.parents, pointers, choices.constant)
    parts: list[CountedPart] = GroupParts(text, choices, places)._parts
    calls = [node for node in text.body.walk() if node.kind is NodeKind.CALL]
    assert [part.call for part in parts] == (calls if counts else [])
