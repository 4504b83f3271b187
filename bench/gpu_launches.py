"""What a small launch costs: NVIDIA's OpenCL, images of 1, 2, 4 GPUs, CUDA members alone, pycuda alone.

``python bench/gpu_launches.py OUT.json [--members 1 2 4]``, in the environment that ``gpu_setup.sh`` makes.
The kernel writes one int per work-item, 16 groups of 64: the image runs a part of it on every member.
Microseconds per launch, best of three: *sustained* from the first enqueue of many to the end of all,
*alone* from an enqueue to the end of ``clFinish`` (median).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

SOURCE = "kernel void touch(global int *a, int k) { a[get_global_id(0)] = k; }"
GROUPS, LOCAL, MANY, ALONE = 16, 64, 3000, 300
Costs = dict[str, float]


def costs(launch: Callable[[], object], finish: Callable[[], object]) -> Costs:
    """Sustained and alone, after a warm-up."""
    for _ in range(300):
        launch()
    finish()
    sustained = []
    for _ in range(3):
        start = time.perf_counter()
        for _ in range(MANY):
            launch()
        finish()
        sustained.append((time.perf_counter() - start) / MANY * 1e6)
    alone = []
    for _ in range(ALONE):
        start = time.perf_counter()
        launch()
        finish()
        alone.append((time.perf_counter() - start) * 1e6)
    return {"sustained_us": min(sustained), "alone_us": statistics.median(alone)}


def through_opencl() -> Costs:
    """On the first OpenCL device."""
    import pyopencl as cl

    device = cl.get_platforms()[0].get_devices()[0]
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * GROUPS * LOCAL)
    kernel = cl.Kernel(cl.Program(context, SOURCE).build(), "touch")
    kernel.set_args(buffer, np.int32(7))
    size, local = (GROUPS * LOCAL,), (LOCAL,)
    return costs(lambda: cl.enqueue_nd_range_kernel(queue, kernel, size, local), queue.finish)


def on_members(count: int) -> Costs:
    """On CUDA members without a service, as it would call them: one launch on each, after the last there."""
    from sdi.devices.cuda.gpu import cuda_devices
    from sdi.devices.cuda.member import CudaDevice
    from sdi.devices.issue import SEEN
    from sdi.devices.polling import Polling
    from sdi.devices.ticket import Ticket

    sys.setswitchinterval(1e-5)  # as the service does
    polling = Polling()
    members = [CudaDevice(gpu, k, 1 << 30, polling) for k, gpu in enumerate(cuda_devices()[:count])]
    bound = [
        m.bind(m.build(SOURCE, []), "touch", [m.allocate(4 * GROUPS * LOCAL), b"\7\0\0\0"]) for m in members
    ]
    last: list[list[Ticket]] = [[] for _ in members]
    polling.is_busy = True
    launches = 0

    def launch() -> None:
        nonlocal launches
        for k, member in enumerate(members):
            last[k] = [member.launch(bound[k], (GROUPS // count, 1, 1), (LOCAL, 1, 1), 1, last[k], SEEN)]
        launches += 1
        if launches % 16 == 0:
            polling.poll()

    def finish() -> None:
        while polling.poll():
            pass

    found = costs(launch, finish)
    for member in members:
        member.close()
    return found


class ByHand:
    """The kernel on GPU ``number``, launched by pycuda with so many ``groups``; its context is pushed."""

    def __init__(self, number: int, groups: int) -> None:
        from sdi.clc.cuda.translate import nvrtc_options, translate
        from sdi.devices.cuda.driver import drv
        from sdi.devices.cuda.nvrtc import compile_text

        drv.init()
        program = translate(SOURCE, ())
        self.context = drv.Device(number).retain_primary_context()
        self.context.push()
        capability = drv.Device(number).compute_capability()
        code = compile_text(program.text, nvrtc_options((), program.contracts), capability)
        self._function = drv.module_from_buffer(code).get_function(program.kernels[0].symbol)
        self._memory = drv.mem_alloc(4 * GROUPS * LOCAL)
        self._block = struct.pack("<Qi4x3Q4I", int(self._memory), 7, 0, 0, 0, groups, 1, 1, 1)
        self._groups = groups
        self.stream = drv.Stream(1)

    def launch(self) -> None:
        """On its stream; its context is current."""
        self._function._launch_kernel((self._groups, 1, 1), (LOCAL, 1, 1), self._block, 0, self.stream)


def driver_calls() -> Costs:
    """Microseconds of single calls, as the lane of a member makes them, on a stream of empty kernels."""
    from sdi.devices.cuda import driver as cuda_driver
    from sdi.devices.cuda.driver import drv

    gpu = ByHand(0, GROUPS)
    stream, other = gpu.stream, drv.Stream(1)
    timed = [drv.Event() for _ in range(400)]
    untimed = [drv.Event(drv.event_flags.DISABLE_TIMING) for _ in range(400)]
    quick, handle = cuda_driver.quick(), gpu.context.handle
    found: Costs = {}

    def calls(name: str, call: Callable[[int], object], is_behind_launch: bool = False) -> None:
        took = []
        for _ in range(10):
            stream.synchronize()
            spent = 0.0
            for k in range(400):
                if is_behind_launch:
                    gpu.launch()
                start = time.perf_counter()
                call(k)
                spent += time.perf_counter() - start
            took.append(spent / 400 * 1e6)
        found[name] = min(took)

    calls("nothing", lambda k: None)
    calls("launch", lambda k: gpu.launch())
    calls("record, timed", lambda k: timed[k].record(stream), True)
    calls("record, untimed", lambda k: untimed[k].record(stream), True)
    calls("query", lambda k: untimed[k].query())
    calls("query, not complete", lambda k: (untimed[0].record(stream), untimed[0].query()), True)
    calls("wait for an event", lambda k: other.wait_for_event(untimed[k]))
    calls("set the context", lambda k: quick.cuCtxSetCurrent(handle))
    drv.Context.pop()
    return found


def with_pycuda(count: int) -> Costs:
    """The floor: the same launches by pycuda, from one thread, without events."""
    from sdi.devices.cuda.driver import drv

    gpus = []
    for number in range(count):
        gpus.append(ByHand(number, GROUPS // count))
        drv.Context.pop()

    def each(call: Callable[[ByHand], object]) -> None:
        for gpu in gpus:
            gpu.context.push()
            call(gpu)
            drv.Context.pop()

    return costs(lambda: each(ByHand.launch), lambda: each(lambda gpu: gpu.stream.synchronize()))


def apart(what: str, count: int = 1, **environment: str) -> Costs:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "-", "--part", what, "--members", str(count)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=100, check=False
    )
    if done.returncode:
        print(f"{what} with {count} ended with {done.returncode}: {done.stderr[-1000:]}")
        return {}
    found: Costs = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure all, print a table, store it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--members", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--part", choices=["opencl", "members", "pycuda", "calls"])
    options = parser.parse_args()
    if options.part is not None:
        count = options.members[0]
        found = {
            "opencl": through_opencl,
            "members": lambda: on_members(count),
            "pycuda": lambda: with_pycuda(count),
            "calls": driver_calls,
        }[options.part]()
        print(json.dumps(found), flush=True)
        os._exit(0)  # contexts are left as they are
    from gpu_yardstick import machine

    rows = {"NVIDIA's OpenCL": apart("opencl", OCL_ICD_VENDORS=os.environ["VENDORS"])}
    for count in options.members:
        rows[f"pycuda, {count}"] = apart("pycuda", count)
        rows[f"members, {count}"] = apart("members", count)
        image = {"OCL_ICD_VENDORS": os.environ["IMAGE"], "SDI_NUM_GPUS": str(count), "SDI_SPLIT": "always"}
        rows[f"image, {count}"] = apart("opencl", **image)
    print("| one launch, us | sustained | alone |\n|---|---|---|")
    for label, row in rows.items():
        print(
            f"| {label} | "
            + " | ".join(f"{row[k]:.1f}" if row else "" for k in ("sustained_us", "alone_us"))
            + " |"
        )
    calls = apart("calls")
    print("; ".join(f"{name} {us:.2f}" for name, us in calls.items()), "us")
    options.out.write_text(json.dumps({**machine(), "runs": rows, "calls": calls}, indent=1) + "\n")


if __name__ == "__main__":
    main()
