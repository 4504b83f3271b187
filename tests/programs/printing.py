"""Kernels that print numbers, vectors and strings: each line once, whole, before the launch is complete."""

import ctypes
import os
import tempfile
from collections.abc import Callable

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

KERNELS: dict[str, str] = {"pt_tell": "split", "pt_some": "split"}

SOURCE = """
void line(int item, float4 v, __constant char *what)
{
    char4 small = convert_char4(v);
    printf("%d: %v4hlf|%v4hhd|%5.1f|%#x|%c|%ld %s\\n", item, v, small, v.y, item, 'a' + item % 26,
           (long)item << 33, "text");
}
__kernel void pt_tell(__global const float4 *values, __global int *told)
{
    int item = get_global_id(0);
    line(item, values[item], "unused");
    told[item] = printf("%d%%\\n", item);
}
__kernel void pt_some(__global int *told, int every)
{
    int item = get_global_id(0);
    if (item % every == 0)
        printf("every %d: %d\\n", every, item);
    told[item] += item;
}
"""
_libc = ctypes.CDLL(None)


def printed(work: Callable[[], object]) -> list[str]:
    """Lines that the process writes to its standard output meanwhile, sorted."""
    _libc.fflush(None)
    before = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            work()
            _libc.fflush(None)
        finally:
            os.dup2(before, 1)
            os.close(before)
        file.seek(0)
        return sorted(file.read().decode().splitlines(keepends=True))


def text_array(lines: list[str]) -> Array:
    """The lines as bytes."""
    return np.frombuffer("".join(lines).encode(), np.uint8)


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Print from all items, from some, from none."""
    tell, some = kernels(ctx, SOURCE, *KERNELS)
    items = 96
    values = (np.arange(items * 4) * 0.25 - 40).astype(np.float32).reshape(items, 4)
    told = np.full(items, 5, np.int32)
    values_dev, told_dev = to_device(ctx, values), to_device(ctx, told)
    outputs: Outputs = {}

    def all_items() -> None:
        tell(queue, (items,), (8,), values_dev, told_dev)
        queue.finish()

    lines = printed(all_items)
    expected = [f"{item}%\n" for item in range(items)]
    for item, v in enumerate(values):
        floats, chars = ",".join(f"{x:f}" for x in v), ",".join(str(int(x)) for x in v)
        number = f"{item:#x}" if item else "0"
        letter = chr(ord("a") + item % 26)
        expected.append(f"{item}: {floats}|{chars}|{v[1]:5.1f}|{number}|{letter}|{item << 33} text\n")
    same(text_array(lines), text_array(sorted(expected)), "what all items print")
    outputs["all"] = text_array(lines)
    for every in (1, 7, 200):
        lines = printed(lambda every=every: some(queue, (items,), (8,), told_dev, np.int32(every)).wait())
        wanted = sorted(f"every {every}: {item}\n" for item in range(0, items, every))
        same(text_array(lines), text_array(wanted), f"what every {every}th item prints")
        outputs[f"every {every}"] = text_array(lines)
    outputs["told"] = to_host(queue, told_dev, told)
    same(outputs["told"], np.arange(items, dtype=np.int32) * 3, "what the calls return")
    return outputs
