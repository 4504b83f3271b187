"""What was learnt of a kernel's launches, as it is kept from run to run: a guess that measuring corrects."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Mapping
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

from sdi.dataclass import dataclass, field, replace
from sdi.ndrange import Int3
from sdi.partition.cost import Edges

SIZES_MAX, KERNELS_MAX = 64, 1024
"""Of one kernel, and kernels of one program, of which something is kept."""
_ASSIGNMENTS_MAX = 256
_GROUPS_BITS_MAX = 3 * 64
_RUNS_MAX = 8
"""After so many runs that took the times of other ways on trust, these are found out anew."""
_LASTING = 16
"""What so many launches have shown says enough: kernels change their ways."""
_LONGEST_NS = 1e15
_COUNT_MAX = 1 << 53
_TEXT_MAX = 4096
_KEYS = ("program", "members", "launches", "attempts")

SizeKey: TypeAlias = tuple[int, int]
"""Dimensions, bits of the number of work-groups."""
Book: TypeAlias = dict[str, dict[SizeKey, "Learnt"]]
"""By kernel and size: what is kept of one program's launches."""
MemberName: TypeAlias = tuple[str, str, str, int]
"""Kind, name, driver, node."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """Of launches of a kernel of about one size.

    ``group_ns``: time per work-group by number of assignments.  ``shape``, ``assignments``: the chosen cut's.
    ``edges``: where slabs are cut, by shape, where not into equal parts.  ``runs``: in a row that measured
    no other way than the chosen one.  Raises ValueError for what can't be.
    """

    group_ns: Mapping[int, float]
    shape: Int3
    assignments: int
    edges: Mapping[Int3, Edges]
    runs: int = 0

    def __post_init__(self) -> None:
        for assignments, ns in self.group_ns.items():
            _require(1 <= assignments <= _ASSIGNMENTS_MAX and 0 < ns < _LONGEST_NS)
        _require(1 <= self.assignments <= _ASSIGNMENTS_MAX and self.runs >= 0)
        _require(self.shape == (0, 0, 0) or math.prod(_shape(self.shape)) == self.assignments)
        for shape, edges in self.edges.items():
            parts = max(_shape(shape))
            _require(math.prod(shape) == parts > 1 and len(edges) == parts + 1)
            _require(edges[0] == 0.0 and edges[-1] == 1.0)
            _require(all(a < b for a, b in pairwise(edges)))

    def trusted(self) -> dict[int, float]:
        """The times that may be taken as a guess."""
        if self.runs < _RUNS_MAX:
            return dict(self.group_ns)
        return {k: ns for k, ns in self.group_ns.items() if k == self.assignments}


@dataclass(slots=True)
class Attempts:
    """Launches that members began without knowing whether the result would be one of a single device.

    ``stood``, ``undone``: how many it was, and how many had to run again, one member after the other.
    ``runs``: of the program in a row that began with more lost than gained.  ``kept``, ``lost``: of ``stood``
    and ``undone`` what still counts, as for the last ``_LASTING`` that stood.
    """

    stood: int = 0
    undone: int = 0
    runs: int = 0
    kept: float = field(default=0.0, init=False, compare=False)
    lost: float = field(default=0.0, init=False, compare=False)

    def __post_init__(self) -> None:
        self.kept, self.lost = float(self.stood), float(self.undone)
        self._fade()

    def _fade(self) -> None:
        if self.kept > _LASTING:
            self.kept, self.lost = float(_LASTING), self.lost * _LASTING / self.kept

    def stands(self, launches: int = 1) -> None:
        """So many more did."""
        self.stood += launches
        self.kept += launches
        self._fade()

    def is_undone(self) -> None:
        """One more had to run again."""
        self.undone += 1
        self.lost += 1

    def why_not(self, members: int) -> str:
        """Why more of them would lose time; empty where they would not.

        What stands saves the work of all members but one, and what is undone costs one member's.
        """
        if self.lost <= self.kept * (members - 1):
            return ""
        return f"of {self.stood + self.undone} launches that were split {self.undone} had to run again"

    def begun(self, members: int) -> Attempts:
        """What the next run of the program begins with: now and then it is found out anew."""
        if not self.why_not(members):
            return Attempts(self.stood, self.undone)
        return Attempts(self.stood, self.undone, self.runs + 1) if self.runs < _RUNS_MAX else Attempts()


@dataclass(frozen=True, slots=True)
class LearntProgram:
    """All that is kept of one program on an image of some members.

    ``name``: of its source, options and members, 64 hexadecimal digits.  ``members``: what each is.
    ``attempts``: by kernel.  ``written_s``: when, in seconds since 1970; equal ones may differ in that.
    """

    name: str
    members: tuple[MemberName, ...]
    launches: Book = field(default_factory=dict)
    attempts: Mapping[str, Attempts] = field(default_factory=dict)
    written_s: int = field(default=0, compare=False)

    def over(self, other: LearntProgram) -> LearntProgram:
        """What this one says, and what only the other one does; this one's first."""
        launches = {
            kernel: found | _without(other.launches.get(kernel, {}), found)
            for kernel, found in self.launches.items()
        }
        return replace(
            self,
            launches=launches | _without(other.launches, launches),
            attempts={**self.attempts, **_without(other.attempts, self.attempts)},
        )


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _without(found: Mapping[_Key, _Value], others: Container[_Key]) -> dict[_Key, _Value]:
    return {key: value for key, value in found.items() if key not in others}


def as_json(found: LearntProgram) -> dict[str, Any]:
    """As numbers, texts, lists and dictionaries; of more kernels or sizes than that the first ones."""
    return {
        "program": found.name,
        "members": found.members,
        "written_s": found.written_s,
        "launches": {
            kernel: [
                [
                    *size,
                    {str(assignments): ns for assignments, ns in one.group_ns.items()},
                    one.shape,
                    one.assignments,
                    [[shape, edges] for shape, edges in one.edges.items()],
                    one.runs,
                ]
                for size, one in list(sizes.items())[:SIZES_MAX]
            ]
            for kernel, sizes in list(found.launches.items())[:KERNELS_MAX]
        },
        "attempts": {
            kernel: [each.stood, each.undone, each.runs]
            for kernel, each in list(found.attempts.items())[:KERNELS_MAX]
        },
    }


def from_json(found: Mapping[str, Any]) -> LearntProgram:
    """What ``as_json`` gave.  Raises ValueError for anything else, whatever it is."""
    try:
        name, members, launches, attempts = (found[key] for key in _KEYS)
        _require(isinstance(name, str) and re.fullmatch("[0-9a-f]{64}", name) is not None)
        return LearntProgram(
            name,
            tuple([(_text(k), _text(n), _text(d), _count(node)) for k, n, d, node in members]),
            {
                _text(kernel): dict(_entry(*entry) for entry in entries[:SIZES_MAX])
                for kernel, entries in list(launches.items())[:KERNELS_MAX]
            },
            {
                _text(kernel): Attempts(*map(_count, each))
                for kernel, each in list(attempts.items())[:KERNELS_MAX]
            },
            _count(found["written_s"]),
        )
    except (TypeError, AttributeError, KeyError, OverflowError) as error:
        raise ValueError("nothing that can have been learnt") from error


def packed(found: LearntProgram) -> bytes:
    """As bytes, for a file."""
    return json.dumps(as_json(found)).encode()


def unpacked(data: bytes) -> LearntProgram | None:
    """What was packed; None where the bytes are nothing of the kind."""
    try:
        return from_json(json.loads(data))
    except (ValueError, RecursionError):
        return None


def _count(found: object) -> int:
    number = _int(found)
    _require(0 <= number <= _COUNT_MAX)
    return number


def _text(found: object) -> str:
    _require(isinstance(found, str) and len(found) <= _TEXT_MAX and found.isprintable())
    return str(found)


def _entry(
    dims: object,
    bits: object,
    group_ns: Mapping[str, object],
    shape: list[object],
    assignments: object,
    edges: list[list[list[object]]],
    runs: object,
) -> tuple[SizeKey, Learnt]:
    size = _int(dims), _int(bits)
    _require(1 <= size[0] <= 3 and 0 <= size[1] <= _GROUPS_BITS_MAX)
    return size, Learnt(
        {int(number): _float(ns) for number, ns in group_ns.items()},
        _triple(shape),
        _int(assignments),
        {_triple(of): tuple([_float(edge) for edge in at]) for of, at in edges},
        _count(runs),
    )


def _triple(found: list[object]) -> Int3:
    x, y, z = (_int(each) for each in found)
    return x, y, z


def _shape(shape: Int3) -> Int3:
    _require(all(1 <= parts <= _ASSIGNMENTS_MAX for parts in shape))
    return shape


def _int(found: object) -> int:
    if not isinstance(found, int):
        raise ValueError(found)
    return found


def _float(found: object) -> float:
    if not isinstance(found, int | float) or not math.isfinite(found):
        raise ValueError(found)
    return float(found)


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("nothing that can have been learnt")
