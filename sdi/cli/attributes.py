"""``sdi devices --attributes`` and ``--where``: what queries can ask of devices, and what they select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sdi.cli.counters import table
from sdi.dataclass import dataclass
from sdi.devices.kinds import MemberCandidate
from sdi.devices.selecting import attributes, select
from sdi.selection import ATTRIBUTES, named_in
from sdi.sizes import size

_ALWAYS = ("number", "node", "kind", "name", "memory", "units", "clock")


@dataclass(frozen=True, slots=True)
class DevicesAsked:
    """What ``sdi devices`` shows beside, or in place of, the image.

    ``measures``: rates of copies too.  ``where``: only what this selects, read as SDI_DEVICES is.
    ``attributes``: only what queries can ask.
    """

    measures: bool = False
    where: str | None = None
    attributes: bool = False


def listed(devices: Sequence[MemberCandidate], hosts: Mapping[int, str] | None = None) -> list[str]:
    """All attributes, each with its value for the first device.  ``hosts``: see ``attributes``."""
    known = attributes(devices, hosts)
    rows = [("attribute", "type", "unit", "for example", "what it is")]
    for name, each in ATTRIBUTES.items():
        example = _quoted(known[0][name]) if known else "-"
        rows.append((name, "text" if each.is_text else "number", each.unit or "-", example, each.meaning))
    return table(rows)


def _quoted(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def selected(
    devices: Sequence[MemberCandidate], text: str, hosts: Mapping[int, str] | None = None
) -> list[str]:
    """The devices that ``text`` selects, in its order, with the attributes that it names.

    Raises ClError and ConditionError: see ``select``.
    """
    known = dict(zip(map(id, devices), attributes(devices, hosts), strict=True))
    names = list(dict.fromkeys((*_ALWAYS, *named_in(text))))
    rows = [tuple(f"{name} {ATTRIBUTES[name].unit}" if name == "clock" else name for name in names)]
    for device in select(devices, text, hosts):
        facts = known[id(device)]
        rows.append(tuple(size(device.memory_nbytes) if n == "memory" else str(facts[n]) for n in names))
    return table(rows, right={k for k, name in enumerate(names) if not ATTRIBUTES[name].is_text})
