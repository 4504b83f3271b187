"""What differs between members is a value that they report: nobody else asks for their kind or class."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import sdi
from sdi.devices import capabilities
from sdi.devices.capabilities import MemberKind

PACKAGE = Path(sdi.__file__).resolve().parent
KINDS = {name: kind for name, kind in vars(capabilities).items() if isinstance(kind, MemberKind)}
WORDS = {kind.name for kind in KINDS.values()}
CANDIDATES = {"DriverDevice", "CudaGpu", "Found"}


def is_member(node: ast.ClassDef) -> bool:
    methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return {"bind", "launch", "build"} <= methods or {"native_launch"} <= methods


@cache
def classes(path: Path) -> list[ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in tree.body if isinstance(node, ast.ClassDef)]


@cache
def member_classes() -> set[str]:
    """Of members, in whatever folder, with those that forward, and what stands for a member."""
    files = list(PACKAGE.rglob("*.py"))
    found = {node.name for path in files for node in classes(path) if is_member(node)}
    heirs = {
        node.name
        for path in files
        for node in classes(path)
        if {base.id for base in node.bases if isinstance(base, ast.Name)} & found
    }
    return found | heirs | {"NativeMember", "PooledMemory"} | CANDIDATES


def asked(source: str, members: set[str]) -> list[str]:
    """Where a text asks for the kind or class of a member."""
    found = []

    def names(node: ast.AST) -> set[object]:
        return {
            each.id
            if isinstance(each, ast.Name)
            else each.attr
            if isinstance(each, ast.Attribute)
            else each.value
            for each in ast.walk(node)
            if isinstance(each, ast.Name | ast.Attribute | ast.Constant)
        }

    def is_kind(node: ast.AST) -> bool:
        """Whether it is a kind: by its name, or by what it is called."""
        if isinstance(node, ast.Constant):
            return node.value in WORDS
        return isinstance(node, ast.Name) and node.id in KINDS

    for node in ast.walk(ast.parse(source)):
        is_asked = False
        match node:
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, what]):
                is_asked = bool(names(what) & members)
            case ast.Call(func=ast.Name(id="type")):
                is_asked = bool(names(node) & {"device", "member"})
            case ast.Compare():
                is_asked = any(
                    is_kind(each) for side in (node.left, *node.comparators) for each in ast.walk(side)
                )
            case ast.Dict():
                is_asked = any(is_kind(key) for key in node.keys if key is not None)
            case ast.Subscript(slice=key):
                is_asked = (
                    isinstance(key, ast.Attribute) and key.attr == "kind" and "capabilities" in names(key)
                )
            case ast.MatchValue(value=value):
                is_asked = is_kind(value)
            case ast.MatchClass(cls=ast.Name(id=name)):
                is_asked = name in members
        if is_asked:
            found.append(ast.unparse(node))
    return found


def test_nobody_asks_for_the_kind_or_class_of_a_member() -> None:
    members = member_classes()
    assert {"OpenCLDevice", "CudaDevice", "RemoteDevice", "NullDevice", "ForwardingDevice"} <= members
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if path.is_relative_to(PACKAGE / "devices") or any(is_member(node) for node in classes(path)):
            continue  # members know each other
        if where := asked(path.read_text(encoding="utf-8"), members):
            found[str(path.relative_to(PACKAGE))] = where
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(device, OpenCLDevice)",
        "isinstance(member, (int, NativeMember))",
        "device.capabilities.kind == 'gpu'",
        "found.kind is CPU",
        "'cpu' in kinds",
        "ASSIGNMENT_NS = {'cpu': 1, 'gpu': 2}",
        "COSTS[device.capabilities.kind]",
        "type(member)",
        "match device:\n    case CudaDevice():\n        pass",
    ],
)
def test_who_asks_is_found(text: str) -> None:
    assert asked(text, member_classes())
