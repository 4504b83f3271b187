"""The kernels that bring bytes of another GPU: few, as of stencils' edges, or in pieces.

A copy of the driver's goes to the GPU's copy engine, and a kernel behind it waits for that; one of the same
stream begins a few microseconds sooner.  Both read the other GPU's memory by the link between them.  Of runs
in pieces an engine makes one after the other, where one kernel brings all that a launch needs of a GPU:
[M] two runs of 512 KiB with a pitch took 0.3 ms on H200s.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from sdi.devices.native import FETCHED_MAX
from sdi.region import Levels, Region

FETCH_MAX_NBYTES = 1 << 18
"""A larger run alone is a copy engine's; up to 128 KiB (rows of 32,768 floats) kernels win."""
FETCH_RUN_MAX_NBYTES = 1 << 22
"""Where runs are longer, engines make them."""
FETCHER = "sdi_fetch_1"
"""The kernel of one part."""
FETCH_ITEMS = 256
_PARTS = (1, 4, FETCHED_MAX)
"""Of how many there are kernels: parameters take time."""
_LEVELS_MAX = 3
_WORD_NBYTES = 16
_MAX_GROUPS, _MAX_ROWS_GROUPS = 64, 528

FETCH_TEXT = """
struct sdi_part { char *to; const char *from; unsigned long nbytes, strides[3], counts[3]; };
template <int count> struct sdi_parts { sdi_part part[count]; };

template <typename word> __device__ void sdi_run(const sdi_part &part) {
  const unsigned long words = part.nbytes / sizeof(word), step = gridDim.x * (unsigned long)blockDim.x;
  for (unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x; i < words; i += step)
    ((word *)part.to)[i] = ((const word *)part.from)[i];
}

template <typename word> __device__ void sdi_rows(const sdi_part &part) {
  const unsigned long words = part.nbytes / sizeof(word), step = gridDim.x * (unsigned long)blockDim.x;
  const unsigned long all = words * part.counts[0] * part.counts[1] * part.counts[2];
  for (unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x; i < all; i += step) {
    unsigned long left = i / words, at = i % words * sizeof(word);
    at += left % part.counts[0] * part.strides[0];
    left /= part.counts[0];
    at += left % part.counts[1] * part.strides[1] + left / part.counts[1] * part.strides[2];
    *(word *)(part.to + at) = *(const word *)(part.from + at);
  }
}

template <typename word> __device__ void sdi_words(const sdi_part &part) {
  if (part.counts[0] * part.counts[1] * part.counts[2] == 1) sdi_run<word>(part);
  else sdi_rows<word>(part);
}

__device__ void sdi_fetch(const sdi_part &part) {
  unsigned long bits = (unsigned long)part.to | (unsigned long)part.from | part.nbytes;
  for (int level = 0; level < 3; level++) bits |= part.strides[level];
  if (bits % 16 == 0) sdi_words<uint4>(part);
  else if (bits % 4 == 0) sdi_words<unsigned>(part);
  else sdi_words<char>(part);
}

extern "C" __global__ void sdi_fetch_1(sdi_parts<1> all) { sdi_fetch(all.part[0]); }
extern "C" __global__ void sdi_fetch_4(sdi_parts<4> all) { sdi_fetch(all.part[blockIdx.y]); }
extern "C" __global__ void sdi_fetch_16(sdi_parts<16> all) { sdi_fetch(all.part[blockIdx.y]); }
"""


class FetchPart(NamedTuple):
    """Runs like those of ``region``, the first of which goes from one address to another."""

    to: int
    from_: int
    region: Region


def is_fetched(regions: Sequence[Region]) -> bool:
    """Whether a kernel brings them, which are of one GPU."""
    if len(regions) == 1 and not regions[0].levels:
        return regions[0].nbytes <= FETCH_MAX_NBYTES
    return len(regions) <= FETCHED_MAX and all(
        len(each.levels) <= _LEVELS_MAX and each.nbytes <= FETCH_RUN_MAX_NBYTES for each in regions
    )


def fetch_launch(parts: Sequence[FetchPart]) -> tuple[str, tuple[int, int, int], bytes]:
    """(kernel, work-groups, parameters)."""
    room = next(count for count in _PARTS if count >= len(parts))
    numbers = [number for part in parts for number in _numbers(part)]
    groups = min(max(map(_groups, parts)), max(_MAX_GROUPS, _MAX_ROWS_GROUPS // len(parts)))
    block = b"".join([number.to_bytes(8, "little") for number in numbers])
    return f"sdi_fetch_{room}", (groups, len(parts), 1), block.ljust(len(block) // len(parts) * room, b"\0")


def _numbers(part: FetchPart) -> list[int]:
    levels: Levels = (*part.region.levels, *[(0, 1)] * (_LEVELS_MAX - len(part.region.levels)))
    strides, counts = [stride for stride, _ in levels], [count for _, count in levels]
    return [part.to, part.from_, part.region.nbytes, *strides, *counts]


def _groups(part: FetchPart) -> int:
    """So many have something to do, as far as more of them are of use."""
    nbytes, levels = part.region.nbytes, part.region.levels
    if not levels:
        return min(_MAX_GROUPS, -(-nbytes // (FETCH_ITEMS * _WORD_NBYTES)))
    items = max(1, nbytes // 4) * prod([count for _, count in levels])
    return min(_MAX_ROWS_GROUPS, -(-items // FETCH_ITEMS))
