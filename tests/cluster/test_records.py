"""Records survive the way to another process; what is none is refused."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdi.atomics import Update
from sdi.cluster.arguments import UPDATES, arguments_of, bound
from sdi.cluster.records import (
    _LAYOUTS,
    DamagedBatch,
    GivenFailure,
    NodeRecord,
    RecordKind,
    failure,
    failure_of,
    packed,
    records,
    strings,
    strings_of,
)
from sdi.devices.base import LocalBytes
from sdi.devices.handles import DeviceBuffer
from sdi.devices.image import ImageShape, LinearImage, Sampler
from sdi.errors import BuildError, ClError, DeviceFailed, DeviceLost, Status
from sdi.wire.opencl import ChannelOrder, ChannelType, MemObjectType


def fields_of(kind: RecordKind) -> list[bool]:
    """Of each field of such a record whether it has a sign."""
    codes = re.findall(r"([0-9]*)([Qq])", _LAYOUTS[kind].format)
    return [code == "q" for count, code in codes for _ in range(int(count or 1))]


U64 = st.integers(0, 2**64 - 1)


@st.composite
def any_record(draw: st.DrawFn) -> NodeRecord:
    kind = draw(st.sampled_from(RecordKind))
    fields = tuple(
        draw(st.integers(-(2**63), 2**63 - 1) if is_signed else U64) for is_signed in fields_of(kind)
    )
    waits = tuple(draw(st.lists(U64, max_size=80)))
    return NodeRecord(
        kind, draw(st.integers(0, 0xFFFF)), draw(U64), fields, waits, draw(st.binary(max_size=99))
    )


def batch_of(found: list[NodeRecord]) -> bytes:
    return b"".join(packed(r.kind, r.member, r.ticket, r.fields, r.waits, r.tail) for r in found)


@given(st.lists(any_record(), max_size=5))
def test_records_come_back_as_they_were_packed(sent: list[NodeRecord]) -> None:
    assert list(records(memoryview(batch_of(sent)))) == sent


def test_damaged_batches_are_refused_or_are_other_records_and_never_raise_anything_else() -> None:
    numbers = random.Random(5)
    kinds = [packed(kind, 1, 7, [3] * len(fields_of(kind)), (1, 2), b"tail") for kind in RecordKind]
    refused = 0
    for _ in range(20_000):
        batch = bytearray(b"".join(numbers.sample(kinds, 3)))
        for _ in range(numbers.randrange(1, 4)):
            batch[numbers.randrange(len(batch))] = numbers.randrange(256)
        try:
            list(records(memoryview(bytes(batch[: numbers.randrange(len(batch) + 1)]))))
        except DamagedBatch:
            refused += 1
    assert refused > 10_000


@given(st.lists(st.text() | st.binary()))
def test_texts_come_back(texts: list[str | bytes]) -> None:
    wanted = [text.encode() if isinstance(text, str) else text for text in texts]
    assert strings_of(strings(texts)) == wanted


def test_texts_that_are_cut_off_are_refused() -> None:
    with pytest.raises(DamagedBatch):
        strings_of(strings(("one", "two"))[:-1])
    with pytest.raises(DamagedBatch):
        strings_of(b"\1\0")


@pytest.mark.parametrize(
    "error",
    [
        ClError(Status.INVALID_KERNEL_NAME, "kernel 'f'"),
        BuildError("line 1: no\nline 2: no", Status.LINK_PROGRAM_FAILURE),
        DeviceFailed("member 3", "it said no"),
        DeviceLost("member 3", "gone"),
        GivenFailure(77, "by rank 0"),
    ],
)
def test_failures_arrive_with_kind_words_and_cause(error: Exception) -> None:
    if not isinstance(error, GivenFailure):
        error.__cause__ = OSError("driver")
    found = failure_of(failure(error))
    assert type(found) is type(error) and str(found) == str(error)
    assert getattr(found, "status", None) == getattr(error, "status", None)
    assert getattr(found, "log", None) == getattr(error, "log", None)
    assert (found.__cause__ is None) == isinstance(error, GivenFailure)
    assert failure_of(b"") is None


def test_arguments_of_all_kinds_come_back() -> None:
    made = DeviceBuffer(object())
    shape = ImageShape(MemObjectType.IMAGE2D, ChannelOrder.R, ChannelType.FLOAT, 8, 6, 1, 40, 240)
    image = LinearImage(made, -160, shape)
    given_ = [None, b"", b"1234", LocalBytes(64), Sampler(True, 0x1130, 0x1140), made, image]
    tail = bound("name", given_, lambda thing: 5)
    assert arguments_of(tail, {5: made}) == ("name", given_)
    with pytest.raises(DamagedBatch, match="argument 5"):
        arguments_of(tail, {})
    with pytest.raises(ClError, match="no room"):
        arguments_of(tail, {5: ClError(Status.MEM_OBJECT_ALLOCATION_FAILURE, "no room")})


def test_updates_have_numbers() -> None:
    for number, operation in enumerate(UPDATES):
        assert UPDATES.index(Update(operation, 4).operation) == number
