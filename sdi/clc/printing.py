"""Which kernels print."""

from __future__ import annotations

from sdi.clc.frontend.syntax import Function, NodeKind, Tree


def prints(tree: Tree, function: Function) -> bool:
    """Whether ``function``, or one that it may call, mentions ``printf``."""
    if "printf" not in tree.text:
        return False
    seen: set[int] = set()
    pending = [function]
    while pending:
        current = pending.pop()
        if current.declaration in seen or current.body is None:
            continue
        seen.add(current.declaration)
        for node in current.body.walk():
            if node.kind is NodeKind.DECL_REF:
                if node.name == "printf":
                    return True
                if node.declaration in tree.functions:
                    pending.append(tree.functions[node.declaration])
    return False
