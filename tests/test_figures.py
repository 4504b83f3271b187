"""The evaluation of ``bench figures``: its arithmetic, and one application from end to end."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.applications.program import load
from bench.figures import summary
from bench.figures.accesses import bind
from bench.figures.setups import Setup
from sdi.clc.compile import compile_source
from sdi.launch.programs.access import access_of
from tests.image_runs import plain_environ, run


def sample(*runs: tuple[int, int], **more: Any) -> dict[str, Any]:
    """A process whose runs took (all, kernels) so many ns."""
    timed = [{"wall_ns": wall, "kernel_ns": {"k": kernel}} for wall, kernel in runs]
    return {"runs": timed, "digests": {"out": "1"}, **more}


def measured(**setups: list[dict[str, Any]]) -> dict[str, Any]:
    """One application; setups by members, "plain" for none."""
    labels = {"plain": "plain", "one": Setup(1).label, "two": Setup(2).label}
    return {"setups": {labels[name]: samples for name, samples in setups.items()}}


def test_the_first_run_of_a_process_does_not_count() -> None:
    found = summary.wall(measured(plain=[sample((900, 1), (100, 80), (120, 80))]), Setup(0))
    assert found is not None
    assert (found.median, found.least, found.most, found.runs) == (110, 100, 120, 2)
    assert found.spread == pytest.approx(20 / 110)


def test_speed_up_and_ideal_follow_amdahl() -> None:
    one = measured(
        plain=[sample((1, 1), (100, 80))],
        two=[sample((1, 1), (50, 40)), {"error": "lost"}],
    )
    assert summary.parallel_fraction(one) == pytest.approx(0.8)
    assert summary.ideal(0.8, 4) == pytest.approx(2.5)
    assert summary.ratio(summary.wall(one, Setup(0)), summary.wall(one, Setup(2))) == pytest.approx(2.0)
    assert summary.wall(one, Setup(1)) is None
    assert summary.errors(one) == ["2 members: lost"]


def test_launches_that_ran_whole_are_one_line_for_all_processes() -> None:
    def counted(split: int, whole: int, why: str) -> dict[str, Any]:
        kernel = {"launches_split": split, "launches_whole": whole, "why_whole": why}
        return sample((1, 1)) | {"counters": {"kernels": {"k": kernel}}}

    split, first, last = counted(4, 0, ""), counted(2, 2, "1.1 ms whole"), counted(1, 3, "1.2 ms whole")
    assert summary.ran_whole(measured(two=[split]), Setup(2)) == []
    lines = summary.ran_whole(measured(two=[first, last, split, {"error": "lost"}]), Setup(2))
    assert lines == ["k: 5 of 12 launches whole (1.2 ms whole)"]


def test_different_results_are_seen() -> None:
    other = sample((1, 1), (1, 1)) | {"digests": {"out": "2"}}
    mixed = measured(one=[sample((1, 1))], two=[sample((1, 1)), other])
    assert summary.same_bytes(mixed, Setup(1), Setup(1)) is True
    assert summary.same_bytes(mixed, Setup(1), Setup(2)) is False
    assert summary.same_bytes(mixed, Setup(0), Setup(2)) is None


def test_bytes_and_planning_are_those_of_one_run() -> None:
    counters = {
        "bytes_moved": {"host_to_member": 300, "member_to_host": 30, "member_to_member": 6},
        "memory": {"twin_nbytes": 9},
        "kernels": {"k": {"plan_ns": 60}},
    }
    found = measured(two=[sample((9, 9), (1000, 1), (1000, 1), counters=counters)])
    assert summary.traffic(found, Setup(2)) == summary.Traffic(100, 10, 2, 3)
    assert summary.planning_share(found, Setup(2)) == pytest.approx(0.02)


def test_planning_is_told_apart_by_first_and_later_runs_and_by_what_members_do_meanwhile() -> None:
    def spans(*plans: tuple[int, int]) -> list[dict[str, int]]:
        return [{"plan_ns": plan, "plan_idle_ns": idle} for plan, idle in plans]

    two = sample((100, 9), (50, 1), (50, 1), spans=spans((20, 20), (2, 0), (2, 1)))
    assert summary.planning_spans(measured(two=[two]), Setup(2)) == pytest.approx((0.2, 0.04, 0.01))
    assert summary.planning_spans(measured(two=[sample((9, 9), (9, 9))]), Setup(2)) is None


def test_figures_of_one_application_from_end_to_end(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-m", "bench", "figures", "--size", "smoke", "-n", "2", "--apps", "matrix_mul"]
    command += ["--rounds", "1", "--repeat", "1", "--split", "always", "--most-mib", "1"]
    ended = run([*command, "--out", tmp_path], plain_environ(), 200.0)
    assert ended.returncode == 0, ended.describe()
    assert not ended.remained
    written = {path.name for path in tmp_path.iterdir()}
    pictures = {f"figures-smoke-{name}.png" for name in PICTURES}
    assert written == {"figures-smoke.json", "figures-smoke.md"} | pictures
    for name in pictures:
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    raw = json.loads((tmp_path / "figures-smoke.json").read_text())
    one = raw["applications"]["matrix_mul"]
    assert list(one["setups"]) == ["plain", "1 member", "2 members", "2 members, through the host"]
    assert summary.same_bytes(one, Setup(0), Setup(2)) is True
    for sample in one["setups"][Setup(2).label]:
        assert set(sample["counters"]["kernels"]["multiply"]["members_used"]) == {"2"}
    assert summary.ran_whole(one, Setup(2)) == []
    assert not summary.communicates(one, Setup(2))
    assert summary.grids(one) == [("multiply", "5:5", 1)]
    (accesses,) = one["accesses"]
    assert (accesses["non_affine"], accesses["conditional"], accesses["not_exact"]) == (False, False, [])
    text = (tmp_path / "figures-smoke.md").read_text()
    assert "| MatrixMul" in text
    assert "NO" not in text.split()
    assert raw["beyond"]["matrix_mul"]["setups"]["2 members"][0]["counters"]["memory"]["chunks"] > 0


PICTURES = ("fig07-links", "fig11-speed-up", "fig12-kernels", "fig13-times", "fig13-traffic", "fig15-beyond")


class Recorder:
    """Stands in for a session: notes what a run would launch, without a device."""

    def __init__(self) -> None:
        self.buffers: list[int] = []
        self.launches: dict[str, dict[str, Any]] = {}

    def empty(self, nbytes: int) -> int:
        """The number of a new buffer."""
        self.buffers.append(nbytes)
        return len(self.buffers) - 1

    zeros = empty

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """The same, as large as ``array``."""
        return self.empty(array.nbytes)

    def launch(self, kernel: str, global_size: list[int], local_size: list[int], *arguments: Any) -> None:
        """The last launch of each kernel is kept."""
        noted = [a if isinstance(a, int) else a.tobytes().hex() for a in arguments]
        self.launches[kernel] = {
            "kernel": kernel,
            "global_size": global_size,
            "local_size": local_size,
            "arguments": noted,
        }

    def download(self, buffer: int, shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any]:
        """Zeros."""
        return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    ("name", "size_name"),
    [
        ("correlator", "paper"),
        ("eigenvalue", "paper"),
        ("mri_q", "paper"),
        ("mri_q", "gpu"),
        ("rpes", "paper"),
    ],
)
def test_no_member_writes_another_ones_bytes_where_the_paper_did_poorly(name: str, size_name: str) -> None:
    # The paper took whole buffers for all of these, and compared them with twins.
    application = load(name)
    size, recorder = application.SIZES[size_name], Recorder()
    if name == "correlator":
        inputs = {"samples": np.empty((size.stations, size.times, size.channels, 4), np.int8)}
    else:
        inputs = application.inputs(size)
    application.run(recorder, size, inputs)  # type: ignore[arg-type]
    compiled = compile_source(application.SOURCE, "", "/")
    kernels = {model.name: model for model in compiled.kernels}
    for launch in recorder.launches.values():
        model = kernels[launch["kernel"]]
        assert not model.why_whole
        bound, boxes = bind(model, access_of(compiled, model), launch, recorder.buffers, 4)
        assert len(boxes) == 4
        found = [{item.argument: item for item in bound.over(box)} for box in boxes]
        for argument in found[0]:
            for one, other in itertools.combinations(found, 2):
                both = one[argument].writes.intersection(other[argument].writes)
                assert not both, (model.name, model.arguments[argument].name, both)
