"""Accesses are printed as a kernel's author would write them."""

import pytest

from sdi.clc.compile import compile_source
from sdi.sampling import analyse
from sdi.sampling.printing import Printer

NBYTES = {"char*": 1, "int*": 4, "uint*": 4, "float*": 4, "float4*": 16}


def printed(body: str, parameters: str = "__global int *a, __global int *b, int n, uint2 size") -> list[str]:
    compiled = compile_source(f"__kernel void f({parameters}) {{ {body} }}", "")
    (function,) = compiled.tree.functions.values()
    analysis, arguments = analyse(compiled.tree, function), compiled.kernels[0].arguments
    printer = Printer(analysis.table, arguments)
    found = []
    for access in analysis.accesses:
        form = printer.access(access, NBYTES[arguments[access.argument].type_name])
        when = printer.condition(access.guards)
        found.append(f"{access.mode.value} {form}" + (f" when {when}" if when else ""))
    return found


@pytest.mark.parametrize(
    ("body", "form"),
    [
        ("a[get_global_id(0)] = 1;", "write a[get_global_id(0)]"),
        ("a[n - (int)get_local_id(1)] = 1;", "write a[n - get_local_id(1)]"),
        ("a[2 * get_group_id(0) + 3] = 1;", "write a[2 * get_group_id(0) + 3]"),
        ("a[(get_group_id(0) + 1) * n] = 1;", "write a[(get_group_id(0) + 1) * n]"),
        ("a[get_global_id(0) / 4 + get_global_id(0) % 4] = 1;",
         "write a[get_global_id(0) / 4 + get_global_id(0) % 4]"),
        ("a[min((int)get_global_id(0), n)] = 1;", "write a[min(n, get_global_id(0))]"),
        ("a[get_global_id(0) * size.y + size.x] = 1;", "write a[get_global_id(0) * size.y + size.x]"),
        ("vstore4((int4)(0), get_global_id(0), a);", "write a[4 * get_global_id(0)], 4 elements"),
        ("((__global char *)a)[get_global_id(0)] = 1;", "write a, 1 bytes at byte get_global_id(0)"),
        ("if (get_global_id(0) < n) a[0] = 1;", "write a[0] when get_global_id(0) < n"),
        ("if (get_global_id(0) == 0 || n != 3) a[7] = 1;", "write a[7] when get_global_id(0) == 0 || n != 3"),
        ("for (int k = 0; k < n; k++) a[k * 2] = 1;", "write a[2 * i0] when i0 < n"),
        ("a[(int)ceil((float)n / 64.0f)] = 1;", "write a[(int)ceil((float)n / 64.0f)]"),
        ("a[(uchar)(-(n * 0.5f - 2.5f) * 2.0f)] = 1;",
         "write a[(uchar)((-((float)n * 0.5f - 2.5f)) * 2.0f)]"),
        ("a[(int)((double)(n * 0.5f) + 1.0)] = 1;", "write a[(int)((double)((float)n * 0.5f) + 1.0)]"),
    ],
)  # fmt: skip
def test_indices_and_guards_are_written_in_the_words_of_the_kernel(body: str, form: str) -> None:
    assert printed(body) == [form]


def test_what_depends_on_data_is_left_out() -> None:
    assert printed("a[b[get_global_id(0)]] = 1;")[-1] == "write a[...]"
