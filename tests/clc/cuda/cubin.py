"""What a cubin says of its kernels' parameters: it is an ELF file with a section ``.nv.info.KERNEL``.

Seen in the output of NVRTC 13; NVIDIA describes the attributes nowhere but in the names that cuobjdump prints
(EIATTR_KPARAM_INFO and so on).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_KPARAM_INFO, _CBANK_PARAM_SIZE = 0x17, 0x19
_WITH_BYTES = 4  # an attribute whose value is a count of bytes that follow


def parameters_of(cubin: bytes, kernel: str) -> tuple[list[tuple[int, int]], int]:
    """((offset, nbytes) of each parameter in order, bytes of all parameters)."""
    found: dict[int, tuple[int, int]] = {}
    total = 0
    for attribute, value, data in _attributes(_section(cubin, f".nv.info.{kernel}")):
        if attribute == _KPARAM_INFO:
            _, ordinal, offset, word = struct.unpack("<IHHI", data)
            found[ordinal] = (offset, word >> 18)
        elif attribute == _CBANK_PARAM_SIZE:
            total = value
    return [found[ordinal] for ordinal in sorted(found)], total


def _section(elf: bytes, name: str) -> bytes:
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, of_names = struct.unpack_from("<3H", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, table + number * size) for number in range(count)]
    names = heads[of_names][4]
    for head in heads:
        begin = names + head[0]
        if elf[begin : elf.index(b"\0", begin)] == name.encode():
            return elf[head[4] : head[4] + head[5]]
    raise AssertionError(f"the cubin has no section {name}")


def _attributes(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        nbytes = value if form == _WITH_BYTES else 0
        yield attribute, value, data[at + 4 : at + 4 + nbytes]
        at += 4 + nbytes
