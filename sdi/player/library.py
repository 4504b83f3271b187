"""The compiled player, and the structures that are handed to it."""

from __future__ import annotations

import ctypes
from pathlib import Path

from sdi import cells

SOURCES = Path(__file__).resolve().parent
LIBRARY_NAME = "libsdi_player.so"
LANES_MAX, STREAMS_MAX, NODES_MAX, BUFFERS_MAX = 16, 4, 512, 1 << 12
NO_RECORDING = 0xFFFFFFFF
REPORTS_MAX = 1024
LOGGED_SOON = 4096
RECORD, IDLE, END, POSTED, FAILED, WANTED, MEASURED = 1, 2, 3, 4, 5, 6, 7
OP_LAUNCH, OP_UPLOAD, OP_DOWNLOAD, OP_COPY, OP_FILL = 0, 1, 2, 3, 4
WRITES_BESIDE, BESIDE_MAX = 2, 32
CLIENT_NONE, CLIENT_READS, CLIENT_WRITES, CLIENT_FILLS, CLIENT_LOOKS, CLIENT_TAKES = range(6)
CLIENT_SHOWN, CLIENT_WRITTEN = 6, 7
WHYS = ("played", "busy", "kind", "queue", "waits", "unknown", "guards", "lanes")
"""As ``enum why``: what became of a record.  "played": executed by the player; else it was left to Python:

"busy": that had commands in flight; "kind": its kind is never replayed; "queue": nor are those of its queue;
"waits": it waits for what the player doesn't know; "unknown": it was not recorded yet; "guards": what it was
recorded for has changed; "lanes": its bytes are still in use elsewhere.
"""

_u32, _u64, _pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class Hole(ctypes.Structure):
    """A scalar that changes: from the record to the parameter block, or to the kernel's argument ``to``."""

    _fields_ = [("from_", _u32), ("to", _u32), ("nbytes", _u32)]


class PlayerAccess(ctypes.Structure):
    """What an operation does to a segment."""

    _fields_ = [("segment", _u32), ("writes", _u32)]


class PlayerOp(ctypes.Structure):
    """``struct op``."""

    _fields_ = [
        ("kind", _u32),
        ("lane", _u32),
        ("first_access", _u32),
        ("num_accesses", _u32),
        ("first_hole", _u32),
        ("num_holes", _u32),
        ("object", _u64),
        ("other", _u64),
        ("size", _u64 * 3),
        ("local", _u64 * 3),
        ("shared", _u32),
        ("dim", _u32),
        ("block_at", _u64),
        ("block_nbytes", _u64),
        ("to", _u64),
        ("from_", _u64),
        ("nbytes", _u64),
    ]


class CellValue(ctypes.Structure):
    """A cell and the value that it must have, or gets."""

    _fields_ = [("cell", _u32), ("value", _u32)]


class Given(ctypes.Structure):
    """``struct given``."""

    _fields_ = [
        ("op", _u32),
        ("key_nbytes", _u32),
        ("record_key", ctypes.c_char_p),
        ("mask", ctypes.c_char_p),
        ("guards", ctypes.POINTER(CellValue)),
        ("effects", ctypes.POINTER(CellValue)),
        ("budgets", ctypes.POINTER(_u32)),
        ("ops", ctypes.POINTER(PlayerOp)),
        ("accesses", ctypes.POINTER(PlayerAccess)),
        ("holes", ctypes.POINTER(Hole)),
        ("block", ctypes.c_char_p),
        ("build", _u64),
        ("block_nbytes", _u64),
        ("client_nbytes", _u64),
        ("client_at", _u64),
        ("client_to", _u64),
        ("client_from", _u64),
        ("client_stop", _u64),
        ("client_slack", _u64),
        ("index", _u32),
        ("num_guards", _u32),
        ("num_effects", _u32),
        ("num_budgets", _u32),
        ("num_ops", _u32),
        ("num_accesses", _u32),
        ("num_holes", _u32),
        ("client", _u32),
        ("client_segment", _u32),
        ("client_shown", _u32),
        ("blocking", _u32),
        ("watch", _u32),
        ("profiled", _u32),
        ("num_beside", _u32),
    ]


class Told(ctypes.Structure):
    """``struct node_told``: a command in flight; ``lanes``: bits of members where some of it is not done."""

    _fields_ = [
        ("id", _u64),
        ("queue", _u64),
        ("sequence", _u64),
        ("submitted_ns", _u64),
        ("began_ns", _u64),
        ("ended_ns", _u64),
        ("lanes", _u64),
        ("slot", _u32),
        ("recording", _u32),
        ("stage", _u32),
        ("forgotten", _u32),
        ("status", ctypes.c_int32),
        ("is_measured", _u32),
        ("nbytes", _u32),
        ("reserved", _u32),
    ]


class PlayerReport(ctypes.Structure):
    """``struct report``: when one operation of a command that is measured ran."""

    _fields_ = [
        ("command", _u64),
        ("recording", _u32),
        ("op", _u32),
        ("began_ns", _u64),
        ("ended_ns", _u64),
    ]


class Recycled(ctypes.Structure):
    """``struct recycled``: a buffer that was recycled or reused; ``slot``: nobody said yet when it may be."""

    _fields_ = [("id", _u64), ("recycled_ns", _u64), ("slot", _u32), ("stage", _u32)]


_STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "hole": Hole,
    "access": PlayerAccess,
    "op": PlayerOp,
    "cell_value": CellValue,
    "given": Given,
    "node_told": Told,
    "report": PlayerReport,
    "recycled": Recycled,
}
_OWN = ("LOGGED_SOON", "CELLS_MAX", "ROW")
_RESULTS = ("RECORD", "IDLE", "END", "POSTED", "FAILED", "WANTED", "MEASURED")


def checks() -> str:
    """C that compiles only where the structures and numbers of this module are those of ``player.h``."""
    lines = ['#include "player.h"']
    for name, made in _STRUCTURES.items():
        lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(made)}, "{name}");')
        for field in (each[0] for each in made._fields_):
            at = f"offsetof(struct {name}, {field.rstrip('_')}) == {getattr(made, field).offset}"
            lines.append(f'_Static_assert({at}, "{name}.{field}");')
    for name, value in {**vars(cells), **globals()}.items():
        if name[0].isupper() and name.isupper() and isinstance(value, int) and name not in _OWN:
            own = f"SDI_{name}" if name in _RESULTS else name
            lines.append(f'_Static_assert({own} == {value}, "{name}");')
    return "\n".join([*lines, ""])


def compile_player(outdir: Path) -> Path:
    """Compile into ``outdir``; the path of the library.

    Raises subprocess.CalledProcessError, or FileNotFoundError where there is no compiler.
    """
    from sdi.wire.generate import compile_shared, generate

    generate(outdir)
    check = outdir / "sdi_player_checks.c"
    check.write_text(checks(), encoding="utf-8")
    sources = [*sorted(SOURCES.glob("*.c")), check]
    return compile_shared(outdir / LIBRARY_NAME, sources, ["-D_GNU_SOURCE", f"-I{SOURCES}"])


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
        "sdi_player_queue": (None, [_pointer, _u64, ctypes.c_bool, ctypes.c_bool]),
        "sdi_player_add": (ctypes.c_int64, [_pointer, ctypes.POINTER(Given)]),
        "sdi_player_drop_all": (None, [_pointer]),
        "sdi_player_run": (ctypes.c_int, [_pointer, ctypes.c_bool]),
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
        "sdi_player_buffer": (ctypes.c_bool, [_pointer, _u64, _u32, _u32, ctypes.POINTER(_u32)]),
        "sdi_player_no_buffer": (None, [_pointer, _u64]),
        "sdi_player_buffer_segment": (None, [_pointer, _u64, _u32]),
        "sdi_player_recycled": (_u32, [_pointer, ctypes.POINTER(Recycled)]),
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
