"""Compound literals as C has them: objects of the block around them."""

from __future__ import annotations

from pathlib import Path

from sdi.clc.cuda.translate import translate
from tests.clc.host_kernels import agree

BEFORE = """
struct S { int a, b; };
struct Q { int q[3]; };
constant int *constant LIST = (constant int[]){ 1, 2, 3, 4 };
constant struct S *constant ONE = &(constant struct S){ 1, 2 };
"""


def test_arrays(tmp_path: Path) -> None:
    body = """
        o[g] = ((int[]){ 5, 6, 7, g })[g]; o[g + 4] = ((int[2][2]){ { 1, 2 }, { 3, g } })[1][1];
        f[g] = ((float4[]){ (float4)(1), (float4)(g) })[1].z;
        o[g + 8] = ((struct S[]){ { 1, 2 }, { 3, g } })[1].b + ((const int[]){ 1, 2, 3, 4 })[g];
        for (int i = 0; i < 3; i++) o[g + 16] += ((int[]){ i, i + 1 })[g & 1];
        o[g + 20] = ({ ((int[]){ g, 2 })[0]; }) + sizeof((int[]){ 1, 2, 3 });
        o[g + 24] = ((int[]){ [2] = 5 })[2] + ((char[]){ "xyz" })[1] + LIST[g] * 1000;
        o[g + 28] = (((int[]){ 1, 2 })[g & 1] = 9) + ((struct Q){ { 1, 2, g } }).q[2];
        int sum = 0, i = 0;
        again: sum += ((int[]){ i, 10 })[g & 1]++;
        if (++i < 3) goto again;
        o[g + 32] = sum;"""
    agree(body, tmp_path, BEFORE)


def test_what_is_changed_or_has_an_address(tmp_path: Path) -> None:
    body = """
        o[g] = (&(struct S){ 3, g })->b + ((struct S){ .b = g }).b + (struct S){ 4 }.a + ONE->b * 1000;
        (struct S){ 1, 2 }.a = 3;
        o[g + 4] = ((struct S){ 1, g }.b += 2) + (int){ g }++ + ((int4){ 1, g, 2, 3 }.yx = 7).x;"""
    agree(body, tmp_path, BEFORE)


def test_a_value_alone_gets_no_variable() -> None:
    text = "struct S { int a, b; }; kernel void k(global struct S *s) { s[0] = (struct S){ 1, s[1].b }; }"
    assert "_cl_literal" not in translate(text, ()).text


def test_a_pointer_to_one_that_says_that_it_is_private() -> None:
    text = "kernel void k(global int *o) { int *p = &(private int){ o[0] }; *p += 1; o[1] = *p; }"
    written = translate(text, ()).text
    assert "int _cl_literal0;" in written and "(&(_cl_literal0 = o[0]))" in written
