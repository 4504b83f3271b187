"""Classes made by sdi's ``dataclass`` are as the standard library's, but for what is said."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from sdi.dataclass import dataclass, field, replace


def _made(maker: Callable[..., Any]) -> list[type]:
    @maker(frozen=True, slots=True)
    class Two:
        """Text."""

        a: int
        b: tuple[int, ...] = ()

        @property
        def total(self) -> int:
            return self.a + sum(self.b)

    @maker(frozen=True, slots=True)
    class One:
        a: object

    @maker(frozen=True, slots=True)
    class Empty:
        pass

    @maker(frozen=True, slots=True)
    class More(Two):  # type: ignore[misc, valid-type]
        c: int = field(default=7, compare=False)
        d: list[int] = field(default_factory=list, repr=False, compare=False)

    @maker(slots=True)
    class Open:
        a: int
        b: int = field(init=False)

        def __post_init__(self) -> None:
            self.b = 2 * self.a

    @maker(slots=True, eq=False)
    class Apart:
        a: int

    @maker(frozen=True, slots=True)
    class Own:
        a: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

        def __repr__(self) -> str:
            return "own"

    @maker(frozen=True, slots=True, order=True)
    class Ordered:
        a: int
        b: int

    return [Two, One, Empty, More, Open, Apart, Own, Ordered]


KINDS = list(zip(_made(dataclass), _made(dataclasses.dataclass), strict=True))
GIVEN: dict[str, list[tuple[object, ...]]] = {
    "Two": [(1,), (1, (2,)), (2, (1,))],
    "One": [(1,), (float("nan"),), ((1,),)],
    "Empty": [()],
    "More": [(1,), (1, (2,), 3), (1, (2,), 4, [5])],
    "Open": [(1,), (2,)],
    "Apart": [(1,), (1,)],
    "Own": [(1,), (2,)],
    "Ordered": [(1, 2), (2, 1)],
}


@pytest.mark.parametrize(("ours", "theirs"), KINDS, ids=[kind.__name__ for kind, _ in KINDS])
def test_objects_are_as_those_of_the_standard_library(ours: type, theirs: type) -> None:
    given = GIVEN[ours.__name__]
    mine, other = ([kind(*each) for each in given] for kind in (ours, theirs))
    assert [*map(repr, mine)] == [*map(repr, other)]
    assert [[a == b for b in mine] for a in mine] == [[a == b for b in other] for a in other]
    assert all(a != b or a is b or ours.__name__ == "Own" for a in mine for b in other)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    for a, b in zip(mine, other, strict=True):
        if ours.__hash__ is not None:
            assert all(hash(a) == hash(each) for each in mine if each == a)
        assert inspect.signature(ours) == inspect.signature(theirs)
        assert vars(ours).get("__match_args__") == vars(theirs).get("__match_args__")
        assert dataclasses.asdict(a) == dataclasses.asdict(b)
        assert [each.name for each in dataclasses.fields(a)] == [each.name for each in dataclasses.fields(b)]
        assert repr(copy.copy(a)) == repr(a) and repr(copy.deepcopy(a)) == repr(a)
        assert not hasattr(a, "__dict__")
    with pytest.raises(TypeError):
        ours(*range(9))


def test_one_field_may_be_what_is_not_equal_to_itself() -> None:
    one = KINDS[1][0]
    value = float("nan")
    assert one(value) == one(value)


def test_what_is_ordered_is_so() -> None:
    ordered = KINDS[7][0]
    assert ordered(1, 2) < ordered(2, 1) and hash(ordered(1, 2)) == hash(ordered(1, 2))


def test_a_copy_with_other_fields_leaves_the_first_as_it_was() -> None:
    two = KINDS[0][0](1, (2,))
    assert replace(two, a=5).total == 7 and two.total == 3


@dataclass(frozen=True, slots=True)
class Pickled:
    """At the top of a module, where pickling finds it."""

    a: int
    b: Pickled | None = None


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_objects_are_pickled(protocol: int) -> None:
    given = Pickled(1, Pickled(2))
    found = pickle.loads(pickle.dumps(given, protocol))
    assert found == given and hash(found) == hash(given) and found.b is not given.b
