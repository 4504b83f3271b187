"""The few calls that all programs share: build, move arrays, compare."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl

Array: TypeAlias = np.ndarray[Any, Any]
Outputs: TypeAlias = dict[str, Array]


def build(ctx: cl.Context, source: str, options: Sequence[str] = ()) -> cl.Program:
    """A built program."""
    return cl.Program(ctx, source).build(options=list(options))


def kernels(ctx: cl.Context, source: str, *names: str, options: Sequence[str] = ()) -> tuple[cl.Kernel, ...]:
    """The named kernels of a freshly built program."""
    program = build(ctx, source, options)
    return tuple(cl.Kernel(program, name) for name in names)


def to_device(ctx: cl.Context, array: Array, flags: int = cl.mem_flags.READ_WRITE) -> cl.Buffer:
    """A buffer that starts with a copy of ``array``."""
    return cl.Buffer(ctx, flags | cl.mem_flags.COPY_HOST_PTR, hostbuf=np.ascontiguousarray(array))


def to_host(queue: cl.CommandQueue, buffer: cl.Buffer, like: Array) -> Array:
    """The buffer's bytes, in an array shaped and typed like ``like``."""
    result = np.empty_like(like, order="C")
    cl.enqueue_copy(queue, result, buffer)
    return result


def failure(call: Callable[[], object], what: str) -> cl.Error:
    """The OpenCL error that ``call`` must raise."""
    try:
        call()
    except cl.Error as error:
        return error
    raise AssertionError(f"{what} must fail")


def same(actual: Array, expected: Array, what: str) -> None:
    """Fail unless both arrays are equal, naming the first element that is not."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    wrong = np.flatnonzero((actual != expected).ravel())
    if wrong.size:
        first = int(wrong[0])
        got, want = actual.ravel()[first], expected.ravel()[first]
        raise AssertionError(f"{what}: {wrong.size} elements differ; [{first}] is {got}, expected {want}")


def near(actual: Array, expected: Array, what: str, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Fail unless both arrays agree within a tolerance."""
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    wrong = np.flatnonzero(~np.isclose(actual, expected, rtol=rtol, atol=atol).ravel())
    if wrong.size:
        first = int(wrong[0])
        got, want = actual.ravel()[first], expected.ravel()[first]
        raise AssertionError(
            f"{what}: {wrong.size} elements differ; [{first}] is {got}, expected about {want}"
        )
