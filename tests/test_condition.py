"""What is a condition over figures, and what is none: one line that points at what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.condition import ConditionError, Reader, parse_condition, read_condition


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("wall_ms > 12.5", [["wall_ms > 12.5"]]),
        ("a.b>=1e1 AND c != a.b", [["a.b >= 10", "c != a.b"]]),
        ("a < 1 and b > 2 or c <= 3", [["a < 1", "b > 2"], ["c <= 3"]]),
        ("a == 4K", [["a == 4096"]]),
    ],
)
def test_and_binds_closer_than_or(text: str, choices: list[list[str]]) -> None:
    assert [[str(one) for one in choice] for choice in parse_condition(text).choices] == choices


def test_a_condition_ends_where_its_reader_says() -> None:
    reader = Reader("a < 1 and b > 2 Top 4")
    condition = read_condition(reader, ("order", "top"))
    assert [str(one) for one in condition.comparisons] == ["a < 1", "b > 2"]
    assert reader.takes("top") and reader.take().number == 4 and reader.ahead is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is missing at the end"),
        ("wall_ms", "is missing at the end"),
        ("wall_ms > 1 or", "is missing at the end"),
        ("1 > wall_ms", "expected the name of a figure, not '1'"),
        ("wall_ms = 1", "expected one of <= >= == != < > after wall_ms, not '='"),
        ("wall_ms > -1", "expected a number or a name after >, not '-' (character 11)"),
        ("wall_ms > 1 xor split > 2", "expected 'and' or 'or', not 'xor' (character 13)"),
        ("__import__('os') > 1", "expected one of <= >="),
        ("wall_ms > 1.2.3", "expected a number or a name after >, not '1.2.3'"),
    ],
)
def test_what_is_no_condition_is_one_line(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)
    assert message in str(caught.value) and "\n" not in str(caught.value)


_WORDS = ("a", "b.c", "and", "or", "<", ">=", "~", "1", "2.5G", "1e9", "7.1.2", "'x", '"y"', "(", "\n", "é")


@given(st.text() | st.lists(st.sampled_from(_WORDS)).map(" ".join))
def test_any_text_is_a_condition_or_an_error_of_one_line(text: str) -> None:
    said = ""
    try:
        comparisons = parse_condition(text).comparisons
    except ConditionError as error:
        comparisons, said = (), str(error)
    assert bool(comparisons) != bool(said) and len(said.splitlines()) <= 1
