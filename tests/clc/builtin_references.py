"""What the CPU driver computes for the cases of ``builtin_programs``, kept in files.

``python -m tests.clc.builtin_references FOLDER [GROUP ...]`` writes a file for each part of a group, for GPU
hosts that have no CPU driver: there ``BUILTIN_REFERENCES`` names the folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from sdi.devices import copying
from sdi.devices.base import Device
from sdi.devices.capabilities import CPU
from sdi.devices.opencl.member import OpenCLDevice, driver_devices
from tests.clc.builtin_programs import DTYPES, ITEMS, Case, groups, inputs_of, program
from tests.devices import conftest
from tests.devices.conftest import finish

RESULTS_PER_ITEM = 96
_AT_ONCE = 24
"""Cases in one program: a GPU host's cores compile several at a time."""


def parts() -> dict[str, list[Case]]:
    """The groups, in parts that compile in seconds."""
    return {
        f"{name} {start // _AT_ONCE}": cases[start : start + _AT_ONCE]
        for name, cases in groups().items()
        for start in range(0, len(cases), _AT_ONCE)
    }


def results(member: Device, cases: Sequence[Case]) -> list[np.ndarray]:
    """What each case writes; what it leaves is 0."""
    built = member.build(program(list(cases)), [])
    found = []
    for number, case in enumerate(cases):
        result = np.zeros(ITEMS * RESULTS_PER_ITEM, DTYPES[case.result])
        arrays = [*inputs_of(case), result]
        buffers = [member.allocate(array.nbytes) for array in arrays]
        for buffer, array in zip(buffers, arrays, strict=True):
            finish(copying.upload(member, memoryview(array).cast("B"), buffer, 0, []))
        bound = member.bind(built, f"k{number}", buffers)
        ticket = member.launch(bound, (ITEMS, 1, 1), (1, 1, 1), 1, [])
        finish(copying.download(member, buffers[-1], 0, memoryview(result).cast("B"), [ticket]))
        for buffer in buffers:
            member.free(buffer)
        found.append(result)
    return found


def _path(folder: Path, part: str, cases: Sequence[Case]) -> Path:
    """The file of a part; another one when its text changes."""
    digest = hashlib.sha256(program(list(cases)).encode()).hexdigest()[:12]
    return folder / f"{part.replace(' ', '-')}-{digest}.npz"


def kept(part: str, cases: Sequence[Case]) -> list[np.ndarray] | None:
    """The results in the folder that ``BUILTIN_REFERENCES`` names, if there are any for these cases."""
    folder = os.environ.get("BUILTIN_REFERENCES")
    path = _path(Path(folder), part, cases) if folder else None
    if path is None or not path.exists():
        return None
    with np.load(path) as found:
        return [found[str(number)] for number in range(len(cases))]


def cpu_member() -> Iterator[Device]:
    """A member on the CPU driver, if there is one."""
    devices = [device for device in driver_devices() if device.kind is CPU]
    if devices:
        member = OpenCLDevice(devices[0], 1, 1 << 30)
        yield member
        member.close()


def main(folder: Path, wanted: Sequence[str]) -> int:
    """Write what is not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    conftest.PATIENCE_S = 1200.0  # the driver compiles a kernel with its first launch
    for member in cpu_member():
        for part, cases in parts().items():
            path = _path(folder, part, cases)
            if path.exists() or (wanted and not any(part.startswith(name) for name in wanted)):
                continue
            start = time.perf_counter()
            arrays = {str(number): array for number, array in enumerate(results(member, cases))}
            np.savez_compressed(path, **arrays)
            print(f"{part}: {time.perf_counter() - start:.1f} s", flush=True)
        return 0
    print("no OpenCL driver offers a CPU device", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
