"""Kernels that may use results of atomic functions seldom, and those that may wait for others."""

from __future__ import annotations

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.frontend.syntax import LOOPS
from sdi.clc.seldom import is_counted
from tests.clc.test_model import model_of

INTS = "global int *x, global int *n, global const int *in, int m"

WATCHED = {
    "one claims": "if (in[g] == 7) if (atomic_cmpxchg(n, 0, 1) == 0) x[0] = g;",
    "fields of places": "if (in[g] == 7) { int p = atomic_inc(n); x[2 * p] = g; x[2 * p + 1] = p; }",
    "behind a way out": "if (in[g] != 7) return; x[atomic_inc(n) & 15] = g;",
    "behind another condition": "if (in[g] == 7 && atomic_xchg(n, 1) == 0) x[0] = g;",
    "as a choice": "x[g] = in[g] == 7 ? atomic_add(n, 2) : 0;",
    "in a counted loop": "for (int i = 0; i < 9; i++) if (in[i] == g && atomic_inc(n) == 0) x[0] = i;",
    "in strides": "for (int i = g; i < m; i += get_global_size(0)) if (in[i] && !atomic_inc(n)) x[0] = i;",
    "by a hash": "uint h = g; for (int i = 0; i < 9; i++) h = h * 33u ^ (h >> 5);"
    " if (h == m && atomic_xchg(n, 1) == 0) x[0] = g;",
    "in a helper": "if (in[g] == 7 && claim(n)) x[0] = g;",
    "read beside it": "if (*n == 0 && in[g] == 7 && !atomic_inc(n)) x[0] = g;",
    "an open loop beside it": "int v = in[g]; while (v & 1) v >>= 1; if (v == 7 && !atomic_inc(n)) x[0] = v;",
    "C11": "if (in[g] == 7) if (!atomic_fetch_or_explicit((volatile global atomic_int *)n, 1,"
    " memory_order_relaxed)) x[0] = g;",
}
WHOLE = {
    "always": "x[g] = atomic_xchg(n, g);",
    "one of a work-group": "int l = get_local_id(0); if (l == 0) x[g] = atomic_add(n, 64);",
    "all that are there": "if (g >= 1000) return; x[g] = atomic_add(n, 3);",
    "where an argument says so": "if (m & 1) x[g] = atomic_add(n, 3);",
    "a lock": "if (g == 0) { while (atomic_cmpxchg(n, 0, 1)) ; x[0]++; atomic_xchg(n, 0); }",
    "waits for all": "if (g == 0) { if (atomic_dec(n) == 3) x[0] = 2; while (n[0] < 9) ; }",
    "waits in a helper": "if (g == 0 && claim(n)) wait_for(n);",
    "waits for a flag that others set": "if (in[g] && atomic_dec(n) == 3) x[0] = 1; while (x[g] == 0) ;",
    "counts anew": "if (g) for (int i = 0; i < 9; i++) if (atomic_dec(n) < 3) i = 0;",
    "a bound that never comes": "if (g) for (int i = 0; ; i++) if (atomic_dec(n) < 3) break;",
    "a step that is none": "if (g) for (int i = 0; i < 9; i += in[g]) if (atomic_dec(n) < 3) x[0] = 1;",
    "a jump back": "again: if (in[g]) { if (atomic_dec(n) < 3) goto again; x[0] = 1; }",
    "a fence": "x[g] = 1; mem_fence(CLK_GLOBAL_MEM_FENCE); if (g == 0 && atomic_dec(n) == 3) x[0] = 3;",
    "one of two": "global int *p = in[0] ? n : x; if (in[1] && atomic_dec(p) == 3) x[0] = 3;",
    "orders accesses": "if (in[g] == 7) if (!atomic_fetch_or((volatile global atomic_int *)n, 1)) x[0] = g;",
    "prints": 'if (in[g] == 7 && atomic_dec(n) == 3) printf("%d", g);',
}
HELPERS = """
int claim(volatile global int *flag) { return atomic_cmpxchg(flag, 0, 1) == 0; }
void wait_for(volatile global int *flag) { while (atomic_or(flag, 0) != 1) ; }
"""


def source(body: str) -> str:
    return f"{HELPERS} kernel void k({INTS}) {{ int g = get_global_id(0); {body} }}"


@pytest.mark.parametrize("body", WATCHED.values(), ids=WATCHED)
def test_what_may_be_seldom_is_watched(body: str) -> None:
    model = model_of(source(body), options="-cl-std=CL3.0")
    assert (model.why_whole, model.watched, model.appends) == ("", (1,), ())


@pytest.mark.parametrize("body", WHOLE.values(), ids=WHOLE)
def test_what_is_not_or_may_wait_for_others_runs_whole(body: str) -> None:
    model = model_of(source(body), options="-cl-std=CL3.0")
    assert model.why_whole
    assert not (model.watched or model.appends)


@pytest.mark.parametrize(
    ("loop", "counted"),
    [
        ("for (int i = 0; i < n; i++) ;", True),
        ("for (int i = n; i > 0; --i) ;", True),
        ("for (int i = 0; n > i; i += 3) ;", True),
        ("for (int i = 0; i != n; i++) ;", True),
        ("int i; for (i = 0; i < n; ++i) ;", True),
        ("for (int i = 0; i <= n; i++) ;", False),
        ("for (int i = 0; i < n; i--) ;", False),
        ("for (int i = 0; i < n; i += n) ;", False),
        ("for (int i = 0; i < i; i++) ;", False),
        ("for (int i = 0; i < n; i++) i--;", False),
        ("for (int i = 0; i < n; i++) { int *p = &i; *p = 0; }", False),
        ("for (int i = 0; i < n--; i++) ;", True),
        ("for (int i = 0; i < n && n; i++) ;", False),
        ("for (int i = 0; i < n; ) ;", False),
        ("while (n) ;", False),
        ("do n--; while (n);", False),
    ],
)
def test_loops_that_surely_end(loop: str, counted: bool) -> None:
    tree = compile_source(f"kernel void k(global int *x, int n) {{ {loop} }}", "").tree
    found = [node for f in tree.functions.values() if f.body for node in f.body.walk() if node.kind in LOOPS]
    assert [is_counted(tree, node) for node in found] == [counted]
