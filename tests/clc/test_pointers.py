"""Which kernels follow pointers, and which may have their arguments anywhere."""

from __future__ import annotations

import pytest

from tests.clc.test_model import model_of

NODE = "typedef struct node { global struct node *next; int value; } node;\n"
FOLLOWS = {
    "a pointer from memory": NODE + "kernel void k(global node *n) { n[0].value = n[1].next->value; }",
    "a pointer to memory": NODE + "kernel void k(global node *n) { n[0].next = &n[1]; }",
    "a pointer through a pointer": NODE + "kernel void k(global node *n) { (*n).next = n; }",
    "an address from a number": "kernel void k(global ulong *a) { *(global int *)a[0] = 1; }",
    "a number from an address": "kernel void k(global ulong *a) { a[0] = (ulong)&a[1]; }",
    "a comparison of addresses": "kernel void k(global int *a, global int *b) { a[0] = a < b; }",
    "a distance": "kernel void k(global int *a, global int *b) { a[0] = (int)(a - b); }",
    "an array of pointers": "kernel void k(global int *a, global int *b)"
    " { global int *both[2] = {a, b}; *both[get_global_id(0) & 1] = 1; }",
    "a printed address": 'kernel void k(global int *a) { printf("%p", a); }',
    "in a function": NODE + "int of(global node *n) { return n->next->value; }"
    " kernel void k(global node *n) { n[0].value = of(n); }",
    "a structure with a pointer is copied and used": NODE
    + "kernel void k(global node *n) { node one = n[0]; one.next->value = 1; }",
    "a structure is made of a pointer and stored": NODE
    + "kernel void k(global node *n) { n[0] = (node){&n[1], 2}; }",
    "a structure is made by members' names": NODE
    + "kernel void k(global node *n) { node one = {.next = &n[1]}; n[0] = one; }",
    "a structure comes from a function": NODE + "node of(global node *n) { node one = {n, 1}; return one; }"
    " kernel void k(global node *n) { n[0] = of(n + 1); }",
    "a union": "kernel void k(global int *a, global ulong *b)"
    " { union { global int *p; ulong u; } one = {a}; b[0] = one.u; }",
    "a pointer's bytes are read": "kernel void k(global int *a, global ulong *b)"
    " { global int *p = a; b[0] = *(ulong *)&p; }",
    "a pointer's bytes are written": "kernel void k(global const ulong *b)"
    " { global int *p; *(ulong *)&p = b[0]; *p = 1; }",
    "a vector of an address": "kernel void k(global int *a, global uint2 *b) { b[0] = as_uint2(a); }",
}
DOES_NOT = {
    "arrays": "kernel void k(global int *a, global int *b) { b[get_global_id(0)] += a[0]; }",
    "a pointer variable": "kernel void k(global int *a)"
    " { global int *p = a + 3; for (int i = 0; i < 3; i++) *p++ = i; }",
    "a function that takes a pointer": "void put(global int *a) { *a = 1; }"
    " kernel void k(global int *a) { put(a + 1); }",
    "nothing or something": "kernel void k(global int *a, global int *b) { if (b != 0) *a = 1; }",
    "a cast": "kernel void k(global int *a) { ((global char *)a)[3] = 1; }",
    "a structure with a pointer is moved": NODE
    + "kernel void k(global node *n) { n[0] = n[1]; n[2].value = 3; }",
    "local pointers": "kernel void k(global int *a, local int *l)"
    " { local int *p[2] = {l, l + 1}; *p[0] = a[0]; }",
    "what is printed": 'kernel void k(global int *a) { printf("%d %s", a[0], "text"); }',
    "choice": "kernel void k(global int *a, global int *b, int n) { *(n ? a : b) = 1; }",
    "vectors": "kernel void k(global float4 *a) { a[0].xy = vload2(0, (global float *)a); }",
    "atomics": "kernel void k(global int *a) { atomic_inc(&a[3]); }",
}


@pytest.mark.parametrize("source", FOLLOWS.values(), ids=FOLLOWS)
def test_kernels_that_want_to_know_where_memory_is(source: str) -> None:
    assert model_of(source).follows_pointers


@pytest.mark.parametrize("source", DOES_NOT.values(), ids=DOES_NOT)
def test_kernels_that_do_not(source: str) -> None:
    assert not model_of(source).follows_pointers


def test_arguments_that_hold_addresses() -> None:
    source = NODE + (
        "typedef struct { node first; } list;"
        " kernel void k(global list *a, constant node *b, local node *c, global int *d, global ulong *e) {}"
    )
    held = {each.name for each in model_of(source).arguments if each.holds_pointers}
    assert held == {"a", "b", "c"}
