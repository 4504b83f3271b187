"""Predictions from one GPU beside what was measured on several: ``python -m bench.predicted [--only NAME]``.

The committed figures (``bench/results/*/figures-*.json``) have each application's times of kernels and of the
host's copies on one member, of which profiles are put together: commands come from the application itself,
run on a session that computes nothing.  Predicted is the second run of a process, measured the median of all
but the first.
"""

from __future__ import annotations

import argparse
import json
import struct
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyopencl as cl

from bench.applications.program import Array, load
from sdi.clc.model import KernelModel
from sdi.commands import Fill, Launch, Read, Rectangle, Write
from sdi.devices.capabilities import GPU
from sdi.devices.testing.null import NullDevice
from sdi.launch.programs.builds import Target, build
from sdi.predict.prediction import group_times
from sdi.predict.program import Built, Created, Enqueued, Gone, RecordedProgram, Step
from sdi.predict.rates import named
from sdi.predict.simulate import Speed, simulate
from sdi.predict.trace import trace
from sdi.profile.analyse.model import Member, SessionProfile
from sdi.wire.arguments import ArgumentKind
from sdi.wire.opencl import DeviceInfo

RESULTS = Path(__file__).parent / "results"
UNITS = 132
"""Compute units of an H200."""
MEMORY_NBYTES = 150_800_000_000
_FILL_BYTES_PER_NS = 2510.0
"""bench/results/gpu_4xh200.md: 5,020 GB/s on two GPUs."""
_SHAPES: dict[str, Any] = {
    "black_scholes": lambda s: dict.fromkeys("abcdef", ((s.options,), np.float32)),
    "correlator": lambda s: {"samples": ((s.stations, s.times, s.channels, 4), np.int8)},
    "matrix_mul": lambda s: dict.fromkeys("ab", ((s.side, s.side), np.float32)),
    "rpes": lambda s: {
        "shells": ((s.shells, 4), np.float32),
        "parts": ((s.shells, s.depth, 2), np.float32),
        "bounds": ((s.shells * (s.shells + 1) // 2,), np.float32),
    },
}
"""Inputs of which only the shapes count, and that take long to make."""


class NoSession:
    """What applications call, writing down commands.  ``buffers``: their sizes."""

    def __init__(self, models: Sequence[KernelModel], first: int) -> None:
        self.commands: list[Write | Read | Fill | Launch] = []
        self.created: list[tuple[int, int]] = []
        self._models, self._first = models, first

    def upload(self, array: Array) -> int:
        buffer = self.empty(array.nbytes)
        self.commands.append(Write(buffer, _all(array.nbytes), False))
        return buffer

    def empty(self, nbytes: int) -> int:
        number = self._first + len(self.created)
        self.created.append((number, nbytes))
        return number

    def zeros(self, nbytes: int) -> int:
        buffer = self.empty(nbytes)
        self.commands.append(Fill(buffer, _all(nbytes), b"\0"))
        return buffer

    def launch(self, kernel: str, size: Sequence[int], local: Sequence[int], *arguments: Any) -> None:
        entries = bytearray()
        number = next(k for k, model in enumerate(self._models) if model.name == kernel)
        for value, argument in zip(arguments, self._models[number].arguments, strict=True):
            if isinstance(value, cl.LocalMemory):
                kind, payload = ArgumentKind.LOCAL, struct.pack("<Q", value.size)
            elif isinstance(value, int):
                kind, payload = ArgumentKind(argument.kind), struct.pack("<QQQ", value, 0, 0)
            else:
                kind, payload = ArgumentKind.VALUE, value.tobytes()
            entries += struct.pack("<II", kind, len(payload)) + payload + bytes(-len(payload) % 8)
        x, y, z = (*size, 1, 1)[:3]
        a, b, c = (*local, 1, 1)[:3]
        record = bytes([number]) + struct.pack("<6Q", x, y, z, a, b, c) + bytes(entries)
        shape = (int(x), int(y), int(z)), (int(a), int(b), int(c))
        found = Launch(1, number, len(size), (0, 0, 0), *shape, bytes(entries), len(arguments), record=record)
        self.commands.append(found)

    def download(self, buffer: int, shape: int | tuple[int, ...], dtype: type) -> Array:
        found: Array = np.broadcast_to(np.zeros((), dtype), shape)
        self.commands.append(Read(buffer, _all(found.nbytes), True))
        return found


def _all(nbytes: int) -> Rectangle:
    return Rectangle(0, (nbytes, 1, 1), 0, 0)


def program_of(
    name: str, size_name: str, run: Mapping[str, Any], spans: Mapping[str, Any]
) -> RecordedProgram:
    """Two runs of an application, with the times of one member."""
    application = load(name)
    size = application.SIZES[size_name]
    info = {str(int(DeviceInfo.MAX_COMPUTE_UNITS)): b64encode(UNITS.to_bytes(4, "little")).decode()}
    extensions = b"cl_khr_byte_addressable_store cl_khr_fp64 cl_khr_int64_base_atomics\0"
    info[str(int(DeviceInfo.EXTENSIONS))] = b64encode(extensions).decode()
    info[str(int(DeviceInfo.MAX_MEM_ALLOC_SIZE))] = b64encode((1 << 36).to_bytes(8, "little")).decode()
    member = Member("NVIDIA H200", "gpu", memory_nbytes=MEMORY_NBYTES, info=info)
    device = NullDevice(0, GPU, 1 << 34, {int(k): _bytes(v) for k, v in info.items()})
    built = build(application.SOURCE, "", "/dev/null", Target([device]))
    models = [kernel.model for kernel in built.kernels]
    kernels = [model.name for model in models]
    if name in _SHAPES:
        inputs = {
            key: np.broadcast_to(np.zeros((), dtype), shape)
            for key, (shape, dtype) in _SHAPES[name](size).items()
        }
    else:
        inputs = application.inputs(size)
    steps: list[Step] = [Built(1, built.object)]
    done = 0
    for number in range(2):
        session = NoSession(models, 100 + 1000 * number)
        application.run(session, size, inputs)  # type: ignore[arg-type]
        steps += [Created(buffer, nbytes, False) for buffer, nbytes in session.created]
        steps += _timed(session.commands, kernels, run, spans, done)
        done += len(session.commands)
        steps += [Gone(buffer) for buffer, _ in session.created]
    return RecordedProgram(
        SessionProfile(0, 0, (member,), 0, 0, True), tuple(steps), float(run["wall_ns"]), 0.0
    )


def _bytes(text: str) -> bytes:
    return b64decode(text)


def _timed(
    commands: Sequence[Write | Read | Fill | Launch],
    kernels: Sequence[str],
    run: Mapping[str, Any],
    spans: Mapping[str, Any],
    done: int,
) -> list[Enqueued]:
    groups: dict[str, int] = {}
    copied = 0
    for command in commands:
        if isinstance(command, Launch):
            name = kernels[command.kernel_index]
            groups[name] = groups.get(name, 0) + _groups(command)
        elif not isinstance(command, Fill):
            copied += command.rectangle.nbytes
    in_kernels = sum(run["kernel_ns"].values())
    own = float(spans["application_ns"])
    rest = max(0.0, run["wall_ns"] - in_kernels - own - spans["copy_ns"])
    found = []
    waited = done
    for position, command in enumerate(commands):
        name, kernel_ns, count, work_ns, host_ns = "", 0.0, 0, 0.0, 0.0
        if isinstance(command, Launch):
            name, count = kernels[command.kernel_index], _groups(command)
            kernel_ns = run["kernel_ns"][name] * count / groups[name]
        elif isinstance(command, Fill):
            work_ns = command.rectangle.nbytes / _FILL_BYTES_PER_NS
        else:
            host_ns = own * command.rectangle.nbytes / copied
        # What the application does beside is before each command alike; reads and writes are waited for.
        found.append(
            Enqueued(command, 1, name, waited, rest / len(commands), kernel_ns, count, work_ns, host_ns)
        )
        waited = done + position + 1 if isinstance(command, Read | Write) else 0
    return found


def _groups(launch: Launch) -> int:
    assert launch.local_size is not None
    return int(
        np.prod(
            [-(-size // local) for size, local in zip(launch.global_size, launch.local_size, strict=True)]
        )
    )


def _median(setup: Sequence[Mapping[str, Any]], skip: int = 1) -> float:
    return median([run["wall_ns"] for process in setup for run in process["runs"][skip:] or process["runs"]])


def compare(path: Path, counts: Sequence[int], only: str) -> None:
    """A row for each application of a file of figures."""
    figures = json.loads(path.read_text(encoding="utf-8"))
    machine = figures["machine"]
    print(f"\n{path.parent.name}/{path.name}: commit {machine['commit']}, {machine['date']}\n")
    print(
        "| application | 1: measured, predicted | "
        + " | ".join(f"{n}: measured, predicted" for n in counts)
        + " |"
    )
    print("|---|---|" + "---|" * len(counts))
    costs, speed = named("h200"), Speed(1.0, UNITS, False)
    for name, application in figures["applications"].items():
        setups = {
            key: [each for each in value if "runs" in each] for key, value in application["setups"].items()
        }
        one = setups.get("1 member") or []
        if only not in name or not one:
            continue
        run, spans = _typical(one[0])
        program = program_of(name, application["size"], run, spans)
        times = group_times(program, costs, speed)
        cells = []
        for count in (1, *counts):
            measured = setups.get("1 member" if count == 1 else f"{count} members")
            traced = trace(program, count, costs, times)
            found = simulate(traced, costs, speed)
            second = len(found.commands) // 2
            said = found.commands[-1][1] - found.commands[second][0]
            cuts = sorted({each.assignments for each in traced.commands[second:] if each.assignments})
            if not measured:
                cells.append(f"-, {said / 1e6:.1f}")
                continue
            took = _median(measured)
            cells.append(f"{took / 1e6:.1f}, {said / 1e6:.1f} ({100 * (said / took - 1):+.0f} %, {cuts})")
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def _typical(setup: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The run of median length but for the first, and its spans."""
    pairs = list(zip(setup["runs"], setup["spans"], strict=True))
    pairs = sorted(pairs[1:] or pairs, key=lambda each: each[0]["wall_ns"])
    return pairs[len(pairs) // 2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    compare(RESULTS / "4xh200" / "figures-gpu.json", (2, 4), options.only)
    compare(RESULTS / "2xh200" / "figures-gpu.json", (2,), options.only)
    compare(RESULTS / "2xh200" / "figures-paper.json", (2,), options.only)


if __name__ == "__main__":
    main()
