"""What is in a program binary is checked before it is believed."""

from __future__ import annotations

import json

import pytest

from sdi.clc.frontend.objects import ObjectText, pack_objects, unpack_objects
from sdi.errors import ClError, Status

GOOD = {"text": "#line 1\nkernel void k() {}\n", "standard": "CL1.2", "flags": ["-cl-mad-enable"]}

WRONG = {
    "nothing": b"",
    "no JSON": b"\x7fELF",
    "no text at all": b"\xff\xfe",
    "nested too deeply": b"[" * 100_000,
    "a number with too many digits": b"[" + b"1" * 10_000 + b"]",
    "no list": json.dumps(GOOD).encode(),
    "no object": b"[]",
    "a number for an object": b"[7]",
    "a list for an object": b'[["text", "standard", "flags"]]',
    **{f"no {name}": json.dumps([{k: v for k, v in GOOD.items() if k != name}]).encode() for name in GOOD},
    "more than there is": json.dumps([GOOD | {"more": 1}]).encode(),
    "no text": json.dumps([GOOD | {"text": 7}]).encode(),
    "a text that is none": json.dumps([GOOD | {"text": "\ud800"}]).encode(),
    "no standard": json.dumps([GOOD | {"standard": None}]).encode(),
    "an unknown standard": json.dumps([GOOD | {"standard": "CL9.9"}]).encode(),
    "a string for flags": json.dumps([GOOD | {"flags": "-cl-mad-enable"}]).encode(),
    "a flag that is none": json.dumps([GOOD | {"flags": [["-cl-mad-enable"]]}]).encode(),
    "an unknown flag": json.dumps([GOOD | {"flags": ["-include/etc/passwd"]}]).encode(),
    "the second wrong": json.dumps([GOOD, GOOD | {"flags": None}]).encode(),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_what_is_no_object_is_an_invalid_binary(wrong: bytes) -> None:
    with pytest.raises(ClError) as refused:
        unpack_objects(wrong)
    assert refused.value.status is Status.INVALID_BINARY


def test_objects_are_unpacked_as_they_were_packed() -> None:
    objects = [
        ObjectText("kernel void k() {} // \u00e4\udcff\n", "CL1.2", ("-cl-mad-enable", "-cl-opt-disable")),
        ObjectText("", "CL3.0", ()),
    ]
    assert unpack_objects(pack_objects(objects)) == objects
