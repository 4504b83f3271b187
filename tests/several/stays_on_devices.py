"""Collective commands on what devices computed: OCL_TEST_COLLECTIVE names one; the host sees few bytes."""

import os

import numpy as np
import pyopencl as cl

from tests.programs._kit import Outputs
from tests.several.all_collectives import SUM, TYPES, Ring, handles

COUNT = 1 << 21
"""Numbers of four bytes, in all parts together."""
REDUCES = ("Reduce", "AllReduce", "ReduceScatter", "Scan")


def run(devices: list[cl.Device]) -> Outputs:
    """One command; the last numbers of the last target."""
    name, ring = os.environ["OCL_TEST_COLLECTIVE"], Ring(devices)
    n = ring.n
    count = COUNT // n if name in ("Scatter", "Gather", "AllGather", "AlltoAll", "ReduceScatter") else COUNT
    queues = handles(ring.queues)
    sources, targets = ([cl.Buffer(ring.context, 0, 4 * n * count) for _ in range(n)] for _ in range(2))
    for k, queue in enumerate(ring.queues):
        ring.start(queue, (n * count,), None, sources[k], np.uint32(k)).wait()
    if name in ("Broadcast", "Scatter"):
        given = queues, n, sources[0].int_ptr, handles(targets), 0, None
    elif name in ("Gather", "Reduce"):
        given = ring.queues[-1].int_ptr, n, handles(sources), targets[-1].int_ptr, None, 0
    else:
        given = queues, n, handles(sources), handles(targets), None, None
    reduction = (SUM, TYPES[np.uint32]) if name in REDUCES else ()
    made = ring.event(name, *given, 4 * count, *reduction)
    found = np.empty(16, np.uint32)
    cl.enqueue_copy(ring.queues[-1], found, targets[-1], src_offset=4 * count - 64, wait_for=[made])
    return {"last": found}
