"""What ``sdi/wire`` declares stands nowhere else in sdi: found by reading the sources."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import sdi
from sdi.wire import arguments, kernels, opencl, profile, records
from sdi.wire.layout import Field

ROOT = Path(sdi.__file__).parent
TABLE = "wire/"
PUBLIC = "include/"
"""What programs include: its numbers are compared with the table by ``test_opencl``."""
# Where OpenCL's numbers begin that are no bits and no small counts: parameters, formats, modes.
OPENCL = (range(0x0900, 0x0930), range(0x1000, 0x1300), range(0x4000, 0x4200))
NOT_OPENCL = {("limits.py", "0x4000")}  # MAP_NORESERVE
_COMMENTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_DEFINES = re.compile(r"\b_*(?:CL|CU|CUDA|NVML)_[A-Z0-9_]+\s*=\s*-?[0-9]|#define\s+(?:CL|CU|CUDA|NVML)_")


def sources() -> dict[str, str]:
    """sdi's own, by path below the package."""
    found = (path for ending in ("*.py", "*.c", "*.h") for path in sorted(ROOT.rglob(ending)))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in found}
    return {path: text for path, text in texts.items() if not path.startswith(PUBLIC)}


def numbers(path: str, text: str) -> list[str]:
    """The hexadecimal numbers of a source, without those of comments and texts."""
    if path.endswith(".py"):
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return [token.string for token in tokens if token.type == tokenize.NUMBER and "x" in token.string]
    return re.findall(r"\b0[xX][0-9a-fA-F]+", _COMMENTS.sub(" ", text))


def bare_numbers(texts: dict[str, str]) -> list[str]:
    """OpenCL's numbers outside the table, and CUDA's and OpenCL's names that are given numbers there."""
    found = []
    for path, text in texts.items():
        if path.startswith(TABLE):
            continue
        for number in numbers(path, text):
            if (path, number) not in NOT_OPENCL and any(int(number, 16) in part for part in OPENCL):
                found.append(f"{path}: {number}")
        code = text if path.endswith(".py") else _COMMENTS.sub(" ", text)
        found += [f"{path}: {each.group()}" for each in _DEFINES.finditer(code)]
    return found


def named_numbers(texts: dict[str, str]) -> list[str]:
    """Numbers that are given a name of OpenCL's outside the table."""
    known = {f"{prefix}{name}" for table, prefix in opencl.PREFIXES.items() for name in table.__members__}
    found = []
    for path, text in texts.items():
        if path.startswith(TABLE) or not path.endswith(".py"):
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign) and not any(
                isinstance(n, ast.Name) for n in ast.walk(node.value)
            ):
                names = [n.id.strip("_") for n in ast.walk(node) if isinstance(n, ast.Name)]
                found += [f"{path}: {name}" for name in names if name.removeprefix("CL_") in known]
    return found


def test_numbers_of_opencl_and_cuda_stand_in_the_table_only() -> None:
    assert bare_numbers(sources()) == [] and named_numbers(sources()) == []


def test_a_number_beside_the_table_is_found() -> None:
    texts = sources()
    for path, line, wanted in (
        ("service/session.py", "_LOCAL_MEM_SIZE = 0x1023\n", "0x1023"),
        ("client/objects/image.c", "enum { READ_ONLY = 0x11A0 };\n", "0x11A0"),
        ("clc/cuda/compat_images.h", "#define _CL_X 0x10b5\n", "0x10b5"),
        ("devices/cuda/module.py", "CU_LAUNCH_PARAM_END = 0\n", "CU_LAUNCH_PARAM_END = 0"),
        ("player/lanes.c", "enum { CUDA_ERROR_NOT_READY = 600 };\n", "CUDA_ERROR_NOT_READY = 6"),
    ):
        assert bare_numbers({path: texts[path] + line}) == [f"{path}: {wanted}"]
    assert bare_numbers({"service/session.py": texts["service/session.py"] + "# 0x1023\n"}) == []
    line = "_MAP_READ, _MAP_WRITE = 1, 1 << 1\n"
    wanted = ["service/decode.py: MAP_READ", "service/decode.py: MAP_WRITE"]
    assert named_numbers({"service/decode.py": texts["service/decode.py"] + line}) == wanted


# -- layouts ---------------------------------------------------------------------------------------------

NO_RECORDS = {("cluster/loopback.py", "<2Q")}  # how many bytes of two kinds follow
CODES = {"u32": "I", "i32": "i", "u64": "Q", "i64": "q"}
TAKES_FORMAT = {"Struct", "pack", "unpack", "unpack_from", "pack_into", "iter_unpack", "calcsize"}


def expanded(text: str) -> str:
    """A format without its order of bytes, each number of items written out."""
    items = re.findall(r"([0-9]*)([a-zA-Z?])", text)
    return "".join(count + code if code in "sp" else code * int(count or 1) for count, code in items)


def declared_records() -> dict[str, str]:
    """The layouts that are declared, by what they are."""
    modules = (arguments, profile, kernels, records)
    tables = [(name, value) for module in modules for name, value in vars(module).items()]
    tables += [(op.name, body) for op, body in records.BODY.items()]
    tables += [(op.name, records.HEADER + records.COMMAND + body) for op, body in records.BODY.items()]
    found: dict[str, str] = {}
    for name, value in tables:
        if isinstance(value, tuple) and value and isinstance(value[0], Field):
            found.setdefault("".join(CODES[each.kind] * max(1, each.count) for each in value), name)
    return found


def formats(text: str) -> list[str]:
    """What a source gives to functions of ``struct``, of two and more items."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in TAKES_FORMAT and isinstance(node.args[0].value, str):
                found.append(node.args[0].value)
    return [each for each in found if len(expanded(each)) > 1]


def second_layouts(texts: dict[str, str]) -> list[str]:
    """Formats of declared records outside the table, and formats that stand twice."""
    declared = declared_records()
    seen: dict[str, str] = {}
    found = []
    for path, text in texts.items():
        if path.startswith(TABLE) or not path.endswith(".py"):
            continue
        for each in formats(text):
            items = expanded(each)
            other = declared.get(items) or seen.get(items)
            if other and (path, each) not in NO_RECORDS:
                found.append(f"{path}: {each} is {other}")
            seen[items] = path
    return found


def test_layouts_stand_in_the_table_only_and_all_others_once() -> None:
    assert second_layouts(sources()) == []


def test_a_second_layout_is_found() -> None:
    texts = sources()
    for path, line, wanted in (
        ("launch/arguments.py", '_IMAGE = struct.Struct("<2Q4I5Q")\n', "<2Q4I5Q is IMAGE_ARGUMENT"),
        ("service/session.py", 'struct.unpack_from("=IIQ", b"")\n', "=IIQ is HEADER"),
        ("cluster/arguments.py", 'Struct("<4I")\n', "<4I is SAMPLER_ARGUMENT"),
        ("devices/cuda/member.py", 'struct.Struct("<QQIIQQ")\n', "<QQIIQQ is devices/cuda/compare.py"),
    ):
        few = {name: texts[name] for name in ("devices/cuda/compare.py", path)}
        assert second_layouts({**few, path: few[path] + line}) == [f"{path}: {wanted}"]


# -- enumerations ----------------------------------------------------------------------------------------


def enumerations(texts: dict[str, str]) -> dict[str, frozenset[tuple[str, int]]]:
    """The members of all enumerations whose numbers are written out, by path and name."""
    found = {}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if path.endswith(".py") else ():
            if isinstance(node, ast.ClassDef):
                members = [each for each in node.body if isinstance(each, ast.Assign)]
                found[f"{path}: {node.name}"] = frozenset(
                    (target.id, each.value.value)
                    for each in members
                    for target in each.targets
                    if isinstance(target, ast.Name) and isinstance(each.value, ast.Constant)
                )
    return {name: members for name, members in found.items() if len(members) > 2}


def second_enumerations(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of which one has all members of the other."""
    found = enumerations(texts).items()
    return [(one, other) for one, mine in found for other, theirs in found if one != other and mine <= theirs]


def test_no_enumeration_stands_twice() -> None:
    assert second_enumerations(sources()) == []


def test_a_second_enumeration_is_found() -> None:
    texts = {path: sources()[path] for path in ("clc/model.py", "wire/arguments.py")}
    texts["clc/model.py"] += "class Argument2(Enum):\n    VALUE = 0\n    GLOBAL = 1\n    LOCAL = 3\n"
    wanted = ("clc/model.py: Argument2", "wire/arguments.py: ArgumentKind")
    assert second_enumerations(texts) == [wanted]
