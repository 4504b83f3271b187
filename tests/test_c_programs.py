"""C programs, linked to Debian's loader, on the image: threads, forks, waits, exits, error codes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sdi.cli.ready import can_be_ready
from sdi.locate import INCLUDE
from tests.image_runs import PLAYER, ROOT, Run, image_environ, plain_environ, run

LIMIT_S = 180.0
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread", f"-I{INCLUDE}"]
LOADER = Path("/usr/lib/x86_64-linux-gnu/libOpenCL.so.1")

Compiled = Callable[..., Path]

# At these calls pocl 3.1 crashes, or does not follow the specification.
CRASHES = (
    "CreateProgramWithSource: strings NULL",
    "BuildProgram: a device is NULL",
    "EnqueueNDRangeKernel: kernel NULL",
    "EnqueueNDRangeKernel: wait list NULL",
    "EnqueueTask: kernel NULL",
)
DEVIATIONS = {
    "GetDeviceIDs: type 0",
    "GetDeviceIDs: type 2^40",
    "CreateContextFromType: none",
    "CreateContextFromType: type 0",
    "SetKernelArg: struct of 8 bytes",
    "SetKernelArg: char4 of 3 bytes",
    "EnqueueNDRangeKernel: offset overflows",
    "EnqueueNDRangeKernel: wait list of 0",
    "EnqueueNDRangeKernel: an event is NULL",
    "EnqueueNDRangeKernel: another context's event",
    "EnqueueMapBuffer: unknown flag",
    "EnqueueMapBuffer: read and invalidate",
}


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compiles "folder/name.c" below the project's root, once, and returns the program.

    ``sanitizer``: of the compiler, if any; the test is skipped where it is not installed.
    """
    if shutil.which("gcc") is None or not Path("/usr/include/CL/cl.h").exists() or not LOADER.exists():
        pytest.skip("needs gcc, opencl-headers and ocl-icd-opencl-dev")
    folder = tmp_path_factory.mktemp("compiled")

    def build(source: str, sanitizer: str = "") -> Path:
        program = folder / (Path(source).stem + sanitizer)
        if not program.exists():
            flags = [*FLAGS, f"-fsanitize={sanitizer}"] if sanitizer else FLAGS
            command = ["gcc", *flags, str(ROOT / f"{source}.c"), "-o", str(program), "-lOpenCL", "-lm"]
            if subprocess.run(command, check=not sanitizer).returncode:
                pytest.skip(f"needs the compiler's {sanitizer} sanitizer")
        return program

    return build


@pytest.fixture(params=[1, 3], ids=["N1", "N3"])
def members(request: pytest.FixtureRequest) -> int:
    """How many members the image has."""
    number: int = request.param
    return number


def on_image(members: int, program: Path, *arguments: str, expected: int = 0, **settings: str) -> Run:
    """Run a program on the image; fails unless it ends as expected and leaves no process."""
    environ = image_environ(members, **({"SDI_SPLIT": "always"} | settings))
    ended = run([program, *arguments], environ, LIMIT_S)
    assert ended.returncode == expected, ended.describe()
    assert not ended.remained, ended.describe()
    return ended


def test_programs_use_the_system_loader(compiled: Compiled) -> None:
    needs = subprocess.run(["ldd", compiled("tests/c/threads")], capture_output=True, text=True, check=True)
    assert re.search(r"libOpenCL\.so\.1 => \S*/x86_64-linux-gnu/libOpenCL", needs.stdout), needs.stdout


def test_eight_threads_compute_at_once(compiled: Compiled, members: int) -> None:
    on_image(members, compiled("tests/c/threads"))


@pytest.mark.parametrize("image", ["on", "off"])
def test_collective_commands_are_there_by_their_header(compiled: Compiled, members: int, image: str) -> None:
    ended = on_image(members, compiled("tests/c/collectives"), SDI_IMAGE=image, SDI_SPLIT="")
    assert ended.stdout == f"{members if image == 'off' else 1} devices\n" and not ended.stderr


@pytest.mark.skipif(not can_be_ready(), reason="needs two cores, and no driver of NVIDIA's")
@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_a_program_that_asks_at_once_has_the_service_that_sdi_run_has_ready(
    compiled: Compiled, stats: list[str]
) -> None:
    environ = {name: value for name, value in image_environ(2).items() if name != "SDI_PYTHON"}
    command = [sys.executable, "-m", "sdi.cli", "run", *stats, "-n", "2", "--", compiled("tests/c/threads")]
    ended = run(command, environ | {"SDI_LOG": "debug"}, LIMIT_S)
    assert (ended.returncode, ended.remained) == (0, ()), ended.describe()
    assert "the process that sdi run had ready is the service" in ended.stderr, ended.describe()


def test_rare_entry_points_work_and_call_back(compiled: Compiled, members: int) -> None:
    on_image(members, compiled("tests/c/entry_points"))


@pytest.mark.parametrize(("size", "rounds"), [(200, 3), (97, 1)])
def test_matmul_has_the_checksum_of_the_plain_driver(
    compiled: Compiled, members: int, size: int, rounds: int
) -> None:
    program = compiled("demo/matmul")
    plain = run([program, str(size), str(rounds)], plain_environ(), LIMIT_S)
    assert plain.returncode == 0, plain.describe()
    image = on_image(members, program, str(size), str(rounds))
    checksums = [re.findall("^checksum (.*)", ended.stdout, re.M) for ended in (plain, image)]
    assert len(checksums[0]) == 1
    assert checksums[0] == checksums[1]


def test_child_after_fork_starts_afresh_while_the_parent_goes_on(
    compiled: Compiled, members: int, tmp_path: Path
) -> None:
    stats = tmp_path / "stats.json"
    on_image(members, compiled("tests/c/forks"), SDI_STATS=str(stats))
    records = json.loads(stats.read_text())["records"]
    assert PLAYER == "off" or records["NDRANGE"]["played"] > 50, "it forked among launches that are replayed"


@pytest.mark.parametrize(("sanitizer", "has"), [("", 3), ("address", 3), ("thread", 3)])
@pytest.mark.parametrize("forks", [False, True])
def test_shared_virtual_memory_is_there_for_host_kernels_and_a_child_of_its_own(
    compiled: Compiled, members: int, sanitizer: str, has: int, forks: bool
) -> None:
    """3: coarse- and fine-grained buffers; under ThreadSanitizer in a smaller arena at another address.

    ``forks``: a child reads what its parent has mapped, and changes a copy; another has its own regions.
    """
    program = compiled("tests/c/svm", sanitizer)
    # What the client's threads hold when the program ends is no leak.
    sanitizers = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "die_after_fork=0"}
    settings = {"SDI_DEVICES": "cpu", **sanitizers}
    ended = on_image(members, program, *["fork"] * forks, **settings)
    assert (ended.stdout, ended.stderr) == (f"{has}\nright\n", ""), ended.describe()


@pytest.mark.parametrize("update", ["batch", "eager"])
def test_threads_have_a_region_each(compiled: Compiled, members: int, update: str) -> None:
    program = compiled("tests/c/regions_of_threads")
    assert "threads: ok" in on_image(members, program, SDI_FINE_GRAIN=update).stdout


def test_large_copies_reach_memory_that_a_handler_makes_accessible(compiled: Compiled, members: int) -> None:
    assert "copies: ok" in on_image(members, compiled("tests/c/copies")).stdout


def test_exit_while_large_copies_go_on_leaves_no_service(compiled: Compiled, members: int) -> None:
    assert "leaving" in on_image(members, compiled("tests/c/copies"), "exit").stdout


def test_memory_may_be_freed_after_the_last_release_of_what_used_it(compiled: Compiled, members: int) -> None:
    assert "freed: ok" in on_image(members, compiled("tests/c/freed")).stdout


@pytest.mark.parametrize(
    ("source", "arguments"), [("tests/c/poiseuille", ()), ("tests/c/host_memory", ("0", "2"))]
)
def test_memory_that_is_never_mapped_is_as_on_the_plain_driver(
    compiled: Compiled, tmp_path: Path, source: str, arguments: tuple[str, ...]
) -> None:
    program = compiled(source)
    plain = run([program, *arguments], plain_environ(), LIMIT_S)
    assert plain.returncode == 0, plain.describe()
    if "no CPU" in plain.stdout:
        pytest.skip("only CPU members use the application's memory")
    for members in (1, 2, 4):
        stats = tmp_path / f"{members}.json"
        image = on_image(members, program, *arguments, SDI_STATS=str(stats))
        assert image.stdout == plain.stdout, f"{members} members"
        counters = json.loads(stats.read_text())
        assert counters["memory"]["host_compared_nbytes"] > counters["memory"]["host_copied_nbytes"] > 0
        assert members == 1 or any(kernel["launches_split"] for kernel in counters["kernels"].values())


def test_kernels_print_each_line_once_before_they_are_complete(compiled: Compiled, members: int) -> None:
    on_image(members, compiled("tests/c/prints"))


def test_wait_for_any_child_sees_only_the_applications_own(compiled: Compiled, members: int) -> None:
    on_image(members, compiled("tests/c/wait_any"))


@pytest.mark.parametrize("how", ["exit", "_exit", "return", "thread", "gated", "kill"])
def test_exit_with_work_pending_is_prompt_and_leaves_no_service(
    compiled: Compiled, members: int, how: str
) -> None:
    ended = on_image(members, compiled("tests/c/exit_pending"), how, expected=-9 if how == "kill" else 0)
    assert f"leaving by {how}" in ended.stdout


def test_bad_calls_get_the_codes_of_the_specification(compiled: Compiled, members: int) -> None:
    ended = on_image(members, compiled("tests/c/errors"), "freed")
    assert "WRONG" not in ended.stdout
    log = [line.removeprefix("log| ") for line in ended.stdout.splitlines() if line.startswith("log| ")]
    assert any(re.search(r"\b4:\d+: error: expected expression", line) for line in log), log
    assert "    a[0] = 1 +;" in log, log
    assert any(re.fullmatch(r"[ ~]*\^[ ~]*", line) for line in log), log


def test_expected_codes_are_those_of_the_plain_driver(compiled: Compiled, tmp_path: Path) -> None:
    for n in range(20):  # so many wrong calls crash PoCL itself, more often with some layouts of its heap
        environ = {**plain_environ(), "POCL_CACHE_DIR": str(tmp_path / ("x" * (1 + 3 * n)))}
        ended = run([compiled("tests/c/errors"), *CRASHES], environ, LIMIT_S)
        if ended.returncode >= 0:
            break
    wrong = {line[:58].strip() for line in ended.stdout.splitlines() if line.endswith("WRONG")}
    assert re.search(r"^\d+ calls, \d+ wrong", ended.stdout, re.M), ended.describe()
    assert wrong <= DEVIATIONS


def test_asking_for_platforms_starts_no_python_and_takes_no_5_ms(compiled: Compiled, tmp_path: Path) -> None:
    program = compiled("tests/c/platforms")
    started = tmp_path / "started"
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\ntouch {started}\n")
    fake.chmod(0o755)
    empty = tmp_path / "vendors"
    empty.mkdir()

    def fastest(environ: dict[str, str]) -> float:
        runs = [run([program], environ, LIMIT_S) for _ in range(7)]
        assert all(ended.returncode == 0 for ended in runs), runs[0].describe()
        return min(float(re.findall("^ms (.*)", ended.stdout, re.M)[0]) for ended in runs)

    ended = on_image(3, program, SDI_PYTHON=str(fake))
    assert "name SDI" in ended.stdout
    assert not started.exists(), "a service was started"
    without = fastest(plain_environ() | {"OCL_ICD_VENDORS": str(empty)})
    with_image = fastest(image_environ(3))
    assert with_image - without < 5.0, f"{with_image} ms with the image, {without} ms without any platform"


def test_clinfo_describes_one_device(members: int) -> None:
    clinfo = shutil.which("clinfo")
    if clinfo is None:
        pytest.skip("clinfo is not installed")
    ended = on_image(members, Path(clinfo))
    assert re.search(r"^Number of platforms\s+1$", ended.stdout, re.M), ended.describe()
    assert re.search(r"^Number of devices\s+1$", ended.stdout, re.M), ended.describe()
    assert "Error" not in ended.stderr, ended.describe()


def test_pyopencl_with_its_own_loader_sees_one_device(members: int) -> None:
    code = "import pyopencl as cl; print([d.name for p in cl.get_platforms() for d in p.get_devices()])"
    environ = image_environ(members)
    ended = run([sys.executable, "-c", code], environ, LIMIT_S)
    assert ended.returncode == 0, ended.describe()
    assert not ended.remained, ended.describe()
    assert re.search(r"\['SDI \(", ended.stdout), ended.describe()
