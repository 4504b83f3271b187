"""The benchmark of updates of fine-grained memory: its programs are right, its report says what was found."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.adsm import report
from bench.adsm.__main__ import FIGURES
from bench.adsm.measure import UPDATES, Measured, from_json, to_json
from bench.adsm.programs import PARBOIL, load
from tests.image_runs import answers_faults, image_environ, plain_environ, run

LIMIT_S = 120.0
RUNS = {
    "mri_fhd": ["whole", "mri_fhd", "smoke"],
    "pns": ["whole", "pns", "smoke"],
    "sad": ["whole", "sad", "smoke"],
    "stencil": ["volume", 16],
    "vectors": ["vectors", 1 << 15],
    "passes": ["passes", 15],
}


def ran(name: str, way: str, environ: dict[str, str]) -> dict[str, float]:
    """The seconds of a run, which checks its results."""
    what, *arguments = RUNS[name]
    command = [sys.executable, "-m", "bench.adsm", "--one", json.dumps([what, way, *arguments])]
    ended = run(command, environ | {"PYOPENCL_NO_CACHE": "1"}, LIMIT_S)
    assert ended.returncode == 0 and not ended.remained, ended.describe()
    return dict(json.loads(ended.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", [name for name in RUNS if name != "passes"])
def test_programs_compute_the_right_results_on_the_plain_driver(name: str) -> None:
    assert ran(name, "buffers", plain_environ())["all"] > 0


@pytest.mark.parametrize("update", ["batch", "eager", "lazy", "rolling:4K:2"])
@pytest.mark.parametrize("name", RUNS)
def test_programs_compute_the_right_results_under_each_update(name: str, update: str, tmp_path: Path) -> None:
    if update[0] in "lr" and not answers_faults():
        pytest.skip("this process may not answer its own page faults (userfaultfd)")
    stats = tmp_path / "stats.json"
    environ = image_environ(2, SDI_SPLIT="always", SDI_FINE_GRAIN=update, SDI_STATS=str(stats))
    parts = ran(name, "eager", environ)
    assert sum(parts.values()) >= parts["all"] > 0
    faults = json.loads(stats.read_text())["memory"]["host_faults"]
    assert (faults > 0) == (update[0] in "lr"), "nobody else has faults"


def test_the_paper_runs_seven_programs() -> None:
    assert [load(name).TITLE for name in PARBOIL] == ["CP", "MRI-FHD", "MRI-Q", "PNS", "RPES", "SAD", "TPACF"]


def rows(run_name: str, arguments: tuple[str | int, ...], updates: list[str]) -> list[Measured]:
    """As if it had been measured."""
    parts = {"fill": 0.5, "launch": 0.25, "read": 0.125, "all": 1.0}
    return [
        Measured(run_name, arguments, update, 1, parts, (4 - k % 4) << 20, 1 << 20, k, k / 100)
        for k, update in enumerate(updates)
    ]


FOUND = {
    "programs, 1": [row for name in PARBOIL for row in rows("whole", (name, "cpu"), ["buffers", *UPDATES])],
    "stencil, 1": [row for side in (64, 128) for row in rows("volume", (side,), ["buffers", "rolling:4K"])],
    "blocks, 1": rows("vectors", (8,), ["buffers", "lazy", "rolling:4K", "rolling:1M"]),
    "rolling, 2": rows(
        "passes", (8,), ["lazy", *(f"rolling:{b}:{n}" for b in ("4K", "1M") for n in (1, 2, 4))]
    ),
}


def test_the_report_has_a_table_for_each_figure() -> None:
    assert {name.partition(",")[0] for name in FOUND} == set(FIGURES)
    about = {"size": "cpu", "rounds": 1, "commit": "0", "where": "2 CPUs"}
    text = report.report(FOUND, about, ["a.png"])
    heads = [line.split(":")[0] for line in text.splitlines() if line.startswith("## ")]
    assert heads == [f"## Figure {number}" for number in (7, 8, 10, 9, 11, 12)]
    assert "| PNS | 1.000 | 1.00 | 1.00 | 1.00 | 1.00 |" in text
    assert "| PNS | 3.0 + 1.0 | 0.50 + 0.25 | 0.25 + 0.25 | 1.00 + 0.25 |" in text
    assert "| 4K | 0.500 (1) | 0.500 (2) | 0.500 (3) |" in text
    assert text.endswith("![a.png](a.png)\n")


def test_what_was_measured_is_read_back() -> None:
    for found in FOUND.values():
        assert from_json(json.loads(json.dumps(to_json(found)))) == found


def test_the_report_and_its_figures_are_written_from_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    about = {"about": {"size": "cpu", "rounds": 1, "commit": "0", "where": "2 CPUs"}}
    kept = {name: to_json(found) for name, found in FOUND.items()} | about
    (tmp_path / "adsm.json").write_text(json.dumps(kept))
    command = [sys.executable, "-m", "bench.adsm", "--only", "--out", str(tmp_path)]
    ended = run(command, plain_environ(), LIMIT_S)
    assert ended.returncode == 0, ended.describe()
    pictures = [f"adsm-{name.replace(', ', '-')}.png" for name in FOUND]
    assert (tmp_path / "adsm.md").read_text() == report.report(FOUND, about["about"], pictures)
    assert all((tmp_path / name).read_bytes()[:4] == b"\x89PNG" for name in pictures)
