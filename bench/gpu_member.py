"""One GPU: CUDA members against the vendor's OpenCL, launches, copies.

``python bench/gpu_member.py OUT.json``: kernels are timed on the device (best of several launches), after a
comparison of what they compute; the CUDA member runs what an image would give it: sub-range text, one box.
"""

# ruff: noqa: E501
from __future__ import annotations

import json
import mmap
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from gpu_yardstick import machine

from sdi.clc.compile import compile_source
from sdi.clc.launch import pack_hidden
from sdi.cli.copies import wait
from sdi.devices import copying
from sdi.devices.base import LocalBytes
from sdi.devices.cuda.context import use_page_locks
from sdi.devices.cuda.gpu import cuda_devices
from sdi.devices.cuda.member import CudaDevice
from sdi.devices.page_locks import PAGE_LOCKS
from sdi.devices.ticket import Ticket
from sdi.ndrange import GroupBox, NDRange
from sdi.region import Region

MATMUL = """
#define TILE 16
kernel void matmul(global const float *a, global const float *b, global float *c, int n) {
  local float at[TILE][TILE], bt[TILE][TILE];
  int x = get_local_id(0), y = get_local_id(1), col = get_global_id(0), row = get_global_id(1);
  float sum = 0;
  for (int k = 0; k < n; k += TILE) {
    at[y][x] = a[row * n + k + x]; bt[y][x] = b[(k + y) * n + col];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < TILE; j++) sum += at[y][j] * bt[j][x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + col] = sum;
}"""
NBODY = """
kernel void nbody(global const float4 *p, global float4 *out, int n, local float4 *tile) {
  int i = get_global_id(0), l = get_local_id(0);
  float4 me = p[i]; float3 f = (float3)(0);
  for (int k = 0; k < n; k += get_local_size(0)) {
    tile[l] = p[k + l];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = 0; j < get_local_size(0); j++) {
      float3 d = tile[j].xyz - me.xyz;
      float r = rsqrt(dot(d, d) + 0.01f);
      f += d * (tile[j].w * r * r * r);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  out[i] = (float4)(f, 0);
}"""
STENCIL = """
kernel void stencil(global const float *a, global float *b, int w, int h) {
  int x = get_global_id(0), y = get_global_id(1);
  if (x > 0 && y > 0 && x < w - 1 && y < h - 1)
    b[y * w + x] = 0.25f * (a[y * w + x - 1] + a[y * w + x + 1] + a[(y - 1) * w + x] + a[(y + 1) * w + x]);
}"""
BLACK_SCHOLES = """
float phi(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
  float c = 0.39894228f * exp(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f)))));
  return d > 0 ? 1.0f - c : c;
}
kernel void bs(global const float *s, global const float *x, global const float *t, global float *call, global float *put, float r, float v) {
  size_t i = get_global_id(0);
  float root = sqrt(t[i]), d1 = (log(s[i] / x[i]) + (r + 0.5f * v * v) * t[i]) / (v * root), d2 = d1 - v * root;
  float c1 = phi(d1), c2 = phi(d2), e = exp(-r * t[i]);
  call[i] = s[i] * c1 - x[i] * e * c2;
  put[i] = x[i] * e * (1.0f - c2) - s[i] * (1.0f - c1);
}"""
TRANSPOSE = """
kernel void transpose(global const float *a, global float *b, int n) {
  local float t[16][17];
  int lx = get_local_id(0), ly = get_local_id(1), x = get_group_id(0) * 16, y = get_group_id(1) * 16;
  t[ly][lx] = a[(size_t)(y + ly) * n + x + lx];
  barrier(CLK_LOCAL_MEM_FENCE);
  b[(size_t)(x + ly) * n + y + lx] = t[lx][ly];
}"""
REDUCTION = """
kernel void reduction(global const float4 *a, global float *sums, local float *part) {
  int l = get_local_id(0); float4 s = (float4)(0);
  for (int k = 0; k < 16; k++) s += a[(get_group_id(0) * 16 + k) * get_local_size(0) + l];
  part[l] = s.x + s.y + s.z + s.w;
  for (int n = get_local_size(0) / 2; n > 0; n /= 2) { barrier(CLK_LOCAL_MEM_FENCE); if (l < n) part[l] += part[l + n]; }
  if (l == 0) sums[get_group_id(0)] = part[0];
}"""
HISTOGRAM = """
kernel void histogram(global const uchar16 *a, global uint *h, int per) {
  local uint bins[256]; int l = get_local_id(0);
  bins[l] = 0; barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = 0; k < per; k++) {
    uchar16 v = a[(get_group_id(0) * per + k) * 256 + l];
    atomic_inc(&bins[v.s0]); atomic_inc(&bins[v.s5]); atomic_inc(&bins[v.sa]); atomic_inc(&bins[v.sf]);
  }
  barrier(CLK_LOCAL_MEM_FENCE); atomic_add(&h[l], bins[l]);
}"""

Argument = np.ndarray | np.generic | int


def cases() -> list[tuple[str, str, list[Argument], NDRange]]:
    rng = np.random.default_rng(1)

    def floats(*shape: int) -> np.ndarray:
        return rng.random(shape, dtype=np.float32) + np.float32(0.5)

    n, bodies, w, options = 2048, 65536, 16384, 1 << 25
    return [
        ("matmul", MATMUL, [floats(n, n), floats(n, n), np.zeros((n, n), np.float32), np.int32(n)], NDRange(2, (0, 0, 0), (n, n, 1), (16, 16, 1))),
        ("nbody", NBODY, [floats(bodies, 4), np.zeros((bodies, 4), np.float32), np.int32(bodies), 256 * 16], NDRange(1, (0, 0, 0), (bodies, 1, 1), (256, 1, 1))),
        ("stencil", STENCIL, [floats(w, w), np.zeros((w, w), np.float32), np.int32(w), np.int32(w)], NDRange(2, (0, 0, 0), (w, w, 1), (32, 8, 1))),
        ("bs", BLACK_SCHOLES, [floats(options), floats(options), floats(options), np.zeros(options, np.float32), np.zeros(options, np.float32), np.float32(0.02), np.float32(0.3)], NDRange(1, (0, 0, 0), (options, 1, 1), (128, 1, 1))),
        ("transpose", TRANSPOSE, [floats(w, w), np.zeros((w, w), np.float32), np.int32(w)], NDRange(2, (0, 0, 0), (w, w, 1), (16, 16, 1))),
        ("reduction", REDUCTION, [floats(1 << 28), np.zeros(1 << 14, np.float32), 256 * 4], NDRange(1, (0, 0, 0), (1 << 22, 1, 1), (256, 1, 1))),
        ("histogram", HISTOGRAM, [rng.integers(0, 256, 1 << 30, dtype=np.uint8), np.zeros(256, np.uint32), np.int32(64)], NDRange(1, (0, 0, 0), (1 << 20, 1, 1), (256, 1, 1))),
    ]  # fmt: skip


def on_cuda(
    member: CudaDevice, name: str, source: str, arguments: list[Argument], nd: NDRange, options: str
) -> tuple[float, list[np.ndarray]]:
    compiled = compile_source(source, options)
    program = member.build(compiled.text, compiled.member_options)
    buffers, bound, shifts = [], [], []
    for each in arguments:
        if isinstance(each, np.ndarray):
            buffers.append((member.allocate(each.nbytes), each))
            wait(copying.upload(member, memoryview(each).cast("B"), buffers[-1][0], 0, []))
            bound.append(buffers[-1][0])
            shifts.append(0)
        else:
            bound.append(LocalBytes(each) if isinstance(each, int) else each.tobytes())
    box = GroupBox((0, 0, 0), nd.num_groups)
    kernel = member.bind(program, name, [*bound, pack_hidden(compiled.kernels[0], nd, box, shifts)])
    times = []
    first: list[np.ndarray] = []
    for turn in range(12):
        ticket = member.launch(kernel, box.extent, nd.local_size, nd.work_dim, [])
        wait(ticket)
        times.append((ticket.end_ns - ticket.start_ns) / 1e6)
        if turn == 0:
            for buffer, array in buffers:
                found = np.empty_like(array)
                wait(copying.download(member, buffer, 0, memoryview(found).cast("B"), []))
                first.append(found)
    for buffer, _ in buffers:
        member.free(buffer)
    return min(times[2:]), first


def on_opencl(
    queue: cl.CommandQueue, name: str, source: str, arguments: list[Argument], nd: NDRange, options: str
) -> tuple[float, list[np.ndarray]]:
    kernel = cl.Kernel(cl.Program(queue.context, source).build(options.split()), name)
    buffers: list[tuple[cl.Buffer, np.ndarray]] = []
    for index, each in enumerate(arguments):
        if isinstance(each, np.ndarray):
            buffers.append(
                (
                    cl.Buffer(
                        queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=each
                    ),
                    each,
                )
            )
            kernel.set_arg(index, buffers[-1][0])
        else:
            kernel.set_arg(index, cl.LocalMemory(each) if isinstance(each, int) else each)
    times = []
    first: list[np.ndarray] = []
    for turn in range(12):
        event = cl.enqueue_nd_range_kernel(
            queue, kernel, nd.global_size[: nd.work_dim], nd.local_size[: nd.work_dim]
        )
        event.wait()
        times.append((event.profile.end - event.profile.start) / 1e6)
        if turn == 0:
            for buffer, array in buffers:
                found = np.empty_like(array)
                cl.enqueue_copy(queue, found, buffer)
                first.append(found)
    for buffer, _ in buffers:
        buffer.release()
    return min(times[2:]), first


def differences(a: list[np.ndarray], b: list[np.ndarray]) -> str:
    if all((x.view(np.uint8) == y.view(np.uint8)).all() for x, y in zip(a, b, strict=True)):
        return "same bytes"
    if any(x.dtype != np.float32 for x in a):
        same = [float((x == y).mean()) for x, y in zip(a, b, strict=True)]
        return f"{min(same):.3%} the same"
    worst = max(float(np.max(np.abs(x - y) / np.maximum(np.abs(y), 1e-3))) for x, y in zip(a, b, strict=True))
    return f"within {worst:.1e}"


def kernels(member: CudaDevice, queue: cl.CommandQueue | None) -> list[dict[str, Any]]:
    rows = []
    for options in ("", "-cl-fast-relaxed-math"):
        for name, source, arguments, nd in cases():
            if options and name not in ("nbody", "bs"):
                continue
            ours, a = on_cuda(member, name, source, arguments, nd, options)
            row: dict[str, Any] = {"kernel": name, "options": options, "cuda_member_ms": ours}
            if queue is not None:
                theirs, b = on_opencl(queue, name, source, arguments, nd, options)
                row |= {"opencl_ms": theirs, "speed": theirs / ours, "results": differences(a, b)}
            rows.append(row)
            print(row, flush=True)
    return rows


def copies(member: CudaDevice) -> dict[str, float]:
    nbytes = 1 << 30
    found: dict[str, float] = {}
    buffer = member.allocate(nbytes)
    store = mmap.mmap(-1, nbytes)
    array = np.frombuffer(store, np.uint8)
    array[:] = 1
    view = memoryview(store)

    def rate(copy: Callable[[], Ticket]) -> float:
        best = 0.0
        for _ in range(3):
            start = time.perf_counter()
            wait(copy())
            best = max(best, nbytes / (time.perf_counter() - start) / 1e9)
        return best

    for label in ("pageable", "registered"):
        if label == "registered":
            start = time.perf_counter()
            use_page_locks()
            PAGE_LOCKS.offer(array.ctypes.data, nbytes)
            PAGE_LOCKS.lock(view)
            found["register_s_per_gib"] = time.perf_counter() - start
        found[f"upload_{label}_gb_s"] = rate(lambda: copying.upload(member, view, buffer, 0, []))
        found[f"download_{label}_gb_s"] = rate(lambda: copying.download(member, buffer, 0, view, []))
    PAGE_LOCKS.withdraw(array.ctypes.data)
    found["fill_gb_s"] = rate(lambda: member.fill(buffer, 0, nbytes, b"\1\2\3\4", []))
    found["fill_16_byte_pattern_gb_s"] = rate(lambda: member.fill(buffer, 0, nbytes, bytes(range(16)), []))
    halves = Region(0, nbytes // 2), Region(nbytes // 2, nbytes // 2)
    found["copy_on_device_gb_s"] = (
        rate(lambda: copying.within(member, buffer, halves[0], buffer, halves[1], [])) / 2
    )
    member.free(buffer)
    small = member.allocate(4096)
    host = memoryview(bytearray(4096))
    times = []
    for _ in range(200):
        start = time.perf_counter()
        wait(copying.upload(member, host, small, 0, []))
        times.append((time.perf_counter() - start) * 1e6)
    found["upload_4_kib_pageable_us"] = float(np.median(times))
    member.free(small)
    return found


def builds(member: CudaDevice) -> dict[str, float]:
    compiled = compile_source(NBODY + f"// {time.time()}", "")
    found = {}
    for label in ("first", "from_cache"):
        start = time.perf_counter()
        member.build(compiled.text + f"\n// {found}"[:0], compiled.member_options)
        found[f"build_{label}_ms"] = (time.perf_counter() - start) * 1e3
    return found


def vendor_queue() -> cl.CommandQueue | None:
    try:
        for each in cl.get_platforms():
            if "NVIDIA" in each.name:
                context = cl.Context(each.get_devices()[:1])
                return cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    except cl.Error as error:
        print(error)
    return None


def main() -> int:
    gpu = cuda_devices()[0]
    member = CudaDevice(gpu, 0, gpu.memory_nbytes)
    report: dict[str, Any] = {
        **machine(),
        "cuda": member.capabilities.driver,
        "python": platform.python_version(),
        "repetitions": 10,
    }
    for part in (builds, copies):
        report[part.__name__] = part(member)
        print(part.__name__, report[part.__name__], flush=True)
    report["kernels"] = kernels(member, vendor_queue())
    member.close()
    Path(sys.argv[1]).write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
