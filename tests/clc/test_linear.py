"""Integer expressions as sums of products."""

from __future__ import annotations

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.syntax import NodeKind
from sdi.clc.linear import ONE, Linear, Locals, added, divided, scaled, without


def form_of(body: str, parameters: str = "int a, uint b") -> dict[str, int] | None:
    """The form of what the last statement stores to ``out[0]``, with names in place of symbols."""
    tree = compile_source(f"kernel void k(global int *out, {parameters}) {{ {body} }}", "").tree
    kernel = next(f for f in tree.functions.values() if f.name == "k")
    assert kernel.body is not None
    numbers = {parameter.declaration: k for k, parameter in enumerate(kernel.parameters)}
    store = kernel.body.children[-1]
    found = Locals(tree, kernel.body, numbers).linear(store.operands[1])
    if found is None:
        return None
    names = {n.declaration: n.name for n in kernel.body.walk() if n.kind is NodeKind.DECL_REF}
    return {"*".join(sorted(names.get(s.number, s.text) for s in key)): value for key, value in found.items()}


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("out[0] = 3 * (a + 2) - a;", {"a": 2, "": 6}),
        ("out[0] = (a + 1) * (a - 1);", {"a*a": 1, "": -1}),
        ("out[0] = a - a;", {}),
        ("out[0] = a << 3;", {"a": 8}),
        ("out[0] = 0x10 + 010;", {"": 24}),
        ("int c = a + 1; out[0] = 2 * c;", {"a": 2, "": 2}),
        ("int c = a + 1; c++; out[0] = 2 * c;", {"c": 2}),
        ("int d = a; int c = d; d = 3; out[0] = c;", {"c": 1}),
        ("int c = a; int *p = &c; out[0] = c;", None),
        ("out[0] = (int)get_global_id(0) * b;", {"b*get_global_id(0)": 1}),
        ("long c = b; out[0] = c;", {"b": 1}),
        ("short c = b; out[0] = c;", {"c": 1}),
        ("out[0] = (short)b;", None),
        ("out[0] = a / 2;", None),
        ("out[0] = out[1] + a;", {"a": 1, "out": 1}),
        ("int c = out[a]; out[0] = c;", {"c": 1}),
        ("out[0] = ((global char *)out)[1];", None),
        ("float f = a; out[0] = f;", None),
        ("local int c; out[0] = c;", None),
        ("int2 c = a; out[0] = c.x;", None),
    ],
)
def test_the_form_of_an_expression(body: str, form: dict[str, int] | None) -> None:
    assert form_of(body) == form


def test_sums_keep_no_zeros() -> None:
    one: Linear = {ONE: 4}
    assert added(one, {ONE: -4}) == {}
    assert scaled(one, 0) == {}
    assert divided(one, 2) == {ONE: 2}
    assert divided(one, 3) is None
    assert without(one, ONE) == {}
