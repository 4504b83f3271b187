"""Values of a scalar that are one case give the same ranges; loops over steps have few cases."""

from __future__ import annotations

import struct
from random import Random

import pytest

from sdi.ndrange import GroupBox, NDRange
from sdi.sampling import KernelAnalysis, analyse
from sdi.sampling.scalar_cases import ArgumentCases, ScalarCase, argument_cases
from sdi.sampling.shaping import shaping_bits
from tests.sampling.sources import kernels_of, tree_of

NBYTES = 1 << 16
EVERY = (1 << 64) - 1
FORMATS = {"int": "<i", "uint": "<I", "long": "<q", "ulong": "<Q"}


def analysed(body: str, type_name: str = "int") -> KernelAnalysis:
    source = f"""kernel void k(global int *a, global int *b, {type_name} t, uint n)
    {{ size_t i = get_global_id(0); {body} }}"""
    tree = tree_of(source)
    return analyse(tree, kernels_of(tree)["k"])


def cases_of(body: str, type_name: str = "int") -> ArgumentCases | None:
    """Of ``t``, whether or not few of its bits count."""
    return argument_cases([analysed(body, type_name)], dict.fromkeys(range(4), EVERY)).get(2)


def number_of(cases: ArgumentCases, values: range) -> int:
    """How many cases some ints are."""
    return len({cases.of(struct.pack("<i", value)) for value in values})


@pytest.mark.parametrize(
    ("body", "number"),
    [
        ("a[i + (t % 2) * 64] = b[i];", 2),
        ("a[i + (t & 1) * 64] = b[i];", 2),
        ("a[i + ((t + 1) % 3) * 64] = b[i + (t % 3) * 64];", 3),
        ("a[i + (t / 2 % 2) * 64] = 1;", 100),  # C divides towards zero: not followed
        ("a[i + ((t >> 1) & 1) * 64] = 1;", 4),
        ("if (t == 0) a[i] = 0; else b[i] = 1;", 2),
        ("if (t < 10 && i > 5) a[i] = 0;", 2),
        ("if (t > 10) a[i] = 0;", 2),
        ("if (10 - t > 3 && t >= 0) a[i] = 0;", 2),
        ("if (t % 4 == 0) a[i] = b[i];", 4),
        ("for (int k = 0; k < (t & 3); ++k) a[i + k * 64] = 1;", 4),
    ],
)
def test_step_counters_have_few_cases(body: str, number: int) -> None:
    cases = cases_of(body)
    assert (100 if cases is None else number_of(cases, range(100))) == number


@pytest.mark.parametrize(
    "body", ["a[i + t] = 1;", "if (t < n) a[i] = 1;", "a[i + t % 2 * t] = 1;", "a[i + t % n] = 1;"]
)
def test_all_that_shapes_ranges_counts(body: str) -> None:
    assert cases_of(body) is None


def test_few_bits_need_no_cases() -> None:
    for body, has_cases in (("a[i + (t & 3) * 64] = b[i];", False), ("a[i + (t % 3) * 64] = b[i];", True)):
        analysis = analysed(body)
        assert (2 in argument_cases([analysis], shaping_bits(analysis))) == has_cases


def test_scalars_of_a_structure_have_cases_each() -> None:
    source = """typedef struct { float dt; int t; int n; } P;
    kernel void k(global float *a, P p) { a[get_global_id(0) + (p.t % 3) * 64 + p.n] = p.dt; }"""
    tree = tree_of(source)
    analysis = analyse(tree, kernels_of(tree)["k"])
    shaping = shaping_bits(analysis)
    (cases,) = argument_cases([analysis], shaping).values()
    assert shaping[1] & ~cases.bits == 0xFFFFFFFF << 64 and cases.bits == 0xFFFFFFFF << 32

    def of(dt: float, t: int, n: int) -> tuple[bytes | ScalarCase, ...]:
        return cases.of(struct.pack("<fii", dt, t, n))

    assert of(1.0, 2, 3) == of(2.0, 5, 4) != of(1.0, 3, 3)
    tests = cases.tests(struct.pack("<fii", 0.5, 7, 9))
    assert tests is not None and [(each.offset, each.modulus, each.residue) for each in tests] == [(4, 3, 1)]


def random_term(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice(["t", "t", "t", str(random.choice([0, 1, 2, 3, 5, 8, 100]))])
    inner, other = random_term(random, depth - 1), random_term(random, 0)
    number = random.choice([1, 2, 3, 4, 5, 7, 8, 16])
    return random.choice(
        [
            f"({inner} + {number})",
            f"({inner} - {number})",
            f"(-{inner})",
            f"({inner} * {number})",
            f"({inner} % {number})",
            f"({inner} & {number})",
            f"({inner} >> {random.randrange(4)})",
            f"({inner} / {number})",
            f"({inner} < {other})",
            f"({inner} == {other})",
            f"({inner} ? {other} : {number})",
            f"((uint){inner})",
            f"((ulong){inner})",
            f"((short){inner})",
            f"((int){inner})",
            f"min({inner}, {inner})",
        ]
    )


EDGES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 99, 100, 101, 255, 256, 32767, 32768, 65535, 65536]


def values_of(random: Random, type_name: str) -> list[int]:
    """Many are next to where something could change."""
    bits, signed = (32 if type_name.endswith("int") else 64), not type_name.startswith("u")
    lo, hi = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    near = [
        *EDGES,
        *(-each for each in EDGES),
        lo,
        lo + 1,
        lo + 2,
        hi,
        hi - 1,
        hi - 2,
        1 << 31,
        (1 << 31) - 1,
    ]
    near += [(1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63]
    near += [random.randint(lo, hi) for _ in range(30)] + [random.randint(-40, 40) for _ in range(10)]
    return sorted({each for each in near if lo <= each <= hi})


@pytest.mark.parametrize("seed", range(6))
def test_values_of_one_case_have_the_same_ranges(seed: int) -> None:
    random = Random(f"scalar cases {seed}")
    ndrange = NDRange(1, (0, 0, 0), (256, 1, 1), (16, 1, 1))
    boxes = [GroupBox((0, 0, 0), (16, 1, 1)), GroupBox((3, 0, 0), (9, 1, 1))]
    compared = with_cases = 0
    while with_cases < 12:
        type_name = random.choice(list(FORMATS))
        first, second = (random_term(random, random.randint(1, 3)) for _ in range(2))
        body = random.choice(
            [
                f"a[i + ((uint){first} & 255) * 16] = b[i];",
                f"if ({first}) a[i] = b[i + ((uint){second} % 64)];",
                f"if (i > ({first} & 63)) a[i] = 1; else b[i] = {second} > 3;",
                f"for (int k = 0; k < ({first} & 7); ++k) a[i + k * 256] = b[k];",
                f"(({first}) ? a : b)[i] = 1;",
            ]
        )
        analysis = analysed(body, type_name)
        cases = argument_cases([analysis], {2: EVERY, 3: EVERY}).get(2)
        if cases is None:
            continue
        with_cases += 1
        answers: dict[object, tuple[int, object]] = {}
        for value in values_of(random, type_name):
            data = struct.pack(FORMATS[type_name], value)
            case = cases.of(data)
            tests = cases.tests(data)
            if tests is not None:
                (test,) = tests
                assert test.lo <= value <= test.hi and value % test.modulus == test.residue
            bound = analysis.bind(
                ndrange, (None, None, data, struct.pack("<I", 7)), (NBYTES, NBYTES, None, None)
            )
            answer = [(bound.over(box), bound.bounds(box)) for box in boxes]
            before = answers.setdefault(case, (value, answer))
            compared += before[0] != value
            assert before[1] == answer, f"{type_name} {body}: {before[0]} and {value} are {case}"
    assert compared > 100
