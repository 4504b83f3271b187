"""Programs of which one kernel has more local memory than there is (no GPU needed)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from sdi.clc.cuda.translate import nvrtc_options, translate
from sdi.devices.cuda import translated
from sdi.devices.cuda.nvrtc import NvrtcMissing, version
from sdi.devices.cuda.translated import compiled
from sdi.errors import BuildError

H100 = (9, 0)
SOURCE = """
kernel void large(global int *a) { local int b[12289]; b[get_local_id(0)] = a[0]; barrier(1); a[1] = b[0]; }
kernel void calls(global int *a) { large(a); }
kernel void fits(global int *a) { local int b[12288]; b[get_local_id(0)] = a[0]; barrier(1); a[1] = b[0]; }
kernel void unused(global int *a) { local int b[20000]; local int c[2]; c[get_local_id(0) & 1] = a[0];
                                    if (sizeof(int) == 8) b[a[0]] = 1; a[1] = c[0]; }"""


def test_kernels_with_too_much_local_memory_cost_their_program_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        version()
    except NvrtcMissing:
        pytest.skip("NVRTC is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    program = translate(SOURCE, ())
    code, too_large = compiled(program, nvrtc_options((), program.contracts), H100)
    assert code and too_large == {"sdi_k_large": 0xC004, "sdi_k_calls": 0xC004}


def test_who_is_told_of_no_other_kernel_gets_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def refuse(text: str, options: Sequence[str], capability: tuple[int, int]) -> bytes:
        asked.append(options)
        raise BuildError(
            "ptxas error : Entry function 'sdi_k_k' uses too much shared data (0xc040 bytes, 0xc000 max)\n"
        )

    monkeypatch.setattr(translated, "cached", refuse)
    with pytest.raises(BuildError, match="too much shared data"):
        compiled(translate("kernel void k(global int *a) {}", ()), ("-x",), H100)
    assert asked == [("-x",), ("-x", "-D_CL_TOO_LARGE_sdi_k_k")]
