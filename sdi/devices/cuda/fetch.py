"""The kernels that bring bytes of another GPU: few, as of stencils' edges, or in pieces.

A copy of the driver's goes to the GPU's copy engine, and a kernel behind it waits for that; one of the same
stream begins a few microseconds sooner.  Both read the other GPU's memory by the link between them.  Of runs
of a few bytes an engine makes one after the other, where each work-item of a kernel makes one.
"""

from __future__ import annotations

from math import prod

from sdi.region import Levels

FETCH_MAX_NBYTES = 1 << 18
"""Larger ones are copy engines'; up to 128 KiB (rows of 32,768 floats) kernels were measured to win."""
FETCH_RUN_MAX_NBYTES = 1 << 18
"""Where runs are longer, engines make them, plane by plane: [M] 3,844 of 6 KiB in 62 planes took 7.5 ms."""
FETCH_ITEMS = 256
ROWS_KERNEL = "sdi_fetch_rows"
_LEVELS_MAX = 3
_WORD_NBYTES = 16
_MAX_GROUPS, _MAX_ROWS_GROUPS = 64, 528

FETCH_TEXT = """
extern "C" __global__ void sdi_fetch(char *to, const char *from, unsigned long nbytes) {
  const unsigned long first = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x, step = gridDim.x * (unsigned long)blockDim.x;
  const unsigned long bits = (unsigned long)to | (unsigned long)from | nbytes;
  if (bits % 16 == 0)
    for (unsigned long i = first; i < nbytes / 16; i += step) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
  else if (bits % 4 == 0)
    for (unsigned long i = first; i < nbytes / 4; i += step) ((unsigned *)to)[i] = ((const unsigned *)from)[i];
  else
    for (unsigned long i = first; i < nbytes; i += step) to[i] = from[i];
}

template <typename word>
__device__ void sdi_rows(char *to, const char *from, unsigned long words, const unsigned long *strides, const unsigned long *counts) {
  const unsigned long all = words * counts[0] * counts[1] * counts[2], step = gridDim.x * (unsigned long)blockDim.x;
  for (unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x; i < all; i += step) {
    unsigned long left = i / words, at = i % words * sizeof(word);
    at += left % counts[0] * strides[0];
    left /= counts[0];
    at += left % counts[1] * strides[1] + left / counts[1] * strides[2];
    *(word *)(to + at) = *(const word *)(from + at);
  }
}

struct sdi_levels { unsigned long strides[3], counts[3]; };

extern "C" __global__ void sdi_fetch_rows(char *to, const char *from, unsigned long nbytes, sdi_levels levels) {
  unsigned long bits = (unsigned long)to | (unsigned long)from | nbytes;
  for (int level = 0; level < 3; level++) bits |= levels.strides[level];
  if (bits % 16 == 0) sdi_rows<uint4>(to, from, nbytes / 16, levels.strides, levels.counts);
  else if (bits % 4 == 0) sdi_rows<unsigned>(to, from, nbytes / 4, levels.strides, levels.counts);
  else sdi_rows<char>(to, from, nbytes, levels.strides, levels.counts);
}
"""  # noqa: E501


def is_fetched(nbytes: int, levels: Levels) -> bool:
    """Whether a kernel brings runs of so many bytes."""
    if levels:
        return len(levels) <= _LEVELS_MAX and nbytes <= FETCH_RUN_MAX_NBYTES
    return nbytes <= FETCH_MAX_NBYTES


def fetch_launch(to: int, from_: int, nbytes: int, levels: Levels = ()) -> tuple[str, int, bytes]:
    """(kernel, number of work-groups, parameters) for runs of ``nbytes`` from these addresses on."""
    numbers = [to, from_, nbytes]
    if levels:
        items = max(1, nbytes // 4) * prod([count for _, count in levels])
        more = [(0, 1)] * (_LEVELS_MAX - len(levels))
        numbers += [stride for stride, _ in (*levels, *more)] + [count for _, count in (*levels, *more)]
        groups = min(_MAX_ROWS_GROUPS, -(-items // FETCH_ITEMS))
    else:
        groups = min(_MAX_GROUPS, -(-nbytes // (FETCH_ITEMS * _WORD_NBYTES)))
    block = b"".join([value.to_bytes(8, "little") for value in numbers])
    return ROWS_KERNEL if levels else "sdi_fetch", groups, block
