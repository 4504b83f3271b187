"""Every program computes the same bytes on the image as on the plain driver, and its kernels are split."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from tests.devices.testing.hooks import hooks
from tests.image_runs import ROOT, Run, answers_faults, image_environ, plain_environ, run

Arrays: TypeAlias = dict[str, np.ndarray[Any, Any]]

RUN_LIMIT_S = 900.0
pytestmark = pytest.mark.timeout(RUN_LIMIT_S + 60)  # the first test of an image waits for all its programs
PROGRAMS = sorted(
    path.stem
    for path in (ROOT / "tests" / "programs").glob("*.py")
    if not path.name.startswith("_") and path.stem != "runner"
)


LARGE = ("lattice_gas", "many_commands", "svm_regions")
"""Half of all that an image does would be for these: ``test_large_programs`` runs them on fewer images."""
USUAL = [program for program in PROGRAMS if program not in LARGE]
UNMERGED = ("array_pointers", "chosen_by_data", "fft_registers", "red_black")
"""Whose writes are known exactly, or but for what data choose, at indices that are not simple."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """An image: how many members, which of them is slow, whether launches are verified, which protocol.

    ``limit_nbytes``: what each member may hold, so small that many launches need chunks; 0 for no limit.
    ``seed``: of cuts anywhere, which change now and then; 0 for equal shares.  ``pooled``: the members have
    memory together, as all images of GPUs do.  ``copies``: kernels use opaque copies of images, as on drivers
    whose images are objects of their own.  ``apart``: their memory is not the host's, as that of GPUs.
    """

    members: int
    delayed: int | None = None
    verified: bool = False
    coherence: str = "lazy"
    limit_nbytes: int = 0
    seed: int = 0
    pooled: bool = False
    copies: bool = False
    apart: bool = False

    def __str__(self) -> str:
        late = "" if self.delayed is None else f"-member{self.delayed}-late"
        limited = f"-{self.limit_nbytes >> 10}K" if self.limit_nbytes else ""
        host = "-host" * (self.coherence == "host")
        shares = f"-shares{self.seed}" * (self.seed > 0) + "-pooled" * self.pooled + "-copies" * self.copies
        shares += "-apart" * self.apart
        return f"N{self.members}{late}{'-verified' * self.verified}{host}{limited}{shares}"

    def environ(self, stats: Path) -> dict[str, str]:
        """The variables with which a program sees this image."""
        wanted = hooks(late=self.delayed, pooled=self.pooled, copies=self.copies, apart=self.apart)
        is_usual = self.delayed is None and not (self.pooled or self.copies or self.apart)
        late = {} if is_usual else {"SDI_TEST_MEMBERS": wanted}
        verify = {"SDI_VERIFY": "1"} if self.verified else {}
        if self.limit_nbytes:
            verify["SDI_MEMBER_MEMORY"] = str(self.limit_nbytes)
        if self.seed:
            verify["SDI_BALANCE"] = f"random:{self.seed}"
        return image_environ(
            self.members,
            SDI_SPLIT="always",
            SDI_STATS=str(stats),
            SDI_COHERENCE=self.coherence,
            **late,
            **verify,
        )


CONFIGURATIONS = [Configuration(n) for n in (1, 2, 3, 5, 8)] + [
    Configuration(2, apart=True),
    Configuration(3, delayed=1),
    Configuration(3, limit_nbytes=32 << 10),
    Configuration(3, limit_nbytes=32 << 10, pooled=True, copies=True),
    Configuration(3, coherence="host", limit_nbytes=32 << 10),
    Configuration(4, verified=True, seed=2),
]
"""Each property is one image's at least."""
if os.environ.get("ALL_IMAGES"):  # alone, too; each number of members, both protocols, a limit and none
    CONFIGURATIONS += [
        Configuration(3, delayed=0, copies=True),
        Configuration(3, delayed=2),
        Configuration(1, apart=True),
        Configuration(3, apart=True),
        Configuration(3, verified=True),
        Configuration(3, coherence="host", copies=True),
        Configuration(3, seed=1),
    ]
    CONFIGURATIONS += [
        Configuration(n, coherence=coherence, limit_nbytes=limit)
        for n, limited in ((1, 32 << 10), (2, 32 << 10), (5, 20 << 10), (8, 20 << 10))
        for coherence in ("lazy", "host")
        for limit in (0, limited)
        if coherence == "host" or limit
    ]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the runner: arrays by "program/array", reports by program, kernel counters by kernel.

    ``memory``: what virtual memory did, once per run.
    ``runs``: one, plus one more for each program that ended or hung the process of the runner.
    """

    arrays: Arrays
    reports: dict[str, dict[str, Any]]
    kernels: dict[str, dict[str, Any]]
    memory: list[dict[str, Any]]
    runs: list[Run]

    def outputs(self, program: str) -> Arrays:
        """One program's arrays; fails the test when the program failed."""
        error = self.reports[program]["error"]
        if error is not None:
            pytest.fail(f"{program} failed:\n{error}", pytrace=False)
        if self.reports[program]["lacks"]:
            pytest.skip(f"the device has not what {program} needs")
        prefix = f"{program}/"
        return {k.removeprefix(prefix): v for k, v in self.arrays.items() if k.startswith(prefix)}


def run_all(
    folder: Path,
    environ: Callable[[Path], dict[str, str]],
    under: Sequence[str] = (),
    programs: Sequence[str] = PROGRAMS,
) -> Pass:
    """Run programs, by the command ``under``; after one that takes the runner down, go on with the next."""
    done = Pass({}, {}, {}, [], [])
    waiting = list(programs)
    while waiting:
        out, stats = folder / f"run{len(done.runs)}.npz", folder / f"stats{len(done.runs)}.json"
        runner = [sys.executable, "-m", "tests.programs.runner", "--out", str(out), "--only", *waiting]
        command = [*under, *runner]
        ended = run(command, environ(stats), RUN_LIMIT_S)
        done.runs.append(ended)
        report = out.with_suffix(".json")
        reports = json.loads(report.read_text()) if report.exists() else {}
        for program in reports:
            if reports[program]["error"] == "unfinished":
                reports[program]["error"] = f"the runner did not survive it: {ended.describe()}"
        if not reports:
            failed = {"error": f"the runner did not start: {ended.describe()}", "lacks": False, "kernels": {}}
            reports = dict.fromkeys(waiting, failed)
        else:
            with np.load(out) as archive:
                done.arrays.update(archive)
        done.reports.update(reports)
        if stats.exists():
            counted = json.loads(stats.read_text())
            done.kernels.update(counted["kernels"])
            done.memory.append(counted["memory"])
        waiting = [program for program in waiting if program not in reports]
    return done


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What the programs compute on the plain driver."""
    return run_all(tmp_path_factory.mktemp("plain"), lambda stats: plain_environ(), programs=USUAL)


@pytest.fixture(scope="session", params=CONFIGURATIONS, ids=str)
def configuration(request: pytest.FixtureRequest) -> Configuration:
    """Each image in turn."""
    chosen: Configuration = request.param
    return chosen


@pytest.fixture(scope="session")
def image(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What the programs compute on the image."""
    return run_all(tmp_path_factory.mktemp(str(configuration)), configuration.environ, programs=USUAL)


@pytest.mark.parametrize("program", USUAL)
def test_plain_driver_runs_the_program(program: str, plain: Pass) -> None:
    assert plain.outputs(program), f"{program} returns nothing"


@pytest.mark.parametrize("program", USUAL)
def test_image_computes_the_bytes_of_the_plain_driver(program: str, plain: Pass, image: Pass) -> None:
    assert_same_bytes(program, plain, image)


@pytest.mark.parametrize("program", USUAL)
def test_each_launch_uses_the_members_it_should(
    program: str, image: Pass, configuration: Configuration
) -> None:
    assert_members_used(program, image, configuration)


@pytest.mark.parametrize("program", UNMERGED)
def test_what_members_write_of_these_programs_is_not_merged(
    program: str, image: Pass, configuration: Configuration
) -> None:
    if configuration.seed:
        pytest.skip("of boxes that are cut anywhere more parts may be written than are told apart")
    assert_nothing_merged(program, image)


def assert_same_bytes(program: str, plain: Pass, image: Pass) -> None:
    """Fails where a program computed something else on the image."""
    expected, actual = plain.outputs(program), image.outputs(program)
    assert set(actual) == set(expected)
    for name, array in expected.items():
        difference = first_difference(actual[name], array)
        if difference:
            pytest.fail(f"{program}, array {name}: {difference}", pytrace=False)


def assert_nothing_merged(program: str, image: Pass) -> None:
    """Fails where several members may have written the same bytes in a launch of a program."""
    image.outputs(program)
    kernels = image.reports[program]["kernels"]
    assert kernels and not [kernel for kernel in kernels if image.kernels[kernel]["plans_merging"]]


def assert_members_used(program: str, image: Pass, configuration: Configuration) -> None:
    """Fails where a launch of a program used more or fewer members than it should."""
    image.outputs(program)
    wrong = []
    for kernel, kind in image.reports[program]["kernels"].items():
        if kernel not in image.kernels:
            wrong.append(f"{kernel} is not in the counters")
            continue
        counters = image.kernels[kernel]
        assert counters["launch_groups"], f"{kernel} was never launched"
        for groups, by_members in counters["launch_groups"].items():
            for used, launches in by_members.items():
                fault = members_fault(kind, int(groups), int(used), configuration.members)
                if fault:
                    reason = counters["why_whole"]
                    wrong.append(f"{kernel}: {launches} launches of {groups} groups {fault} ({reason!r})")
        verified = 0 if kind == "beside" else counters["launches_split"]
        if configuration.verified and counters["launches_verified"] != verified:
            wrong.append(f"{kernel}: {counters['launches_verified']} launches verified")
        if kind == "whole" and configuration.members > 1 and not counters["why_whole"]:
            wrong.append(f"{kernel} ran whole without a reason")
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def test_members_hold_no_more_than_they_may(image: Pass, configuration: Configuration) -> None:
    if not configuration.limit_nbytes:
        pytest.skip("this image has no limit")
    assert max(max(memory["peak_nbytes"]) for memory in image.memory) <= configuration.limit_nbytes
    for event in ("chunks", "holds", "drops"):
        assert sum(memory[event] for memory in image.memory) > 0, f"no {event}"
    assert (sum(memory["spills"] for memory in image.memory) > 0) == (configuration.coherence == "lazy")


def test_runner_survives_and_leaves_no_process(image: Pass) -> None:
    for ended in image.runs:
        assert ended.returncode in (0, 1), ended.describe()
        assert not ended.remained


UPDATES = {"batch": (2,), "eager": (1, 2, 3, 5), "lazy": (1, 3), "rolling": (2, 5), "rolling:4K:2": (3,)}


@pytest.mark.parametrize(
    ("update", "members"),
    [
        (update, members)
        for update, usual in UPDATES.items()
        for members in ((1, 2, 3, 5) if os.environ.get("ALL_IMAGES") else usual)
    ],
)
def test_fine_grained_memory_of_which_members_have_copies_has_the_bytes_of_the_plain_driver(
    update: str, members: int, plain: Pass, tmp_path: Path
) -> None:
    if update[0] in "lr" and not answers_faults():
        pytest.skip("this process may not answer its own page faults (userfaultfd)")

    def environ(stats: Path) -> dict[str, str]:
        return Configuration(members).environ(stats) | {"SDI_FINE_GRAIN": update}

    programs = ["svm_fine", "svm_fine_random"]
    apart = run_all(tmp_path, environ, programs=programs)
    for program in programs:
        for name, array in plain.outputs(program).items():
            assert not first_difference(apart.outputs(program)[name], array), name
        assert_members_used(program, apart, Configuration(members))


def test_programs_run_again_from_the_binaries_that_pyopencl_has_cached(tmp_path: Path) -> None:
    environ = image_environ(2, XDG_CACHE_HOME=str(tmp_path / "cache"))
    del environ["PYOPENCL_NO_CACHE"]
    command = [sys.executable, "-m", "tests.programs.runner", "--out", str(tmp_path / "out.npz")]
    for _ in range(2):
        ended = run([*command, "--only", "vector_add", "several_kernels", "includes"], environ, RUN_LIMIT_S)
        assert ended.returncode == 0, ended.describe()


@pytest.mark.parametrize("members", [62, 64, 200])
def test_images_of_very_many_members_compute_the_bytes_of_the_plain_driver(
    members: int, plain: Pass, tmp_path: Path
) -> None:
    out, stats = tmp_path / "out.npz", tmp_path / "stats.json"
    command = [sys.executable, "-m", "tests.programs.runner", "--out", str(out), "--only", "many_groups"]
    ended = run(command, Configuration(members).environ(stats), RUN_LIMIT_S)
    assert ended.returncode == 0, ended.describe()
    counted = json.loads(stats.read_text())["kernels"]
    expected = plain.outputs("many_groups")
    with np.load(out) as archive:
        for name, array in expected.items():
            assert not first_difference(archive[f"many_groups/{name}"], array), name
    for kernel in ("mg_own", "mg_others", "mg_spread", "mg_count"):
        assert counted[kernel]["launch_groups"] == {"1024": {str(members): 1}}


def members_fault(kind: str, groups: int, used: int, members: int) -> str:
    """What is wrong about launches of ``groups`` groups that used so many members; "" when nothing is.

    split: as many as there are groups; some: at least two (small grids need not fill all); whole: one.
    beside: as split, where the application may write meanwhile, so that no launch can be verified.
    """
    most = min(groups, members)
    least = {"split": most, "beside": most, "some": min(2, most), "whole": 1}[kind]
    if kind == "whole":
        most = 1
    if least <= used <= most:
        return ""
    wanted = f"{least}" if least == most else f"{least} to {most}"
    return f"used {used} of {members} members, not {wanted}"


def first_difference(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> str:
    """Where two arrays first differ, in bytes, with both elements; "" when they are equal."""
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    a, b = (np.frombuffer(array.tobytes(), np.uint8) for array in (actual, expected))
    different = np.flatnonzero(a != b)
    if not different.size:
        return ""
    offset = int(different[0])
    element = offset // expected.itemsize
    got, want = actual.ravel()[element], expected.ravel()[element]
    where = f"byte {offset} of {b.size} (element {element}): {a[offset]:#04x} instead of {b[offset]:#04x}"
    return f"{different.size} bytes differ, the first is {where}; {got} instead of {want}"
