"""What is kept of texts, and what is not."""

from __future__ import annotations

import pytest

from sdi.clc.kept import may_include


@pytest.mark.parametrize(
    "text",
    [
        '#include "header.h"',
        "#include_next <header.h>",
        "# /* a header */ include HEADER",
        "#if __has_include(<header.h>)\n#endif",
        '#inc\\\nlude "header.h"',
        '#inc\\ \r\nlude "header.h"',
        '#inc??/\nlude "header.h"',
        "%:include HEADER",
        '#inc\\\rlude "header.h"',
        '#inc\\\n\rlude "header.h"',
        '# /* once */ import "header.h"',
        '#embed "table.bin"',
        '__asm__(".incbin \\"table.bin\\"");',
    ],
)
def test_a_text_may_include_files(text: str) -> None:
    assert may_include(f"kernel void f() {{}}\n{text}\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "bool includeTile = true;",
        "#ifdef include_all\n#endif",
        "INCLUDE",
        "#ifdef importance\n#endif\n/* what to import */",
    ],
)
def test_a_text_with_longer_names_includes_none(text: str) -> None:
    assert not may_include(f"kernel void f() {{}}\n{text}\n")
