"""Every atomic update of every integer type, on the bins of a histogram and on one counter beside them."""

import numpy as np
import pyopencl as cl

from tests.programs._kit import Array, Outputs, kernels, same, to_device, to_host

OPERATIONS = ("add", "sub", "inc", "dec", "min", "max", "and", "or", "xor")
TYPES: dict[str, tuple[str, str, type[np.integer]]] = {
    "at_int": ("int", "atomic", np.int32),
    "at_uint": ("uint", "atomic", np.uint32),
    "at_long": ("long", "atom", np.int64),
    "at_ulong": ("ulong", "atom", np.uint64),
}
KERNELS: dict[str, str] = dict.fromkeys(TYPES, "split")
BINS, ITEMS, LOCAL = 32, 960, 32


def _kernel(name: str, type_name: str, prefix: str) -> str:
    """All operations on a buffer each: on the bin that the value names, and on the last element.

    ``and`` and ``or`` change one bit at a time, or there would soon be none left to change.
    """
    lines = []
    for number, operation in enumerate(OPERATIONS):
        operand = {"inc": "", "dec": "", "and": ", ~bit", "or": ", bit"}.get(operation, ", v")
        lines += [f"    {prefix}_{operation}(&a{number}[{at}]{operand});" for at in ("bin", str(BINS))]
    arguments = ", ".join(f"volatile __global {type_name} *a{k}" for k in range(len(OPERATIONS)))
    return (
        f"__kernel void {name}(__global const {type_name} *in, {arguments})\n{{\n"
        f"    {type_name} v = in[get_global_id(0)];\n    int bin = (int)(v >> 3) & {BINS - 1};\n"
        f"    {type_name} bit = ({type_name})1 << (v & {8 * np.dtype(TYPES[name][2]).itemsize - 1});\n"
        + "\n".join(lines)
        + "\n}\n"
    )


SOURCE = """
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#pragma OPENCL EXTENSION cl_khr_int64_extended_atomics : enable
""" + "\n".join(_kernel(name, text, prefix) for name, (text, prefix, _) in TYPES.items())


def _expect(operation: str, before: Array, bins: Array, values: Array) -> Array:
    """``before`` after two launches over ``values``; ``bins``: the elements each of them goes to."""
    found = before.copy()
    one = np.ones_like(values)
    bit = one << (values & values.dtype.type(8 * values.itemsize - 1))
    with np.errstate(over="ignore"):
        for _ in range(2):
            for at in (bins, np.full(len(values), BINS)):
                match operation:
                    case "add" | "inc":
                        np.add.at(found, at, values if operation == "add" else one)
                    case "sub" | "dec":
                        np.subtract.at(found, at, values if operation == "sub" else one)
                    case "min" | "max":
                        {"min": np.minimum, "max": np.maximum}[operation].at(found, at, values)
                    case "and":
                        np.bitwise_and.at(found, at, ~bit)
                    case "or":
                        np.bitwise_or.at(found, at, bit)
                    case _:
                        np.bitwise_xor.at(found, at, values)
    return found


def run(ctx: cl.Context, queue: cl.CommandQueue) -> Outputs:
    """Each kernel twice, so that the second launch starts from what the first left."""
    outputs: Outputs = {}
    rng = np.random.default_rng(37)
    for kernel, (name, (_, _, kind)) in zip(kernels(ctx, SOURCE, *TYPES), TYPES.items(), strict=True):
        limits = np.iinfo(kind)
        values = rng.integers(limits.min, limits.max, ITEMS, dtype=kind, endpoint=True)
        start = rng.integers(limits.min, limits.max, (len(OPERATIONS), BINS + 1), dtype=kind, endpoint=True)
        bins = (values >> kind(3)).astype(np.int64) & (BINS - 1)
        arrays = [to_device(ctx, row) for row in start]
        values_dev = to_device(ctx, values)
        for _ in range(2):
            kernel(queue, (ITEMS,), (LOCAL,), values_dev, *arrays)
        for operation, row, buffer in zip(OPERATIONS, start, arrays, strict=True):
            found = outputs[f"{name} {operation}"] = to_host(queue, buffer, row)
            same(found, _expect(operation, row, bins, values), f"{name} {operation}")
    return outputs
