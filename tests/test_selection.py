"""Queries for devices: what they select of made-up ones, in which order, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.condition import ConditionError
from sdi.selection import ATTRIBUTES, Facts, is_query, named_in, parse_selection

COLUMNS = ("kind", "name", "vendor", "platform", "driver", "memory", "units", "clock", "node", "host", "unit")
G = 1 << 30
DEVICES: list[Facts] = [
    dict(zip(COLUMNS, row, strict=True)) | {"number": number}
    for number, row in enumerate(
        [
            ("cpu", "Xeon 8480", "Intel", "Portable", "3.1+debian", 512 * G, 112, 3800, 0, "alpha", "cpu"),
            ("gpu", "H200", "NVIDIA", "CUDA", "570.86.15", 139 * G, 132, 1980, 0, "alpha", "pci 1"),
            ("gpu", "H200", "NVIDIA", "NVIDIA CUDA", "570.86.15", 139 * G, 132, 1980, 0, "alpha", "pci 1"),
            ("gpu", "L4", "NVIDIA", "CUDA", "570.86.15", 22 * G, 58, 2040, 0, "alpha", "pci 2"),
            ("cpu", "EPYC 9654", "AMD", "Portable", "3.1+debian", 768 * G, 192, 3700, 1, "beta", "cpu"),
            ("gpu", "Instinct MI300X", "AMD", "AMD APP", "3602.0", 192 * G, 304, 2100, 1, "beta", "pci 1"),
            ("gpu", "Instinct MI300X", "AMD", "AMD APP", "3602.0", 192 * G, 304, 2100, 3, "gamma", "pci 1"),
            ("gpu", "H200", "NVIDIA", "CUDA", "570.86.15", 139 * G, 132, 1980, 2, "beta", "pci 7"),
        ]
    )
]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("gpu", [1, 3, 5, 6, 7]),
        ("CPU", [0, 4]),
        ("gpu and memory > 40G and node != 3 order by memory desc top 4", [5, 1, 7]),
        ("gpu and memory > 40G order by memory desc top 2", [5, 6]),
        ("gpu order by memory, clock", [3, 1, 7, 5, 6]),
        ("order by units desc, node desc", [6, 5, 4, 7, 1, 0, 3]),
        ("order by name asc, node DESC TOP 3", [4, 7, 1]),
        ("TOP 2", [0, 1]),
        ("vendor == nvidia and name != l4", [1, 7]),
        ("platform ~ 'nvidia cuda'", [2]),
        ("name ~ instinct and host !~ gam", [5]),
        ("driver == 570.86.15 and node > 0 or cpu and units >= 1.5e2", [4, 7]),
        ("number == 3 or number == 0", [0, 3]),
        ("memory <= 22G", [3]),
        ('unit == "pci 1" and node == 0', [1]),
        ("gpu and cpu", []),
    ],
)
def test_a_query_selects_in_its_order_each_physical_device_once(text: str, numbers: list[int]) -> None:
    assert is_query(text)
    assert parse_selection(text).of(DEVICES) == numbers


@pytest.mark.parametrize(
    "text", ["0", "2,1", "1, h200", "NVIDIA H200", "Intel(R) Xeon(R)", "gpu,cpu", "memory"]
)
def test_numbers_and_parts_of_names_are_no_query(text: str) -> None:
    assert not is_query(text) and named_in(text) == []


def test_the_attributes_that_a_query_names_are_known() -> None:
    assert named_in("gpu and vendor ~ amd order by clock desc top 1") == ["kind", "vendor", "clock"]
    assert set(COLUMNS) | {"number"} == ATTRIBUTES.keys()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memry > 4G", "there is no attribute 'memry' (character 1); did you mean memory?"),
        ("gpu and colour == red", "there is no attribute 'colour' (character 9)"),
        ("gpu order by size", "there is no attribute 'size' (character 14)"),
        ("gpu memory > 4", "expected 'and', 'or', 'order' or 'top', not 'memory' (character 5)"),
        ("memory > lots", "expected a number after memory >, not 'lots' (character 10)"),
        ("memory ~ 4", "expected one of <= >= == != < > after memory, not '~' (character 8)"),
        ("name < H200", "expected one of == != ~ !~ after name, not '<' (character 6)"),
        ("name = H200", "expected one of == != ~ !~ after name, not '=' (character 6)"),
        ("name == 'H200", 'expected a text after name ==, not "\'" (character 9)'),
        ("name ==", "a text after name == is missing at the end"),
        ("gpu and", "a comparison (name, sign, value) is missing at the end"),
        ("order memory", "expected 'by' after order, not 'memory' (character 7)"),
        ("gpu top 0", "expected a number of devices after top, not '0' (character 9)"),
        ("gpu top 1.5", "expected a number of devices after top, not '1.5'"),
        ("gpu top", "a number of devices after top is missing at the end"),
        ("top 4 order by memory", "expected the end, not 'order' (character 7)"),
        ("order by memory down", "expected ',', 'top' or the end, not 'down' (character 17)"),
    ],
)
def test_what_is_no_query_is_one_line_that_points_at_it(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_selection(text)
    assert message in str(caught.value) and repr(text) in str(caught.value)


_WORDS = (
    "gpu",
    "cpu",
    "memory",
    "name",
    "and",
    "or",
    "order by",
    "top",
    "desc",
    ",",
    ">",
    "==",
    "~",
    "4G",
    "x",
    "'y'",
)


@given(st.text() | st.lists(st.sampled_from(_WORDS)).map(" ".join))
def test_any_text_is_a_query_or_an_error_of_one_line(text: str) -> None:
    found, said = [0], ""
    try:
        found = parse_selection(text).of(DEVICES)
    except ConditionError as error:
        said = str(error)
    assert len(said.splitlines()) <= 1 and len({*found}) == len(found)
    assert {*found} <= {*range(len(DEVICES))}
