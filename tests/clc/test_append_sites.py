"""Places of an addition, and the counter that a pointer names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sdi.clc.append_sites import Site
from sdi.clc.covering import Refused
from sdi.clc.frontend.syntax import NodeKind
from sdi.clc.linear import ONE, Symbol
from tests.clc.clc_texts import text_of

BASE, SLOT, OTHER = Symbol("place", 1), Symbol("slot", 2), Symbol("slot", 3)


def test_a_place_is_the_result_or_with_a_slot_as_many_times_as_was_added() -> None:
    text = text_of("out[0] = 1;")
    node = text.body
    site = Site(node, BASE, {ONE: 1}, 0, 4, {}, node, (), ())
    assert site.placed({(BASE,): 2, ONE: 1}) == {(BASE,): 2, ONE: 1}
    assert site.placed({ONE: 1}) is None and site.placed({(BASE,): 1, (SLOT,): 1}) is None
    part = replace(site, slot=SLOT, times=3, total={ONE: 3})
    assert part.is_of_group and not site.is_of_group
    assert part.placed({(BASE,): 2, (SLOT,): 6, ONE: 1}) == {(BASE,): 2, ONE: 1}
    for wrong in ({(BASE,): 2, (SLOT,): 2}, {(BASE,): 1}, {(BASE,): 1, (SLOT,): 3, (OTHER,): 1}):
        assert part.placed(wrong) is None


@pytest.mark.parametrize(
    ("pointer", "index"), [("out", {}), ("&out[3]", {ONE: 3}), ("out + 2", {ONE: 2}), ("&*out", {})]
)
def test_the_counter_that_a_pointer_names(pointer: str, index: object) -> None:
    text = text_of(f"atomic_inc({pointer});")
    (call,) = (node for node in text.body.walk() if node.kind is NodeKind.CALL)
    assert text.counter(call.children[1]) == (0, 4, index)


@pytest.mark.parametrize("pointer", ["(global uint *)(out + a)", "lm", "&out[in[lm[0]]]"])
def test_a_counter_that_is_not_followed_is_refused(pointer: str) -> None:
    text = text_of(f"atomic_inc({pointer});")
    call = next(node for node in text.body.walk() if node.kind is NodeKind.CALL)
    with pytest.raises(Refused):
        text.counter(call.children[1])
