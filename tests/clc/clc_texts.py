"""A kernel's text and its nodes, for tests of what looks at these."""

from __future__ import annotations

from sdi.clc.append_sites import KernelText
from sdi.clc.compile import compile_source
from sdi.clc.frontend.syntax import NodeKind, SyntaxNode

ARGUMENTS = "global int *out, global const int *in, int a, uint b, local uint *lm"


def text_of(body: str) -> KernelText:
    """Of a kernel with ``ARGUMENTS``."""
    tree = compile_source(f"kernel void k({ARGUMENTS}) {{ {body} }}", "-cl-std=CL3.0").tree
    kernel = next(f for f in tree.functions.values() if f.name == "k")
    assert kernel.body is not None
    return KernelText(tree, kernel, kernel.body)


def conditions_of(text: KernelText) -> list[SyntaxNode]:
    """What the text's choices ask."""
    return [node.operands[0] for node in text.body.walk() if node.kind is NodeKind.IF]
