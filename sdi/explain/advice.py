"""What one change to a kernel's source would let it be split, for each reason that keeps it whole."""

from __future__ import annotations

_ADVICE = (
    (
        "that it accesses in another way too",
        "keep what is updated atomically in a buffer of its own, with one kind of update",
    ),
    (
        "atomically and orders that with a fence",
        "do without the fence, or end the kernel there and launch a second one for what follows",
    ),
    (
        "updates global memory atomically",
        "give each work-group a result of its own in a buffer, and combine these in a second kernel",
    ),
    (
        "reads volatile global memory in a loop",
        "end the kernel where it waits for other work-groups, and launch a second one for what follows",
    ),
    (
        "in a loop that reads global memory",
        "if the fence is for local memory only, use barrier(CLK_LOCAL_MEM_FENCE); "
        "else end the kernel there and launch a second one",
    ),
    (
        "orders memory across work-groups",
        "end the kernel where it orders memory, and launch a second one for what follows",
    ),
    (
        "may write a program-scope variable",
        "pass a buffer as an argument instead of the program-scope variable",
    ),
    ("declared but not defined", "define the function in the same program"),
    ("recursively or in too many ways", "write the recursion as a loop"),
    ("calls through a pointer", "call the function by its name"),
    ("inline assembly", "use built-in functions instead of assembly"),
    ("writes an image", "write to a buffer instead of the image"),
    (
        "to analyse",
        "divide the kernel into shorter ones, or its program where it is one of many kernels",
    ),
    ("calls '", "do without this call: enqueue the work from the host"),
)


def advice_for(why_whole: str) -> str:
    """One sentence for ``KernelModel.why_whole``; empty for no reason, or one that has no cure."""
    return next((advice for mark, advice in _ADVICE if mark in why_whole), "") if why_whole else ""
