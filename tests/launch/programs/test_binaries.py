"""Binaries with a right checksum and wrong content are refused as binaries, or are programs."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from sdi.devices.discover import MemberSettings, open_members
from sdi.errors import BuildError, ClError, Status
from sdi.launch.programs.builds import Build, Compiled, Target, build, compile_only, link, rebuild

COUNT, FIRST = (int(n) for n in os.environ.get("FUZZED_BINARIES", "100 0").split())
"""How many, from which seed on."""

SOURCE = """
typedef struct { int a; float b[2]; } pair;
int twice(int n) { return 2 * n; }
kernel void k(global int *o, constant pair *p, local float *t, int n) {
  int i = get_global_id(0); t[get_local_id(0)] = p[0].b[i & 1]; if (i < n) o[i] = twice(p[0].a) + i; }
"""
_JUNK = (None, 7, -1.5, "", "CL9.9", "\ud800", "#include <x>", [], {}, True, ["-I/"], "\0", 1e999)


@pytest.fixture
def target() -> Iterator[Target]:
    members = list(open_members(MemberSettings(count=1)))
    yield Target(members)
    for member in members:
        member.close()


def changed(chance: random.Random, packed: bytes) -> bytes:
    """Damaged as bytes, as JSON, or as OpenCL C."""
    match chance.randrange(3):
        case 0:
            data = bytearray(packed)
            for _ in range(chance.randint(1, 4)):
                at = chance.randrange(len(data))
                what = (bytes([chance.randrange(256)]), b"", bytes(data[at : at + 20]) * 2, b"[" * 9000)
                data[at : at + chance.randrange(3)] = chance.choice(what)
            return bytes(data)
        case 1:
            objects = json.loads(packed)
            place = chance.choice([(objects, 0), *((objects[0], key) for key in objects[0])])
            place[0][place[1]] = chance.choice(_JUNK)
            return json.dumps(objects).encode()
        case _:
            objects = json.loads(packed)
            text = objects[0]["text"]
            begin, end = sorted(chance.randrange(len(text)) for _ in range(2))
            objects[0]["text"] = chance.choice(
                (text[:begin], text[:begin] + text[end:], text + text[begin:end])
            )
            return json.dumps(objects).encode()


def outcome(make: Callable[[], Build | Compiled]) -> str | Status:
    """What is made, or the code of the refusal; anything else is raised."""
    try:
        return type(make()).__name__
    except ClError as error:
        return error.status


def test_a_changed_binary_is_an_invalid_binary_or_a_program(target: Target) -> None:
    packed = build(SOURCE, "-cl-mad-enable", "", target).object
    found: Counter[str | Status] = Counter()
    for seed in range(FIRST, FIRST + COUNT):
        data = changed(random.Random(seed), packed)
        found[outcome(partial(rebuild, data, target))] += 1
    assert found.keys() == {"Build", Status.INVALID_BINARY}, found


def test_a_changed_object_is_linked_or_refused(target: Target) -> None:
    main = compile_only(
        "int twice(int); kernel void k(global int *o) { *o = twice(*o); }", "", "", {}, target
    )
    helper = compile_only("int twice(int n) { return 2 * n; }", "", "", {}, target).object
    found: Counter[str | Status] = Counter()
    for seed in range(FIRST, FIRST + COUNT):
        data = changed(random.Random(seed), main.object)
        found[outcome(partial(link, [data, helper], "", target))] += 1
    assert found.keys() == {"Build", Status.INVALID_BINARY, Status.LINK_PROGRAM_FAILURE}, found


def test_a_binary_that_does_not_build_is_invalid_and_says_why(target: Target) -> None:
    wrong = json.dumps([{"text": "kernel void k(", "standard": "CL1.2", "flags": []}]).encode()
    with pytest.raises(BuildError) as refused:
        rebuild(wrong, target)
    assert refused.value.status is Status.INVALID_BINARY and "error:" in refused.value.log
