"""Floating-point numbers that all work-items have: what is followed, what isn't, and by which keys."""

from __future__ import annotations

import pickle
import struct
from random import Random

import numpy as np
import pytest

from sdi.ndrange import GroupBox, NDRange
from sdi.regions import RegionSet
from sdi.sampling import KernelAnalysis, Precision, analyse, parametric
from sdi.sampling.floats import INEXACT, is_exact
from sdi.sampling.parametric import Parametric, ParametricBound
from sdi.sampling.scalar_cases import argument_cases
from sdi.sampling.shaping import shaping_bits, shaping_scalars
from sdi.sampling.terms import TermOp
from tests.sampling.sources import kernels_of, tree_of

ONE = NDRange(1, (0, 0, 0), (64, 1, 1), (8, 1, 1))
WHOLE = GroupBox((0, 0, 0), (8, 1, 1))
NBYTES = 4096


def analysed(body: str, parameters: str = "float x, int n", options: tuple[str, ...] = ()) -> KernelAnalysis:
    tree = tree_of(f"kernel void k(global int *a, {parameters}) {{ int i = get_global_id(0); {body} }}")
    return analyse(tree, kernels_of(tree)["k"], options=options)


def f32(value: float) -> bytes:
    return struct.pack("<f", value)


def i32(value: int) -> bytes:
    return struct.pack("<i", value)


def written(analysis: KernelAnalysis, *scalars: bytes) -> tuple[RegionSet, Precision]:
    sizes = (NBYTES, *(None for _ in scalars))
    (found,) = analysis.bind(ONE, (None, *scalars), sizes).over(WHOLE)
    return found.writes, found.precision


def is_followed(analysis: KernelAnalysis) -> bool:
    """Whether what it touches depends on no data."""
    return not any(analysis.table.opaque[t] for a in analysis.accesses for t in (a.offset, *a.guards))


@pytest.mark.parametrize(
    "index",
    [
        "(int)x",
        "(int)(x * 2.0f - 1)",
        "(int)-x",
        "convert_int(x)",
        "(int)convert_float(n)",
        "(int)(n * 0.5)",
        "(int)ceil(n / 64.0f)",
        "(int)floor(fmax(x, 1.0f))",
        "(int)(float)(double)x",
        "(int)(get_global_size(0) * x)",
        "(int)(n > 3 ? x : x)",
        "(n > 3 ? (int)x : 2)",
        "(int)fabs(x)",
        "(int)pow(x, (float)n)",
    ],
)
def test_what_is_followed(index: str) -> None:
    assert is_followed(analysed(f"a[i + {index}] = 1;"))


@pytest.mark.parametrize(
    "index",
    [
        "as_int(x)",
        "(as_int(x) & 1)",
        "(int)as_float(n)",
        "(int)(i * x)",
        "(int)((float)a[0])",
        "(int)native_sqrt(x)",
        "(int)half_sqrt(x)",
        "(int)sin(x)",
        "(int)(bool)x",
        "convert_uchar_sat(x)",
        "convert_int_rtp(x)",
        "(x > 2.0f)",
        "(int)(n > 3 ? x : 2.0f)",
        "(int)((float2)(x, x)).x * 0 + as_int2((float2)(x, x)).y",
        "(int)(x" + " * 1.5f" * 40 + ")",
    ],
)
def test_what_is_not_followed(index: str) -> None:
    assert not is_followed(analysed(f"a[i + {index}] = 1;"))


@pytest.mark.parametrize("option", sorted(INEXACT))
def test_nothing_is_followed_where_results_may_be_far_off(option: str) -> None:
    assert not is_followed(analysed("a[i + (int)x] = 1;", options=("-cl-std=CL1.2", option)))
    assert is_followed(analysed("a[i + (int)x] = 1;", options=("-cl-std=CL1.2", "-cl-denorms-are-zero")))


def test_nothing_is_followed_where_the_text_loosens_it() -> None:
    assert is_exact("#pragma OPENCL FP_CONTRACT OFF\n", ())
    assert not is_exact("#pragma clang fp reassociate(on)\n", ())
    assert not is_exact("#pragma float_control(precise, off)\n", ())


def test_an_analysis_can_be_kept() -> None:
    analysis = analysed("a[i + (int)(x * 2.5f)] = 1;")
    assert pickle.loads(pickle.dumps(analysis)) == analysis


def test_constants_are_folded() -> None:
    analysis = analysed("a[i * (int)(2.5f * 2)] = 1;", "int n")
    assert not any(row.op is TermOp.FLOAT for row in analysis.table.rows)
    assert written(analysis, i32(0))[1] is Precision.EXACT


def test_two_launches_that_differ_in_a_float_alone_touch_different_bytes_and_have_different_keys() -> None:
    analysis = analysed("if (i < (int)(n * x)) a[i] = 1;")
    assert shaping_bits(analysis) == {1: (1 << 32) - 1, 2: (1 << 32) - 1}
    assert {argument for argument, _, _ in shaping_scalars(analysis)} == {1, 2}
    assert argument_cases([analysis], shaping_bits(analysis)) == {}
    for x, count in ((0.5, 20), (0.25, 10), (0.0, 0), (1.0, 40)):
        found, precision = written(analysis, f32(x), i32(40))
        assert precision is Precision.EXACT
        assert found.nbytes == 4 * count
    found, precision = written(analysis, f32(0.1), i32(40))  # 0.1f * 40 is 4, or a little less or more
    assert precision is Precision.COVER
    assert found.nbytes == 16


def test_what_an_error_leaves_open_has_bounds() -> None:
    analysis = analysed(
        "int k = (int)ceil((float)n / 8.0f); for (int j = 0; j < k; j++) a[i * 16 + j] = 1;", "int n"
    )
    for n, most, precision in ((20, 3, Precision.EXACT), (24, 4, Precision.COVER)):
        found = written(analysis, i32(n))
        assert found[1] is precision
        assert found[0].nbytes == 4 * most * 64
    analysis = analysed("a[i + (int)sqrt((float)n)] = 1;", "int n")
    assert written(analysis, i32(17))[1] is Precision.EXACT
    found = written(analysis, i32(16))
    assert found[1] is Precision.MAY
    (run,) = found[0].runs()
    assert (run.start, run.stop) == (4 * 3, 4 * (4 + 64))


def test_traces_answer_as_the_usual_way_whatever_the_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parametric, "TRACE_AFTER", 1)
    monkeypatch.setattr(parametric, "TRACES_MAX", 40)
    random, hits = Random(5), 0
    for body in (
        "if (i < (int)(n * x)) a[i] = 1;",
        "for (int j = 0; j < (int)ceil(x * 0.5f); j++) a[i * 8 + j + n] = 1;",
        "a[i * (int)(x * 2) + n] = 1;",
    ):
        analysis = analysed(body)
        quick = Parametric(analysis)
        for _ in range(150):
            x = random.choice((0.5, 1.0, 1.25, 3.0, 0.1, random.uniform(0, 4)))
            values = (None, f32(x), i32(random.randint(0, 40)))
            bound, usual = (each.bind(ONE, values, (NBYTES, None, None)) for each in (quick, analysis))
            assert isinstance(bound, ParametricBound)
            assert bound.over(WHOLE) == usual.over(WHOLE)
            assert bound.bounds(WHOLE) == usual.bounds(WHOLE)
            hits = max(hits, bound.shape.exact.hits)
    assert hits


@pytest.mark.parametrize("wide", [False, True])
def test_random_launches_write_what_numpy_says(wide: bool) -> None:
    """Sums and products are exact here, so the maps have to be."""
    random, kind = Random(7), "double" if wide else "float"
    analysis = analysed(f"int k = (int)(x * ({kind})n + 0.25f); if (i < k) a[i + k] = 1;", f"{kind} x, int n")
    for _ in range(100):
        x, n = random.randint(0, 64) / 16, random.randint(0, 20)
        k = int((np.float64 if wide else np.float32)(x * n + 0.25))
        found, precision = written(analysis, struct.pack("<d" if wide else "<f", x), i32(n))
        assert precision is Precision.EXACT
        assert found.nbytes == 4 * min(k, 64)
        assert not k or found.runs()[0].start == 4 * k
