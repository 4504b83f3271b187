"""The cache of compiled programs, the fills' arithmetic and the parameter block (no GPU needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sdi.clc.compile import compile_source
from sdi.clc.cuda.translate import translate
from sdi.clc.launch import pack_hidden
from sdi.devices.base import LocalBytes
from sdi.devices.cuda import nvrtc
from sdi.devices.cuda.launch import packed, parameter_block, places_of
from sdi.devices.cuda.memory import CudaBuffer, Fills, blocks_of, check_range, fill_pattern
from sdi.devices.handles import DeviceBuffer
from sdi.ndrange import GroupBox, NDRange
from sdi.region import Region


def test_compiled_code_is_kept_by_all_that_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiled, numbers = [], [12, 1]

    def compile_anew(text: str, options: Sequence[str], capability: tuple[int, int]) -> bytes:
        compiled.append((text, options, capability))
        return b"code %d" % len(compiled)

    monkeypatch.setattr(nvrtc, "compile_text", compile_anew)
    monkeypatch.setattr(nvrtc, "version", lambda: tuple(numbers))
    asked = [("a", ("b",), (9, 0)), ("ab", (), (9, 0)), ("a", ("b", ""), (9, 0)), ("a", ("b",), (8, 9))]
    found = [nvrtc.cached(*each) for each in asked]
    assert found == [nvrtc.cached(*each) for each in asked] == [b"code 1", b"code 2", b"code 3", b"code 4"]
    numbers[1] = 2
    assert nvrtc.cached(*asked[0]) == b"code 5", "of another compiler"


def test_compiled_code_in_a_folder_of_others_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of sdi/cache.py holds for code as well: tests/test_cache.py has the rest."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(nvrtc, "compile_text", lambda *_: b"good")
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 1))
    assert nvrtc.cached("text", (), (9, 0)) == b"good"
    (kept,) = (tmp_path / "sdi" / "cuda").iterdir()
    kept.rename(tmp_path / "away")
    kept.symlink_to(tmp_path / "away")
    monkeypatch.setattr(nvrtc, "compile_text", lambda *_: b"anew")
    assert nvrtc.cached("text", (), (9, 0)) == b"anew"


@pytest.mark.parametrize("pattern_nbytes", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("count", [1, 3, 1000, 5000])
def test_a_fill_repeats_its_pattern(pattern_nbytes: int, count: int) -> None:
    memory = bytearray(pattern_nbytes * (count + 2))

    def put(width: int) -> object:
        def fill(at: int, value: int, many: int) -> None:
            memory[at : at + width * many] = value.to_bytes(width, "little") * many

        return fill

    def set_rows(at: int, pitch: int, value: int, width: int, height: int) -> None:
        for row in range(height):
            memory[at + row * pitch : at + row * pitch + 4] = value.to_bytes(4, "little")

    def copy(to: int, from_: int, nbytes: int) -> None:
        assert from_ + nbytes <= to, "copies never overlap"
        memory[to : to + nbytes] = memory[from_ : from_ + nbytes]

    fills = Fills(put(1), put(2), put(4), set_rows, copy)  # type: ignore[arg-type]
    pattern = bytes(range(1, pattern_nbytes + 1))
    fill_pattern(fills, pattern_nbytes, pattern_nbytes * count, pattern)
    assert memory == bytes(pattern_nbytes) + pattern * count + bytes(pattern_nbytes)


def test_patterns_and_ranges_out_of_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        fill_pattern(Fills(*[lambda *_: None] * 5), 0, 6, b"abc")  # type: ignore[arg-type]
    check_range(4, 4, 8)
    for nbytes, offset in ((5, 4), (1, -1), (0, 9)):
        with pytest.raises(ValueError, match="of a buffer of 8 bytes"):
            check_range(nbytes, offset, 8)


@pytest.mark.parametrize("stops", [[400], [64, 400], [65, 400], [70, 100, 130, 400], [5, 33, 399, 400]])
def test_blocks_of_rows_are_the_rows_and_never_pass_a_stop(stops: list[int]) -> None:
    rows = Region(0, 20, ((32, 12),))
    covered = []
    for at, nbytes, count in blocks_of(rows, [min(stop, rows.span_nbytes) for stop in stops]):
        end = at + (count - 1) * 32 + nbytes
        assert not [stop for stop in stops if at < stop < end]
        covered += [at + row * 32 + byte for row in range(count) for byte in range(nbytes)]
    assert sorted(covered) == [32 * row + byte for row in range(12) for byte in range(20)]


def test_parameters_are_packed_as_the_kernel_declares_them() -> None:
    source = "kernel void k(char c, global int *a, float3 v, local int *l, short h, "
    source += "local float *m, global int *z) {}"
    (kernel,) = translate(source, ()).kernels
    buffer = DeviceBuffer(CudaBuffer(None, 0x1122334455, 64))
    arguments = [b"\7", buffer, bytes(range(16)), LocalBytes(10), b"\1\2", LocalBytes(4), None]
    block, shared_nbytes = parameter_block(kernel, arguments)
    expected = b"\7" + bytes(7) + (0x1122334455).to_bytes(8, "little") + bytes(range(16))
    expected += bytes(4) + b"\1\2" + bytes(2) + (128).to_bytes(4, "little") + bytes(4) + bytes(8)
    assert block == expected
    assert shared_nbytes == 132
    values = {number: value for number, value in enumerate(arguments) if isinstance(value, bytes)}
    places = places_of(kernel)
    assert {number: block[at : at + len(values[number])] for number, at in places.items()} == values
    for wrong in ([*arguments, None], [b"", *arguments[1:]], [buffer, *arguments[1:]]):
        with pytest.raises(ValueError, match="k: "):
            parameter_block(kernel, wrong)


def test_a_grid_that_cuda_does_not_allow_is_launched_in_x() -> None:
    none = ((0, 0, 0), (0, 0, 0))
    assert packed(b"", none, (5, 65_535, 1), (4, 2, 1), 3)[0] == (5, 65_535, 1)
    grid, parameters = packed(b"12345678", ((1, 2, 3), (10, 20, 1 << 40)), (5, 70_000, 2), (4, 2, 1), 3)
    assert grid == (700_000, 1, 1)
    base = b"".join(n.to_bytes(8, "little") for n in (14, 24, 3 + (1 << 40)))
    assert parameters == b"12345678" + base + b"".join(n.to_bytes(4, "little") for n in (5, 70_000, 2, 3))


def test_the_shifts_of_sub_range_text_are_taken_from_the_pointers() -> None:
    compiled = compile_source("kernel void k(global int *a, int n, constant int *b, global int *c) {}", "")
    (kernel,) = translate(compiled.text, compiled.member_options).kernels
    assert kernel.is_subrange
    ndrange = NDRange(1, (0, 0, 0), (16, 1, 1), (4, 1, 1))
    hidden = pack_hidden(compiled.kernels[0], ndrange, GroupBox((1, 0, 0), (2, 1, 1)), [64, -16, 8])
    buffer = DeviceBuffer(CudaBuffer(None, 4096, 64))  # type: ignore[arg-type]
    block, _ = parameter_block(kernel, [buffer, bytes(4), buffer, None, hidden])
    assert block[:8] == (4096 - 64).to_bytes(8, "little")
    assert block[16:32] == (4096 + 16).to_bytes(8, "little") + bytes(8)
