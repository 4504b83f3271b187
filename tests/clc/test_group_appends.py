"""Additions of one work-item for its work-group: which append, and what of their texts that depends on."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from sdi.appends import AppendStore, Limit, Scalar
from sdi.clc.compile import compile_source
from sdi.clc.frontend.base_header import GROUP_FEATURE, SUB_GROUP_FEATURE, USUAL
from sdi.clc.model import KernelModel

LANGUAGE = replace(USUAL, features=(*USUAL.features, GROUP_FEATURE, SUB_GROUP_FEATURE), sub_groups=True)
ARGUMENTS = (
    "global const int *in, global int *out, volatile global uint *n, uint m, global int2 *pairs,"
    "local uint *lm, global int *f"
)


def kernel(body: str, attributes: str = "") -> KernelModel:
    """The model of a kernel."""
    source = f"kernel {attributes} void k({ARGUMENTS}) {{ {body} }}"
    return compile_source(source, "-cl-std=CL3.0", language=LANGUAGE).kernels[0]


B = "barrier(CLK_LOCAL_MEM_FENCE);"
COUNTED = f"""
    local uint count, base; uint lid = get_local_id(0); int g = get_global_id(0), v = in[g];
    bool keep = v > 3;
    if (lid == 0) count = 0;
    {B}
    uint slot = 0;
    if (keep) slot = atomic_inc(&count);
    {B}
    if (lid == 0) base = atomic_add(n, count);
    {B}
    if (keep) out[base + slot] = v;
"""
"""As most programs have it: what follows is this with changes."""

GATHERED = f"""
    local uint count, base; local int tmp[256]; uint lid = get_local_id(0);
    int g = get_global_id(0), v = in[g];
    if (lid == 0) count = 0;
    {B}
    if (v > 3) tmp[atomic_inc(&count)] = v;
    {B}
    if (lid == 0) base = atomic_add(n, count);
    {B}
    for (uint i = lid; i < count; i += get_local_size(0)) out[base + i] = tmp[i];
"""
SCANNED = """
    local uint base; int g = get_global_id(0), v = in[g]; int keep = v > 3;
    uint slot = work_group_scan_exclusive_add(keep);
    uint total = work_group_reduce_add(keep);
    if (get_local_id(0) == 0) base = atomic_add(n, total);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (keep) out[base + slot] = v;
"""
TOLD = """
    int g = get_global_id(0), v = in[g]; uint keep = v > 3 ? 1 : 0;
    uint slot = work_group_scan_inclusive_add(keep) - keep, total = work_group_reduce_add(keep), base = 0;
    if (get_local_id(0) == 0) base = atomic_add(n, total);
    base = work_group_broadcast(base, 0);
    if (keep == 1) out[base + slot] = v;
"""
SUB = SCANNED.replace("work_group", "sub_group").replace("get_local_id(0)", "get_sub_group_local_id()")
SUB = SUB.replace("local uint base;", "uint base = 0;").replace(
    "barrier(CLK_LOCAL_MEM_FENCE)", "uint b = sub_group_broadcast(base, 0)"
)
SUB = SUB.replace("out[base", "out[b")
IN_LOOP = (
    COUNTED.replace(
        "if (lid == 0) count",
        "for (; g < 1000; g += get_global_size(0)) { v = in[g]; keep = v > 3; if (lid == 0) count",
    )
    + " }"
)
STEP = "for (uint i = lid; i < count; i += get_local_size(0)) out[base + i] = tmp[i];"
TWICE = (
    COUNTED.replace("count, base", "count, base, other, second")
    .replace("count = 0;", "{ count = 0; other = 0; }")
    .replace("atomic_inc(&count);", "atomic_inc(&count); else slot = atomic_inc(&other);")
    .replace(
        "base = atomic_add(n, count);", "{ base = atomic_add(n, count); second = atomic_add(&n[1], other); }"
    )
    .replace("= v;", "= v; else f[second + slot] = v;")
)

THREE = re.sub(r"\bcount\b", "lm[1]", re.sub(r"\bbase\b", "lm[2]", COUNTED)).replace(
    "local uint lm[1], lm[2];", ""
)


def changed(text: str, *changes: tuple[str, str]) -> str:
    """A text with changes, each of which is found."""
    for old, new in changes:
        before, at, after = text.rpartition(old)
        assert at, old
        text = before + new + after
    return text


def nth(text: str, old: str, number: int, new: str) -> str:
    parts = text.split(old)
    assert len(parts) > number + 1
    return old.join(parts[: number + 1]) + new + old.join(parts[number + 1 :])


K = ("if (keep) slot = atomic_inc(&count)", "uint k = v & 3; slot = atomic_add(&count, k)")
EACH = ("if (keep) out[base + slot] = v", "for (uint i = 0; i < k; i++) out[base + slot + i] = v")
APPENDS = {
    "counted": COUNTED,
    "no first slot": changed(COUNTED, ("slot = 0", "slot")),
    "atom_inc": changed(COUNTED, ("atomic_inc", "atom_inc")),
    "one is added": changed(COUNTED, ("atomic_inc(&count)", "atomic_add(&count, 1)")),
    "a flag is added": changed(
        COUNTED, ("if (keep) slot = atomic_inc(&count)", "slot = atomic_add(&count, keep)")
    ),
    "the condition is written again": changed(COUNTED, ("if (keep) out", "if (v > 3) out")),
    "the condition is of a structure": changed(
        COUNTED,
        ("if (lid == 0) count", "struct { int a, b; } s; s.b = v; if (lid == 0) count"),
        ("if (keep) slot", "if (s.b > 3) slot"),
        ("if (keep) out", "if (s.b > 3) out"),
    ),
    "the condition is of a vector": changed(
        COUNTED,
        ("if (lid == 0) count", "float2 x = (float2)(v, g); if (lid == 0) count"),
        ("if (keep) slot", "if (x.y > 3 && v) slot"),
        ("if (keep) out", "if (v && x.y > 3) out"),
    ),
    "the condition reads": changed(
        COUNTED, ("if (keep) slot", "if (in[g] > 3) slot"), ("if (keep)", "if (in[g] > 3)")
    ),
    "int": changed(COUNTED, ("local uint count", "local int count")),
    "a slot that is none": changed(
        COUNTED, ("uint slot = 0", "int slot = -1"), ("if (keep) out", "if (slot >= 0) out")
    ),
    "a slot that is not none": changed(
        COUNTED, ("slot = 0", "slot = 0xffffffffu"), ("if (keep) out", "if (slot != 0xffffffffu) out")
    ),
    "places in an array": re.sub(r"\bcount\b", "s[0]", re.sub(r"\bbase\b", "s[1]", COUNTED)).replace(
        "s[0], s[1]", "s[2]"
    ),
    "places of an argument": re.sub(r"\bcount\b", "lm[0]", re.sub(r"\bbase\b", "lm[1]", COUNTED))
    .replace("local uint lm[0], lm[1];", "")
    .replace("&lm[0]", "lm"),
    "one place for both": re.sub(r"\bbase\b", "count", COUNTED).replace("count, count", "count"),
    "as many as data say": changed(COUNTED, K, EACH),
    "below a limit": changed(COUNTED, ("if (keep) out", "if (keep && base + slot < m) out")),
    "below a limit within": changed(COUNTED, ("if (keep) out", "if (keep) if (base + slot < m) out")),
    "none behind a limit": changed(COUNTED, ("if (keep) out", "if (!keep || base + slot >= m) return; out")),
    "the group is below a limit": changed(COUNTED, ("if (keep) out", "if (base + count <= m) if (keep) out")),
    "the rest is left": changed(COUNTED, ("if (keep) out", "if (!keep) return; out")),
    "a copy of the first place": changed(COUNTED, ("if (keep) out[base", "uint b = base; if (keep) out[b")),
    "a place of its own": changed(
        COUNTED, ("if (keep) out[base + slot]", "uint at = base + slot; if (keep) out[at]")
    ),
    "structures": changed(
        COUNTED, ("out[base + slot] = v", "{ pairs[base + slot].x = v; pairs[base + slot].y = g; }")
    ),
    "several columns": changed(
        COUNTED, ("out[base + slot] = v", "{ out[base + slot] = v; f[base + slot] = 1; }")
    ),
    "only if there are any": changed(COUNTED, ("if (lid == 0) base", "if (lid == 0 && count > 0) base")),
    "if there are any, within": changed(
        COUNTED,
        (
            "if (lid == 0) base = atomic_add(n, count);",
            "if (lid == 0) { if (count) base = atomic_add(n, count); }",
        ),
    ),
    "the first of all dimensions": changed(
        COUNTED, ("if (lid == 0) base", "if (get_local_linear_id() == 0) base")
    ),
    "the first of two dimensions": changed(
        COUNTED, ("if (lid == 0) base", "if (get_local_id(0) == 0 && get_local_id(1) == 0) base")
    ),
    "the first by a sum": changed(
        COUNTED, ("if (lid == 0) base", "if (lid + get_local_id(1) * 16 == 0) base")
    ),
    "not": changed(COUNTED, ("if (lid == 0) base", "if (!lid) base")),
    "the last": changed(COUNTED, ("if (lid == 0) base", "if (lid == get_local_size(0) - 1) base")),
    "all set it to 0": changed(COUNTED, ("if (lid == 0) count = 0", "count = 0")),
    "both fences": COUNTED.replace("CLK_LOCAL_MEM_FENCE", "CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE"),
    "work_group_barrier": COUNTED.replace("barrier", "work_group_barrier"),
    "in a loop": IN_LOOP,
    "two counters": TWICE,
    "three for each": changed(
        COUNTED,
        ("atomic_add(n, count)", "atomic_add(n, 3 * count)"),
        (
            "out[base + slot] = v",
            "{ uint at = base + 3 * slot; out[at] = 1; out[at + 2] = 2; out[at + 1] = 3; }",
        ),
    ),
    "some have gone before": changed(
        COUNTED, ("if (lid == 0) count", "if (g >= m) return; if (lid == 0) count")
    ),
    "twice": changed(
        COUNTED,
        (
            "slot = atomic_inc(&count);",
            "slot = atomic_inc(&count); uint s = 0; if (v & 1) s = atomic_inc(&count);",
        ),
        ("= v;", "= v; if (v & 1) out[base + s] = 2;"),
    ),
    "gathered": GATHERED,
    "gathered, counted in any way": changed(
        GATHERED, ("tmp[atomic_inc(&count)] = v", "{ lm[lid] = 1; count += 1; }")
    ),
    "gathered below a limit": changed(GATHERED, ("out[base + i]", "if (base + i < m) out[base + i]")),
    "gathered pairs": changed(
        GATHERED, ("out[base + i] = tmp[i]", "{ pairs[base + i].y = 1; pairs[base + i].x = tmp[i]; }")
    ),
    "gathered, again and again": changed(
        GATHERED,
        ("if (lid == 0) count", "for (int r = 0; r < 3; r++) { if (lid == 0) count"),
        (STEP, STEP + B + "}"),
    ),
    "gathered by a copy of the number": changed(
        GATHERED, (STEP, "uint t = count; " + STEP.replace("count", "t"))
    ),
}
REFUSED = {
    **{f"barrier {k} is missing": nth(COUNTED, B, k, "") for k in range(3)},
    **{
        f"barrier {k} is of global memory": nth(COUNTED, B, k, "barrier(CLK_GLOBAL_MEM_FENCE);")
        for k in range(3)
    },
    **{f"barrier {k} is not for all": nth(COUNTED, B, k, "if (v > 2) " + B) for k in range(3)},
    **{f"gathered without barrier {k}": nth(GATHERED, B, k, "") for k in range(1, 3)},
    "not set to 0": changed(COUNTED, ("if (lid == 0) count = 0;", "")),
    "set to 1": changed(COUNTED, ("count = 0", "count = 1")),
    "not surely set to 0": changed(COUNTED, ("if (lid == 0) count = 0", "if (lid == 0 && v) count = 0")),
    "set to 0 by none": changed(COUNTED, ("if (lid == 0) count = 0", "if (lid == 99) count = 0")),
    "set to 0 in a loop": changed(COUNTED, ("count = 0", "for (int i = 0; i < v; i++) count = 0")),
    "set once for all rounds": changed(
        IN_LOOP,
        ("for (;", "if (lid == 0) count = 0; for (;"),
        ("keep = v > 3; if (lid == 0) count = 0;", "keep = v > 3;"),
    ),
    "all add": changed(COUNTED, ("if (lid == 0) base", "base")),
    "some add": changed(COUNTED, ("if (lid == 0) base", "if (lid < 2) base")),
    "the sixth adds": changed(COUNTED, ("if (lid == 0) base", "if (lid == 5) base")),
    "one of all groups adds": changed(COUNTED, ("if (lid == 0) base", "if (get_global_id(0) == 0) base")),
    "one adds if data say so": changed(COUNTED, ("if (lid == 0) base", "if (lid == 0 && v) base")),
    "others add": changed(COUNTED, ("if (lid == 0) base", "if (lid != 0) base")),
    "one or others add": changed(COUNTED, ("if (lid == 0) base", "if (lid == 0 || lid == 3) base")),
    "a difference of ids": changed(
        COUNTED, ("if (lid == 0) base", "if (get_local_id(0) == get_local_id(1)) base")
    ),
    "a narrow id": changed(COUNTED, ("uint lid", "uchar lid")),
    "the id changes": changed(COUNTED, ("if (lid == 0) base", "lid = v; if (lid == 0) base")),
    "the one adds again and again": changed(
        COUNTED, ("base = atomic", "for (int i = 0; i < 2; i++) base = atomic")
    ),
    "another was counted": changed(COUNTED, ("if (lid == 0) base", "if (lid == 0 && lm[0] > 0) base")),
    "more is added": changed(COUNTED, ("atomic_add(n, count)", "atomic_add(n, count + 1)")),
    "a number is added": changed(COUNTED, ("atomic_add(n, count)", "atomic_add(n, 64)")),
    "1 is added": changed(COUNTED, ("atomic_add(n, count)", "atomic_inc(n)")),
    "it is subtracted": changed(COUNTED, ("atomic_add(n, count)", "atomic_sub(n, count)")),
    "two for each": changed(COUNTED, ("atomic_add(n, count)", "atomic_add(n, 2 * count)")),
    "each for two": changed(COUNTED, ("atomic_inc(&count)", "atomic_add(&count, 2)")),
    "it counts down": changed(COUNTED, ("atomic_inc(&count)", "atomic_dec(&count)")),
    "it may count down": changed(COUNTED, ("atomic_inc(&count)", "atomic_add(&count, v)")),
    "what is counted is no flag": changed(
        COUNTED,
        ("bool keep", "int keep"),
        ("= v > 3", "= v & 3"),
        ("if (keep) slot = atomic_inc(&count)", "slot = atomic_add(&count, keep)"),
    ),
    "others count": changed(COUNTED, ("if (keep) slot", "if (v > 2) slot")),
    "others store": changed(COUNTED, ("if (keep) out", "if (v > 2) out")),
    "all store": changed(COUNTED, ("if (keep) out", "out")),
    "none of them stores": changed(COUNTED, ("if (keep) out", "if (!keep) out")),
    "the rest stores": changed(COUNTED, ("if (keep) out", "if (keep) return; out")),
    "some of them store": changed(COUNTED, ("if (keep) out", "if (keep && g) out")),
    "the condition changes": changed(COUNTED, ("if (keep) out", "keep = v > 5; if (keep) out")),
    "the condition changes early": changed(
        COUNTED, ("slot = atomic_inc(&count);", "{ slot = atomic_inc(&count); keep = g; }")
    ),
    "the condition changes by a pointer": changed(
        COUNTED,
        ("if (lid == 0) count", "bool *q = &keep; if (lid == 0) count"),
        ("if (keep) out", "*q = 1; if (keep) out"),
    ),
    "the condition's memory changes": changed(
        COUNTED,
        ("if (keep) slot", "if (f[g] > 3) slot"),
        ("if (keep) out", "if (f[g] > 3) out"),
        ("= v;", "= v; f[g] = 1;"),
    ),
    "the condition adds up floats": changed(
        COUNTED,
        ("if (keep) slot", "float x = v; if (x * x + 1 > 3) slot"),
        ("if (keep) out", "if (x * x + 1 > 3) out"),
    ),
    "the condition is a function's": changed(
        COUNTED,
        ("if (keep) slot", "if (popcount(v) > 3) slot"),
        ("if (keep) out", "if (popcount(v) > 3) out"),
    ),
    "the slot changes": changed(COUNTED, ("if (keep) out", "slot++; if (keep) out")),
    "the slot is assigned": changed(COUNTED, ("if (keep) out", "slot = lid; if (keep) out")),
    "the slot changes by a pointer": changed(
        COUNTED,
        ("if (keep) slot", "uint *q = &slot; if (keep) slot"),
        ("if (keep) out", "*q = 3; if (keep) out"),
    ),
    "the slot is narrow": changed(COUNTED, ("uint slot", "uchar slot")),
    "another slot": changed(COUNTED, ("if (keep) out[base + slot]", "if (keep) out[base + lid]")),
    "a multiple of the slot": changed(COUNTED, ("base + slot", "base + 2 * slot")),
    "without the slot": changed(COUNTED, ("base + slot", "base")),
    "a slot that may be one": changed(COUNTED, ("if (keep) out", "if (slot != 0) out")),
    "a slot that is no number of 32 bits": changed(
        COUNTED, ("slot = 0", "slot = 0xffffffffu"), ("if (keep) out", "if (slot != -1L) out")
    ),
    "set to a large number": changed(COUNTED, ("count = 0", "count = 0x100000000UL")),
    "the condition may change by an index": changed(
        COUNTED,
        ("if (lid == 0) count", "struct { int a[2]; int b; } s; s.b = v; if (lid == 0) count"),
        ("if (keep) slot", "if (s.b) slot"),
        ("if (keep) out", "s.a[v] = 1; if (s.b) out"),
    ),
    "a slot of the last round": changed(
        IN_LOOP,
        ("uint slot = 0;", ""),
        ("int g", "int slot = -1, g"),
        ("if (keep) out", "if (slot >= 0) out"),
    ),
    "it counts again and again": changed(
        COUNTED, ("slot = atomic_inc", "for (int i = 0; i < v; i++) slot = atomic_inc")
    ),
    "it counts in a choice": changed(
        COUNTED, ("if (keep) slot = atomic_inc(&count)", "slot = keep ? atomic_inc(&count) : 0")
    ),
    "it counts without storing": changed(
        COUNTED, ("slot = atomic_inc(&count);", "slot = atomic_inc(&count); if (v == 9) atomic_inc(&count);")
    ),
    "it counts later too": changed(COUNTED, ("= v;", "= v; slot = atomic_inc(&count);")),
    "the count changes": changed(
        COUNTED, ("if (lid == 0) base", "if (lid == 1) count = 3; if (lid == 0) base")
    ),
    "the count is doubled": changed(
        COUNTED, ("base = atomic_add(n, count);", "{ count *= 2; base = atomic_add(n, count); }")
    ),
    "the count may be another place": re.sub(r"\bcount\b", "lm[0]", COUNTED)
    .replace("uint lm[0], ", "uint ")
    .replace("uint slot", "lm[v] = 3; uint slot"),
    "a pointer to another element leads to the count": changed(
        THREE, ("if (lid == 0) lm[2]", "local uint *q = lm; q[1] = 7; if (lid == 0) lm[2]")
    ),
    "the pointer to both moves": changed(THREE, ("if (keep) out", "lm++; if (keep) out")),
    "an index below 0 leads to the count": changed(
        THREE, ("if (lid == 0) lm[2]", "(lm + 2)[-1] = 7; if (lid == 0) lm[2]")
    ),
    "another sets the count while it is added": changed(
        COUNTED,
        (
            "if (lid == 0) base = atomic_add(n, count);",
            "if (get_local_id(1) == 0) { if (lid == 0) base = atomic_add(n, count); else count = 0; }",
        ),
    ),
    "an id is lost in 32 bits": changed(COUNTED, ("if (lid == 0) base", "if ((lid << 30) == 0) base")),
    "an id times a size again and again": changed(
        COUNTED,
        ("if (lid == 0) base", "uint s = get_local_size(0); if (lid * s * s * s * s == 0) base"),
    ),
    "less than none was counted": changed(
        COUNTED,
        ("local uint count", "local int count"),
        ("if (lid == 0) base", "if (lid == 0 && 0 - count > 0) base"),
    ),
    "what was counted is lost in 32 bits": changed(
        COUNTED, ("if (lid == 0) base", "if (lid == 0 && (count << 30) > 0) base")
    ),
    "a barrier with flags that are computed": COUNTED.replace(
        "CLK_LOCAL_MEM_FENCE", "m ? 0 : 0 | CLK_LOCAL_MEM_FENCE | 0"
    ),
    "a switch leads into the middle": changed(
        COUNTED,
        ("; uint lid", "; switch (m) { case 0: { uint lid"),
        ("if (keep) out", "{ case 1: ; } if (keep) out"),
        ("= v;", "= v; } }"),
    ),
    "the condition is of a vector that an index changes": changed(
        COUNTED,
        ("if (lid == 0) count", "int2 x = (int2)(v, g); if (lid == 0) count"),
        ("if (keep) slot", "if (x.y > 3) slot"),
        ("if (keep) out", "x[1] = 9; if (x.y > 3) out"),
    ),
    "the slot changes in parentheses": changed(COUNTED, ("if (keep) out", "(slot)++; if (keep) out")),
    "the slot is assigned in parentheses": changed(COUNTED, ("if (keep) out", "((slot)) = 3; if (keep) out")),
    "the count is handed to a pointer": changed(
        COUNTED, ("uint slot", "local uint *q = &count; *q = 3; uint slot")
    ),
    "it leaves after it counted": changed(
        COUNTED, ("slot = atomic_inc(&count);", "slot = atomic_inc(&count); if (v == 5) return;")
    ),
    "it leaves before it stores": changed(COUNTED, ("if (keep) out", "if (v == 5) return; if (keep) out")),
    "the round ends before it stores": changed(
        IN_LOOP, ("if (keep) out", "if (v == 5) continue; if (keep) out")
    ),
    "the first place changes": changed(COUNTED, ("if (keep) out", "if (lid == 1) base = 3; if (keep) out")),
    "the first place grows": changed(
        COUNTED, ("if (lid == 0) base", "if (lid == 0) { base = 1; } if (lid == 0) base")
    ),
    "the first place is stored": changed(COUNTED, ("= v;", "= v; f[g] = base;")),
    "the first place is what is stored": changed(COUNTED, ("= v;", "= base;")),
    "the first place is compared": changed(
        COUNTED, ("if (keep) out", "if (base == 7) f[g] = 1; if (keep) out")
    ),
    "the first place is compared with data": changed(
        COUNTED, ("if (keep) out", "if (base < v) f[g] = 1; if (keep) out")
    ),
    "a copy of it is stored": changed(COUNTED, ("if (keep) out", "uint b = base; f[g] = b; if (keep) out")),
    "the last first place is looked at": changed(IN_LOOP, ("uint slot", "f[g] = base; uint slot")),
    "it is kept behind the loop": IN_LOOP + " f[g] = base;",
    "it is passed on": changed(COUNTED, ("= v;", "= v; atomic_add(&base, 1);")),
    "what is stored to is read": changed(COUNTED, ("= v;", "= v; f[g] = out[g];")),
    "it stores elsewhere too": changed(COUNTED, ("= v;", "= v; out[g] = 1;")),
    "it adds to the place": changed(COUNTED, ("] = v;", "] += v;")),
    "the counter is read": changed(COUNTED, ("= v;", "= v; f[g] = n[0];")),
    "the counter is set": changed(
        COUNTED, ("if (lid == 0) count = 0", "if (lid == 0) { count = 0; *n = 0; }")
    ),
    "the counter is one of many": changed(COUNTED, ("atomic_add(n, count)", "atomic_add(&n[v], count)")),
    "a limit in memory": changed(COUNTED, ("if (keep) out", "if (keep && base + slot < f[0]) out")),
    "a limit for those that have no slot": changed(COUNTED, ("= v;", "= v; f[g] = base + slot < m;")),
    "fields are left out": changed(COUNTED, ("out[base + slot] = v", "pairs[base + slot].x = v")),
    "fewer than were counted": changed(COUNTED, K, EACH, ("i = 0; i < k", "i = 1; i < k")),
    "other than were counted": changed(COUNTED, K, EACH, ("i < k", "i < k + 1")),
    "they change between": changed(COUNTED, K, EACH, ("for (uint i", "k++; for (uint i")),
    "one of two rounds is not stored": changed(
        COUNTED,
        (
            "slot = atomic_inc(&count);",
            "slot = atomic_inc(&count); uint s = 0; if (v & 1) s = atomic_inc(&count);",
        ),
    ),
    "two counters, one of them twice": TWICE.replace("f[second + slot]", "f[base + slot]"),
    "two counters, the other's slot": TWICE.replace("&other", "&count"),
    "a jump": changed(COUNTED, ("if (keep) out", "if (v == 4) goto end; if (keep) out")) + "end: ;",
    "gathered by others": changed(GATHERED, ("i = lid", "i = g")),
    "gathered from 1 on": changed(GATHERED, ("i = lid", "i = lid + 1")),
    "gathered as many as an int says": changed(
        GATHERED,
        ("tmp[atomic_inc(&count)] = v", "{ uint s = atomic_add(&count, (uint)v); tmp[s] = v; }"),
        ("uint i = lid; i < count", "int i = lid; i < (int)count"),
    ),
    "gathered in other steps": changed(GATHERED, ("i += get_local_size(0)", "i += get_local_size(1)")),
    "gathered by a number": changed(GATHERED, ("i += get_local_size(0)", "i += 64")),
    "gathered one each": changed(GATHERED, (STEP, "if (lid < count) out[base + lid] = tmp[lid];")),
    "gathered up to another": changed(GATHERED, ("i < count", "i < count + 1")),
    "gathered up to one less": changed(GATHERED, ("i < count", "i < count - 1")),
    "all wait where not all may come": changed(
        COUNTED, ("= v;", f"= v; {B}"), ("out[", "{ out["), (B, B + "}")
    ),
    "all wait though some may go round more often": changed(
        GATHERED, ("out[base + i]", f"{{ {B} out[base + i]")
    )
    + "}",
    "many accesses": COUNTED.replace("uint slot", "lm[5] = 1;" * 1000 + "uint slot"),
    "gathered in part": changed(GATHERED, ("out[base + i]", "if (tmp[i]) out[base + i]")),
    "gathered until": changed(
        GATHERED, ("out[base + i] = tmp[i];", "{ if (tmp[i] == 9) break; out[base + i] = 1; }")
    ),
    "gathered by some": changed(GATHERED, ("for (uint", "if (v) for (uint")),
    "gathered though the number changes": changed(
        GATHERED, ("for (uint", "if (lid == 3) count = 2; for (uint")
    ),
    "gathered though the number changes first": changed(
        GATHERED, ("base = atomic_add(n, count);", "{ base = atomic_add(n, count); count = 0; }")
    ),
    "gathered in rounds without a barrier": changed(
        GATHERED,
        ("if (lid == 0) count", "for (int r = 0; r < 3; r++) { if (lid == 0) count"),
        (STEP, STEP + "}"),
    ),
    "gathered where some have gone": changed(
        GATHERED, ("if (lid == 0) count", "if (g > m) return; if (lid == 0) count")
    ),
    "gathered less than none": changed(
        GATHERED,
        ("local uint count", "local int count"),
        ("if (v > 3) tmp[atomic_inc(&count)] = v", "atomic_add(&count, v)"),
    ),
    "the place itself is stored": changed(GATHERED, ("= tmp[i]", "= base + i")),
    "summed up by functions of work-groups": SCANNED,
    "and told by one": TOLD,
    "summed up by functions of sub-groups": SUB,
}


@pytest.mark.parametrize("body", APPENDS.values(), ids=APPENDS)
def test_a_kernel_that_adds_once_for_each_work_group_may_be_split(body: str) -> None:
    model = kernel(body)
    assert model.why_whole == ""
    assert model.appends and all(append.stores for append in model.appends)


def test_a_function_of_the_programs_own_counts_in_its_own_way() -> None:
    own = "__attribute__((overloadable)) uint atomic_inc(volatile local uint *p) { return 7; }"
    source = f"{own} kernel void k({ARGUMENTS}) {{ {COUNTED} }}"
    assert not compile_source(source, "-cl-std=CL3.0", language=LANGUAGE).kernels[0].appends


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_a_kernel_of_which_that_is_not_sure_does_not_append(body: str) -> None:
    model = kernel(body)
    assert not model.appends
    assert model.watched or "updates global memory atomically" in model.why_whole


def test_what_is_found_of_one_addition_for_each_work_group() -> None:
    (append,) = kernel(APPENDS["below a limit"]).appends
    assert append.stores == (AppendStore(1, 4, 1, ()),)
    assert append.limits == (Limit(0, ((1, (Scalar(3, False),)),)),)
    assert (append.counter, append.index, append.reads, append.flat) == (2, (), (), (1, 2))
    (append,) = kernel(APPENDS["the condition reads"]).appends
    assert append.reads == (0,)
    (append,) = kernel(APPENDS["the group is below a limit"]).appends
    assert append.limits == (Limit(-1 + 1, ((1, (Scalar(3, False),)),)),)


@pytest.mark.parametrize(
    ("shape", "attributes", "flat"),
    [
        ("counted", "", (1, 2)),
        ("counted", "__attribute__((reqd_work_group_size(64, 1, 1)))", ()),
        ("counted", "__attribute__((reqd_work_group_size(8, 8, 1)))", (1,)),
        ("the first of all dimensions", "", ()),
        ("the first of two dimensions", "", (2,)),
        ("the last", "", (1, 2)),
    ],
)
def test_in_which_dimensions_work_groups_must_be_flat(
    shape: str, attributes: str, flat: tuple[int, ...]
) -> None:
    (append,) = kernel(APPENDS[shape], attributes).appends
    assert append.flat == flat


def test_a_loop_in_steps_of_the_size_that_a_kernel_requires_is_for_all() -> None:
    body = changed(GATHERED, ("i += get_local_size(0)", "i += 64"))
    assert kernel(body, "__attribute__((reqd_work_group_size(64, 1, 1)))").appends
    assert not kernel(body, "__attribute__((reqd_work_group_size(32, 1, 1)))").appends
