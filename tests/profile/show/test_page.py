"""The HTML report: one file that asks for nothing else, drawn by a browser, light and dark."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("plotly", reason="plotly is not installed")

from sdi.profile.analyse.model import (
    AssignmentSpan,
    Command,
    CopySpan,
    ExplainedKernel,
    LaunchShape,
    LaunchSpan,
    Member,
    Profile,
    SessionProfile,
)
from sdi.profile.analyse.tables import make_tables
from sdi.profile.show.page import (
    idle_chart,
    losses_chart,
    members_chart,
    page,
    timeline_chart,
    traffic_chart,
    worst_kernel,
)

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
INK = {"light": "rgb(29, 35, 41)", "dark": "rgb(227, 231, 235)"}


def profile_of(kernels: int) -> Profile:
    """So many kernels on two members: kernel k takes 10 + k us on member 0 and half of that on member 1."""
    session = SessionProfile(7, 6, (Member("a<b", "cpu"), Member("b", "cpu")), 1_000, 2_000_000, True)
    for k in range(kernels):
        name, start = f"kernel_{k}", 10_000 + 50_000 * k
        end = start + 10_000 + 1_000 * k
        session = replace(
            session,
            commands=(*session.commands, Command(k + 1, 1, "launch", 0, start, start, start, end, 0)),
            shapes=(*session.shapes, LaunchShape(k + 1, name, (8, 1, 1), (1, 1, 1), 2, (2, 1, 1), "", 1, 0)),
            launches=(*session.launches, LaunchSpan(k + 1, name, k + 1, "", start - 9, start - 5, start, 0)),
            assignments=(
                *session.assignments,
                AssignmentSpan(k + 1, 0, 0, 4, start, end, 0),
                AssignmentSpan(k + 1, 0, 1, 4, start, (start + end) // 2, 0),
            ),
            copies=(
                *session.copies,
                CopySpan(k + 1, 0, 1, 4096, f"{name}: a", False, start - 900, start - 5, 0),
            ),
            explained={
                **session.explained,
                name: ExplainedKernel((), "", f"advice </script> {k}", (f"line {k}",)),
            },
        )
    return Profile((session,))


def test_charts_show_the_numbers_of_the_tables() -> None:
    profile = profile_of(3)
    tables = make_tables(profile)
    bars = {bar["name"]: bar["x"] for bar in losses_chart(tables)["data"]}
    (rest,) = (row.ns for row in tables.losses if not row.kernel)
    whole_ms = sum(map(sum, bars.values())) + sum(rest.values()) / 1e6
    assert whole_ms == pytest.approx(tables.wall_ns / 1e6)
    idle = {bar["name"]: bar["x"] for bar in idle_chart(tables)["data"]}
    for member in range(2):
        assert sum(parts[member] for parts in idle.values()) == pytest.approx(tables.wall_ns / 1e6)
    assert (idle["computing"][0], idle["computing"][1]) == pytest.approx((0.033, 0.0165))
    assert (idle["imbalance"][0], idle["imbalance"][1]) == pytest.approx((0, 0.0165))
    for bar, row in zip(members_chart(tables)["data"], tables.kernels, strict=True):
        assert (bar["name"], bar["x"]) == (row.name, [ns / 1e6 for ns in row.member_ns])
    drawn = timeline_chart(profile)["data"]
    assert sum(len(bar["x"]) for bar in drawn) == 3 * 3
    (flows,) = traffic_chart(tables)["data"]
    assert flows["link"]["value"] == [3 * 4096]
    worst = worst_kernel(tables)
    assert worst is not None and worst.name == "kernel_2"


@pytest.mark.parametrize("kernels", [2, 8, 9, 20])
def test_every_kernel_has_a_colour_of_its_own_the_same_in_all_charts(kernels: int) -> None:
    profile = profile_of(kernels)
    members = {bar["name"]: bar["marker"]["color"] for bar in members_chart(make_tables(profile))["data"]}
    drawn = {bar["name"]: bar["marker"]["color"] for bar in timeline_chart(profile)["data"]}
    assert len(set(drawn.values())) == len(drawn) == kernels + 1
    assert members == {name: colour for name, colour in drawn.items() if name != "copies"}


def test_the_page_refers_to_nothing_outside_and_escapes_names() -> None:
    profile = profile_of(2)
    text = page(profile, make_tables(profile))
    assert not re.search(r"<(script|link|img|iframe)[^>]+(src|href)=", text)
    assert "advice &lt;/script&gt; 1" in text and "a<b" not in text.partition("<body>")[2]
    assert "Function Name</th><th>Calls</th><th>Time (ns)</th>" in text


def test_charts_with_nothing_to_show_are_left_out() -> None:
    profile = profile_of(0)
    body = page(profile, make_tables(profile)).partition("<body>")[2]
    assert 'id="idle"' in body
    assert not [name for name in ("losses", "members", "timeline", "traffic") if f'id="{name}"' in body]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("kernels", [2, 20])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_draws_all_charts(tmp_path: Path, scheme: str, kernels: int) -> None:
    profile = profile_of(kernels)
    report = tmp_path / "report.html"
    report.write_text(page(profile, make_tables(profile)))
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'browser'}",
            f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}",
            "--virtual-time-budget=10000",
            "--dump-dom",
            report.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    body = done.stdout.partition("<body>")[2]
    charts = {name: _chart(body, name) for name in ("losses", "idle", "members", "timeline", "traffic")}
    assert charts["members"].count('class="point"') == 2 * kernels
    assert charts["timeline"].count('class="point"') == 3 * kernels
    assert charts["traffic"].count('class="sankey-link"') == 1
    assert charts["losses"].count('class="point"') > kernels
    assert charts["idle"].count('class="point"') >= 2
    assert all(f"fill: {INK[scheme]}" in chart for chart in charts.values())


def _chart(body: str, name: str) -> str:
    """The DOM of a chart, up to the next heading."""
    return body.partition(f'id="{name}"')[2].partition("<h2>")[0]
