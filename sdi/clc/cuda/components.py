"""Which elements of a vector its components name."""

from __future__ import annotations

import functools

_LETTERS = {"x": 0, "y": 1, "z": 2, "w": 3, "r": 0, "g": 1, "b": 2, "a": 3}


@functools.lru_cache(1024)
def component_indices(name: str, count: int) -> tuple[int, ...] | None:
    """Elements that ``.name`` of a vector of ``count`` selects; None when it is no component name.

    The upper half of three elements has a fourth, undefined one: here it is the third again.
    Source: OpenCL C 3.0 specification, section 6.3.7.
    """
    even = 4 if count == 3 else count
    halves = {
        "lo": range(even // 2),
        "hi": range(even // 2, even),
        "even": range(0, even, 2),
        "odd": range(1, even, 2),
    }
    if name in halves:
        return tuple(min(index, count - 1) for index in halves[name])
    if name[0] in "sS" and len(name) > 1:
        try:
            found = tuple(int(digit, 16) for digit in name[1:])
        except ValueError:
            return None
    elif all(letter in _LETTERS for letter in name):
        found = tuple(_LETTERS[letter] for letter in name)
    else:
        return None
    return found if max(found) < count else None
