"""What is done to places in local memory, and where all work-items wait for each other."""

from __future__ import annotations

import pytest

from sdi.clc.frontend.syntax import Form, NodeKind
from sdi.clc.local_places import AFTER, BEFORE, GroupBlock, LocalPlaces
from sdi.clc.work_item_choices import Choices
from tests.clc.clc_texts import text_of

B = "barrier(CLK_LOCAL_MEM_FENCE);"


def accesses_of(statement: str) -> list[tuple[str, int | None, str]]:
    """Variable, element and what is done, in the order of the text."""
    text = text_of(f"local uint c, s[4], t[2][2]; local float f; local uint2 w; int i = 1; {statement}")
    choices = Choices(text.tree, text.body, text.locals, text.parameters)
    names = {n.declaration: n.name for n in text.body.walk() if n.kind is NodeKind.DECL_REF}
    pointers = [
        declaration
        for declaration, number in text.parameters.items()
        if text.types[number].form is Form.POINTER
    ]
    places = LocalPlaces(text.tree, text.body, text.parents, pointers[-1:], choices.constant)
    return [(names[each.place.variable], each.place.element, each.what) for each in places.accesses]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("c = 3;", [("c", 0, "write")]),
        ("c++; c += 2;", [("c", 0, "write"), ("c", 0, "write")]),
        ("out[0] = c + s[2];", [("c", 0, "read"), ("s", 2, "read")]),
        ("*s = (lm[1]);", [("s", 0, "write"), ("lm", 1, "read")]),
        ("*(lm + 2) = 1;", [("lm", 2, "write")]),
        ("s[i] = 1;", [("s", None, "write")]),
        ("atomic_inc(&c); atomic_add(&s[1], 2u);", [("c", 0, "atomic"), ("s", 1, "atomic")]),
        (
            "atomic_inc(s); atomic_inc(lm + 3); atomic_inc(lm + i);",
            [("s", 0, "atomic"), ("lm", 3, "atomic"), ("lm", None, "atomic")],
        ),
        ("local uint *q = &c;", [("c", None, "other")]),
        ("local uint *q = lm + 1;", [("lm", None, "other")]),
        ("(lm + 1)[-1] = 1;", [("lm", None, "write")]),
        ("vstore2((uint2)(1), 0, lm);", [("lm", None, "passed")]),
        ("t[0][1] = 1;", [("t", None, "write")]),
        ("f = 2;", [("f", None, "write")]),
        ("w.x = 2;", [("w", None, "passed")]),
        ("lm[s[0]] = 1;", [("lm", None, "write"), ("s", 0, "read")]),
    ],
)
def test_what_is_done_to_local_memory(statement: str, found: list[tuple[str, int | None, str]]) -> None:
    assert accesses_of(statement) == found


def test_where_work_items_wait_for_each_other() -> None:
    text = text_of(f"out[0] = 1; {B} out[1] = 1; barrier(CLK_GLOBAL_MEM_FENCE); out[2] = 1; if (a) {B}")
    block = GroupBlock(text.tree, text.body, text.parents)
    assert block.waits_between(0, 2) and block.waits_between(2, 0) and block.waits_between(BEFORE, 2)
    assert not (block.waits_between(2, 4) or block.waits_between(4, AFTER) or block.waits_between(0, 1))
    assert block.position(block.statements[4]) == 4


@pytest.mark.parametrize(("behind", "is_safe"), [("", False), (B, True)])
def test_in_a_loop_they_wait_in_each_round(behind: str, is_safe: bool) -> None:
    text = text_of(
        f"out[3] = 0; for (int i = 0; i < a; i++) {{ out[0] = 1; {B} out[1] = 1; {behind} }} out[9] = 1;"
    )
    loop = text.body.children[1]
    block = GroupBlock(text.tree, loop.operands[-1], text.parents)
    assert block.is_repeated and block.waits_between(0, 2) == is_safe
    assert block.waits_between(BEFORE, 2)
    assert (block.position(text.body.children[0]), block.position(text.body.children[2])) == (BEFORE, AFTER)


@pytest.mark.parametrize(
    ("statement", "leaves"),
    [
        ("return;", True),
        ("if (a) return;", True),
        ("for (int i = 0; i < a; i++) { if (i == 3) continue; if (i == 5) break; }", False),
        ("for (int i = 0; i < a; i++) { if (i == 3) return; }", True),
        ("out[0] = 1;", False),
    ],
)
def test_what_leaves_a_block(statement: str, leaves: bool) -> None:
    text = text_of(f"out[1] = 1; {statement} out[2] = 2;")
    block = GroupBlock(text.tree, text.body, text.parents)
    assert block.leaves(0, 2) == leaves
    assert not block.leaves(2, 2)
