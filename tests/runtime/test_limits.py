"""Programs whose data are larger than what their members may hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.image_runs import image_environ, plain_environ, run

PROGRAMS = ["conjugate_gradient", "jacobi", "matmul", "scatter", "sobel", "spmv", "transpose", "two_queues"]
LIMIT_NBYTES = 16 << 10


@pytest.mark.parametrize("coherence", ["lazy", "host"])
@pytest.mark.parametrize("members", [1, 3])
def test_programs_compute_the_same_bytes_within_the_limit(
    tmp_path: Path, members: int, coherence: str
) -> None:
    stats = tmp_path / "stats.json"
    limited = image_environ(
        members,
        SDI_SPLIT="always",
        SDI_COHERENCE=coherence,
        SDI_MEMBER_MEMORY=str(LIMIT_NBYTES),
        SDI_STATS=str(stats),
    )
    arrays = []
    for name, environ in (("plain", plain_environ()), ("limited", limited)):
        out = tmp_path / f"{name}.npz"
        command = [sys.executable, "-m", "tests.programs.runner", "--out", str(out), "--only", *PROGRAMS]
        ended = run(command, environ, 100.0)
        assert ended.returncode == 0 and not ended.remained, ended.describe()
        with np.load(out) as archive:
            arrays.append({key: archive[key].tobytes() for key in archive})
    assert arrays[0] == arrays[1]
    memory = json.loads(stats.read_text())["memory"]
    assert max(memory["peak_nbytes"]) <= LIMIT_NBYTES
    assert memory["waves"] > 0 and memory["holds"] > 0 and memory["drops"] > 0
    assert (memory["spills"] > 0) == (coherence == "lazy")
