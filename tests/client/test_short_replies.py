"""What a service says, cut short at any byte: the program gets an error, and never waits for the rest.

Where a byte is wrong it goes on or gets an error; it neither waits nor crashes.

``ALL_LENGTHS=1`` tries all lengths of all that services say, in all ways.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from sdi.wire import records
from sdi.wire.arguments import ArgumentKind
from sdi.wire.generate import compile_client
from sdi.wire.layout import layout, padded
from sdi.wire.records import NoticeKind, Op, record_layout
from tests.client.test_client_service import FACTS
from tests.test_c_programs import LOADER

HERE = Path(__file__).parent
WAYS = ("silent", "ends", "goes on", "says so")
"""Nothing more comes; the service ends; other things come; the record says that it is that short."""
STALL_MS = 150
LIMIT_S = 1500


def said() -> dict[str, bytes]:
    """One record of each kind that a service says, as the client of ``short_client`` expects them."""
    found = {"FACTS": _facts(), "CREATE_BUFFER": _reply(b"")}
    for name, payload in (("BUILD", _build(True)), ("COMPILE", _build(False)), ("LINK", _build(True))):
        found[name] = _reply(payload)
    for kind, text in (
        (NoticeKind.TRANSFER_READY, b""),
        (NoticeKind.EVENT_STATUS, b""),
        (NoticeKind.PRINTED, b"printed by a kernel\n"),
        (NoticeKind.FAILED, b"fill failed"),
    ):
        shape, body = record_layout(Op.NOTICE), padded(text)
        status = -5 if kind is NoticeKind.FAILED else 0
        head = shape.pack(shape.size + len(body), Op.NOTICE, 0, kind, status, len(text))
        found[kind.name] = head + body
    return found


def _facts() -> bytes:
    entry, shape = layout(records.INFO_ENTRY), record_layout(Op.FACTS)
    body = b"".join(entry.pack(param, len(data)) + padded(data) for param, data in FACTS.items())
    head = (shape.size + len(body), Op.FACTS, 0, records.PROTOCOL_VERSION, 0, 256 << 20, 0, 0, len(FACTS), 0)
    return shape.pack(*head) + body


def _reply(payload: bytes) -> bytes:
    shape, body = record_layout(Op.REPLY), padded(payload)
    return shape.pack(shape.size + len(body), Op.REPLY, 0, 0, 0, 0, len(payload)) + body


def _build(is_executable: bool) -> bytes:
    log, made = b"1:1: warning: nothing of note\n", b"the object of a program"
    name, argument = b"k", b"unused"
    limits = layout(records.WORK_GROUP_ENTRY).pack(128, 8, 0, 0)
    kernel = layout(records.KERNEL_ENTRY).pack(len(name), 0, 0, 1, 0, 0, 0, 0, 0) + limits + padded(name)
    kind = layout(records.ARGUMENT_ENTRY).pack(
        ArgumentKind.VALUE, 4, 0x119E, 0x11A3, 0, len(argument), 3, 0, 0
    )
    other = layout(records.KERNEL_ENTRY).pack(1, 0, 1, 0, 0, 0, 0, 0, 0) + limits + padded(b"o")
    tables = kernel + other + kind + padded(argument) + padded(b"int") if is_executable else b""
    head = layout(records.BUILD_REPLY).pack(len(log), 2 if is_executable else 0, len(made), 1, 0)
    return head + padded(log) + tables + made


def trials(records: dict[str, bytes]) -> list[str]:
    """What to cut where; of what is long not every byte, unless all are asked for."""
    found = []
    for kind, record in records.items():
        lengths = range(1, len(record))
        if not os.environ.get("ALL_LENGTHS"):
            step = 1 + len(record) // 40
            lengths = range(1 + len(kind) % step, len(record), step)
        for number, length in enumerate(lengths):
            ways = WAYS if os.environ.get("ALL_LENGTHS") else (WAYS[0], WAYS[1 + number % 3])
            found += [f"{kind} {length} {way}" for way in ways]
    return found


def damages(records: dict[str, bytes]) -> list[str]:
    """Bytes to be made wrong: not of what notices are about, which nobody can know better."""
    found = []
    for kind, record in records.items():
        step = 1 if os.environ.get("ALL_LENGTHS") else 1 + len(record) // 40
        is_notice = kind in NoticeKind.__members__
        offsets = [at for at in range(0, len(record), step) if not (is_notice and 8 <= at < 16)]
        found += [f"{kind} {at} damaged" for at in offsets]
    return found


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """``short_client``, and the environment in which it finds an impatient client and the service."""
    if shutil.which("cc") is None or not Path("/usr/include/CL/cl.h").exists() or not LOADER.exists():
        pytest.skip("needs cc, opencl-headers and ocl-icd-opencl-dev")
    folder = tmp_path_factory.mktemp("short")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", f"cc -DSDI_STALL_MS={STALL_MS}")
        library = compile_client(folder)
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", f"-I{folder}"]
    for name, libraries in (("short_client", ["-lOpenCL"]), ("short_service", [])):
        command = ["cc", *flags, str(HERE / f"{name}.c"), "-o", str(folder / name), *libraries]
        subprocess.run(command, check=True)
    (folder / "sdi.icd").write_text(f"{library}\n")
    for kind, record in said().items():
        (folder / kind).write_bytes(record)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("SDI_", "OCL_ICD_"))}
    env |= {"OCL_ICD_VENDORS": str(folder), "SDI_PYTHON": str(folder / "short_service")}
    return folder / "short_client", env | {"SDI_FAKE_SAYS": str(folder)}


def outcomes(program: tuple[Path, dict[str, str]], tried: list[str]) -> dict[str, str]:
    """By trial: the status with which the program ended (0: all went well), or what else became of it."""
    ended = subprocess.run(
        [program[0], *tried], env=program[1], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return dict(line.split(": ") for line in ended.stdout.splitlines())


def test_what_a_service_says_whole_is_understood(program: tuple[Path, dict[str, str]]) -> None:
    whole = {f"{kind} {len(record)} silent": "0" for kind, record in said().items()}
    assert outcomes(program, list(whole)) == whole


def test_a_reply_may_take_long_while_signals_interrupt_who_waits_for_it(
    program: tuple[Path, dict[str, str]],
) -> None:
    late = [f"{kind} {7 * STALL_MS} late" for kind in ("FACTS", "CREATE_BUFFER", "BUILD", "LINK")]
    assert outcomes(program, late) == dict.fromkeys(late, "0")


@pytest.mark.timeout(LIMIT_S)
def test_what_a_service_says_cut_short_is_an_error(program: tuple[Path, dict[str, str]]) -> None:
    tried = trials(said())
    ended = outcomes(program, tried)
    assert len(ended) == len(tried)
    wrong = {trial: how for trial, how in ended.items() if how in ("0", "99", "hangs", "crashes")}
    assert not wrong
    codes = Counter((trial.split()[0], how) for trial, how in ended.items())
    assert {how for (kind, how) in codes if kind != "FACTS"} == {"5"}, codes  # CL_OUT_OF_RESOURCES
    assert {how for (kind, how) in codes if kind == "FACTS"} == {"1"}, codes  # CL_DEVICE_NOT_FOUND


@pytest.mark.timeout(LIMIT_S)
def test_what_a_service_says_with_a_wrong_byte_neither_stops_nor_crashes_a_program(
    program: tuple[Path, dict[str, str]],
) -> None:
    tried = damages(said())
    ended = outcomes(program, tried)
    assert len(ended) == len(tried)
    assert not {trial: how for trial, how in ended.items() if how in ("hangs", "crashes")}
