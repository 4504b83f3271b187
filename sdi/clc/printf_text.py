"""``printf`` of OpenCL C: what formats say, and the text that they give with arguments.

Source: OpenCL C 3.0 specification, section 6.15.14; what it shares with C is left to the C library.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence

from sdi.dataclass import dataclass
from sdi.wire.kernels import PRINT_RECORD
from sdi.wire.layout import layout

_SPECIFIER = re.compile(
    rb"%(?:(?P<flags>[-+ #0]*)(?P<width>\d*)(?P<precision>(?:\.\d*)?)(?:v(?P<count>2|3|4|8|16))?"
    rb"(?P<length>hh|hl|h|ll|l|j|z|t|)(?P<conversion>[diouxXfFeEgGaAcsp])|(?P<percent>%))"
)
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(rb"\\(?:x([0-9a-fA-F]+)|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPES = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v", strict=True))
_BITS = {b"hh": 8, b"h": 16, b"hl": 32, b"": 32, b"l": 64, b"ll": 64, b"j": 64, b"z": 64, b"t": 64}
_RECORD = layout(PRINT_RECORD)
_NULL_COUNT = (1 << 64) - 1
_snprintf = ctypes.CDLL(None).snprintf


class BadFormat(ValueError):
    """A format that OpenCL C does not have; the message says where."""


@dataclass(frozen=True, slots=True)
class Specifier:
    """One argument's conversion.

    ``head``: ``%`` with flags, width and precision.  ``count``: elements of a vector; 0: a scalar.
    """

    head: bytes
    count: int
    length: bytes
    conversion: bytes


Format = tuple[bytes | Specifier, ...]
"""Text and the conversions in it."""


def literal_bytes(source: str) -> bytes:
    """What a string literal, or several side by side, stand for."""
    lines = [line for line in source.splitlines() if not line.lstrip().startswith("#")]
    parts = _LITERAL.findall("\n".join(lines))
    return b"".join(_ESCAPE.sub(_unescaped, p.encode("utf-8", "surrogateescape")) for p in parts)


def _unescaped(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes([int(match[1], 16) & 0xFF])
    if match[2] is not None:
        return bytes([int(match[2], 8) & 0xFF])
    if match[3] == b"\n":
        return b""
    return bytes([_ESCAPES.get(match[3][0], match[3][0])])


def parse_format(text: bytes) -> Format:
    """Raises BadFormat."""
    text = text.partition(b"\0")[0]
    found: list[bytes | Specifier] = []
    at = 0
    for match in _SPECIFIER.finditer(text):
        _check_plain(text[at : match.start()])
        found.append(text[at : match.start()])
        at = match.end()
        if match["percent"]:
            found.append(b"%")
            continue
        head = b"%" + match["flags"] + match["width"] + match["precision"]
        found.append(Specifier(head, int(match["count"] or 0), match["length"], match["conversion"]))
    _check_plain(text[at:])
    found.append(text[at:])
    return tuple(piece for piece in found if piece)


def _check_plain(text: bytes) -> None:
    if b"%" in text:
        where = text[text.index(b"%") :][:8].decode(errors="replace")
        raise BadFormat(f"a printf with '{where}'")


def specifiers(form: Format) -> list[Specifier]:
    """The conversions, one for each argument."""
    return [piece for piece in form if isinstance(piece, Specifier)]


def records_text(formats: Sequence[Format], records: bytes) -> bytes:
    """The text of records as ``compat_print.h`` lays them out, up to the first of no bytes."""
    parts: list[bytes] = []
    at = 0
    while at + _RECORD.size <= len(records):
        nbytes, number = _RECORD.unpack_from(records, at)
        if nbytes < _RECORD.size or at + nbytes > len(records):
            break
        parts.append(_record_text(formats[number], records, at + _RECORD.size))
        at += nbytes
    return b"".join(parts)


def _record_text(form: Format, records: bytes, at: int) -> bytes:
    parts: list[bytes] = []
    for piece in form:
        if isinstance(piece, bytes):
            parts.append(piece)
            continue
        if piece.conversion == b"s":
            count = int.from_bytes(records[at : at + 8], "little")
            at += 8
            text = b"(null)"
            if count != _NULL_COUNT:
                text = records[at : at + count]
                at += count + -count % 8
            parts.append(_printed(piece.head + b"s", ctypes.c_char_p(text)))
            continue
        elements = []
        for _ in range(piece.count or 1):
            elements.append(_scalar_text(piece, records[at : at + 8]))
            at += 8
        parts.append(b",".join(elements))
    return b"".join(parts)


def _scalar_text(how: Specifier, slot: bytes) -> bytes:
    conversion = how.conversion
    if conversion in b"fFeEgGaA":
        return _printed(how.head + conversion, ctypes.c_double(struct.unpack("<d", slot)[0]))
    value = int.from_bytes(slot, "little")
    if conversion == b"c":
        return _printed(how.head + b"c", ctypes.c_int(value & 0xFF))
    if conversion == b"p":
        return _printed(how.head + b"p", ctypes.c_void_p(value))
    bits = _BITS[how.length]
    value &= (1 << bits) - 1
    if conversion in b"di":
        value -= (value >> (bits - 1)) << bits
        return b"%d" % value if how.head == b"%" else _printed(how.head + b"lld", ctypes.c_longlong(value))
    return _printed(how.head + b"ll" + conversion, ctypes.c_ulonglong(value))


def _printed(form: bytes, value: object) -> bytes:
    """One conversion by the C library."""
    room = 64
    while True:
        buffer = ctypes.create_string_buffer(room)
        needed = int(_snprintf(buffer, ctypes.c_size_t(room), form, value))
        if needed < 0:
            return b""
        if needed < room:
            return buffer.raw[:needed]
        room = needed + 1
