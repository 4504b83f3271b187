"""What several members wrote to copies of the same bytes, compared and brought together on the members.

A ``Device.merge`` finds the units that a member changed, or takes another member's into account.
In between the *changes* may go to another member: all kinds of members lay them out alike.

    header    4 x uint32: number of records, number of values, conflicts found by ``apply``, 0
    records   4 x uint32 for each run of 32 units with changes, in any order: number of the run, bit set of
              its units that changed, index of the first one's value, 0
    values    the changed units, those of a record one after the other
"""

from __future__ import annotations

from sdi.atomics import Update

HEADER_NBYTES = RECORD_NBYTES = 16
RUN_UNITS = 32

OPERATIONS = {"": 0, "add": 1, "xor": 2, "and": 3, "or": 4, "min": 5, "max": 6}
"""Numbers of the updates in kernels, "" where there is none; those of signed integers are 8 more."""


def num_runs(nbytes: int, unit_nbytes: int) -> int:
    """Runs of units in the bytes compared."""
    return -(-nbytes // (RUN_UNITS * unit_nbytes))


def values_offset(nbytes: int, unit_nbytes: int) -> int:
    """Where the values start."""
    return HEADER_NBYTES + RECORD_NBYTES * num_runs(nbytes, unit_nbytes)


def changes_nbytes(nbytes: int, unit_nbytes: int) -> int:
    """Room for the changes, were all units different."""
    return values_offset(nbytes, unit_nbytes) + nbytes


def operation_number(update: Update | None) -> int:
    """What ``apply`` does with a unit, as a number for a kernel."""
    return 0 if update is None else OPERATIONS[update.operation] + 8 * update.signed


# A work-item takes one run after the other.  A run's values lie together: only the two counters are shared.
KERNELS_TEXT = """
#define DIFF(U, N) \\
kernel void sdi_diff_##N(global const uchar *own, ulong at, global const uchar *twin_, ulong twin_at, \\
                         uint units, uint runs, global uint *header, ulong values_at) \\
{ \\
    global U *values = (global U *)((global uchar *)header + values_at); \\
    for (uint run = get_global_id(0); run < runs; run += get_global_size(0)) { \\
        uint first = run * 32, mask = 0, count = min(32u, units - first); \\
        global const U *now = (global const U *)(own + at) + first; \\
        global const U *twin = (global const U *)(twin_ + twin_at) + first; \\
        for (uint i = 0; i < count; i++) \\
            mask |= (uint)(now[i] != twin[i]) << i; \\
        if (mask == 0) \\
            continue; \\
        global uint *record = header + 4 + 4 * (size_t)atomic_inc(header); \\
        uint value = atomic_add(header + 1, popcount(mask)); \\
        record[0] = run; \\
        record[1] = mask; \\
        record[2] = value; \\
        record[3] = 0; \\
        for (uint i = 0; i < count; i++) \\
            if (mask >> i & 1) \\
                values[value++] = now[i]; \\
    } \\
}

#define APPLY(U, S, N) \\
kernel void sdi_apply_##N(global uchar *own, ulong at, global const uchar *twin_, ulong twin_at, \\
                          global uint *header, ulong values_at, uint part_bits, uint operation) \\
{ \\
    global U *now = (global U *)(own + at); \\
    global const U *twin = (global const U *)(twin_ + twin_at); \\
    global const U *values = (global const U *)((global uchar *)header + values_at); \\
    uint records = header[0]; \\
    for (uint r = get_global_id(0); r < records; r += get_global_size(0)) { \\
        global const uint *record = header + 4 + 4 * (size_t)r; \\
        uint first = record[0] * 32, value = record[2]; \\
        for (uint mask = record[1]; mask != 0; mask &= mask - 1) { \\
            uint unit = first + popcount((mask & -mask) - 1); \\
            U old = twin[unit], mine = now[unit], other = values[value++], made = other; \\
            switch (operation) { \\
            case 0: \\
                if (mine != old) { \\
                    int shared = 0, clash = 0; \\
                    U part = (U)(((ulong)1 << (part_bits - 1) << 1) - 1), both = mine; \\
                    for (uint shift = 0; shift < 8 * N; shift += part_bits) { \\
                        U here = (U)(part << shift); \\
                        if ((other ^ old) & here) { \\
                            if ((mine ^ old) & here) { \\
                                shared = 1; \\
                                clash |= ((mine ^ other) & here) != 0; \\
                            } \\
                            both = (U)((both & ~here) | (other & here)); \\
                        } \\
                    } \\
                    if (shared) \\
                        atomic_inc(header + 2); \\
                    if (!clash) \\
                        made = both; \\
                } \\
                break; \\
            case 1: made = (U)(mine + (U)(other - old)); break; \\
            case 2: made = mine ^ other ^ old; break; \\
            case 3: made = mine & other; break; \\
            case 4: made = mine | other; break; \\
            case 5: made = min(mine, other); break; \\
            case 6: made = max(mine, other); break; \\
            case 13: made = (U)min((S)mine, (S)other); break; \\
            case 14: made = (U)max((S)mine, (S)other); break; \\
            } \\
            now[unit] = made; \\
        } \\
    } \\
}

DIFF(uchar, 1)
DIFF(ushort, 2)
DIFF(uint, 4)
DIFF(ulong, 8)
APPLY(uchar, char, 1)
APPLY(ushort, short, 2)
APPLY(uint, int, 4)
APPLY(ulong, long, 8)
"""
