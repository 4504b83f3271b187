"""Random OpenCL C: access maps against the record of all accesses, and images against the plain driver.

``python -m tests.differential.runner`` runs any number more, on whatever ``OCL_TEST_PLATFORM`` names.
"""

from __future__ import annotations

import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sdi.ndrange import NDRange
from tests.differential.expressions import INTS
from tests.differential.runner import PAIR, room_of
from tests.differential.writer import COUNTERS, Launch, Program, generate
from tests.image_runs import image_environ, plain_environ, run
from tests.sampling import checking
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of

CHECKED, COMPARED = 8, 10
LIMIT_S = 300.0


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


def as_checked(program: Program, launch: Launch) -> checking.Launch:
    """A launch as the recorder makes it."""

    def three(values: tuple[int, ...], rest: int) -> tuple[int, int, int]:
        x, y, z = (*values, *(rest,) * (3 - len(values)))
        return (x, y, z)

    ndrange = NDRange(
        len(launch.global_size),
        three(launch.offset, 0),
        three(launch.global_size, 1),
        three(launch.local_size, 1),
    )
    written = [np.zeros(room_of(slots), np.uint8) for slots in program.slots]
    scalars = (struct.pack("<i", launch.n), struct.pack("<I", launch.m), PAIR)
    read = np.zeros(4 * (INTS + 64), np.uint8), np.zeros(3 * INTS, np.uint8)
    return checking.Launch(ndrange, (*read, *written, np.zeros(4 * COUNTERS, np.uint8), *scalars))


@pytest.mark.parametrize("seed", range(CHECKED))
def test_maps_of_random_programs_agree_with_what_they_touch(seed: int, recorder: Recorder) -> None:
    program = generate(seed, may_have_images=False)
    tree = tree_of(program.source)
    for launch in program.launches[:2]:
        checked = as_checked(program, launch)
        checking.check(recorder, tree, kernels_of(tree)["k"], "", checked, ("random", "ones"))


@pytest.mark.timeout(2 * LIMIT_S)
def test_random_programs_leave_the_plain_driver_s_bytes(tmp_path: Path) -> None:
    def left(members: int) -> str:
        out = tmp_path / str(members)
        asked = ["-m", "tests.differential.runner", "--out", str(out), "1000", str(COMPARED)]
        environ = image_environ(members, SDI_SPLIT="always") if members else plain_environ()
        ended = run([sys.executable, "-W", "ignore", *asked], environ, LIMIT_S)
        assert ended.returncode == 0 and not ended.remained, ended.describe()
        return out.read_text()

    with ThreadPoolExecutor(2) as pool:
        plain, image = pool.map(left, (0, 3))
    assert "error" not in plain and len(plain.splitlines()) == COMPARED
    for expected, found in zip(plain.splitlines(), image.splitlines(), strict=True):
        assert found == expected, f"program {expected.split()[0]}"
