"""Vectors of three elements in memory on CUDA members."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.clc.host_kernels import HostKernels, aligned


def test_the_fourth_place_of_three_elements_in_memory_is_not_written(tmp_path: Path) -> None:
    source = """
    typedef struct { float3 f; } S;
    kernel void k(global float3 *o, global int3 *n, global S *s, float3 a) {
      int i = get_global_id(0);
      float3 kept[2];
      kept[i & 1] = a;
      o[2 * i] = kept[i & 1] + (float)i;
      o[2 * i + 1] = (o[2 * i] = a) * 2.0f;
      o[2 * i] += a;
      n[i] = (int3)(i);
      n[i] <<= 1;
      n[i] |= 1;
      s[i].f = s[i].f - a;
      s[i].f -= a * a;
    }"""
    out, numbers = aligned(np.full((8, 4), 9, np.float32)), aligned(np.full((4, 4), 9, np.int32))
    records, added = aligned(np.full((4, 4), 9, np.float32)), aligned(np.arange(4, dtype=np.float32))
    HostKernels(source, tmp_path).launch("k", 4, 4, out, numbers, records, added)
    assert out.tolist() == [[0, 2, 4, 9]] * 8
    assert numbers.tolist() == [[2 * i + 1] * 3 + [9] for i in range(4)]
    assert records.tolist() == [[9, 7, 3, 9]] * 4
