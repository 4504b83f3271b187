"""Inputs and results in files, so that making and checking them need not wait for, nor hold up, a device."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.applications.program import Application, Array, Arrays

_BLOCK_NBYTES = 1 << 26


def inputs(application: Application, name: str, size_name: str, folder: Path | None) -> Arrays:
    """The application's inputs: from ``folder`` where they were made before, else made, and stored there."""
    size = application.SIZES[size_name]
    if folder is None:
        return application.inputs(size)
    where = folder / f"{name}-{size_name}"
    if not where.exists():
        store(application.inputs(size), where)
    return read(where)


def store(arrays: Arrays, where: Path) -> None:
    """Each array as a file in folder ``where``, which appears when all are there."""
    partial = where.with_name(where.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    for number, (name, array) in enumerate(arrays.items()):
        np.save(partial / f"{number}-{name}.npy", array)
    partial.rename(where)


def read(where: Path) -> Arrays:
    """What ``store`` wrote, in the same order, mapped into memory."""
    files = sorted(where.glob("*.npy"), key=lambda path: int(path.name.partition("-")[0]))
    return {path.stem.partition("-")[2]: np.load(path, mmap_mode="r") for path in files}


def digest(array: Array) -> str:
    """Of all bytes, by block, on all processors."""
    data = memoryview(np.ascontiguousarray(array)).cast("B")
    blocks = [data[at : at + _BLOCK_NBYTES] for at in range(0, len(data), _BLOCK_NBYTES)]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda block: sha256(block).digest(), blocks))
    return sha256(b"".join(found)).hexdigest()[:16]
