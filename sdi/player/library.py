"""The compiled player, and the structures and numbers that it shares with Python."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from sdi import cells

SOURCES = Path(__file__).resolve().parent
LIBRARY_NAME = "libsdi_player.so"
LANES_MAX, STREAMS_MAX, NODES_MAX, BUFFERS_MAX = 16, 4, 512, 1 << 12
NO_RECORDING = 0xFFFFFFFF
REPORTS_MAX = 1024
LOGGED_SOON = 4096
RECORD, IDLE, END, POSTED, FAILED, WANTED, MEASURED, UNKNOWN = 1, 2, 3, 4, 5, 6, 7, 8
"""Why ``sdi_player_run`` returned: Python acts on a record; nothing to read, nothing in flight; the
application has gone; another thread posted something; a driver refused; the next records are known, so that
it is worth waiting until Python has nothing in flight.  And where Python takes nothing over: there are
reports; the next record is not known, and may be planned."""
OP_LAUNCH, OP_UPLOAD, OP_DOWNLOAD, OP_COPY, OP_FILL, OP_NONE, OP_FETCH, OP_COPY_NOW = range(8)
"""COPY_NOW: between members that compute in memory of this process; the player makes it at once."""
OPS_MAX = 512
"""So many operations a recording may have: each may take one of a lane's marks, which are twice as many."""
PIECES_MAX = 256
"""So much of what members appended it moves at a time."""
SAYS_OUTSIDE = 1 << 30
"""Of what was undone: it stored where residency would change."""
WRITES_BESIDE = 2
"""It writes bytes that nothing else of its recording touches, so that what does need not come before it."""
WRITES_TOGETHER = 3
"""It may write all of them, and its recording's other launches do the same meanwhile; nothing else does."""
RUNS_MAX = 256
"""So many runs a copy may have."""
BESIDE_MAX = 64
"""So many of a recording's first operations may be copies that need not follow each other: they use bytes
that none of the others of these writes, and what several write of a segment is on one lane."""
CLIENT_NONE, CLIENT_READS, CLIENT_WRITES, CLIENT_FILLS, CLIENT_LOOKS, CLIENT_TAKES = range(6)
CLIENT_SHOWN, CLIENT_WRITTEN, CLIENT_STAGED = 6, 7, 8
"""What a command is to a buffer's bytes in the arena, besides its operations.  READS: the application copies
them when it is told.  WRITES, FILLS: they, or a pattern, came with the record.  LOOKS: the application looks
at them when the command is complete.  TAKES: and may write them then, or has.  SHOWN: they are copied to
other bytes of the arena.  WRITTEN: the application has written them, early.  STAGED: they are not there, but
its operation, an upload, takes them from where they are staged."""
WHYS = ("played", "busy", "kind", "queue", "waits", "unknown", "guards", "lanes", "undone")
"""What became of a record.  "played": executed by the player; else it was left to Python:

"busy": that had commands in flight; "kind": its kind is never replayed; "queue": nor are those of its queue;
"waits": it waits for what the player doesn't know; "unknown": it was not recorded yet; "guards": what it was
recorded for has changed; "lanes": its bytes are still in use elsewhere, or it would hold up other queues;
"undone": members ran it, and it does not count.
"""

_u32, _u64, _pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
_KINDS: dict[str, tuple[Any, str]] = {
    "u32": (_u32, "uint32_t "),
    "u64": (_u64, "uint64_t "),
    "i32": (ctypes.c_int32, "int32_t "),
    "i64": (ctypes.c_int64, "int64_t "),
    "void*": (_pointer, "void *"),
    "u8*": (ctypes.c_char_p, "uint8_t *"),
    "u32*": (ctypes.POINTER(_u32), "uint32_t *"),
}
"""Types of fields, here and in C."""
_in_c = ["#include <stdint.h>"]
"""The lines of ``sdi_player.h``: the structures of this module, and then its numbers."""


def _fields(structure: str, *groups: str) -> list[tuple[str, Any]]:
    """Fields of ``structure``, as C calls it.  A group: "u64 kind size[3]", a type and names."""
    found: list[tuple[str, Any]] = []
    _in_c.append(f"struct {structure} {{")
    for group in groups:
        kind, *fields = group.split()
        here, there = _KINDS[kind]
        for field in fields:
            name, _, count = field.partition("[")
            found.append((name, here * int(count[:-1]) if count else here))
            _in_c.append(f"    {there}{field.rstrip('_')};")
    _in_c.append("};")
    return found


class Hole(ctypes.Structure):
    """A scalar that changes: ``nbytes`` from the record to the parameter block, or to the kernel's argument
    ``to``.
    """

    _fields_ = _fields("hole", "u32 from_ to nbytes")


class PlayerAccess(ctypes.Structure):
    """What an operation does to a segment.  ``writes``: 0, 1, WRITES_BESIDE or WRITES_TOGETHER."""

    _fields_ = _fields("access", "u32 segment writes")


class PlayerOp(ctypes.Structure):
    """One operation of a part.  ``lane``: its member's; which stream it goes to is its queue's matter.

    What follows means what its kind has it mean.  ``object``: function or kernel; device buffer; of a copy
    between GPUs the context of the target, ``other``: of the source.  ``to``, ``from_``: addresses, or
    offsets in OpenCL buffers; ``near``, ``near_other``: where these buffers begin in this process, 0 where
    they are not in its memory.  ``num_runs``: of a copy, ``nbytes`` in all, at distances of ``to_pitch`` and
    ``from_pitch``; 0: it is one.  Of what an attempt moves ``size`` is where its source and target begin.
    ``took_ns``: what C has seen it take; 0: nothing yet.  ``unmarked``: how often it had no event since then.
    """

    _fields_ = _fields(
        "op",
        "u32 kind lane first_access num_accesses first_hole num_holes",
        "void* object other",
        "u64 size[3] local[3]",
        "u32 shared dim",
        "u64 block_at block_nbytes to from_ nbytes near near_other took_ns unmarked",
        "u64 num_runs to_pitch from_pitch",
    )


class CellValue(ctypes.Structure):
    """A cell and the value that it must have, or gets."""

    _fields_ = _fields("cell_value", "u32 cell value")


class Test(ctypes.Structure):
    """What must hold of a scalar that is no part of the key, at ``at`` of the record behind its command
    fields: it lies in [``lo``, ``hi``], and its remainder is ``residue``.
    """

    _fields_ = _fields("test", "u32 at nbytes is_signed reserved", "i64 lo hi modulus residue")


class PlayerWatched(ctypes.Structure):
    """Bytes of which each member of an attempt has a copy, or that are merged.

    ``host_at``: where the host has them, its ``segment``; ``copies_at``: ``num_copies`` of members, one
    behind the other, each with a multiple of 8 bytes.  ``operation``: see ``devices.comparing``.  What is not
    updated is compared by units of ``element_nbytes``, in which scalars of ``smallest_nbytes`` may have been
    stored.  ``conflicts``, ``changed_nbytes``: C's.
    """

    _fields_ = _fields(
        "watched",
        "u64 host_at copies_at nbytes conflicts changed_nbytes",
        "u32 segment element_nbytes smallest_nbytes operation num_copies reserved",
    )


class PlayerHanded(ctypes.Structure):
    """A counter that hands out places: ``element`` of what is ``watched``, at most ``most`` in the end."""

    _fields_ = _fields("handed", "u32 watched element is_limited reserved", "i64 most")


class PlayerStore(ctypes.Structure):
    """What is stored for the places of a counter, ``handed``.

    Place p begins at ``first`` + ``step`` p, in bytes of the buffer, and has abs(``step``) bytes.  All must
    lie in [``start``, ``stop``).  ``op``: the first of the moves, one for each member.  ``buffer``: equal
    ones are one.
    """

    _fields_ = _fields("store", "u32 handed op buffer reserved", "i64 first step start stop")


for _name, _made in (
    ("watched", PlayerWatched),
    ("handed", PlayerHanded),
    ("store", PlayerStore),
    ("hole", Hole),
    ("access", PlayerAccess),
    ("op", PlayerOp),
    ("cell_value", CellValue),
    ("test", Test),
):
    _KINDS[f"{_name}*"] = ctypes.POINTER(_made), f"struct {_name} *"


class Given(ctypes.Structure):
    """What is in a ``struct recording``, as Python gives it.  It is copied."""

    _fields_ = _fields(
        "given",
        "u32 op key_nbytes",
        "u8* key mask",
        "cell_value* guards effects",
        "u32* budgets",
        "op* ops",
        "access* accesses",
        "hole* holes",
        "test* tests",
        "watched* watched",
        "handed* handed",
        "store* stores",
        "cell_value* undone",
        "u8* block",
        "u64 build block_nbytes client_nbytes client_at client_to",
        "u64 client_from client_stop client_slack client_span",
        "u32 index num_guards num_effects num_budgets num_ops num_accesses num_holes num_tests",
        "u32 client client_segment client_shown blocking watch profiled num_beside num_together",
        "u32 num_moves num_tried num_watched num_handed num_stores num_undone floats merges",
    )


GIVEN: dict[str, Any] = {name: kind for name, kind, *_ in Given._fields_}


class Told(ctypes.Structure):
    """A command in flight; ``lanes``: bits of members where some of it is not done; ``nbytes``: that came
    with it; ``staged``: of these, that it takes from where they are staged until it is over.
    """

    _fields_ = _fields(
        "node_told",
        "u64 id queue sequence submitted_ns began_ns ended_ns lanes",
        "u32 slot recording stage forgotten",
        "i32 status",
        "u32 is_measured nbytes wants_notice staged",
    )


class PlayerReport(ctypes.Structure):
    """When a launch that is measured ran, on one member: operation ``op`` of its recording.

    If that is not known, or it is short and others ran beside it, it began when it ended.
    """

    _fields_ = _fields("report", "u64 command", "u32 recording op", "u64 began_ns ended_ns")


class Recycled(ctypes.Structure):
    """A buffer that was recycled or reused; ``slot``: nobody said yet when it may be."""

    _fields_ = _fields("recycled", "u64 id recycled_ns", "u32 slot stage is_outside")


_OWN = ("LOGGED_SOON", "CELLS_MAX", "ROW")
_RESULTS = ("RECORD", "IDLE", "END", "POSTED", "FAILED", "WANTED", "MEASURED", "UNKNOWN")


def generate(outdir: Path) -> None:
    """Write what the player's sources include into ``outdir``."""
    from sdi.wire import generate as wire

    wire.generate(outdir)
    given = _in_c[_in_c.index("struct given {") + 1 :]
    lines = [
        *_in_c,
        f"#define SDI_GIVEN_FIELDS {' '.join(given[: given.index('};')])}",
        f"enum why {{ PLAYED, {', '.join(f'WHY_{why.upper()}' for why in WHYS[1:])}, WHY_COUNT }};",
    ]
    for name, value in {**vars(cells), **globals()}.items():
        if name[0].isupper() and name.isupper() and isinstance(value, int) and name not in _OWN:
            lines.append(f"enum {{ {'SDI_' if name in _RESULTS else ''}{name} = {value} }};")
    (outdir / "sdi_player.h").write_text("\n".join([*lines, ""]), encoding="utf-8")


def compile_player(outdir: Path) -> Path:
    """Compile into ``outdir``; the path of the library.

    Raises subprocess.CalledProcessError, or FileNotFoundError where there is no compiler.
    """
    from sdi.wire.generate import compile_shared

    generate(outdir)
    return compile_shared(
        outdir / LIBRARY_NAME, sorted(SOURCES.glob("*.c")), ["-D_GNU_SOURCE", f"-I{SOURCES}"]
    )


def load(path: Path) -> tuple[ctypes.CDLL, ctypes.PyDLL]:
    """The player at ``path``, for ``run`` and for calls that return at once.  Raises OSError."""
    library = ctypes.CDLL(str(path))
    quick = ctypes.PyDLL(str(path))  # keeps the GIL
    declared: dict[str, tuple[object, list[object]]] = {
        "sdi_player_new": (
            _pointer,
            [ctypes.c_int] * 2 + [_pointer] * 4,
        ),
        "sdi_player_free": (None, [_pointer]),
        "sdi_player_drivers": (None, [_pointer, _pointer, _pointer]),
        "sdi_player_lane": (ctypes.c_int, [_pointer, _u32, _pointer, _pointer]),
        "sdi_player_streams": (ctypes.c_int, [_pointer, ctypes.POINTER(_pointer)]),
        "sdi_player_way": (ctypes.c_uint32, [_pointer]),
        "sdi_player_queue": (None, [_pointer, _u64, ctypes.c_bool, ctypes.c_bool, ctypes.c_bool]),
        "sdi_player_add": (ctypes.c_int64, [_pointer, ctypes.POINTER(Given)]),
        "sdi_player_drop_all": (None, [_pointer]),
        "sdi_player_run": (ctypes.c_int, [_pointer, ctypes.c_bool]),
        "sdi_player_offer_ring": (None, [_pointer]),
        "sdi_player_is_told": (ctypes.c_bool, [_pointer]),
        "sdi_player_may_sleep": (ctypes.c_bool, [_pointer]),
        "sdi_player_poke": (None, [_pointer]),
        "sdi_player_hang_bell": (None, [_pointer]),
        "sdi_player_record": (_pointer, [_pointer, ctypes.POINTER(_u64), ctypes.POINTER(_u64)]),
        "sdi_player_waited": (None, [_pointer, ctypes.c_bool]),
        "sdi_player_nodes": (_u32, [_pointer, ctypes.POINTER(Told)]),
        "sdi_player_played": (_u32, [_pointer, ctypes.POINTER(_u64)]),
        "sdi_player_reports": (_u32, [_pointer, ctypes.POINTER(PlayerReport)]),
        "sdi_player_profiled": (ctypes.c_int, [_pointer, _u32]),
        "sdi_player_logged": (_u32, [_pointer, ctypes.POINTER(_pointer)]),
        "sdi_player_runs": (_u64, [_pointer, _u32]),
        "sdi_player_holds": (ctypes.c_bool, [_pointer, _u32]),
        "sdi_player_released": (_u32, [_pointer]),
        "sdi_player_undone": (_u32, [_pointer]),
        "sdi_player_merge": (None, [ctypes.POINTER(PlayerWatched)]),
        "sdi_player_merged": (None, [_pointer, _u32, _u32, ctypes.POINTER(_u64)]),
        "sdi_player_moved": (_u64, [_pointer, _u32, _u32]),
        "sdi_player_buffer": (ctypes.c_bool, [_pointer, _u64, _u32, _u32, ctypes.POINTER(_u32)]),
        "sdi_player_no_buffer": (None, [_pointer, _u64]),
        "sdi_player_buffer_segment": (None, [_pointer, _u64, _u32]),
        "sdi_player_recycled": (_u32, [_pointer, ctypes.POINTER(Recycled), ctypes.c_bool]),
        "sdi_player_handed_over": (None, [_pointer, _u32]),
        "sdi_player_records": (_u64, [_pointer, _u32, _u32]),
        "sdi_player_carried": (_u64, [_pointer]),
        "sdi_player_looks": (_u64, [_pointer]),
        "sdi_player_naps": (_u64, [_pointer]),
        "sdi_player_segment_nbytes": (_u32, []),
    }
    for name, (result, arguments) in declared.items():
        for each in (library, quick):
            function = getattr(each, name)
            function.restype, function.argtypes = result, arguments
    return library, quick
