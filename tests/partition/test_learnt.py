"""A program's second run begins with what the first one learnt, and computes the same."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from sdi.partition.learnt import Attempts, Learnt, LearntProgram, as_json, from_json, packed, unpacked
from tests.image_runs import image_environ, run

NAME = "0123456789abcdef" * 4
MEMBERS = (("gpu", "a GPU", "1.0", 0),) * 2
PROGRAM = """
import numpy as np, pyopencl as cl
ctx = cl.Context(next(p for p in cl.get_platforms() if p.name == "SDI").get_devices())
queue = cl.CommandQueue(ctx)
source = "__kernel void more(__global int *a) {{ a[get_global_id(0)] += {more}; }}"
more = cl.Program(ctx, source).build().more
a = cl.Buffer(ctx, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.arange(4096, dtype=np.int32))
for _ in range(8):
    more(queue, (4096,), (64,), a)
    queue.finish()
out = np.empty(4096, np.int32)
cl.enqueue_copy(queue, out, a)
print(out.sum(), (out == np.arange(4096) + 8 * {more}).all())
"""


@pytest.mark.parametrize("learnt", ["on", "off"])
def test_what_a_program_learnt_is_there_for_its_next_run(tmp_path: Path, learnt: str) -> None:
    environ = image_environ(2, SDI_LEARNT=learnt, XDG_CACHE_HOME=str(tmp_path))
    folder, outputs, files = tmp_path / "sdi" / "learnt", [], []
    for more in (3, 3, 4):
        done = run([sys.executable, "-c", PROGRAM.format(more=more)], environ, 100)
        assert done.returncode == 0 and done.stdout.endswith("True\n"), done.describe()
        outputs.append(done.stdout)
        files.append(len(list(folder.glob("*"))))
    assert outputs[0] == outputs[1]
    assert files == ([1, 1, 2] if learnt == "on" else [0, 0, 0])


def test_attempts_that_are_none_are_not_believed() -> None:
    known = LearntProgram(NAME, MEMBERS, {}, {"claim": Attempts(3, 1, 2), "other": Attempts()})
    told = as_json(known)
    assert from_json(json.loads(json.dumps(told))) == known == unpacked(packed(known))
    for wrong in (
        None,
        [],
        {"a": [1, 2, 3, 4]},
        {"a": [1, -2, 0]},
        {"a": [1, 2.5, 0]},
        {"a": 1},
        {"a\n": [1, 2, 0]},
    ):
        with pytest.raises(ValueError):
            from_json({**told, "attempts": wrong})
    for wrong in (None, "", "x" * 64, 5):
        with pytest.raises(ValueError):
            from_json({**told, "program": wrong})
    for wrong in (None, [["gpu", "a GPU", "1.0"]], [["gpu", "a GPU", "1.0", -1]], [["gpu", 5, "1.0", 0]]):
        with pytest.raises(ValueError):
            from_json({**told, "members": wrong})


@pytest.mark.parametrize(
    ("dims", "bits", "runs"), [(1, 193, 0), (1, -1, 0), (0, 3, 0), (4, 3, 0), (1, 3, 10**30)]
)
def test_sizes_that_no_launch_has_are_not_believed(dims: int, bits: int, runs: int) -> None:
    told = as_json(LearntProgram(NAME, MEMBERS, {"more": {(3, 192): Learnt({2: 1.0}, (2, 1, 1), 2, {})}}))
    assert unpacked(json.dumps(told).encode()) is not None
    entry = told["launches"]["more"][0]
    told["launches"]["more"] = [[dims, bits, *entry[2:6], runs]]
    assert unpacked(json.dumps(told).encode()) is None


def test_what_one_knows_counts_before_what_only_the_other_knows() -> None:
    def learnt(ns: float) -> Learnt:
        return Learnt({1: ns}, (1, 1, 1), 1, {})

    one = LearntProgram(NAME, MEMBERS, {"k": {(1, 5): learnt(1.0)}}, {"k": Attempts(1, 0)}, 7)
    other = LearntProgram(
        NAME, MEMBERS, {"k": {(1, 5): learnt(2.0), (1, 6): learnt(3.0)}, "m": {}}, {"m": Attempts(2, 0)}, 9
    )
    both = one.over(other)
    assert both.launches == {"k": {(1, 5): learnt(1.0), (1, 6): learnt(3.0)}, "m": {}}
    assert (both.attempts, both.written_s) == ({"k": Attempts(1, 0), "m": Attempts(2, 0)}, 7)


def test_what_stands_has_to_make_up_for_what_is_undone() -> None:
    assert not Attempts(1, 3).why_not(4)
    assert Attempts(1, 4).why_not(4)
    assert Attempts(0, 1).why_not(2)


def test_what_stood_long_ago_pays_for_little_that_is_undone() -> None:
    attempts = Attempts(1000, 0)
    for _ in range(16):
        attempts.is_undone()
    assert not attempts.why_not(2)
    attempts.is_undone()
    assert attempts.why_not(2) and (attempts.stood, attempts.undone) == (1000, 17)
    seldom = Attempts()
    for _ in range(200):  # one of ten
        seldom.stands(9)
        seldom.is_undone()
        assert not seldom.why_not(2)
    assert Attempts(1000, 400).begun(2).kept == 16
