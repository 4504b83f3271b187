"""A session explains the last launch of each kernel when it is asked to."""

import json
import sys
from pathlib import Path

from tests.image_runs import ROOT, Run, image_environ, plain_environ, run

PROGRAM = [sys.executable, ROOT / "tests" / "launch" / "verify" / "verified_program.py"]
EXPLAINED = """\
kernel twice, line 2: split over 2 members, cut 2 of 64 work-groups of 64
  out (float*)
    writes out[get_global_id(0)], line 5
    writes: known exactly
  in (float*)
    reads in[get_global_id(0)], line 5
  scatter of 16.0 KiB for in
  member 0 runs groups (0, 0, 0) to (32, 1, 1)
    out: writes 8.0 KiB [0, 8192)
    in: needs 8.0 KiB [0, 8192)
  member 1 runs groups (32, 0, 0) to (64, 1, 1)
    out: writes 8.0 KiB [8192, 16384)
    in: needs 8.0 KiB [8192, 16384)
"""


def explained(*flags: str, **settings: str) -> Run:
    command = [sys.executable, "-m", "sdi.cli", "run", "-n", "2", "--split", "always", *flags, "--", *PROGRAM]
    done = run(command, plain_environ() | settings, 60.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    return done


def test_run_explain_prints_how_the_last_launch_of_each_kernel_was_split() -> None:
    assert explained("--explain").stderr == EXPLAINED


def test_the_file_of_stats_has_the_explanation_only_when_asked(tmp_path: Path) -> None:
    done = explained("--explain", "--stats", SDI_STATS=str(tmp_path / "asked.json"))
    assert done.stderr.startswith(EXPLAINED + "sdi: 2 members\n")
    kernel = json.loads((tmp_path / "asked.json").read_text())["kernels"]["twice"]
    assert set(kernel["explain"]) == {"kernel", "launch", "patterns", "text"}
    assert kernel["explain"]["launch"]["members"][1]["buffers"][0]["writes"] == {
        "nbytes": 8192, "pieces": 1, "ranges": [[8192, 16384]]
    }  # fmt: skip
    explained("--stats", SDI_STATS=str(tmp_path / "not.json"))
    assert "explain" not in json.loads((tmp_path / "not.json").read_text())["kernels"]["twice"]


def test_without_a_file_the_service_prints_the_explanation_itself() -> None:
    done = run(PROGRAM, image_environ(2, SDI_SPLIT="always", SDI_EXPLAIN="1"), 60.0)
    assert done.stderr == EXPLAINED
