"""Numbers that kernels and the host agree on."""

from __future__ import annotations

import ctypes
from pathlib import Path

from sdi.clc.cuda.builtins import header_part
from sdi.wire.kernels import CUDA_IMAGE, texture_of
from sdi.wire.layout import layout, offset_of
from sdi.wire.opencl import Addressing, Filter
from tests.clc.host_cpp import host_library, host_text


def test_kernels_take_the_texture_that_the_host_has_put_there(tmp_path: Path) -> None:
    part = header_part("compat_images.h")
    begin = part.index("template<int K> _CL unsigned _cl_texture_of")
    text = host_text("compat.h", "compat_images.h") + part[begin : part.index("#endif", begin)]
    text += """
    extern "C" unsigned texture(const void *image, unsigned sampler) {
      return _cl_texture_of(*(const _cl_image<_CL_IMAGE2D> *)image, sampler);
    }"""
    library = host_library(text, tmp_path)
    image = bytearray(layout(CUDA_IMAGE).size)
    first = offset_of(CUDA_IMAGE, "textures")
    for at in range(6):
        image[first + 4 * at] = 10 + at
    given = (ctypes.c_char * len(image)).from_buffer(image)
    found = set()
    for normalized in (0, 1):
        for mode in Addressing:
            bits = normalized | mode.bits | Filter.LINEAR.bits
            assert library.texture(given, bits) == 10 + texture_of(bits)
            found.add(texture_of(bits))
    assert found == set(range(6))
