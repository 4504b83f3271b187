"""What a kernel only does where it uses the result of an atomic function."""

from __future__ import annotations

import pytest

from sdi.clc.claims import Claims
from sdi.clc.compile import compile_source
from sdi.clc.frontend.syntax import NodeKind
from tests.clc.test_model import model_of

HELPERS = """
int claim(volatile global int *flag) { return atomic_xchg(flag, 1) == 0; }
int perhaps(volatile global int *flag, int v) { if (v) return atomic_xchg(flag, 1); return 0; }
int late(volatile global int *flag, int v) { if (v) return 0; return atomic_xchg(flag, 1); }
int asks(volatile global int *flag, int v) { int was = atomic_xchg(flag, 1); if (v) return was; return 0; }
int again(volatile global int *flag, int v) { return v ? again(flag, v - 1) : 0; }
void put(global int *at, int value) { at[3] = value; }
"""
PARAMETERS = "volatile global int *n, global int *x, global int *y, global const int *in, int m"


def kernel_of(body: str) -> str:
    """The text of a kernel that knows its id."""
    return f"{HELPERS} kernel void k({PARAMETERS}) {{ int g = get_global_id(0); {body} }}"


BEHIND = {
    "x[0] = g; if (claim(n)) x[1] = g;": "x[0] x[1]",
    "if (in[g] == 7) { x[0] = g; if (!atomic_xchg(n, 1)) x[1] = g; else x[2] = g; x[3] = g; } x[4] = g;": (
        "x[0] x[1] x[2] x[3]"
    ),
    "if (in[g] == 7 && !atomic_xchg(n, 1)) x[0] = g; else x[1] = g;": "x[0]",
    "if (in[g] == 7 || !atomic_xchg(n, 1)) x[0] = g; else x[1] = g;": "x[1]",
    "if (!(in[g] == 7 && atomic_xchg(n, 1))) x[0] = g; else x[1] = g;": "x[1]",
    "if ((in[g] == 7 && atomic_xchg(n, 1)) || m) x[0] = g; else x[1] = g;": "",
    "if ((in[g] == 7 && atomic_xchg(n, 1)) || (m && claim(n))) x[0] = g; else x[1] = g;": "x[0]",
    "if (in[g] != 7) return; x[0] = g; x[1 + atomic_inc(n)] = g; x[2] = g;": (
        "x[0] x[1 + atomic_inc(n)] x[2]"
    ),
    "x[0] = g; if (in[g] != 7) return; x[1] = atomic_inc(n);": "x[1]",
    "if (in[g] != 7 || atomic_xchg(n, 1)) return; x[0] = g;": "x[0]",
    "if (in[g] != 7 || atomic_xchg(n, 1)) { x[0] = g; return; } x[1] = g;": "x[1]",
    "if (in[g] != 7 || atomic_xchg(n, 1)) { if (m) return; } x[1] = g;": "",
    "if (in[g] == 7 && !atomic_xchg(n, 1)) x[0] = g; else return; x[1] = g;": "x[0] x[1]",
    "int p = 9; if (in[g] == 7) p = atomic_inc(n); if (p < 9) x[0] = g;": "",
    "bool won = in[g] == 7 && claim(n); if (won) x[0] = g; else x[1] = g;": "x[0]",
    "bool won = in[g] == 7 && claim(n); won = won || m; if (won) x[0] = g;": "",
    "bool won = in[g] == 7 && claim(n); bool *at = &won; *at = m; if (won) x[0] = g;": "",
    "bool won = in[g] == 7 && claim(n), lost = !won; if (!lost) x[0] = g; if (lost) x[1] = g;": "x[0]",
    "if (in[g]) { if (m) { x[0] = g; return; } x[1] = g; m = atomic_inc(n); }": "x[1]",
    "if (in[g]) { x[0] = g; if (m) return; x[1] = atomic_inc(n); }": "x[1]",
    "if (in[g]) { x[0] = g; if (m) { m = atomic_inc(n); return; } x[1] = g; }": "",
    "if (in[g]) { if (m) m = atomic_inc(n); else m = claim(n); x[0] = g; }": "x[0]",
    "if (in[g]) { for (int i = 0; i < m; i++) { x[0] = g; x[1] = atomic_inc(n); } x[2] = g; }": "x[0] x[1]",
    "if (in[g]) { for (int i = 0; i < m; i++) { x[0] = g; if (i) continue; x[1] = atomic_inc(n); } }": "x[1]",
    "if (in[g]) { for (int i = claim(n); i < m; i++) x[0] = g; x[1] = g; }": "x[0] x[1]",
    "while (in[g] && claim(n)) x[0] = g; x[1] = g;": "x[0]",
    "do x[0] = g; while (claim(n)); x[1] = g;": "",
    "do x[0] = claim(n); while (m); x[1] = g;": "x[0] x[1]",
    "switch (in[g]) { case 0: m = claim(n); break; case 1: x[0] = g; }": "",
    "switch (in[g]) { case 0: m = claim(n); x[0] = g; break; default: x[1] = g; }": "x[0]",
    "switch (in[g]) { case 0: x[0] = g; case 1: x[1] = claim(n); break; case 2: x[2] = g; }": "x[0] x[1]",
    "switch (in[g]) { case 0: m = claim(n); } x[0] = g;": "",
    "if (in[g]) switch (atomic_inc(n)) { case 0: x[0] = g; break; default: x[1] = g; }": "x[0] x[1]",
    "m = in[g] ? claim(n) : 0; x[0] = g;": "",
    "m = in[g] ? claim(n) : atomic_inc(n); x[0] = g;": "x[0]",
    "in[g] && claim(n) && (x[0] = g); in[g] && (claim(n) || (x[1] = g)) && (x[2] = g);": "x[0] x[1] x[2]",
    "in[g] == 7 ? (claim(n) ? (x[0] = g) : (x[1] = g)) : (x[2] = g);": "x[0] x[1]",
    "if (in[g]) { perhaps(n, m); x[0] = g; }": "",
    "if (in[g]) { late(n, m); x[0] = g; }": "",
    "if (in[g]) { asks(n, m); x[0] = g; }": "x[0]",
    "if (in[g]) { again(n, m); x[0] = g; }": "",
    "if (in[g]) { m = sizeof(claim(n)); x[0] = g; }": "",
    "if (in[g]) { atomic_inc(n); x[0] = g; }": "",
    "if (in[g]) { atomic_xchg(n, 1); x[0] = g; }": "x[0]",
    "local int l; if (in[g]) { m = atomic_inc(&l); x[0] = g; }": "",
    "if (in[g]) { m = claim(n); x[0] = g; if (m) goto end; } x[1] = g; end: ;": "",
}


@pytest.mark.parametrize(("body", "expected"), BEHIND.items())
def test_who_stores_there_has_used_a_result(body: str, expected: str) -> None:
    tree = compile_source(kernel_of(body), "").tree
    kernel = next(each for each in tree.functions.values() if each.name == "k")
    assert kernel.body is not None
    claims = Claims(tree)
    found = [
        tree.source(node.operands[0])
        for node in kernel.body.walk()
        if node.operator == "="
        and node.operands[0].kind is NodeKind.ARRAY_SUBSCRIPT
        and claims.is_behind(kernel.declaration, node)
    ]
    assert " ".join(found) == expected


CLAIMED = {
    "if (in[g] == 7 && claim(n)) { x[0] = g; y[0] = in[g]; }": "x y",
    "if (in[g] == 7 && claim(n)) { x[0] = g; y[0] = in[g]; } y[g] = 1;": "x",
    "if (in[g] == 7 && claim(n)) { vstore2((int2)(g), 0, x); y[g] += x[5]; }": "x y",
    "if (in[g] == 7 && claim(n)) { atomic_inc(x); atomic_add(&y[1], 2); } atomic_inc(y);": "x",
    "if (in[g] == 7 && claim(n)) put(x, g);": "x",
    "if (in[g] == 7 && claim(n)) { put(x, g); put(y, g); } if (m) put(y, 0);": "x",
    "if (in[g] == 7 && claim(n)) put(x, g); if (in[g] == 8) put(x, 0);": "",
    "if (in[g] == 7 && claim(n)) put(g & 1 ? x : y, g);": "x y",
    "global int *p = in[0] ? x : y; if (in[g] == 7 && claim(n)) p[0] = g;": "x y",
    "global int *p = in[0] ? x : y; if (in[g] == 7 && claim(n)) x[0] = g; p[g] = 1;": "",
    "global int *p = x; if (in[g] == 7) { p = y; if (claim(n)) x[1] = g; } *p = g;": "",
    "if (in[g] == 7 && claim(n)) n[1] = g; x[g] = 3; y[g] = 4;": "",
}


@pytest.mark.parametrize(("body", "expected"), CLAIMED.items())
def test_arguments_that_only_claimers_write(body: str, expected: str) -> None:
    model = model_of(kernel_of(body))
    assert (model.why_whole, model.watched) == ("", (0,))
    assert " ".join(model.arguments[index].name for index in model.claimed) == expected
    assert all(model.arguments[index].writes for index in model.claimed)


@pytest.mark.parametrize(
    "body",
    [
        "x[g] = 1; y[0] = 2;",
        "if (in[g]) { atomic_inc(n); x[0] = g; }",
        "x[atomic_inc(n)] = g;",
        "x[g] = atomic_xchg(n, 1); y[0] = g;",
        "if (in[g] == 7 && claim(n)) { x[0] = g; mem_fence(CLK_GLOBAL_MEM_FENCE); y[0] = 1; }",
    ],
)
def test_nothing_is_claimed_where_nothing_is_watched(body: str) -> None:
    model = model_of(kernel_of(body))
    assert (model.watched, model.claimed) == ((), ())
