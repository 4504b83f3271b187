"""Records as lists of fields."""

from __future__ import annotations

import pytest

from sdi.wire.layout import declarations, fields, layout, numbered, offset_of, padded

HEAD, BODY = fields("u32 op; i32 status"), fields("u64 size[3]; u32 count; u32 flags")


def test_python_and_c_have_a_record_alike() -> None:
    packed = layout(HEAD, BODY)
    assert (packed.format, packed.size) == ("<Ii3QII", 40)
    assert numbered(HEAD, BODY) == {"op": 0, "status": 1, "size": 2, "count": 5, "flags": 6}
    assert [offset_of(BODY, name) for name in ("size", "count", "flags")] == [0, 24, 28]
    types = {"u32": "uint32_t", "u64": "uint64_t", "flags": "sdi_flags"}
    assert declarations(BODY, types) == "uint64_t size[3]; uint32_t count; sdi_flags flags;"


@pytest.mark.parametrize("wrong", ["u32 a; u64 b", "u64 a; u32 b"])
def test_records_with_holes_are_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"aligned|multiple"):
        layout(fields(wrong))


def test_what_is_not_there_has_no_place_and_payloads_end_at_eight_bytes() -> None:
    with pytest.raises(KeyError):
        offset_of(HEAD, "size")
    assert [len(padded(bytes(n))) for n in (0, 1, 8, 9)] == [0, 8, 8, 16] and padded(b"a") == b"a" + bytes(7)
