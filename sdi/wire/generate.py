"""Writes the generated C of the client and compiles the client: ``python -m sdi.wire.generate OUTDIR``.

``sdi_wire.h``: the records of ``records.py`` as C structures (sizes, offsets asserted), opcodes and limits.
``sdi_numbers.h``: the numbers of ``sdi/wire``.
``sdi_api.h``: prototypes of the functions of ``api.py``; ``sdi_dispatch.c``: the dispatch table, the stubs of
what isn't implemented, the same once more with times taken (``client/link/profile.c``), and the names.  Needs
only the standard library and a C compiler, no OpenCL header.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from sdi.wire import cuda, profile, records
from sdi.wire.api import ENTRIES, NUM_SLOTS, Entry
from sdi.wire.arguments import ArgumentKind
from sdi.wire.layout import Fields, declarations, layout, offset_of
from sdi.wire.opencl import IMAGE_TYPES, OF_64_BITS, PREFIXES

CLIENT = Path(__file__).resolve().parents[1] / "client"
LIBRARY_NAME = "libsdi_icd.so"
_SHARED_FLAGS = (
    "-O2",
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
    "-pthread",
)
_CLIENT_FLAGS = ("-Wl,-Bsymbolic", "-Wl,-z,nodelete")
SANITIZE_FLAGS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-omit-frame-pointer",
    "-g",
)

_C_TYPES = {"u32": "uint32_t", "i32": "int32_t", "u64": "uint64_t", "i64": "int64_t"}
_INVALID = {
    "cl_platform_id": "CL_INVALID_PLATFORM",
    "cl_device_id": "CL_INVALID_DEVICE",
    "cl_context": "CL_INVALID_CONTEXT",
    "cl_command_queue": "CL_INVALID_COMMAND_QUEUE",
    "cl_mem": "CL_INVALID_MEM_OBJECT",
    "cl_sampler": "CL_INVALID_SAMPLER",
    "cl_program": "CL_INVALID_PROGRAM",
    "cl_kernel": "CL_INVALID_KERNEL",
    "cl_event": "CL_INVALID_EVENT",
}
"""Handle types that the client can check (``sdi_is_<type>``), and the code for a wrong one."""


def project_version() -> str:
    """The version in ``pyproject.toml`` beside the package; "0" in a source tree without one."""
    try:
        text = (CLIENT.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
        return str(tomllib.loads(text)["project"]["version"])
    except (OSError, KeyError):
        return "0"


def _structure(name: str, fields: Fields) -> Iterator[str]:
    """A C structure and assertions that the compiler lays it out as ``layout`` does."""
    yield f"struct {name} {{"
    yield f"    {declarations(fields, _C_TYPES)}"
    yield "};"
    for field in fields:
        at = offset_of(fields, field.name)
        yield f'_Static_assert(offsetof(struct {name}, {field.name}) == {at}, "{name}.{field.name}");'
    yield f'_Static_assert(sizeof(struct {name}) == {layout(fields).size}, "{name}");'
    yield ""


def wire_header() -> str:
    """``sdi_wire.h``."""
    lines = ["#ifndef SDI_WIRE_H", "#define SDI_WIRE_H", "#include <stddef.h>", "#include <stdint.h>", ""]
    limits = ("PATTERN_MAX_NBYTES", "FAILURE_MAX_NBYTES", "CARRIED_MAX_NBYTES", "STAGED_MAX_NBYTES")
    for name in ("PROTOCOL_VERSION", "ENDED_BY_ITSELF", "NUM_SLOTS", *limits, "SLOT_NBYTES", "SHIFT_NBYTES"):
        lines.append(f"#define SDI_{name} {getattr(records, name)}")
    ring = ("RING_OFFSET", "RING_BYTES_OFFSET", "RING_NBYTES")
    places = ("SLOTS_OFFSET", *ring, "STAGING_OFFSET", "STAGING_NBYTES", "HEAP_OFFSET")
    for name in ("MAGIC", "ARENA_NBYTES", *places, "MAX_RECORD_NBYTES", "NEAR_ADDRESS", "NEAR_NBYTES"):
        lines.append(f"#define SDI_{name} UINT64_C({getattr(records, name):#x})")
    addresses = ", ".join(f"UINT64_C({address:#x})" for address in records.SHARED_ADDRESSES)
    lines.append(f"#define SDI_SHARED_ADDRESSES {addresses}")
    of_platform = ("PLATFORM_VENDOR", "PLATFORM_NAME", "PLATFORM_VERSION")
    facts = ("IMAGE_FORMATS", *of_platform, "NEXT_DEVICE", "FINE_IN_PLACE", "FINE_UPDATE")
    for name in (f"FACT_{fact}" for fact in facts):
        lines.append(f"#define SDI_{name} UINT32_C({getattr(records, name):#x})")
    enums = (
        (records.Op, "OP"),
        (records.NoticeKind, "NOTICE"),
        (records.FineUpdate, "FINE"),
        (ArgumentKind, "ARG"),
    )
    for enum, prefix in enums:
        lines.append("")
        lines += [f"#define SDI_{prefix}_{member.name} {member.value}" for member in enum]
    lines += [f"#define SDI_OPS_COUNT {max(records.Op) + 1}", ""]
    for name, fields in records.STRUCTS.items():
        lines += _structure(f"sdi_wire_{name}", fields)
    for name, fields in profile.STRUCTS.items():
        lines += _structure(name, fields)
    lines.append(f"#define SDI_CALLS_MAGIC UINT64_C({profile.MAGIC})")
    lines.append(f"#define SDI_CALLS_VERSION {profile.VERSION}")
    lines += [
        f"#define {name} {getattr(profile, name):#x}u" for name in ("LOG_COMMAND", "LOG_END", "LOG_TURN")
    ]
    for op, body in records.BODY.items():
        head = records.HEADER + (records.COMMAND if op in records.COMMANDS else ())
        lines += _structure(f"sdi_rec_{op.name.lower()}", head + body)
    lines += [
        '_Static_assert(sizeof(struct sdi_wire_slot) == SDI_SLOT_NBYTES, "slot");',
        "#endif",
        "",
    ]
    return "\n".join(lines)


def numbers_header() -> str:
    """``sdi_numbers.h``."""
    lines = ["#ifndef SDI_NUMBERS_H", "#define SDI_NUMBERS_H", "#include <stdint.h>", ""]
    for table, prefix in PREFIXES.items():
        names = {f"CL_{prefix}{name}": member.value for name, member in table.__members__.items()}
        if table in OF_64_BITS:
            lines += [f"#define {name} UINT64_C({value:#x})" for name, value in names.items()]
        else:
            lines += ["enum {", *(f"    {name} = {value:#x}," for name, value in names.items()), "};"]
    lines += [f"#define {name} {value}" for name, value in vars(cuda).items() if name.isupper()]
    types = ", ".join(f'{{"{name}", {kind.value:#x}}}' for name, kind in IMAGE_TYPES.items())
    return "\n".join([*lines, f"#define SDI_IMAGE_TYPES {types}", "#endif", ""])


def api_header() -> str:
    """``sdi_api.h``: needs the types of ``client/cl.h``."""
    lines = ["#ifndef SDI_API_H", "#define SDI_API_H", '#include "cl.h"', ""]
    lines += [f"{e.prototype('sdi_' + e.name)};" for e in ENTRIES if e.implemented]
    lines += [
        "",
        f"#define SDI_NUM_API {NUM_SLOTS}",
        "typedef void (*sdi_function)(void);",
        f"extern const sdi_function sdi_dispatch[{NUM_SLOTS}];",
        f"extern const sdi_function sdi_timed_dispatch[{NUM_SLOTS}];",
        "sdi_function sdi_find_function(const char *name);",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def _declare(parameter: str, name: str) -> str:
    """``parameter`` with a name."""
    return parameter.replace("(*)", f"(*{name})", 1) if "(*)" in parameter else f"{parameter} {name}"


def _stub(entry: Entry) -> Iterator[str]:
    """A function that checks the object it is called for and fails as the specification wants."""
    names = [f"p{i}" for i in range(len(entry.parameters))]
    declared = ", ".join(_declare(p, n) for p, n in zip(entry.parameters, names, strict=True))
    yield f"static {entry.result} stub_{entry.name}({declared or 'void'})"
    yield "{"
    for name in names:
        yield f"    (void){name};"
    if entry.error == "NULL":
        yield "    return NULL;" if entry.result != "void" else ""
        yield "}"
        yield ""
        return
    yield f"    cl_int status = {entry.error};"
    if entry.parameters and entry.parameters[0] in _INVALID:
        kind = entry.parameters[0]
        yield f"    if (!sdi_is_{kind.removeprefix('cl_')}(p0))"
        yield f"        status = {_INVALID[kind]};"
    if entry.result == "cl_int":
        yield "    return status;"
    else:
        yield f"    if ({names[-1]})"
        yield f"        *{names[-1]} = status;"
        yield "    return NULL;"
    yield "}"
    yield ""


def _timed(slot: int, entry: Entry) -> Iterator[str]:
    """A function that calls the one in ``slot`` of the ordinary table and has the call recorded."""
    names = [f"p{i}" for i in range(len(entry.parameters))]
    declared = ", ".join(_declare(p, n) for p, n in zip(entry.parameters, names, strict=True))
    call = f"{'stub' if entry.error else 'sdi'}_{entry.name}({', '.join(names)})"
    yield f"static {entry.result} timed_{entry.name}({declared or 'void'})"
    yield "{"
    yield f"    struct sdi_timed_call call = sdi_call_begin({slot});"
    if entry.result == "void":
        yield f"    {call};"
        yield "    sdi_call_end(&call, false);"
    else:
        failed = "result != CL_SUCCESS" if entry.result == "cl_int" else "!result"
        yield f"    {entry.result} result = {call};"
        yield f"    sdi_call_end(&call, {failed});"
        yield "    return result;"
    yield "}"
    yield ""


def _timed_table() -> Iterator[str]:
    """The second dispatch table and its functions."""
    for slot, entry in enumerate(ENTRIES):
        if not entry.reserved:
            yield from _timed(slot, entry)
    yield f"const sdi_function sdi_timed_dispatch[{NUM_SLOTS}] = {{"
    for entry in ENTRIES:
        yield f"    (sdi_function){'stub_reserved' if entry.reserved else 'timed_' + entry.name},"
    yield "};"
    yield ""


def dispatch_source() -> str:
    """``sdi_dispatch.c``."""
    lines = ['#include "objects/memory.h"', ""]
    lines += ["static cl_int stub_reserved(void)", "{", "    return CL_INVALID_OPERATION;", "}", ""]
    for entry in ENTRIES:
        if entry.error:
            lines += [line for line in _stub(entry) if line or not lines[-1].endswith(";")]
    lines += [f"const sdi_function sdi_dispatch[{NUM_SLOTS}] = {{"]
    for entry in ENTRIES:
        name = "stub_reserved" if entry.reserved else f"{'stub' if entry.error else 'sdi'}_{entry.name}"
        lines.append(f"    (sdi_function){name},")
    lines += ["};", "", *_timed_table()]
    lines += ["static const struct {", "    const char *name;", "    unsigned slot;"]
    lines.append("} sdi_names[] = {")
    lines += [f'    {{"{entry.name}", {slot}}},' for slot, entry in enumerate(ENTRIES) if entry.implemented]
    lines += [
        "};",
        "",
        "sdi_function sdi_find_function(const char *name)",
        "{",
        "    for (size_t i = 0; i < sizeof sdi_names / sizeof *sdi_names; i++)",
        "        if (strcmp(sdi_names[i].name, name) == 0)",
        "            return sdi_table[sdi_names[i].slot];",
        "    return NULL;",
        "}",
        "",
    ]
    return "\n".join(lines)


def generate(outdir: Path) -> None:
    """Write the generated files into ``outdir``."""
    outdir.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("sdi_wire.h", wire_header()),
        ("sdi_numbers.h", numbers_header()),
        ("sdi_api.h", api_header()),
        ("sdi_dispatch.c", dispatch_source()),
    ):
        (outdir / name).write_text(text, encoding="utf-8")


def compile_client(outdir: Path, sanitize: bool = False) -> Path:
    """Generate into ``outdir``, compile and link the client there; the path of ``libsdi_icd.so``.

    ``sanitize``: under the address and undefined-behaviour sanitizers; a program that loads the library must
    then have the sanitizers' runtime.  The compiler is ``$CC`` or ``cc``.
    Raises subprocess.CalledProcessError (the compiler has written why to stderr), or FileNotFoundError when
    there is no compiler.
    """
    generate(outdir)
    sources = [*sorted(CLIENT.rglob("*.c")), outdir / "sdi_dispatch.c"]
    flags = [*_CLIENT_FLAGS, *(SANITIZE_FLAGS if sanitize else ()), f'-DSDI_VERSION="{project_version()}"']
    return compile_shared(outdir / LIBRARY_NAME, sources, [*flags, f"-I{CLIENT}"])


def compile_shared(target: Path, sources: Iterable[Path], flags: Iterable[str]) -> Path:
    """Compile and link a shared library of ``sources``, which include what was generated beside ``target``.

    Raises as ``compile_client`` does.
    """
    command = [
        *shlex.split(os.environ.get("CC") or "cc"),
        *_SHARED_FLAGS,
        *flags,
        f"-I{target.parent}",
        *map(str, sources),
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def main(arguments: list[str]) -> int:
    """Generate and compile into the given folder; ``--sanitize`` first for the sanitizers."""
    sanitize = arguments[:1] == ["--sanitize"]
    if len(arguments) != 1 + sanitize:
        print(__doc__, file=sys.stderr)
        return 2
    print(compile_client(Path(arguments[-1]), sanitize))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
