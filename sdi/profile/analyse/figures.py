"""The figures of a profile by name, for comparing profiles and for conditions (``sdi profile --fail-if``).

Names: ``wall_ms``; for each class of ``losses.py`` ``CLASS_ms`` and ``CLASS_percent`` (of the wall time);
``calls``, ``failed_calls``, ``commands``, ``failed_commands``, ``launches``, ``split``, ``whole``,
``replays``, ``new_plans``, ``plan_ms``, ``merge_ms``, ``copies``, ``moved_bytes``, ``host_to_device_bytes``,
``device_to_host_bytes``, ``peer_bytes``, ``host_staged_bytes``, ``network_bytes``; and for each kernel
``kernel.NAME.`` with ``ms``, ``launches``, ``split``, ``whole``, ``failed``, ``imbalance_percent``,
``replays``, ``new_plans``, ``plan_ms``, ``issue_ms``, ``moved_bytes``, ``merge_ms`` and, where it ran both
split and whole, ``speed_up``.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from sdi.condition import NUMBER_SIGNS, Condition, ConditionError, Lexeme, ValueComparison
from sdi.profile.analyse.classes import CLASSES
from sdi.profile.analyse.tables import KernelRow, Tables

_LINKS = ("host to device", "device to host", "peer", "host-staged", "network")


def figures(tables: Tables) -> dict[str, float]:
    """All figures, by name."""
    found: dict[str, float] = {"wall_ms": tables.wall_ns / 1e6}
    for name in CLASSES:
        found[f"{name}_ms"] = tables.lost_ns(name) / 1e6
        found[f"{name}_percent"] = 100 * tables.lost_ns(name) / max(1, tables.wall_ns)
    found |= {
        "calls": sum(row.calls for row in tables.calls),
        "failed_calls": sum(row.failed for row in tables.calls),
        "commands": sum(row.calls for row in tables.commands),
        "failed_commands": sum(row.failed for row in tables.commands),
        "launches": sum(row.launches for row in tables.kernels),
        "split": sum(row.split for row in tables.kernels),
        "whole": sum(row.whole for row in tables.kernels),
        "replays": sum(row.replays for row in tables.kernels),
        "new_plans": sum(row.new_plans for row in tables.kernels),
        "plan_ms": sum(row.bind_ns for row in tables.kernels) / 1e6,
        "merge_ms": sum(row.merge_ns for row in tables.kernels) / 1e6,
        "copies": sum(row.copies for row in tables.links),
        "moved_bytes": sum(row.nbytes for row in tables.links),
    }
    for kind in _LINKS:
        name = kind.replace(" ", "_").replace("-", "_")
        found[f"{name}_bytes"] = sum(row.nbytes for row in tables.links if row.kind == kind)
    for row in tables.kernels:
        found |= {f"kernel.{row.name}.{name}": value for name, value in _of_kernel(row).items()}
    return found


def _of_kernel(row: KernelRow) -> dict[str, float]:
    found: dict[str, float] = {
        "ms": row.ns / 1e6,
        "launches": row.launches,
        "split": row.split,
        "whole": row.whole,
        "failed": row.failed,
        "imbalance_percent": row.imbalance_percent,
        "replays": row.replays,
        "new_plans": row.new_plans,
        "plan_ms": row.bind_ns / 1e6,
        "issue_ms": row.issue_ns / 1e6,
        "moved_bytes": row.moved_nbytes,
        "merge_ms": row.merge_ns / 1e6,
    }
    if row.speed_up is not None:
        found["speed_up"] = row.speed_up
    return found


def fulfilled(condition: Condition, figures: Mapping[str, float]) -> tuple[ValueComparison, ...]:
    """The comparisons that make it true; empty when it is not.

    Raises ConditionError where it names a figure that there is not, also where that would not matter.
    """

    def value(token: Lexeme) -> float:
        if token.kind == "number":
            return token.number
        if token.text not in figures:
            near = get_close_matches(token.text, figures, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ConditionError(f"there is no figure {token.text!r}{hint}")
        return figures[token.text]

    for one in condition.comparisons:
        value(one.left), value(one.right)
    return condition.holds(lambda one: NUMBER_SIGNS[one.sign.text](value(one.left), value(one.right)))


def compared(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    """The figures of two profiles: ``a.NAME``, ``b.NAME``, and ``ratio.NAME`` (b / a) where a is not 0."""
    found = {f"a.{name}": value for name, value in first.items()}
    found |= {f"b.{name}": value for name, value in second.items()}
    found |= {
        f"ratio.{name}": second[name] / value for name, value in first.items() if value and name in second
    }
    return found


def comparison_text(first: Mapping[str, float], second: Mapping[str, float]) -> str:
    """A line for each figure that is not 0 in both."""
    rows = [("figure", "A", "B", "B / A")]
    for name in dict.fromkeys((*first, *second)):
        a, b = first.get(name), second.get(name)
        if a or b:
            ratio = f"{b / a:.3f}" if a and b is not None else "-"
            rows.append((name, _shown(a), _shown(b), ratio))
    widths = [max(len(row[k]) for row in rows) for k in range(4)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(row[k].rjust(widths[k]) for k in (1, 2, 3))]) for row in rows
    )


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(round(value)) if float(value).is_integer() else f"{value:.3f}"
