"""What is run: the paper's seven programs, and three that show one thing each."""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np
import pyopencl as cl

from bench.applications import kept
from bench.applications import tpacf as pairs
from bench.applications.program import Application, Array
from bench.protocols import STENCIL, Coherent, second_run_s, stencil

PARBOIL = ("cp", "mri_fhd", "mri_q", "pns", "rpes", "sad", "tpacf")
_HERE = ("mri_fhd", "pns", "sad")
Parts = dict[str, float]
"""Seconds of a run, by what it did; ``all`` of it."""


def load(name: str) -> Application:
    """One of the seven."""
    package = "bench.adsm" if name in _HERE else "bench.applications"
    return cast(Application, importlib.import_module(f"{package}.{name}"))


def whole(way: str, name: str, size: str) -> Parts:
    """The second run of one of the seven in this process.  Raises ``WrongResult``.

    Inputs are made once for all processes with the same BENCH_INPUTS, a folder."""
    application, folder = load(name), os.environ.get("BENCH_INPUTS")
    inputs = kept.inputs(application, name, size, Path(folder) if folder else None)
    session = Coherent(_device(), application.SOURCE, way)
    return {"all": second_run_s(application, session, size, inputs)}


def volume(way: str, side: int) -> Parts:
    """A stencil with a source of heat that the host sets, and the volume in a file now and then."""
    session = Coherent(_device(), STENCIL, way)
    return {"all": [stencil(session, side) for _ in range(2)][-1]}


_ADD = """
kernel void add(global const float *a, global const float *b, global float *c)
{
    int i = get_global_id(0);
    c[i] = a[i] + b[i];
}
"""
_STEP = 1 << 14
"""Elements that the host sets, or sums up, at a time."""


def vectors(way: str, count: int) -> Parts:
    """Two vectors that the host fills are added, and the host reads the sum."""
    session = Coherent(_device(), _ADD, way)
    parts: Parts = {}
    for _ in range(2):
        session.forget()
        times = [time.perf_counter()]
        a, b, c = (session.empty(4 * count) for _ in range(3))
        for shared, factor in ((a, 1), (b, 2)):
            _fill(session, shared, count, factor)
        times.append(time.perf_counter())
        session.launch("add", [count], [64], a, b, c)
        session.queue.finish()
        times.append(time.perf_counter())
        found = c.bytes.view(np.float32) if way == "eager" else session.download(c, count, np.float32)
        total = sum(float(found[k : k + _STEP].sum()) for k in range(0, count, _STEP))
        times.append(time.perf_counter())
        assert total == sum(3.0 * (k % 7) * _STEP for k in range(count // _STEP)), total
        spans = [after - before for before, after in pairwise(times)]
        parts = {**dict(zip(("fill", "launch", "read"), spans, strict=True)), "all": times[-1] - times[0]}
    return parts


def _fill(session: Coherent, shared: object, count: int, factor: int) -> None:
    own: Array = np.empty(count, np.float32)
    is_seen = shared.bytes.nbytes == own.nbytes  # type: ignore[attr-defined]
    target = shared.bytes.view(np.float32) if is_seen else own  # type: ignore[attr-defined]
    for k in range(0, count, _STEP):
        target[k : k + _STEP] = factor * (k // _STEP % 7)
    if not is_seen:
        cl.enqueue_copy(session.queue, shared.memory, own, is_blocking=True)  # type: ignore[attr-defined]


def passes(way: str, sets: int) -> Parts:
    """TPACF on many small sets, whose points the host makes in passes over all three coordinates."""
    points = 64
    session = Coherent(_device(), pairs.SOURCE, way)
    random = np.random.default_rng(15)
    given = random.standard_normal((3, sets + 1, points)).astype(np.float32)
    edges = np.cos(np.linspace(0, np.pi, pairs.BINS + 1)).astype(np.float32)
    parts: Parts = {}
    for _ in range(2):
        session.forget()
        times = [time.perf_counter()]
        shared = [session.empty(4 * given[0].size) for _ in range(3)]
        x, y, z = (each.bytes.view(np.float32).reshape(sets + 1, points) for each in shared)
        for k in range(sets + 1):
            x[k], y[k], z[k] = given[0, k], given[1, k], given[2, k]
        for _again in range(2):
            for k in range(sets + 1):
                length = np.sqrt(x[k] * x[k] + y[k] * y[k] + z[k] * z[k])
                x[k] /= length
                y[k] /= length
                z[k] /= length
        times.append(time.perf_counter())
        groups = 2 * sets + 1
        told, histograms = session.upload(edges), session.empty(4 * pairs.BINS * groups)
        scalars = np.int32(points), np.int32(sets), np.int32(1)
        session.launch("pairs", [groups * 64], [64], *shared, histograms, told, *scalars)
        found = session.download(histograms, (groups, pairs.BINS), np.uint32)
        times.append(time.perf_counter())
        assert (found[sets + 1 :].sum(axis=1) == points * points).all()
        parts = {"fill": times[1] - times[0], "all": times[-1] - times[0]}
    return parts


def _device() -> cl.Device:
    return cl.create_some_context(interactive=False).devices[0]


RUNS: dict[str, Callable[..., Parts]] = {
    "whole": whole,
    "volume": volume,
    "vectors": vectors,
    "passes": passes,
}
"""By the name that ``measure`` has for them; each gets how memory is kept coherent first."""
