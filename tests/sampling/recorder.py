"""The truth about a launch: every byte that each work-group touches, logged by the kernel itself.

Accesses to global and constant memory are wrapped by edits of the source, as the sub-range emitter edits it.
The log is plain host memory: PoCL's CPU device runs in this process, so a kernel can write to its address.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyopencl as cl

from sdi.clc.frontend.syntax import Form, NodeKind, Space, SyntaxNode, Tree, callee_of
from sdi.clc.preprocess.options import parse_options
from sdi.clc.subrange import Edit, apply_edits
from sdi.intervals import ByteRange
from sdi.ndrange import NDRange
from sdi.region import Region
from sdi.regions import RegionSet

Array: TypeAlias = np.ndarray[Any, Any]

CAPACITY = 1 << 19
_WORDS = 4
_LOG_ADDRESS = 0x3A0000000000
_SHARED = (Space.GLOBAL, Space.CONSTANT, Space.GENERIC)
_VECTOR = re.compile(r"v(load|store)a?(_half)?(2|3|4|8|16)?(_r\w+)?\Z")
_ATOMIC = re.compile(r"(atomic|atom)_")
_OUTPUTS = re.compile(r"(fract|modf|sincos|frexp|remquo|lgamma_r)\Z")
_COMPONENTS = {c: i for i, c in enumerate("xyzw")}

READ, WRITE, BOTH = 1, 2, 3

_PROLOGUE = """\
#define __REC_LOG ((volatile __global ulong *)%(log)s)
#define __REC_NOTE(p, n, mode) do { uint at_ = atomic_inc((volatile __global uint *)__REC_LOG); \\
 if (at_ < %(capacity)d) { volatile __global ulong *r_ = __REC_LOG + 4 + 4 * (ulong)at_; \\
 r_[0] = (ulong)(p); r_[1] = (ulong)(n); \\
 r_[2] = get_group_id(0) + get_num_groups(0) * (get_group_id(1) + get_num_groups(1) * get_group_id(2)); \\
 r_[3] = (mode); } } while (0)
#define __REC_FUNCTION(space) static __attribute__((overloadable, always_inline)) void \\
 __rec(const volatile space void *p, ulong n, ulong mode) { __REC_NOTE(p, n, mode); }
#define __REC_NOTHING(space) static __attribute__((overloadable, always_inline)) void \\
 __rec(const volatile space void *p, ulong n, ulong mode) { }
__REC_FUNCTION(__global)
static __attribute__((overloadable, always_inline)) void
 __rec(const __constant void *p, ulong n, ulong mode) { __REC_NOTE(p, n, mode); }
__REC_NOTHING(__local)
__REC_NOTHING(__private)
#define __REC_AT(mode, ...) (*({ __typeof__(&(__VA_ARGS__)) p_ = &(__VA_ARGS__); \\
 __rec(p_, sizeof(__VA_ARGS__), mode); p_; }))
#define __REC_P(mode, ...) ({ __typeof__(&*(__VA_ARGS__)) p_ = (__VA_ARGS__); \\
 __rec(p_, sizeof(*p_), mode); p_; })
#define __REC_LOAD(f, stride, size, o, p) ({ ulong o_ = (o); __typeof__(&*(p)) p_ = (p); \\
 __rec((__typeof__(p_))(p_ + o_ * (stride)), size * sizeof(*p_), 1); f(o_, p_); })
#define __REC_STORE(f, stride, size, v, o, p) ({ __typeof__(v) v_ = (v); ulong o_ = (o); \\
 __typeof__(&*(p)) p_ = (p); \\
 __rec((__typeof__(p_))(p_ + o_ * (stride)), size * sizeof(*p_), 2); f(v_, o_, p_); })
#define __REC_STRIDED(d, s, n, t, e, dt, st) ({ __typeof__(&*(d)) d_ = (d); __typeof__(&*(s)) s_ = (s); \\
 ulong n_ = (n); ulong t_ = (t); for (ulong i_ = 0; i_ < n_; i_++) { \\
 __rec(d_ + i_ * (dt), sizeof(*d_), 2); __rec(s_ + i_ * (st), sizeof(*s_), 1); } \\
 async_work_group_strided_copy(d_, s_, n_, t_, e); })
#define __REC_COPY(d, s, n, e) ({ __typeof__(&*(d)) d_ = (d); __typeof__(&*(s)) s_ = (s); ulong n_ = (n); \\
 if (n_) { __rec(d_, n_ * sizeof(*d_), 2); __rec(s_, n_ * sizeof(*s_), 1); } \\
 async_work_group_copy(d_, s_, n_, e); })
"""


@dataclass(frozen=True, slots=True)
class Touched:
    """What work-groups touch: rows of (argument, mode, group, first byte, byte after the last one)."""

    rows: Array

    def union(self, groups: Sequence[int], argument: int, mode: int) -> RegionSet:
        """The bytes of one buffer that some groups read, or write."""
        chosen = (self.rows[:, 0] == argument) & (self.rows[:, 1] & mode != 0)
        chosen &= np.isin(self.rows[:, 2], groups)
        starts, stops = self.rows[chosen, 3], self.rows[chosen, 4]
        if not starts.size:
            return RegionSet()
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order], np.maximum.accumulate(stops[order])
        breaks = np.flatnonzero(starts[1:] > stops[:-1])
        firsts = starts[np.concatenate(([0], breaks + 1))]
        lasts = stops[np.concatenate((breaks, [stops.size - 1]))]
        distances, lengths = np.diff(firsts), lasts - firsts
        if firsts.size > 2 and np.all(distances == distances[0]) and np.all(lengths == lengths[0]):
            return RegionSet((Region(int(firsts[0]), int(lengths[0]), ((int(distances[0]), firsts.size),)),))
        runs = zip(firsts.tolist(), lasts.tolist(), strict=True)
        return RegionSet(tuple([ByteRange(start, stop) for start, stop in runs]))


def recording(tree: Tree, log: int) -> str:
    """The program's text with its accesses logged to the host address ``log``."""
    edits: list[Edit] = []
    for function in tree.functions.values():
        if function.body is not None:
            _instrument(tree, function.body, READ, edits)
    for begin, end in tree.unused_bodies:
        edits.append(Edit(begin + 1, end - 1, " " + "\n" * tree.text.count("\n", begin + 1, end - 1)))
    prologue = _PROLOGUE % {"log": hex(log), "capacity": CAPACITY}
    return prologue + apply_edits(tree.text, _nested(edits))


def _nested(edits: list[Edit]) -> list[Edit]:
    """Insertions at one place: closing ones first, then opening ones from the outside, as they were made."""
    return sorted(edits, key=lambda e: (e.begin, e.end, not e.text.startswith(")")))


def _is_place(node: SyntaxNode) -> bool:
    if node.kind in (NodeKind.ARRAY_SUBSCRIPT, NodeKind.MEMBER_REF):
        return True
    return node.kind is NodeKind.UNARY_OPERATOR and node.operator == "*"


def _instrument(tree: Tree, node: SyntaxNode, mode: int, edits: list[Edit]) -> None:
    """Log what ``node`` touches; ``mode``: what happens to it if it is a place, 0 for its address."""
    children = node.children
    if node.kind is NodeKind.SIZEOF:
        return
    if node.kind is NodeKind.BINARY_OPERATOR and node.operator == "=":
        _instrument(tree, children[0], WRITE, edits)
        _instrument(tree, children[1], READ, edits)
        return
    if node.kind is NodeKind.COMPOUND_ASSIGNMENT:
        _instrument(tree, children[0], BOTH, edits)
        _instrument(tree, children[1], READ, edits)
        return
    if node.kind is NodeKind.UNARY_OPERATOR and node.operator in ("++", "--", "x++", "x--"):
        _instrument(tree, children[0], BOTH, edits)
        return
    if node.kind is NodeKind.UNARY_OPERATOR and node.operator == "&":
        _instrument(tree, children[0], 0, edits)
        return
    if node.kind is NodeKind.CALL:
        _call(tree, node, edits)
        return
    if node.kind is NodeKind.PAREN:
        _instrument(tree, children[0], mode, edits)
        return
    if node.kind is NodeKind.UNEXPOSED and len(children) == 1:
        mask = _mask(tree, node, children[0])
        if mask and children[0].type.space in _SHARED:
            _place(tree, children[0], mode | mask << 8, edits)
        else:
            _instrument(tree, children[0], mode, edits)
        return
    if _is_place(node):
        _place(tree, node, mode, edits)
        return
    for child in children:
        _instrument(tree, child, READ, edits)


def _mask(tree: Tree, node: SyntaxNode, child: SyntaxNode) -> int:
    """The components that a node selects, as bits; 0 when it selects none."""
    text = "".join(tree.text[child.end : node.end].split())
    if child.type.form is not Form.VECTOR or not text.startswith((".", "->")):
        return 0
    name = text.lstrip(".->")
    if name[0] in "sS":
        chosen = [int(c, 16) for c in name[1:]]
    elif name in ("lo", "hi", "even", "odd"):
        half = list(range(child.type.count))
        chosen = {
            "lo": half[: len(half) // 2],
            "hi": half[len(half) // 2 :],
            "even": half[::2],
            "odd": half[1::2],
        }[name]
    else:
        chosen = [_COMPONENTS[c] for c in name]
    assert child.type.element is not None
    return sum(1 << c for c in set(chosen)) | child.type.element.nbytes << 16


def _place(tree: Tree, node: SyntaxNode, mode: int, edits: list[Edit]) -> None:
    while node.kind is NodeKind.PAREN:
        node = node.children[0]
    is_vector_element = node.kind is NodeKind.ARRAY_SUBSCRIPT and node.children[0].type.form is Form.VECTOR
    if is_vector_element and node.type.space in _SHARED:
        raise NotImplementedError("an element of a vector in memory")
    is_logged = mode and node.type.space in _SHARED and node.type.form is not Form.ARRAY and _is_place(node)
    is_arrow = node.kind is NodeKind.UNARY_OPERATOR and node.begin == node.children[0].begin  # the * of p->x
    if is_logged:
        before = f"(&__REC_AT({mode:#x}, *(" if is_arrow else f"__REC_AT({mode:#x}, "
        edits.append(Edit(node.begin, node.begin, before))
    if node.kind is NodeKind.UNARY_OPERATOR:
        _instrument(tree, node.children[0], READ, edits)
    elif node.kind is NodeKind.MEMBER_REF:
        base = node.children[0]
        _instrument(tree, base, READ if base.type.form is Form.POINTER else 0, edits)
    elif node.kind is NodeKind.ARRAY_SUBSCRIPT:
        _instrument(tree, node.children[0], 0 if _decays(node.children[0]) else READ, edits)
        _instrument(tree, node.children[1], READ, edits)
    if is_logged:
        edits.append(Edit(node.end, node.end, ")))" if is_arrow else ")"))


def _decays(node: SyntaxNode) -> bool:
    while node.kind in (NodeKind.UNEXPOSED, NodeKind.PAREN) and len(node.children) == 1:
        node = node.children[0]
    return node.type.form is Form.ARRAY


def _call(tree: Tree, node: SyntaxNode, edits: list[Edit]) -> None:
    reference = callee_of(node)
    arguments = node.children[1:]
    is_builtin = reference is not None and reference.declaration not in tree.functions
    name = reference.name if reference is not None and is_builtin else ""
    for argument in arguments:
        mode = BOTH if _ATOMIC.match(name) else WRITE if _OUTPUTS.match(name) else 0
        pointee = argument.type.element
        if argument.type.form is not Form.POINTER or pointee is None or pointee.space not in _SHARED:
            mode = 0
        if mode:
            edits.append(Edit(argument.begin, argument.begin, f"__REC_P({mode}, "))
        _instrument(tree, argument, READ, edits)
        if mode:
            edits.append(Edit(argument.end, argument.end, ")"))
    if reference is None or not is_builtin:
        return
    match = _VECTOR.match(name)
    if match is not None:
        width = int(match[3] or 1)
        is_aligned = name.startswith(("vloada", "vstorea"))
        stride = 4 if width == 3 and is_aligned else width
        kind = "LOAD" if match[1] == "load" else "STORE"
        opening = tree.text.index("(", reference.end)
        edits.append(Edit(reference.begin, opening + 1, f"__REC_{kind}({name}, {stride}, {width}, "))
    elif name == "async_work_group_copy":
        edits.append(Edit(reference.begin, reference.end, "__REC_COPY"))
    elif name == "async_work_group_strided_copy":
        pointee = arguments[0].type.element
        to_local = pointee is not None and pointee.space is Space.LOCAL
        edits.append(Edit(reference.begin, reference.end, "__REC_STRIDED"))
        edits.append(Edit(node.end - 1, node.end - 1, ", 1, t_" if to_local else ", t_, 1"))
    elif name.startswith("async_"):
        raise NotImplementedError(name)


class Recorder:
    """Runs instrumented kernels on the CPU driver.  One log for all."""

    def __init__(self) -> None:
        self.device = _cpu()
        self.context = cl.Context([self.device])
        self.queue = cl.CommandQueue(self.context)
        self.log = _fixed_memory((CAPACITY + 1) * _WORDS * 8)
        self._programs: dict[tuple[str, str], cl.Program] = {}

    def kernel(self, tree: Tree, options: str, name: str) -> cl.Kernel:
        """The instrumented kernel."""
        key = (tree.text, options)
        if key not in self._programs:
            text = recording(tree, self.log.ctypes.data).encode("latin-1").decode("utf-8", "replace")
            kept = list(parse_options(options, None).member_options)  # OpenCL C 1.1 lacks words of the text
            self._programs[key] = cl.Program(self.context, text).build(options=kept, cache_dir=False)
        return cl.Kernel(self._programs[key], name)

    def run(
        self, kernel: cl.Kernel, ndrange: NDRange, arguments: Sequence[Array | bytes | int | None]
    ) -> Touched:
        """What each work-group touches.

        ``arguments``: an array for a buffer (changed in place), bytes for a value, the size of local memory,
        or None.
        """
        held: list[cl.Buffer | None] = []
        for number, argument in enumerate(arguments):
            held.append(None)
            if isinstance(argument, np.ndarray):
                flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
                held[-1] = cl.Buffer(self.context, flags, hostbuf=argument)
                kernel.set_arg(number, held[-1])
            elif isinstance(argument, int):
                kernel.set_arg(number, cl.LocalMemory(argument))
            elif argument is None:
                kernel.set_arg(number, None)
            else:
                kernel.set_arg(number, np.frombuffer(argument, np.uint8).copy())
        self.log[0] = 0
        dims = ndrange.work_dim
        event = cl.enqueue_nd_range_kernel(
            self.queue,
            kernel,
            ndrange.global_size[:dims],
            ndrange.local_size[:dims],
            global_work_offset=ndrange.offset[:dims],
        )
        event.wait()
        self.queue.finish()
        count = int(self.log[0]) & 0xFFFFFFFF
        assert count < CAPACITY, f"{count} accesses are too many to log"
        return _sorted(self.log[_WORDS : (count + 1) * _WORDS].reshape(-1, _WORDS), arguments)


def _sorted(rows: Array, arguments: Sequence[object]) -> Touched:
    """Log entries by buffer."""
    unique = np.unique(rows, axis=0).astype(np.int64)
    found = [np.zeros((0, 5), np.int64)]
    for number, argument in enumerate(arguments):
        if not isinstance(argument, np.ndarray):
            continue
        base = argument.ctypes.data
        own = unique[(unique[:, 0] >= base) & (unique[:, 0] < base + argument.nbytes)]
        start, mode = own[:, 0] - base, own[:, 3]
        mask, element = mode >> 8 & 0xFFFF, mode >> 24
        whole = mask == 0
        found.append(_rows(number, own[whole], start[whole], own[whole, 1]))
        for component in range(16):
            has = mask >> component & 1 != 0
            found.append(_rows(number, own[has], start[has] + component * element[has], element[has]))
    return Touched(np.concatenate(found))


def _rows(number: int, own: Array, start: Array, nbytes: Array) -> Array:
    return np.stack([np.full_like(start, number), own[:, 3] & 3, own[:, 2], start, start + nbytes], axis=1)


def _fixed_memory(nbytes: int) -> Array:
    """Memory at the same address in every process, so that the driver's cache of programs is of use."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    private_anonymous, fixed_noreplace = 0x22, 0x100000
    at = libc.mmap(_LOG_ADDRESS, nbytes, 3, private_anonymous | fixed_noreplace, -1, 0)
    if at in (None, ctypes.c_void_p(-1).value):
        return np.zeros(nbytes // 8, np.uint64)
    return np.frombuffer((ctypes.c_char * nbytes).from_address(at), np.uint64)


def _cpu() -> cl.Device:
    for platform in cl.get_platforms():
        if "Portable" in platform.name:
            return platform.get_devices()[0]
    raise LookupError("PoCL is not installed")
