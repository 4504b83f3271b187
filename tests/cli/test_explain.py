"""``sdi explain`` says how kernels are split and why, and answers a bad question with one line."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from sdi.cli.main import main

SOURCE = """
__kernel void mm(__global float *C, __global const float *A, __global const float *B, int WA, int WB)
{
    int tx = get_global_id(0), ty = get_global_id(1);
    float v = 0;
    for (int k = 0; k < WA; ++k)
        v += A[ty * WA + k] * B[k * WB + tx];
    C[ty * WB + tx] = v;
}

__kernel void histogram(__global uint *bins, __global const uchar *in)
{
    atomic_inc(&bins[in[get_global_id(0)]]);
}

__kernel void gather(__global float *out, __global const float *in, __global const int *at, uint2 size)
{
    size_t i = get_global_id(0);
    if (i < size.x * size.y)
        out[i] = SCALE * in[at[i]];
}

__kernel __attribute__((reqd_work_group_size(8, 8, 1))) void copy(__global int *to, __global int *from)
{
    size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
    to[i] = from[i];
}

__kernel void ticket(__global uint *next, __global uint *out)
{
    out[get_global_id(0)] = atomic_inc(next);
}
"""
MM = "--kernel mm --global 256,256 --local 16,16 --arg WA=256 --arg WB=256 -n 4"
Ask: TypeAlias = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.cl"
    path.write_text(SOURCE)
    return path


@pytest.fixture
def ask(file: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Asks about the file: (exit status, stdout, stderr)."""

    def call(question: str) -> tuple[int, str, str]:
        status = main(["explain", str(file), "-DSCALE=2", *shlex.split(question)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def test_accesses_are_printed_as_their_author_would_write_them(ask: Ask) -> None:
    status, out, err = ask("--kernel mm")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "kernel mm, line 2: may be split",
        "  C (float*)",
        "    writes C[get_global_id(1) * WB + get_global_id(0)], line 8",
        "  A (float*)",
        "    reads A[get_global_id(1) * WA + i0] when i0 < WA, line 7",
        "  B (float*)",
        "    reads B[i0 * WB + get_global_id(0)] when i0 < WA, line 7",
        "  (i0: iterations of loops, from 0)",
    ]


def test_a_launch_shows_the_cuts_with_bytes_and_what_each_member_gets(ask: Ask) -> None:
    status, out, _ = ask(MM)
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == "kernel mm, line 2: split over 4 members, cut 1 x 4 of 16 x 16 work-groups of 16 x 16"
    # By rows: each member needs its 64 KiB of A and all 256 KiB of B.
    assert any(line.split()[:6] == ["1", "x", "4", "4", "1.2", "MiB"] for line in lines)
    assert [line for line in lines if line.startswith("  member")] == [
        f"  member {k} runs groups (0, {4 * k}, 0) to (16, {4 * k + 4}, 1)" for k in range(4)
    ]
    assert "    A: needs 64.0 KiB [65536, 131072)" in lines
    assert "    C: writes 64.0 KiB [196608, 262144)" in lines
    assert "    writes: known exactly" in lines


def test_json_has_the_documented_fields(ask: Ask) -> None:
    status, out, _ = ask(f"{MM} --json")
    (found,) = json.loads(out)["kernels"]
    assert status == 0
    assert set(found) == {"kernel", "launch", "cuts", "buffers", "pays_ns"}
    assert found["kernel"]["arguments"][0]["accesses"] == [
        {"mode": "write", "form": "C[get_global_id(1) * WB + get_global_id(0)]", "when": "", "lines": [8]}
    ]
    by_rows = found["cuts"][0]
    assert (by_rows["cut"], by_rows["moved_nbytes"], by_rows["chosen"]) == ([1, 4, 1], 1280 << 10, True)
    assert found["cuts"][-1]["members"] == 1
    assert found["buffers"][1] == {"argument": "A", "nbytes": 262144, "source": "reached"}
    member = found["launch"]["members"][1]
    assert (member["start"], member["stop"]) == ([0, 4, 0], [16, 8, 1])
    assert member["buffers"][0] == {
        "arguments": ["C"],
        "needs": {"nbytes": 0, "pieces": 0, "ranges": []},
        "writes": {"nbytes": 65536, "pieces": 1, "ranges": [[65536, 131072]]},
        "merged": {"nbytes": 0, "pieces": 0, "ranges": []},
    }
    assert found["launch"]["precision"] == [
        {"name": "C", "reads": "", "writes": "exact"},
        {"name": "A", "reads": "ranges", "writes": ""},
        {"name": "B", "reads": "ranges", "writes": ""},
    ]
    assert found["pays_ns"] > 0


def test_a_kernel_that_runs_whole_says_why_and_what_would_change_it(ask: Ask) -> None:
    _, out, _ = ask("--kernel ticket --global 4096 --local 64")
    first, second = out.splitlines()[:2]
    assert first == (
        "kernel ticket, line 29: whole on one member "
        "(line 31: updates global memory atomically through 'next', and stores the result itself); "
        "64 work-groups of 64"
    )
    assert second == (
        "  to have it split: give each work-group a result of its own in a buffer, "
        "and combine these in a second kernel"
    )


def test_atomic_updates_are_made_on_copies(ask: Ask) -> None:
    _, out, _ = ask("--kernel histogram --global 4096 --local 64 -n 2 --buffer bins=1K")
    lines = out.splitlines()
    assert lines[0].startswith("kernel histogram, line 11: split over 2 members")
    at = lines.index("  bins (uint*)")
    assert lines[at + 1].startswith("    updates bins[")
    assert lines[at + 2].startswith("    writes: atomic updates, on a copy of each member's own")
    assert lines.count("    bins: merges 1.0 KiB [0, 1024)") == 2


def test_reads_through_an_index_array_name_the_line_that_is_to_blame(ask: Ask) -> None:
    _, out, _ = ask("--kernel gather --global 1024 --local 64 --arg size=32,32 --buffer in=64K -n 2")
    lines = out.splitlines()
    assert "    line 20: reads at an index that depends on data" in lines
    assert "    writes out[get_global_id(0)] when get_global_id(0) < size.x * size.y, line 20" in lines
    assert "  buffers: out 4.0 KiB (as far as the kernel reaches), in 64.0 KiB, " in out
    assert "    in: needs 64.0 KiB [0, 65536)" in lines
    assert "    at: needs 2.0 KiB [2048, 4096)" in lines


def test_the_work_group_size_that_a_kernel_requires_is_the_default(ask: Ask) -> None:
    _, out, _ = ask("--kernel copy --global 64,64")
    assert "cut 1 x 2 of 8 x 8 work-groups of 8 x 8" in out.splitlines()[0]


def test_a_kernel_that_follows_pointers_says_so(file: Path, ask: Ask) -> None:
    file.write_text("""
typedef struct node { __global struct node *next; int value; } node;
__kernel void follow(__global node *p) { p[get_global_id(0)].value = p[get_global_id(0)].next->value; }
__kernel void keep(__global node *p) { p[get_global_id(0)].value = 1; }
""")
    said = "  follows pointers (line 3): members use shared virtual memory where the application has it"
    for kernel, times in (("follow", 1), ("keep", 0)):
        status, out, err = ask(f"--kernel {kernel} --global 64 --local 8")
        assert (status, err, out.splitlines().count(said)) == (0, "", times)


def test_all_kernels_of_a_file_are_explained_at_once(ask: Ask) -> None:
    _, out, _ = ask("")
    assert [line.split(",")[0] for line in out.splitlines() if line.startswith("kernel")] == [
        "kernel mm", "kernel histogram", "kernel gather", "kernel copy", "kernel ticket"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("--kernel mm --global 64,64 --arg WA=64", "kernel mm needs values: --arg WB=..."),
        ("--kernel mm --global 64,64 --arg WX=64", "--arg WX: kernel mm has the scalar arguments WA, WB"),
        ("--kernel mm --global 64,64 --arg WA=6.4 --arg WB=1", "--arg WA=6.4: not a value of type int"),
        ("--kernel mm --global 64,64 --arg WA --arg WB=1", "--arg WA: expected NAME=VALUE"),
        ("--kernel gather --global 64 --arg size=3", "--arg size=3: not a value of type uint2 (1 numbers"),
        ("--kernel histogram --global 64,64 --local 8", "--local has 1 dimensions, --global has 2"),
        ("--kernel histogram --global 60 --local 8", "--global, --local: dimension 0: local size 8"),
        ("--kernel mm --global 64,x", "--global 64,x: expected 1 to 3 whole numbers"),
        ("--kernel mm --global 0", "--global 0: a size is 0"),
        ("--kernel copy --global 64,64 --local 16,16", "kernel copy requires --local 8,8,1"),
        ("--kernel copy --global 64,64 --buffer to=64Q", "--buffer to=64Q: expected a size in bytes"),
        ("--kernel copy --global 64,64 --buffer x=64", "--buffer x: kernel copy has the buffers to, from"),
        ("--kernel copy --local 8,8", "--local needs --global"),
        ("--kernel nothing", "has no kernel 'nothing'; it has mm, histogram, gather, copy"),
        ("--global 64", "--global is for one kernel; choose with --kernel: mm, "),
    ],
)  # fmt: skip
def test_a_bad_question_gets_one_line_and_a_failure(ask: Ask, question: str, answer: str) -> None:
    status, out, err = ask(question)
    assert (status, out) == (2, "")
    assert err.startswith("sdi explain: ") and answer in err and err.count("\n") == 1


def test_a_file_that_does_not_compile_gets_the_build_log(file: Path, ask: Ask) -> None:
    file.write_text("__kernel void broken(__global int *a)\n{\n    a[0] = missing;\n}\n")
    status, out, err = ask("")
    assert (status, out) == (1, "")
    assert f"{file}:3:12: error: use of undeclared identifier 'missing'" in err
    assert err.splitlines()[-1] == f"sdi explain: {file} does not compile"


def test_a_file_without_kernels_or_no_file_gets_one_line(file: Path, ask: Ask) -> None:
    file.write_text("int f(int x) { return x; }\n")
    assert ask("") == (2, "", f"sdi explain: {file} has no kernel\n")
    file.unlink()
    assert ask("") == (2, "", f"sdi explain: {file}: No such file or directory\n")


def test_definitions_may_have_blanks_and_quotes(file: Path, ask: Ask) -> None:
    file.write_text("__kernel void f(__global int *a) { a[WHERE] = sizeof(NAME); }\n")
    status, out, err = ask("""'-DWHERE=get_global_id(0) + 1' '-DNAME="x"'""")
    assert (status, err) == (0, "")
    assert "    writes a[get_global_id(0) + 1], line 1" in out.splitlines()


def test_a_sum_of_floats_in_any_order_is_named_as_what_keeps_a_kernel_whole(file: Path, ask: Ask) -> None:
    file.write_text("kernel void k(global atomic_float *s, float x) { atomic_fetch_add(s, x); }")
    code, out, _ = ask("--options=-cl-std=CL3.0")
    why = "updates global memory atomically through 's', where the order decides what floating-point numbers"
    assert code == 0 and why in out.splitlines()[0]
