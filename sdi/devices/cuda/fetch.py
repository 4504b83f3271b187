"""The kernel that brings bytes of another GPU, where these are few: stencils' edges.

A copy of the driver's goes to the GPU's copy engine, and a kernel behind it waits for that; one of the same
stream begins a few microseconds sooner.  Both read the other GPU's memory by the link between them.
"""

from __future__ import annotations

FETCH_MAX_NBYTES = 1 << 18
"""Larger ones are copy engines'; up to 128 KiB (rows of 32,768 floats) kernels were measured to win."""
FETCH_ITEMS = 256
_WORD_NBYTES = 16
_MAX_GROUPS = 64

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
"""  # noqa: E501


def fetch_launch(to: int, from_: int, nbytes: int) -> tuple[int, bytes]:
    """(number of work-groups, parameters) for these addresses."""
    groups = min(_MAX_GROUPS, -(-nbytes // (FETCH_ITEMS * _WORD_NBYTES)))
    return groups, b"".join([value.to_bytes(8, "little") for value in (to, from_, nbytes)])
