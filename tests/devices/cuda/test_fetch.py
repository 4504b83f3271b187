"""The kernel that brings few bytes of another GPU, and the members' others: they compile (no GPU needed)."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import nvrtc_options
from sdi.devices.cuda import nvrtc
from sdi.devices.cuda.compare import DIFF_TEXT
from sdi.devices.cuda.fetch import FETCH_TEXT, fetch_launch, is_fetched
from sdi.region import Region


@pytest.mark.parametrize("text", [DIFF_TEXT, FETCH_TEXT])
def test_kernels_of_members_themselves_compile(text: str) -> None:
    try:
        nvrtc.version()
    except nvrtc.NvrtcMissing as cause:
        pytest.skip(str(cause))
    assert nvrtc.compile_text(text, nvrtc_options((), contracts=True), (9, 0))


@pytest.mark.parametrize(("nbytes", "groups"), [(1, 1), (4096, 1), (4097, 2), (1 << 18, 64)])
def test_few_bytes_are_fetched_by_as_many_groups_as_have_something_to_do(nbytes: int, groups: int) -> None:
    name, found, block = fetch_launch(16, 48, nbytes)
    assert (name, found) == ("sdi_fetch", groups)
    assert block == b"".join(n.to_bytes(8, "little") for n in (16, 48, nbytes))


def test_runs_of_few_bytes_are_fetched_with_all_their_levels() -> None:
    name, groups, block = fetch_launch(16, 48, 8, ((76, 510), (38912, 3)))
    assert (name, groups) == ("sdi_fetch_rows", 12)
    numbers = (16, 48, 8, 76, 38912, 0, 510, 3, 1)
    assert block == b"".join(n.to_bytes(8, "little") for n in numbers)
    assert is_fetched(8, ((76, 510), (38912, 3))) and not is_fetched(8, ((9, 2),) * 4)
    assert not is_fetched(1 << 19, ((1 << 20, 2),)), "engines make long runs"
    assert is_fetched(1 << 18, ()) and not is_fetched((1 << 18) + 1, ())


RUN = """
#include <cstdio>
#define __global__
#define __device__
struct uint4 { unsigned x, y, z, w; };
static struct { unsigned x; } blockIdx, blockDim{4}, gridDim{3}, threadIdx;
%s
alignas(16) static char from[1 << 15], to[1 << 15];
int main() {
  unsigned long at, nbytes;
  sdi_levels levels;
  if (scanf("%%lu %%lu", &at, &nbytes) != 2) return 1;
  for (int k = 0; k < 3; k++)
    if (scanf("%%lu %%lu", &levels.strides[k], &levels.counts[k]) != 2) return 1;
  for (unsigned i = 0; i < sizeof from; i++) from[i] = 1;
  for (blockIdx.x = 0; blockIdx.x < 3; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < 4; threadIdx.x++) sdi_fetch_rows(to + at, from + at, nbytes, levels);
  fwrite(to, 1, sizeof to, stdout);
}
"""


def test_the_kernel_brings_the_bytes_of_a_region_and_no_other(tmp_path: Path) -> None:
    """Compiled for the host, whose threads take turns."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (tmp_path / "fetch.cpp").write_text(RUN % FETCH_TEXT)
    command = [compiler, "-fsanitize=undefined", "-fno-sanitize-recover", "fetch.cpp", "-o", "fetch"]
    subprocess.run(command, cwd=tmp_path, check=True)
    choose = random.Random(9)
    for _ in range(60):
        unit = choose.choice((1, 4, 16))
        nbytes, base = unit * choose.randint(1, 5), unit * choose.randint(0, 9)
        levels: list[tuple[int, int]] = []
        span = nbytes
        for _ in range(choose.randint(1, 3)):
            levels.append((span + unit * choose.randint(0, 6), choose.randint(2, 5)))
            span = levels[-1][0] * levels[-1][1]
        words = [base, nbytes, *[n for level in (*levels, (0, 1), (0, 1))[:3] for n in level]]
        said = " ".join(map(str, words)).encode()
        found = subprocess.run([tmp_path / "fetch"], input=said, capture_output=True, check=True).stdout
        assert np.flatnonzero(np.frombuffer(found, np.uint8)).tolist() == [
            byte for run in Region(base, nbytes, tuple(levels)).runs() for byte in range(run.start, run.stop)
        ]
