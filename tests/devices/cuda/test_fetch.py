"""The kernel that brings few bytes of another GPU, and the members' others: they compile (no GPU needed)."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sdi.clc.cuda.translate import nvrtc_options
from sdi.devices.cuda import nvrtc
from sdi.devices.cuda.compare import DIFF_TEXT
from sdi.devices.cuda.fetch import FETCH_TEXT, FetchPart, fetch_launch, is_fetched
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
    name, found, block = fetch_launch([FetchPart(16, 48, Region(0, nbytes))])
    assert (name, found) == ("sdi_fetch_1", (groups, 1, 1))
    assert block == struct.pack("<9Q", 16, 48, nbytes, 0, 0, 0, 1, 1, 1)


def test_runs_of_few_bytes_are_fetched_with_all_their_levels() -> None:
    runs = Region(7, 8, ((76, 510), (38912, 3)))
    name, groups, block = fetch_launch([FetchPart(16, 48, runs)])
    assert (name, groups) == ("sdi_fetch_1", (12, 1, 1))
    assert block == struct.pack("<9Q", 16, 48, 8, 76, 38912, 0, 510, 3, 1)
    assert is_fetched([runs])
    assert not is_fetched([Region(0, 8, ((9, 2), (20, 2), (50, 2), (110, 2)))])
    assert is_fetched([Region(0, 1 << 22, ((1 << 23, 2),))])
    assert not is_fetched([Region(0, (1 << 22) + 1, ((1 << 23, 2),))]), "engines make long runs"
    assert is_fetched([Region(0, 1 << 18)]) and not is_fetched([Region(0, (1 << 18) + 1)])


def test_up_to_sixteen_parts_are_brought_by_one_kernel() -> None:
    planes = [FetchPart(k, 100 + k, Region(0, 1 << 19)) for k in range(10)]
    name, groups, block = fetch_launch(planes)
    assert (name, groups, len(block)) == ("sdi_fetch_16", (64, 10, 1), 16 * 72)
    assert struct.unpack_from("<3Q", block, 9 * 72) == (9, 109, 1 << 19) and not any(block[10 * 72 :])
    assert fetch_launch(planes[:4])[0] == "sdi_fetch_4" and fetch_launch(planes[:5])[0] == "sdi_fetch_16"
    long = FetchPart(0, 1, Region(0, 4096, ((1 << 20, 4096),)))
    assert fetch_launch([long] * 4)[1] == (132, 4, 1), "no more groups than a GPU has at once"
    regions = [part.region for part in planes]
    assert is_fetched(regions) and is_fetched(regions[:1] * 16) and not is_fetched(regions[:1] * 17)


RUN = """
#include <cstdio>
#define __global__
#define __device__
struct uint4 { unsigned x, y, z, w; };
static struct { unsigned x, y; } blockIdx, blockDim{4}, gridDim{3}, threadIdx;
%s
alignas(16) static char from[1 << 15], to[1 << 15];
int main() {
  sdi_parts<4> all = {};
  unsigned parts;
  if (scanf("%%u", &parts) != 1) return 1;
  for (unsigned part = 0; part < parts; part++) {
    sdi_part &one = all.part[part];
    unsigned long at;
    if (scanf("%%lu %%lu", &at, &one.nbytes) != 2) return 1;
    for (int k = 0; k < 3; k++)
      if (scanf("%%lu %%lu", &one.strides[k], &one.counts[k]) != 2) return 1;
    one.to = to + at;
    one.from = from + at;
  }
  for (unsigned i = 0; i < sizeof from; i++) from[i] = 1;
  for (blockIdx.y = 0; blockIdx.y < parts; blockIdx.y++)
    for (blockIdx.x = 0; blockIdx.x < 3; blockIdx.x++)
      for (threadIdx.x = 0; threadIdx.x < 4; threadIdx.x++) sdi_fetch_4(all);
  fwrite(to, 1, sizeof to, stdout);
}
"""


def test_the_kernel_brings_the_bytes_of_its_regions_and_no_others(tmp_path: Path) -> None:
    """Compiled for the host, whose threads take turns."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (tmp_path / "fetch.cpp").write_text(RUN % FETCH_TEXT)
    command = [compiler, "-fsanitize=undefined", "-fno-sanitize-recover", "fetch.cpp", "-o", "fetch"]
    subprocess.run(command, cwd=tmp_path, check=True)
    choose = random.Random(9)
    for _ in range(60):
        regions = [region(choose) for _ in range(choose.randint(1, 4))]
        words = [len(regions)]
        for each in regions:
            levels = (*each.levels, (0, 1), (0, 1), (0, 1))[:3]
            words += [each.base, each.nbytes, *[n for level in levels for n in level]]
        said = " ".join(map(str, words)).encode()
        found = subprocess.run([tmp_path / "fetch"], input=said, capture_output=True, check=True).stdout
        brought = {byte for each in regions for run in each.runs() for byte in range(run.start, run.stop)}
        assert set(np.flatnonzero(np.frombuffer(found, np.uint8)).tolist()) == brought


def region(choose: random.Random) -> Region:
    """Of few bytes."""
    unit = choose.choice((1, 4, 16))
    nbytes, base = unit * choose.randint(1, 5), unit * choose.randint(0, 9)
    levels: list[tuple[int, int]] = []
    span = nbytes
    for _ in range(choose.randint(0, 3)):
        levels.append((span + unit * choose.randint(0, 6), choose.randint(2, 5)))
        span = levels[-1][0] * levels[-1][1]
    return Region(base, nbytes, tuple(levels))
