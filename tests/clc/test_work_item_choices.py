"""Conditions of work-items: which are the same, and for which one work-item they hold."""

from __future__ import annotations

import pytest

from sdi.clc.frontend.syntax import NodeKind
from sdi.clc.work_item_choices import Choices, Chosen
from tests.clc.clc_texts import conditions_of, text_of

VARIABLES = (
    "int g = get_global_id(0), v = in[g], lid = get_local_id(0); bool keep = v > 3 && g;"
    "int flag = v > 3 ? 1 : 0;"
    "int late = 0; if (v < 0) late = 1; int any = v; float x = v; uint y = get_local_id(1);"
)
SKIPPED = 1
"""Of the choices in ``VARIABLES``."""


def choices_of(body: str) -> tuple[Choices, list[tuple[object, ...]]]:
    """The keys that hold where each choice's condition does."""
    text = text_of(VARIABLES + body)
    choices = Choices(text.tree, text.body, text.locals, text.parameters)
    found = []
    for node in conditions_of(text)[SKIPPED:]:
        facts = [choices.fact(*part) for part in choices.parts(node, True)]
        found.append(tuple(sorted(repr(None if each is None else each.key) for each in facts)))
    return choices, found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("keep", "v > 3 && g"),
        ("keep", "!(!keep)"),
        ("keep", "g && (v > 3)"),
        ("flag", "v > 3"),
        ("flag == 1", "flag != 0"),
        ("!flag", "flag == 0"),
        ("late > 0", "late"),
        ("late >= 1", "late == 1"),
        ("!(g || a)", "!g && !a"),
        ("in[g + 1]", "in[ g+1 ]"),
        ("any & 3", "(any & 3) != 0"),
    ],
)
def test_conditions_that_are_the_same(one: str, other: str) -> None:
    _, (first, second) = choices_of(f"if ({one}) out[0] = 1; if ({other}) out[1] = 1;")
    assert first == second and "None" not in first


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("keep", "v > 3"),
        ("flag", "!flag"),
        ("any == 1", "any"),
        ("any > 0", "any"),
        ("v > 3", "v > 4"),
        ("v > 3", "v >= 3"),
        ("(uchar)v", "v"),
        ("in[g]", "in[g + 1]"),
        ("g || a", "g && a"),
    ],
)
def test_conditions_that_are_not_the_same(one: str, other: str) -> None:
    _, (first, second) = choices_of(f"if ({one}) out[0] = 1; if ({other}) out[1] = 1;")
    assert first != second


@pytest.mark.parametrize("condition", ["x + 1.0f > 3", "abs(v) > 3", "lm[0]", "in[lm[0]]", "*in", "v++"])
def test_a_condition_that_may_come_out_in_another_way_is_not_followed(condition: str) -> None:
    _, (found,) = choices_of(f"if ({condition}) out[0] = 1;")
    assert found == ("None",)


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("lid == 0", Chosen(frozenset({0}), True)),
        ("!lid", Chosen(frozenset({0}), True)),
        ("0 == get_local_id(2)", Chosen(frozenset({2}), True)),
        ("lid + y * get_local_size(0) == 0", Chosen(frozenset({0, 1}), True)),
        ("y * 16 + lid == 0", Chosen(frozenset({0, 1}), True)),
        ("get_local_linear_id() == 0", Chosen(frozenset({0, 1, 2}), True)),
        ("lid == get_local_size(0) - 1", Chosen(frozenset({0}), False)),
        ("get_local_size(1) - 1 == y", Chosen(frozenset({1}), False)),
        ("lid", None),
        ("lid != 0", None),
        ("lid == 1", None),
        ("lid == y", None),
        ("lid == a", None),
        ("lid < 1", None),
        ("lid - y == 0", None),
        ("lid * y == 0", None),
        ("lid * b == 0", None),
        ("lid == get_local_size(1) - 1", None),
        ("lid == get_local_size(0)", None),
        ("lid + y == get_local_size(0) - 1", None),
        ("g == 0", None),
        ("(lid & 31) == 0", None),
    ],
)
def test_for_which_work_item_a_condition_holds(condition: str, chosen: Chosen | None) -> None:
    text = text_of(VARIABLES + f"if ({condition}) out[0] = 1;")
    choices = Choices(text.tree, text.body, text.locals, text.parameters)
    (part,) = choices.parts(conditions_of(text)[SKIPPED], True)
    assert choices.chosen(*part) == chosen


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("7u", 7),
        ("-1", (1 << 32) - 1),
        ("~0u", (1 << 32) - 1),
        ("(uint)(-2)", (1 << 32) - 2),
        ("0x10", 16),
        ("010", None),
        ("0x100000000UL", None),
        ("(uchar)256", None),
        ("a", None),
    ],
)
def test_numbers(number: str, value: int | None) -> None:
    text = text_of(f"out[0] = {number};")
    choices = Choices(text.tree, text.body, text.locals, text.parameters)
    (store,) = (node for node in text.body.walk() if node.kind is NodeKind.BINARY_OPERATOR)
    assert choices.constant(store.operands[1]) == value
