"""Members that C++ has otherwise: arrays of no elements, records without a name inside others."""

from __future__ import annotations

from pathlib import Path

from tests.clc.host_kernels import agree


def test_arrays_of_no_elements_are_what_follows(tmp_path: Path) -> None:
    before = """
        struct S { int n; int v[]; }; struct T { char c; short w[][2]; }; struct Z { int a; int e[0]; };"""
    body = """
        global struct S *s = (global struct S *)o; global struct T *t = (global struct T *)(o + 20);
        s->n = 2; s->v[g] = 5 + g; t->w[g][1] = g; global int (*p)[] = &s->v; (*p)[g + 8] = s->v[g] * 2;
        struct Z z = { 4 };
        o[40] = sizeof(struct S) + sizeof(struct T) * 10 + sizeof(z) * 100 + z.a * 1000;"""
    agree(body, tmp_path, before)


def test_members_of_records_without_a_name_belong_to_the_one_around(tmp_path: Path) -> None:
    before = "struct S { int a; union { int q; struct { int x, y; }; }; struct { int b; } in; };"
    body = """
        struct S s = { 1 }, *p = &s; s.x = g; s.y = 3; s.q += 2; p->y += 1; (*p).x++; p->in.b = 7;
        o[g] = s.q; o[g + 4] = s.y + s.in.b * 10 + p->x * 100;"""
    agree(body, tmp_path, before)
