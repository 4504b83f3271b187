"""Kernels that only compute, on one GPU: a CUDA member against the vendor's OpenCL, by options of the build.

``python bench/gpu_arithmetic.py OUT.json``: as ``gpu_member.py``, best of ten launches each.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from gpu_member import NBODY, Argument, differences, on_cuda, on_opencl, vendor_queue
from gpu_yardstick import machine

from sdi.devices.cuda.gpu import cuda_devices
from sdi.devices.cuda.member import CudaDevice
from sdi.ndrange import NDRange

OPTIONS = ("", "-cl-mad-enable", "-cl-unsafe-math-optimizations", "-cl-fast-relaxed-math")
DENSITIES = """
kernel void densities(global const float4 *p, global float *densities, int n, float h) {
  float4 me = p[get_global_id(0)]; float sum = 0;
  for (int j = 0; j < n; j++) {
    float4 other = p[j]; float x = other.x - me.x, y = other.y - me.y, z = other.z - me.z;
    float rest = h * h - (x * x + y * y + z * z);
    if (rest > 0) sum += other.w * rest * rest * rest;
  }
  densities[get_global_id(0)] = sum * 315.0f / (64.0f * 3.14159265f * h * h * h);
}"""
POTENTIALS = """
kernel void potentials(global const float4 *atoms, global float *e, int n, float step) {
  int i = get_global_id(0); float x = (i & 511) * step, y = (i >> 9) * step, sum = 0;
  for (int j = 0; j < n; j++) {
    float dx = x - atoms[j].x, dy = y - atoms[j].y;
    sum += atoms[j].w / sqrt(dx * dx + dy * dy + atoms[j].z);
  }
  e[i] += sum;
}"""
MANDELBROT = """
kernel void mandelbrot(global int *out, int w, int most) {
  int i = get_global_id(0), k = 0; float cx = (i % w) * 2.5f / w - 2.0f, cy = (i / w) * 2.0f / w - 1.0f, x = 0, y = 0;
  for (; k < most && x * x + y * y < 4.0f; k++) { float t = x * x - y * y + cx; y = 2.0f * x * y + cy; x = t; }
  out[i] = k;
}"""
POLYNOMIAL = """
kernel void polynomial(global const float *a, global float *out, int n) {
  float x = a[get_global_id(0)], sum = 0;
  for (int k = 0; k < n; k++) {
    sum += 0.5f * x * x * x - 0.25f * x * x + 0.125f * x + 1.0f;
    x = x * 0.999f + 0.001f * sum * 0.0001f;
  }
  out[get_global_id(0)] = sum;
}"""
NEAREST = """
kernel void nearest(global const float *a, global const float *b, global float *out, int n, int dimensions) {
  float best = 1e30f;
  for (int j = 0; j < n; j++) {
    float sum = 0;
    for (int k = 0; k < dimensions; k++) {
      float t = a[k * get_global_size(0) + get_global_id(0)] - b[j * dimensions + k];
      sum += t * t;
    }
    best = fmin(best, sum);
  }
  out[get_global_id(0)] = sqrt(best);
}"""
SPHERES = """
kernel void spheres(global const float4 *spheres, global float *out, int n) {
  int i = get_global_id(0); float3 from = (float3)(0.1f, 0.2f, -3.0f); float first = 1e9f;
  float3 ray = normalize((float3)((i & 511) / 256.0f - 1.0f, (i >> 9) / 256.0f - 1.0f, 1.5f));
  for (int j = 0; j < n; j++) {
    float3 to = from - spheres[j].xyz; float b = dot(to, ray), h = b * b - (dot(to, to) - spheres[j].w * spheres[j].w);
    if (h > 0) { float at = -b - sqrt(h); if (at > 0 && at < first) first = at; }
  }
  out[i] = first;
}"""
BILATERAL = """
kernel void bilateral(global const float *a, global float *out, int w) {
  int x = get_global_id(0), y = get_global_id(1); float sum = 0;
  for (int j = -3; j <= 3; j++)
    for (int k = -3; k <= 3; k++) {
      float v = a[clamp(y + j, 0, w - 1) * w + clamp(x + k, 0, w - 1)], d = v - a[y * w + x];
      sum += v * exp(-(float)(j * j + k * k) * 0.1f) * exp(-d * d * 10.0f);
    }
  out[y * w + x] = sum;
}"""
FUNCTIONS = """
kernel void functions(global const float *a, global float *out, int n) {
  float x = a[get_global_id(0)], sum = 0;
  for (int k = 0; k < n; k++)
    sum += sin(x * k) * cos(x + k) + pow(x, 0.3f * k) / (1.0f + x * x) + tan(x * 0.01f * k) + log2(x + k) + exp2(-x * k);
  out[get_global_id(0)] = sum;
}"""


def cases() -> list[tuple[str, str, list[Argument], NDRange]]:
    """Name, source, arguments and range."""
    rng = np.random.default_rng(1)

    def floats(*shape: int) -> np.ndarray:
        return rng.random(shape, dtype=np.float32) + np.float32(0.5)

    def zeros(n: int) -> np.ndarray:
        return np.zeros(n, np.float32)

    def line(n: int) -> NDRange:
        return NDRange(1, (0, 0, 0), (n, 1, 1), (256, 1, 1))

    n, many, bodies, w = 1 << 18, 1 << 20, 1 << 16, 4096
    square = NDRange(2, (0, 0, 0), (w, w, 1), (32, 8, 1))
    return [
        ("nbody", NBODY, [floats(bodies, 4), np.zeros((bodies, 4), np.float32), np.int32(bodies), 4096], line(bodies)),
        ("densities", DENSITIES, [floats(n, 4), zeros(n), np.int32(8192), np.float32(0.7)], line(n)),
        ("potentials", POTENTIALS, [floats(8192, 4), zeros(n), np.int32(8192), np.float32(0.01)], line(n)),
        ("mandelbrot", MANDELBROT, [np.zeros(many, np.int32), np.int32(1024), np.int32(5000)], line(many)),
        ("polynomial", POLYNOMIAL, [floats(many), zeros(many), np.int32(2000)], line(many)),
        ("nearest", NEAREST, [floats(16, n), floats(1024, 16), zeros(n), np.int32(1024), np.int32(16)], line(n)),
        ("spheres", SPHERES, [floats(4096, 4), zeros(n), np.int32(4096)], line(n)),
        ("bilateral", BILATERAL, [floats(w, w), np.zeros((w, w), np.float32), np.int32(w)], square),
        ("functions", FUNCTIONS, [floats(many), zeros(many), np.int32(200)], line(many)),
    ]  # fmt: skip


def main() -> int:
    gpu = cuda_devices()[0]
    member, queue = CudaDevice(gpu, 0, gpu.memory_nbytes), vendor_queue()
    if queue is None:
        print("there is no OpenCL of the vendor's to compare with", file=sys.stderr)
        return 1
    rows: list[dict[str, Any]] = []
    for options in OPTIONS:
        speeds = []
        for name, source, arguments, nd in cases():
            ours, a = on_cuda(member, name, source, arguments, nd, options)
            theirs, b = on_opencl(queue, name, source, arguments, nd, options)
            speeds.append(theirs / ours)
            rows.append(
                {"kernel": name, "options": options, "cuda_member_ms": ours, "opencl_ms": theirs}
                | {"speed": speeds[-1], "results": differences(a, b)}
            )
            print(rows[-1], flush=True)
        print(
            options or "no options",
            f"mean speed {math.prod(speeds) ** (1 / len(speeds)):.3f}, least {min(speeds):.2f}",
        )
    member.close()
    Path(sys.argv[1]).write_text(json.dumps({**machine(), "kernels": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
