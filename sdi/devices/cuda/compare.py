"""The kernel that finds what a member changed, for CUDA members; see ``comparing.py`` for what it writes.

A warp compares runs of 32 units, one unit each lane, so that memory is read in whole lines and a ballot is
the run's bit set.  It takes four runs at a time: the two counters are shared by all, and each four runs
change them once.  (``apply``, which reads only what changed, is the OpenCL C of ``comparing.py``.)
"""

from __future__ import annotations

import struct

from sdi.devices.base import Comparison
from sdi.devices.comparing import num_runs, values_offset

GROUP_ITEMS = 256
_RUNS_AT_ONCE, _WARPS = 4, GROUP_ITEMS // 32
_MAX_GROUPS = 1 << 16

DIFF_TEXT = """
template<class U> __device__ void diff(const U *now, const U *twin, unsigned units, unsigned runs, unsigned *header, U *values) {
  const unsigned lane = threadIdx.x & 31, warps = gridDim.x * (blockDim.x / 32);
  unsigned first = (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32) * 4;
  for (; first < runs; first += 4 * warps) {
    U found[4];
    unsigned masks[4], records = 0, changed = 0;
    for (int k = 0; k < 4; k++) {
      const unsigned long unit = (first + k) * 32ul + lane;
      bool differs = false;
      if (unit < units) {
        found[k] = now[unit];
        differs = found[k] != twin[unit];
      }
      masks[k] = __ballot_sync(~0u, differs);
      records += masks[k] != 0;
      changed += __popc(masks[k]);
    }
    if (records == 0) continue;
    unsigned record = 0, value = 0;
    if (lane == 0) {
      record = atomicAdd(header, records);
      value = atomicAdd(header + 1, changed);
    }
    record = __shfl_sync(~0u, record, 0);
    value = __shfl_sync(~0u, value, 0);
    for (int k = 0; k < 4; k++) {
      if (masks[k] == 0) continue;
      if (lane == 0) ((uint4 *)header)[1 + record] = make_uint4(first + k, masks[k], value, 0);
      if (masks[k] >> lane & 1) values[value + __popc(masks[k] & ((1u << lane) - 1))] = found[k];
      record++;
      value += __popc(masks[k]);
    }
  }
}
#define DIFF(U, N) \\
  extern "C" __global__ void sdi_diff_##N(const U *now, const U *twin, unsigned units, unsigned runs, unsigned *header, U *values) { \\
    diff(now, twin, units, runs, header, values); \\
  }
DIFF(unsigned char, 1) DIFF(unsigned short, 2) DIFF(unsigned, 4) DIFF(unsigned long, 8)
"""  # noqa: E501


def diff_launch(comparison: Comparison, own: int, twin: int, changes: int) -> tuple[int, bytes]:
    """(number of work-groups, parameters) for buffers at these addresses."""
    runs = num_runs(comparison.nbytes, comparison.unit_nbytes)
    groups = min(_MAX_GROUPS, -(-runs // (_RUNS_AT_ONCE * _WARPS)))
    parameters = struct.pack(
        "<QQIIQQ",
        own + comparison.offset,
        twin + comparison.twin_offset,
        comparison.nbytes // comparison.unit_nbytes,
        runs,
        changes,
        changes + values_offset(comparison.nbytes, comparison.unit_nbytes),
    )
    return groups, parameters
