"""``dataclass`` as in the standard library, for classes that take a third of the time to import and to make.

The library compiles ``__init__``, ``__repr__``, ``__eq__``, ``__hash__``, ``__setattr__``, ``__delattr__`` of
each class at every import; here it compiles the first of them.  That nobody assigns to what is frozen mypy
checks, so ``__init__`` assigns as in any class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, field, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        *,
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
        **given: bool,
    ) -> type | Callable[[type], type]:
        """Like ``dataclasses.dataclass``, but what is frozen is not so at run time."""
        if cls is None:
            return lambda cls: dataclass(cls, eq=eq, frozen=frozen, slots=slots, **given)
        if given:  # order and the like
            return dataclasses.dataclass(eq=eq, frozen=frozen, slots=slots, **given)(cls)
        own = vars(cls)
        made = dataclasses.dataclass(repr=False, eq=False, slots=slots)(cls)
        known = dataclasses.fields(made)
        if "__repr__" not in own:
            made.__repr__ = _repr([each.name for each in known if each.repr])
        if eq and "__eq__" not in own:
            values = _values([each.name for each in known if each.compare])
            made.__eq__ = _eq(values)
            if "__hash__" not in own:
                made.__hash__ = _hash(values) if frozen else None
        if slots and frozen and "__getstate__" not in own:
            made.__getstate__, made.__setstate__ = _states([each.name for each in known])
        return made


__all__ = ["asdict", "astuple", "dataclass", "field", "fields", "replace"]
Values = Callable[[object], tuple[object, ...]]


def _values(names: Sequence[str]) -> Values:
    """These attributes of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda this: tuple([getattr(this, name) for name in names])


def _states(names: Sequence[str]) -> tuple[Values, Callable[[object, Sequence[object]], None]]:
    """What is pickled, and back."""
    values = _values(names)

    def state(this: object) -> tuple[object, ...]:
        return values(this)

    def set_state(this: object, state: Sequence[object]) -> None:
        for name, value in zip(names, state, strict=True):
            setattr(this, name, value)

    return state, set_state


def _repr(names: Sequence[str]) -> Callable[[object], str]:
    def represent(this: object) -> str:
        shown = ", ".join([f"{name}={getattr(this, name)!r}" for name in names])
        return f"{type(this).__qualname__}({shown})"

    return represent


def _eq(values: Values) -> Callable[[object, object], object]:
    def equal(this: object, other: object) -> object:
        if other.__class__ is not this.__class__:
            return NotImplemented
        return values(this) == values(other)

    return equal


def _hash(values: Values) -> Callable[[object], int]:
    return lambda this: hash(values(this))
