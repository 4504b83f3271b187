"""``sdi explain --formula``: closed formulas that agree with plans of launches, and speed-ups from rates."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import sympy as sp

from sdi.cli.main import main
from sdi.devices.ticket import Ticket
from sdi.profile.record.recorder import Recorder

SOURCE = """
__kernel void mm(__global float *C, __global const float *A, __global const float *B, int WA, int WB)
{
    int tx = get_global_id(0), ty = get_global_id(1);
    float v = 0;
    for (int k = 0; k < WA; ++k)
        v += A[ty * WA + k] * B[k * WB + tx];
    C[ty * WB + tx] = v;
}

__kernel void stencil(__global float *out, __global const float *in, int w, int h)
{
    int x = get_global_id(0), y = get_global_id(1);
    if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
        out[y * w + x] = in[y * w + x - 1] + in[y * w + x + 1] + in[(y - 1) * w + x] + in[(y + 1) * w + x];
}

__kernel void columns(__global float *a, int h)
{
    int x = get_global_id(0);
    for (int y = 0; y < h; ++y)
        a[y * get_global_size(0) + x] *= 2;
}

__kernel void histogram(__global uint *bins, __global const uchar *in)
{
    atomic_inc(&bins[in[get_global_id(0)]]);
}

__kernel void ticket(__global uint *next, __global uint *out)
{
    out[get_global_id(0)] = atomic_inc(next);
}

__kernel void upper(__global float *a, int n)
{
    int y = get_global_id(0);
    for (int x = y; x < n; ++x)
        a[y * n + x] += 1;
}
"""
MM = "--kernel mm --global n,m --local 16,16 --arg WA=k --arg WB=n"
STENCIL = "--kernel stencil --global n,n --local 16,16 --arg w=n --arg h=n"
ZERO = {"text": "0"}
Ask: TypeAlias = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """Asks about the kernels: (exit status, stdout, stderr)."""
    path = tmp_path / "kernels.cl"
    path.write_text(SOURCE)

    def call(question: str) -> tuple[int, str, str]:
        status = main(["explain", str(path), *shlex.split(question)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return call


def formulas(ask: Ask, question: str) -> dict[str, Any]:
    status, out, err = ask(f"{question} --formula --json")
    assert (status, err) == (0, "")
    (found,) = json.loads(out)["formulas"]
    assert isinstance(found, dict)
    return found


def at(formula: dict[str, str], **values: int) -> int:
    """A formula's value."""
    found = parsed(formula).subs(values)
    assert found.is_integer
    return int(found)


def parsed(formula: dict[str, str]) -> sp.Expr:
    return sp.sympify(formula["text"], locals={name: sp.Symbol(name) for name in "Nahkmnps"})


def test_a_matrix_product_has_its_formulas(ask: Ask) -> None:
    status, out, err = ask(f"{MM} --formula")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "kernel mm over N members (3 or more), cut 1 x N, sizes that divide evenly"
    assert "  each member receives at first: 4 k n + 4 k m/N bytes" in lines
    assert "    A: 4 k m/N" in lines and "    B: 4 k n" in lines
    assert "  and writes: 4 m n/N bytes" in lines
    assert "  accesses in all, about: 3 k m n" in lines
    assert any(line.startswith("  speed-up of later launches: N (3 a k m n + s)/") for line in lines)
    assert "    h = 0.1 ns for a byte from the host (assumed)" in lines


@pytest.mark.parametrize(
    ("question", "sizes", "scalars"),
    [
        (MM, {"n": 768, "m": 1600, "k": 500}, "--global 768,1600 --arg WA=500 --arg WB=768"),
        (STENCIL, {"n": 1600}, "--global 1600,1600 --arg w=1600 --arg h=1600"),
        (
            "--kernel columns --local 64 --global n --arg h=m",
            {"n": 4480, "m": 333},
            "--global 4480 --arg h=333",
        ),
    ],
)
def test_formulas_agree_with_the_plan_of_a_launch(
    ask: Ask, question: str, sizes: dict[str, int], scalars: str
) -> None:
    """With sizes, and a number of members, that no formula was made from."""
    found = formulas(ask, question)
    assert found["unknown"] == [] and found["precision"] == "exact"
    words = question.split()
    kernel = " ".join([*words[:2], "--local", words[words.index("--local") + 1]])
    status, out, _ = ask(f"{kernel} {scalars} -n 5 --json")
    assert status == 0
    (explained,) = json.loads(out)["kernels"]
    assert explained["launch"]["cut"][found["dim"]] == 5
    buffers = {name: b for b in explained["launch"]["members"][2]["buffers"] for name in b["arguments"]}
    assert buffers
    for name, buffer in buffers.items():
        assert at(found["writes"].get(name, ZERO), N=5, **sizes) == buffer["writes"]["nbytes"]
        if name not in found["writes"]:  # the plan of a launch may bring what is between rows, too
            assert at(found["receives"].get(name, ZERO), N=5, **sizes) == buffer["needs"]["nbytes"]


def test_what_is_swapped_is_received_again(ask: Ask) -> None:
    alone = formulas(ask, STENCIL)
    assert alone["again"] == {}
    swapped = formulas(ask, f"{STENCIL} --swap in=out")
    assert set(swapped["again"]) == {"in"}
    assert at(swapped["again"]["in"], n=1000, N=7) == 2 * 4 * (1000 - 2)  # two rows without their ends


def test_merged_bytes_and_inexact_answers_are_said(ask: Ask) -> None:
    found = formulas(ask, "--kernel histogram --global n --buffer bins=1024")
    assert (found["merged"]["text"], found["writes"]) == ("1024", {})
    assert parsed(found["speed_up"]["again"]).has(sp.Symbol("h"))
    assert not parsed(formulas(ask, STENCIL)["speed_up"]["again"]).has(sp.Symbol("h"))


def test_what_has_no_closed_formula_is_named(ask: Ask) -> None:
    status, out, _ = ask("--kernel mm --global n,n --local 16,16 --arg WA=100 --arg WB=n --formula")
    assert status == 0 and "no closed formula" not in out
    status, out, _ = ask("--kernel mm --global n,n --local 16,16 --arg WA=n/5 --arg WB=n --formula")
    assert status == 2 and out == ""


def plotted(folder: Path, question: str) -> subprocess.CompletedProcess[str]:
    """Matplotlib keeps its fonts open: a process of its own."""
    (folder / "kernels.cl").write_text(SOURCE)
    words = ["explain", str(folder / "kernels.cl"), *shlex.split(question)]
    return subprocess.run(
        [sys.executable, "-m", "sdi.cli", *words], capture_output=True, text=True, check=False
    )


def test_figures_and_a_curve_come_with_sizes(tmp_path: Path) -> None:
    path = tmp_path / "speed.svg"
    found = plotted(tmp_path, f"{STENCIL} --formula --swap in=out --at n=8192 --plot {path}")
    assert (found.returncode, found.stderr) == (0, "")
    rows = [line.split() for line in found.stdout.splitlines()]
    begin = rows.index(["members", "first", "launch", "later", "launches"])
    by_members = {int(row[0]): tuple(map(float, row[1:])) for row in rows[begin + 1 :]}
    assert by_members[1] == (1.0, 1.0) and 1.9 < by_members[2][1] <= 2.0
    assert path.read_text().startswith("<?xml") and "stencil, predicted" in path.read_text()


def test_a_picture_of_an_unknown_kind_gets_one_line(tmp_path: Path) -> None:
    found = plotted(tmp_path, f"{STENCIL} --formula --at n=4096 --plot x.nothing")
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert found.stderr.startswith("sdi explain: --plot x.nothing: ")


def test_latex_is_printed(ask: Ask) -> None:
    status, out, _ = ask(f"{MM} --formula --latex")
    assert status == 0 and r"4 k n + \frac{4 k m}{N} bytes" in out


def test_rates_come_from_a_profile(ask: Ask, tmp_path: Path) -> None:
    members = [{"name": "a", "kind": "gpu"}, {"name": "b", "kind": "gpu"}]
    recorder = Recorder(tmp_path / "profile", {"application": 1, "members": members, "split": "always"})
    shape = recorder.shape(
        id=1,
        kernel="mm",
        num_groups=[16, 16, 1],
        local_size=[16, 16, 1],
        members=2,
        cut=[1, 2, 1],
        why_whole="",
        chunks=1,
        merged_nbytes=0,
        regions=0,
        reached_nbytes=0,
    )
    recorder.launched(1, "mm", shape, "", 1, 2, 0)
    for member in (0, 1):
        ticket = Ticket()
        recorder.assignment(1, 0, member, 128, ticket)
        ticket.complete(None, 1000, 1000 + 3 * 256**3)
    recorder.close(
        {"link_ns": [[0, 1, 0.5], [0, 2, 0.7], [1, 2, 0.25], [1, 0, 9]], "events": {}, "explained": {}}
    )
    assert (tmp_path / "profile" / f"service-{os.getpid()}.jsonl").exists()
    question = f"{MM} --at n=256 --at m=256 --at k=256 --profile {tmp_path / 'profile'}"
    rates = formulas(ask, question)["rates"]
    assert rates["host"] == {"ns": pytest.approx(0.6), "is_measured": True}
    assert rates["peer"] == {"ns": 0.25, "is_measured": True}
    # Both members together took six ns for each of 256^3 rounds of the loop, which has three accesses.
    assert rates["access"] == {"ns": pytest.approx(2.0, rel=0.1), "is_measured": True}
    assert rates["issue"]["is_measured"] is False
    elsewhere = formulas(ask, question.replace("256", "512"))["rates"]
    assert elsewhere["access"]["is_measured"] is False


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ("--kernel mm --formula", "--formula needs --global, such as --global n,n"),
        (f"{MM} --at n=5", "--at needs --formula"),
        (f"{MM} --formula --at n=5", "--at: the sizes are k, m, n"),
        (f"{MM} --formula --at n=x --at m=1 --at k=1", "--at x: expected a whole number"),
        (MM.replace("WA=k", "WA=N") + " --formula", "N is the number of members; give the size another name"),
        (f"{STENCIL} --formula --swap in=D", "--swap D: kernel stencil has out, in"),
        (f"{STENCIL} --formula --plot x.png", "--plot needs --at NAME=VALUE for each size"),
        (f"{STENCIL} --formula --profile /nowhere", "--profile: /nowhere: no profile here"),
        (STENCIL.replace("w=n", "w=n/7") + " --formula", "is no whole number"),
        (STENCIL.replace("w=n", "w=n+)") + " --formula", "--arg n+): not a formula of sizes"),
        ("--kernel mm --global 48,48 --arg WA=48 --arg WB=48 --formula", "can't be cut into equal parts"),
        ("--kernel ticket --global n --formula", "runs whole"),
    ],
)
def test_a_bad_question_gets_one_line(ask: Ask, question: str, why: str) -> None:
    status, out, err = ask(question)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sdi explain: ") and why in err
