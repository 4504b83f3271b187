"""Which kernels print."""

from __future__ import annotations

from sdi.clc.frontend.syntax import Function, NodeKind, Tree


def prints(tree: Tree, function: Function) -> bool:
    """Whether ``function``, or one that it may call, mentions ``printf``."""
    if "printf" not in tree.text:
        return False
    return any(node.kind is NodeKind.DECL_REF and node.name == "printf" for node in tree.reached(function))
