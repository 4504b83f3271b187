"""Costs of machines: the package's own, a user's file, and what a profile has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sdi.devices.capabilities import CPU, GPU
from sdi.predict.rates import RatesError, given, named, of_profile
from sdi.profile.analyse.model import AssignmentSpan, LaunchSpan, Member, SessionProfile

FILE = Path(__file__).resolve().parents[2] / "sdi" / "predict" / "rates.toml"


def session(name: str, kind: str, **columns: object) -> SessionProfile:
    return SessionProfile(1, 2, (Member(name, kind),), 0, 0, True, **columns)  # type: ignore[arg-type]


def test_the_packages_own_are_sound_and_each_number_has_a_source() -> None:
    known = given()
    assert list(known) == ["h200", "h100", "pcie", "cpu"]
    for each in known.values():
        assert each.host_to_member_gb_per_s <= each.host_to_all_gb_per_s
        assert each.member_to_host_gb_per_s <= each.all_to_host_gb_per_s
    h200 = FILE.read_text(encoding="utf-8").partition("[h200]")[2].partition("[h100]")[0]
    numbers = [line for line in h200.splitlines() if " = " in line and '"' not in line.partition("#")[0]]
    assert len(numbers) >= 14 and all("#" in line for line in numbers)


def test_a_file_of_ones_own_is_one_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    own = FILE.read_text(encoding="utf-8").partition("[h200]")[2].partition("[h100]")[0]
    path.write_text("[mine]" + own.replace("launch_us = 3.7", "launch_us = 9.5"), encoding="utf-8")
    found = named(str(path))
    assert (found.launch_us, found.copy_us) == (9.5, given()["h200"].copy_us)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[a]\nlaunch_us = 1", "no title"),
        ("[a]\n[b]", "expected one table, found 2"),
        ("x = 3", "expected a table"),
        ("[a", "mine.toml"),
        ("[mine]{own}\nspeed = 3", "unknown speed"),
        ("[mine]{own}".replace("{own}", "{low}"), "host_to_member_gb_per_s = 0"),
        ("[mine]{own}".replace("{own}", "{text}"), "launch_us = 'fast'"),
    ],
)
def test_a_file_with_an_error_is_refused_with_a_reason(tmp_path: Path, text: str, why: str) -> None:
    own = FILE.read_text(encoding="utf-8").partition("[h200]")[2].partition("[h100]")[0]
    low = own.replace("host_to_member_gb_per_s = 55.1", "host_to_member_gb_per_s = 0")
    slow = own.replace("launch_us = 3.7", 'launch_us = "fast"')
    path = tmp_path / "mine.toml"
    path.write_text(
        text.replace("{own}", own).replace("{low}", low).replace("{text}", slow), encoding="utf-8"
    )
    with pytest.raises(RatesError, match=why.replace("(", r"\(")):
        named(str(path))


@pytest.mark.parametrize(
    ("figure", "why"),
    [("members_per_node = 2.5", "whole number"), ("between_members_gb_per_s = 1e-320", "more than that")],
)
def test_figures_with_which_nothing_can_be_predicted_are_refused(
    tmp_path: Path, figure: str, why: str
) -> None:
    own = FILE.read_text(encoding="utf-8").partition("[h200]")[2].partition("[h100]")[0]
    name = figure.partition(" ")[0]
    lines = [figure if line.startswith(f"{name} ") else line for line in own.splitlines()]
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(["[mine]", *lines]), encoding="utf-8")
    with pytest.raises(RatesError, match=why):
        named(str(path))


def test_a_file_that_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\x7fELF\xd0\x00")
    with pytest.raises(RatesError, match="not a file of text"):
        named(str(path))


def test_a_name_that_is_no_file_names_those_that_there_are() -> None:
    with pytest.raises(RatesError, match="none of h200, h100, pcie, cpu"):
        named("/no/such/rates.toml")


def test_what_a_profile_measured_goes_before_what_is_given() -> None:
    launches = tuple(
        [LaunchSpan(n, "k", 1, "replay", 100 * n, 100 * n, 100 * n + 30 + n, 0) for n in range(5)]
    )
    spans = tuple([AssignmentSpan(n, 0, 0, 4, 100 * n + 40 + n, 100 * n + 90, 0) for n in range(5)])
    profile = session(
        "NVIDIA H200", "gpu", launches=launches, assignments=spans, link_ns={(0, 1): 0.04, (1, 0): 0.02}
    )
    found = of_profile(profile)
    assert found.base == "h200"
    assert set(found.measured) == {
        "host_to_member_gb_per_s",
        "member_to_host_gb_per_s",
        "launch_us",
        "start_us",
    }
    assert (found.costs.host_to_member_gb_per_s, found.costs.member_to_host_gb_per_s) == (25.0, 50.0)
    assert (found.costs.launch_us, found.costs.start_us) == (0.031, 0.01)
    assert found.costs.between_members_gb_per_s == given()["h200"].between_members_gb_per_s


def test_what_waits_for_another_launch_says_nothing_of_how_soon_one_begins() -> None:
    launches = tuple([LaunchSpan(n, "k", 1, "replay", n, n, n + 1, 0) for n in range(8)])
    spans = tuple([AssignmentSpan(n, 0, 0, 4, 100 * n + 40, 100 * n + 140, 0) for n in range(8)])
    assert "start_us" not in of_profile(session("a", "gpu", launches=launches, assignments=spans)).measured


@pytest.mark.parametrize(("name", "kind", "base"), [("a GPU", "gpu", "pcie"), ("a CPU", "cpu", "cpu")])
def test_members_that_are_not_known_cost_what_their_kind_does(name: str, kind: str, base: str) -> None:
    found = of_profile(session(name, kind))
    assert (found.base, dict(found.measured)) == (base, {})


def test_sdi_chooses_by_these_costs() -> None:
    h200 = given()["h200"]
    gpu, cpu = h200.kind("gpu"), given()["cpu"].kind("cpu")
    assert gpu.host_ns_per_byte == 1 / 55.1 and gpu.peer_ns_per_byte == 1 / 375.0
    assert gpu.is_host_processor == GPU.is_host_processor and cpu.assignment_ns == CPU.assignment_ns
