"""What the built-in functions of OpenCL C do to the memory their pointer arguments name.

Source: OpenCL C 3.0 specification, section 6.15.  A function that is not named here is assumed to
read and write through every pointer it gets.
"""

from __future__ import annotations

import re
from enum import Enum

# Work-item functions that a part of an NDRange must answer for the whole.
GEOMETRY_FUNCTIONS = frozenset(
    {
        "get_work_dim",
        "get_global_id",
        "get_global_size",
        "get_group_id",
        "get_num_groups",
        "get_global_offset",
        "get_global_linear_id",
        "get_enqueued_local_size",
    }
)

FENCES = frozenset({"mem_fence", "read_mem_fence", "write_mem_fence", "atomic_work_item_fence"})
GROUP_BARRIERS = frozenset({"work_group_barrier", "sub_group_barrier"})
"""They may be given a scope for memory."""

_READERS = re.compile(r"vload(a)?(_half)?(2|3|4|8|16)?\Z|printf\Z|prefetch\Z")
_WRITERS = re.compile(
    r"vstore(a)?(_half)?(2|3|4|8|16)?(_r(te|tz|tp|tn))?\Z|(fract|modf|sincos|frexp|remquo|lgamma_r)\Z"
)
_COPIES = re.compile(r"async_work_group_(strided_)?copy(_\w+)?\Z")
_ATOMICS = re.compile(r"(__\w*_)?(atomic|atom)_|__sync_|__atomic|__c11_atomic")
_ENQUEUE = re.compile(
    r"enqueue_(kernel|marker)\Z|.*_(read|write)_pipe\Z|(read|write)_pipe\Z|(reserve|commit)_"
)


class Action(Enum):
    """What a built-in does through its pointers."""

    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"
    COPY = "copy"  # writes through the first, reads through the second
    ATOMIC = "atomic"  # on the first
    ENQUEUE = "enqueue"  # device-side enqueue and pipes
    READ_IMAGE = "read image"
    WRITE_IMAGE = "write image"
    UNKNOWN = "unknown"


def action_of(name: str) -> Action:
    """The action of a built-in function."""
    if name in FENCES or name == "wait_group_events":
        return Action.NOTHING
    if _ATOMICS.match(name):
        return Action.ATOMIC
    if _READERS.match(name):
        return Action.READ
    if _WRITERS.match(name):
        return Action.WRITE
    if _COPIES.match(name):
        return Action.COPY
    if _ENQUEUE.match(name):
        return Action.ENQUEUE
    if name.startswith("write_image"):
        return Action.WRITE_IMAGE
    if name.startswith(("read_image", "get_image")):
        return Action.READ_IMAGE
    return Action.UNKNOWN
