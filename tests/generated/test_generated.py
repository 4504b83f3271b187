"""Generated programs, under both protocols, with members that have room and with full ones."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.generated.generate import Enqueue, Launch, generate
from tests.generated.kernels import KINDS
from tests.image_runs import Run, plain_environ, run
from tests.seeds import num_seeds

COUNT, PARTS = num_seeds(200, 500), 2
COMMANDS = 12
"""Beside those that make buffers and those that read them in the end."""
LIMIT_S = 900.0


@pytest.mark.timeout(LIMIT_S + 60)
def test_generated_programs_read_what_one_memory_would_hold() -> None:
    """In two processes, for two cores."""

    def part(number: int) -> Run:
        count = COUNT // PARTS
        module = ["-m", "tests.generated.compare"]
        asked = [str(number * count), str(count), "--commands", str(COMMANDS), "--json"]
        command = [sys.executable, *module, *asked]
        return run(command, plain_environ(), LIMIT_S)

    with ThreadPoolExecutor(PARTS) as pool:
        ended = list(pool.map(part, range(PARTS)))
    for each in ended:
        assert each.returncode == 0 and not each.remained, each.describe()
    found = [json.loads(line) for each in ended for line in each.stdout.splitlines()]
    assert (
        sum(image["programs"] for image in found) == 5 * COUNT
    )  # two protocols, with and without a limit; files
    limited = [image for image in found if image["limit_nbytes"]]
    for what in ("chunks", "holds", "drops", "spills"):
        assert sum(image[what] > 0 for image in limited) >= 2, what  # on several images
    spilling = [image for image in found if image["spills_to_files"]]
    assert sum(image["file_written_nbytes"] > 0 < image["file_read_nbytes"] for image in spilling) >= 3
    assert all(image["file_nbytes"] == 0 for image in found if not image["spills_to_files"])
    for image in found:
        if image["limit_nbytes"]:
            assert image["peak_nbytes"] <= image["limit_nbytes"]
            assert image["spills"] == 0 or image["coherence"] == "lazy", image
        else:
            assert image["chunks"] == image["spills"] == image["mapped"] == 0, image


def test_programs_are_the_same_each_time_and_use_every_kernel() -> None:
    programs = [generate(seed) for seed in range(40)]
    assert programs == [generate(seed) for seed in range(40)]
    work = [step.work for program in programs for step in program.steps if isinstance(step, Enqueue)]
    assert {each.kernel for each in work if isinstance(each, Launch)} == set(KINDS)
    assert {type(each).__name__ for each in work} == {
        "Launch", "Read", "Write", "Copy", "Fill", "Map", "Unmap", "Marker",
    }  # fmt: skip
    assert {step.queue for program in programs for step in program.steps if isinstance(step, Enqueue)} == {
        0,
        1,
    }
