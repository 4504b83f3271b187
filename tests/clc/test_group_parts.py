"""Functions of work-groups, and statements that are nothing but a call's value."""

from __future__ import annotations

import pytest

from sdi.clc.frontend.syntax import NodeKind
from sdi.clc.group_parts import collective, is_direct
from tests.clc.clc_texts import text_of


@pytest.mark.parametrize(
    ("statement", "direct"),
    [
        ("uint x = atomic_inc(lm);", True),
        ("int x = (int)(atomic_inc(lm));", True),
        ("a = atomic_inc(lm);", True),
        ("uchar x = atomic_inc(lm);", False),
        ("uint x = atomic_inc(lm) + 1;", False),
        ("uint x = a ? atomic_inc(lm) : 0;", False),
        ("if (a) b = atomic_inc(lm);", False),
        ("a += atomic_inc(lm);", False),
    ],
)
def test_a_statement_that_is_a_calls_value(statement: str, direct: bool) -> None:
    text = text_of(statement)
    (call,) = (node for node in text.body.walk() if node.kind is NodeKind.CALL)
    assert is_direct(text.body.children[0], call) == direct
    assert collective(text.tree, call) is None
