"""Petri net simulation: many nets at once, in which transitions fire at random; all stay on the device.

A work-group simulates one net: it holds the tokens of its places in local memory while transitions fire.  The
host starts one launch for each round and looks at one number after it.
"""

from dataclasses import dataclass

import numpy as np

from bench.applications.program import Array, Arrays, Session, WrongResult, sample

TITLE = "PNS"
LOCAL = 16


@dataclass(frozen=True, slots=True)
class Size:
    """``nets`` of so many ``places``, a multiple of 16; in each of ``rounds`` transitions try ``times``."""

    nets: int
    places: int
    rounds: int
    times: int


SIZES = {
    "smoke": Size(16, 64, 4, 10),
    "cpu": Size(2048, 1024, 32, 16),
    "gpu": Size(16384, 8192, 64, 64),
}

SOURCE = """
/* Transition t takes a token each from places t and t + half, and puts one to t + 1 and one to 3 t + 1. */
__kernel void fire(__global uchar *tokens, __global uint *states, __global uint *fired, int places, int times,
                   __local uchar *own)
{
    int net = get_group_id(0), item = get_local_id(0);
    for (int i = item; i < places; i += get_local_size(0))
        own[i] = tokens[net * places + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    if (item == 0) {
        uint state = states[net], count = 0;
        for (int k = 0; k < times; k++) {
            state = state * 1664525u + 1013904223u;
            uint from = (state >> 8) % places, beside = (from + places / 2) % places;
            if (own[from] && own[beside]) {
                own[from]--;
                own[beside]--;
                own[(from + 1) % places]++;
                own[(3 * from + 1) % places]++;
                count++;
            }
        }
        states[net] = state;
        fired[net] += count;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = item; i < places; i += get_local_size(0))
        tokens[net * places + i] = own[i];
}
"""


def inputs(size: Size) -> Arrays:
    """Tokens of all places, and where each net's random numbers begin."""
    random = np.random.default_rng(13)
    return {
        "tokens": random.integers(0, 4, (size.nets, size.places)).astype(np.uint8),
        "states": random.integers(0, 2**32, size.nets).astype(np.uint32),
    }


def run(session: Session, size: Size, inputs: Arrays) -> Arrays:
    """Rounds; the host sees how often the first net's transitions fired so far."""
    import pyopencl as cl

    tokens, states = session.upload(inputs["tokens"]), session.upload(inputs["states"])
    fired = session.zeros(4 * size.nets)
    scalars = np.int32(size.places), np.int32(size.times)
    seen = []
    for _ in range(size.rounds):
        arguments = (tokens, states, fired, *scalars, cl.LocalMemory(size.places))
        session.launch("fire", [size.nets * LOCAL], [LOCAL], *arguments)
        seen.append(session.download(fired, 1, np.uint32))
    return {
        "tokens": session.download(tokens, (size.nets, size.places), np.uint8),
        "fired": session.download(fired, size.nets, np.uint32),
        "seen": np.concatenate(seen),
    }


def check(size: Size, inputs: Arrays, outputs: Arrays) -> None:
    """Some nets, on the host."""
    for net in sample(size.nets, 8):
        tokens, fired = _simulated(size, inputs["tokens"][net], int(inputs["states"][net]))
        if not np.array_equal(tokens, outputs["tokens"][net]) or fired[-1] != outputs["fired"][net]:
            raise WrongResult(f"net {net} fired {outputs['fired'][net]} times, not {fired[-1]}")
        if net == 0 and fired != [*outputs["seen"]]:
            raise WrongResult(f"the host saw {outputs['seen']}, not {fired}")


def _simulated(size: Size, given: Array, state: int) -> tuple[Array, list[int]]:
    """A net's tokens at the end, and how often its transitions had fired after each round."""
    tokens, count, fired = given.astype(np.int64), 0, []
    for _ in range(size.rounds):
        for _ in range(size.times):
            state = (state * 1664525 + 1013904223) % 2**32
            start = (state >> 8) % size.places
            beside = (start + size.places // 2) % size.places
            if tokens[start] and tokens[beside]:
                for place, more in ((start, -1), (beside, -1), (start + 1, 1), (3 * start + 1, 1)):
                    tokens[place % size.places] += more
                count += 1
        fired.append(count)
    return tokens, fired
