"""What members of a machine cost: of a file, of the package's own (``rates.toml``), or of a profile."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

from sdi.dataclass import dataclass, fields, replace
from sdi.devices.capabilities import MemberKind, kind_named
from sdi.profile.analyse.model import HOST, SessionProfile

_GPUS, _CPUS = "pcie", "cpu"
"""Of members of which no table is told."""
_FEW = 3
"""Of fewer no figure is taken."""
_LEAST = 1e-6
"""GB/s: what is slower is nothing to predict with."""


class RatesError(ValueError):
    """No rates of that name, or a file that has none; the text is one line."""


@dataclass(frozen=True, slots=True)
class MachineCosts:
    """Costs of copies, launches and merges.  GB/s: 10^9 bytes a second.

    ``names``: a part of the names of members that are meant.  ``host_to_all_gb_per_s``: to all members of a
    machine together.  ``launch_us``, ``copy_us``: that the service takes to issue an operation which it
    knows; ``start_us``: until it begins.  ``fill_items``: work-items on a compute unit with which a kernel
    is as fast as it gets; fewer take as long.  ``node_launch_us``: of a launch of which other machines have
    parts.
    """

    title: str
    names: str
    members_per_node: int
    host_to_member_gb_per_s: float
    member_to_host_gb_per_s: float
    host_to_all_gb_per_s: float
    all_to_host_gb_per_s: float
    between_members_gb_per_s: float
    compare_gb_per_s: float
    copy_latency_us: float
    launch_us: float
    copy_us: float
    start_us: float
    fill_items: int
    network_gb_per_s: float
    network_latency_us: float
    node_launch_us: float

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
                raise RatesError(f"{name} = {value!r}: expected a number")
            if value < _LEAST and not name.endswith("_us"):
                raise RatesError(f"{name} = {value!r}: expected more than that")
        if not isinstance(self.members_per_node, int):
            raise RatesError(f"members_per_node = {self.members_per_node!r}: expected a whole number")

    def kind(self, of: str) -> MemberKind:
        """Members of a kind with these costs, for sdi's own choices."""
        kind = kind_named(of)
        issue_ns = 1e3 * (self.launch_us + self.start_us)
        return replace(
            kind,
            assignment_ns=kind.assignment_ns if kind.is_host_processor else issue_ns,
            host_ns_per_byte=1 / self.host_to_member_gb_per_s,
            peer_ns_per_byte=1 / self.between_members_gb_per_s,
            host_share=min(1.0, self.host_to_member_gb_per_s / self.host_to_all_gb_per_s),
        )


_NUMBERS = tuple(field.name for field in fields(MachineCosts) if field.name not in ("title", "names"))


def given() -> dict[str, MachineCosts]:
    """The package's own, by name."""
    text = files("sdi.predict").joinpath("rates.toml").read_text(encoding="utf-8")
    return {name: _made(each, name) for name, each in tomllib.loads(text).items()}


def named(name: str) -> MachineCosts:
    """The package's own of that name, or those of a file.  Raises RatesError."""
    known = given()
    if name in known:
        return known[name]
    path = Path(name)
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RatesError(f"{name}: no such file, and none of {', '.join(known)}") from error
    except OSError as error:
        raise RatesError(f"{name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RatesError(f"{name}: not a file of text") from error
    except tomllib.TOMLDecodeError as error:
        raise RatesError(f"{name}: {error}") from error
    if len(tables) != 1:
        raise RatesError(f"{name}: expected one table, found {len(tables)}")
    ((table, content),) = tables.items()
    return _made(content, f"{name}, [{table}]")


def _made(content: Any, where: str) -> MachineCosts:  # noqa: ANN401
    if not isinstance(content, dict):
        raise RatesError(f"{where}: expected a table")
    missing = [field.name for field in fields(MachineCosts) if field.name not in content]
    unknown = [name for name in content if name not in {field.name for field in fields(MachineCosts)}]
    if missing or unknown:
        wrong = [*[f"no {name}" for name in missing], *[f"unknown {name}" for name in unknown]]
        raise RatesError(f"{where}: {', '.join(wrong)}")
    try:
        return MachineCosts(**content)
    except RatesError as error:
        raise RatesError(f"{where}: {error}") from error


@dataclass(frozen=True, slots=True)
class MeasuredCosts:
    """``measured``: the names of the figures that a profile has; the others are those of ``base``."""

    costs: MachineCosts
    measured: Mapping[str, str]
    base: str


def of_profile(session: SessionProfile) -> MeasuredCosts:
    """The costs of the machine that a profile is of, as far as it has them."""
    known = given()
    member = session.members[0]
    base = next((n for n, each in known.items() if each.names and each.names in member.name), "")
    base = _CPUS if kind_named(member.kind).is_host_processor else base or _GPUS
    rates = _links(session) | _issuing(session)
    values: dict[str, Any] = {name: value for name, (value, _) in rates.items()}
    costs = replace(known[base], title=member.name, **values)
    return MeasuredCosts(
        replace(
            costs,
            host_to_all_gb_per_s=max(costs.host_to_all_gb_per_s, costs.host_to_member_gb_per_s),
            all_to_host_gb_per_s=max(costs.all_to_host_gb_per_s, costs.member_to_host_gb_per_s),
        ),
        {name: of for name, (_, of) in rates.items()},
        base,
    )


def _links(session: SessionProfile) -> dict[str, tuple[float, str]]:
    """GB/s where copies were long and many enough to tell, and what of.

    What all members get at once is no less than what one gets.
    """
    ends: dict[str, list[float]] = {}
    for (source, target), ns_per_byte in session.link_ns.items():
        name = "between_members" if HOST not in (source, target) else "host_to_member"
        ends.setdefault("member_to_host" if target == HOST else name, []).append(1 / ns_per_byte)
    return {f"{name}_gb_per_s": (fmean(each), "links of the profile") for name, each in ends.items()}


def _issuing(session: SessionProfile) -> dict[str, tuple[float, str]]:
    """Time of the service for a launch that it knew, on one member, and until that began."""
    if len(session.members) != 1:
        return {}
    replays = {launch.command: launch for launch in session.launches if launch.known == "replay"}
    took = [launch.issued_ns - launch.begin_ns for launch in replays.values()]
    waited, free_ns = [], 0
    for span in sorted(session.assignments, key=lambda each: each.start_ns):
        launch = replays.get(span.command)
        if launch is not None and free_ns <= launch.issued_ns < span.start_ns:  # it waited for no other
            waited.append(span.start_ns - launch.issued_ns)
        free_ns = max(free_ns, span.end_ns)
    found = {}
    if len(took) >= _FEW:
        found["launch_us"] = (_low(took, 4) / 1e3, f"of {len(took)} replayed launches a quarter takes less")
    if len(waited) >= _FEW:
        of = f"of {len(waited)} that waited for no other a tenth takes less"
        found["start_us"] = (_low(waited, 10) / 1e3, of)
    return found


def _low(values: Sequence[float], part: int) -> float:
    """What one of so many values is less than: other work on the machine only makes times longer."""
    return sorted(values)[len(values) // part]
