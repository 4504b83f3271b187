"""From a program's source to what the runtime needs of it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sdi.clc.frontend.base_header import USUAL, USUAL_TARGET, Language, language_macros
from sdi.clc.frontend.objects import ObjectText
from sdi.clc.frontend.syntax import Function, Tree
from sdi.clc.model import Argument, CompiledProgram, KernelModel
from sdi.clc.preprocess.files_seen import FilesSeen
from sdi.clc.preprocess.lines import KERNEL_FILE, LineMap, line_map
from sdi.clc.preprocess.options import BuildOptions, as_lines, parse_options
from sdi.errors import BuildError

_RECURSION_LIMIT = 20_000
_UNIVERSAL = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_GLOBAL_SAMPLER = "global sampler requires a const"
"""clang's error; for NVIDIA's compiler a sampler outside of functions need not be constant."""
_SAMPLER = re.compile(r"(?<!const )(?<!constant )\b(?=sampler_t\s+\w+\s*=)")
_DOUBLES = re.compile(r"OPENCL\s+EXTENSION\s+cl_khr_fp64\s*:\s*enable")
_LEVELS = ("a", "b", "c", "d")  # an embedded header may be named "../x.h"


def compile_source(
    source: str,
    options: str | Sequence[str],
    working_directory: str | None = None,
    language: Language = USUAL,
    seen: FilesSeen | None = None,
) -> CompiledProgram:
    """Check, model and emit a program.

    ``options``: as given to clBuildProgram, or its words.  ``working_directory``: the application's, where
    relative ``-I`` folders and included files are looked for.  ``language``: what the image's members have.
    ``seen``: gets the files that it depends on.
    Raises BuildError: INVALID_BUILD_OPTIONS, or BUILD_PROGRAM_FAILURE with clang's diagnostics.
    Any thread may call it, several at once; about 15 ms for 100 lines.
    """
    made, log = _checked(source, options, working_directory, language, None, seen)
    return compile_text(made, log, language)


def compile_object(
    source: str,
    options: str,
    working_directory: str | None,
    headers: Mapping[str, str],
    language: Language = USUAL,
) -> tuple[ObjectText, str]:
    """Check and preprocess a program: the object, and warnings for the build log.

    ``headers``: texts by the names that the program includes them with; they come before files.
    Raises BuildError as ``compile_source`` does.
    """
    if not headers:
        return _checked(source, options, working_directory, language, None)
    import tempfile  # takes a while, and few programs embed headers

    with tempfile.TemporaryDirectory(prefix="sdi-headers-") as root:
        folder = os.path.join(root, *_LEVELS)
        os.makedirs(folder)
        for name, text in headers.items():
            path = os.path.normpath(os.path.join(folder, name.lstrip("/")))
            if not path.startswith(root + os.sep):
                raise BuildError(f"error: a header cannot be named '{name}'\n")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(_normalised(text))
        try:
            made, log = _checked(source, options, working_directory, language, folder)
        except BuildError as error:
            raise BuildError(error.log.replace(folder + os.sep, ""), error.status) from error
        return replace(made, text=made.text.replace(folder + os.sep, "")), log.replace(folder + os.sep, "")


def compile_text(
    made: ObjectText, log: str, language: Language = USUAL, linked: bool = False
) -> CompiledProgram:
    """Model and emit a preprocessed program.  ``log``: what to say of it.

    ``linked``: every function must be defined.
    """
    from sdi.clc.arguments import is_kernel
    from sdi.clc.frontend.diagnostics import report
    from sdi.clc.frontend.link import require_definitions
    from sdi.clc.frontend.parse import TreeBuilder, parse_unit, target_for
    from sdi.clc.subrange import SubrangeEmitter

    options = _with_literals(made)
    encoded = _encoded(made.text)
    macros = made.macros(language)
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    target = target_for(made.text, language.assembly)
    with parse_unit(os.path.join("/", KERNEL_FILE), encoded, options, macros, ["-w"], target) as unit:
        again = report(unit, encoded, no_warnings=True)
        if again.errors:
            raise BuildError(f"{log}error: the preprocessed program does not compile\n{again.text}")
        tree = TreeBuilder(unit, encoded, target).build()
    if linked:
        require_definitions(tree)
    lines = line_map(tree.text)
    kernels = tuple(
        _kernel_model(tree, function, lines)
        for function in tree.functions.values()
        if function.body is not None and is_kernel(tree, function)
    )
    text = SubrangeEmitter(tree).emit().encode("latin-1").decode("utf-8", "replace")
    return CompiledProgram(kernels, text, options.member_options, log, tree, made)


def _with_literals(made: ObjectText) -> BuildOptions:
    """The options of a program.

    In OpenCL C 1.0 and 1.1 literals without a suffix are floats where nothing enables doubles; members
    compile such a program as one of 1.2, where they are doubles.
    """
    options = made.options
    if options.version >= 120 or _DOUBLES.search(made.text):
        return options
    return replace(options, flags=(*options.flags, "-cl-single-precision-constant"))


def _checked(
    source: str,
    options: str | Sequence[str],
    working_directory: str | None,
    language: Language,
    headers: str | None,
    seen: FilesSeen | None = None,
) -> tuple[ObjectText, str]:
    """``headers``: a folder that comes before all others."""
    # libclang is large: it is loaded by the first build, not by whoever imports this package.
    from sdi.clc.frontend.diagnostics import BuildReport, report
    from sdi.clc.frontend.parse import parse_unit
    from sdi.clc.preprocess.dialect import (
        Definitions,
        default_standard,
        dialect_of,
        quotes_of,
        require_standard,
    )
    from sdi.clc.preprocess.macros import MacroError
    from sdi.clc.preprocess.nvidia_dialect import nvidia_name
    from sdi.clc.preprocess.preprocess import preprocess

    dialect = dialect_of(language)
    parsed = parse_options(options, working_directory, default_standard(dialect), quotes_of(dialect))
    require_standard(parsed, dialect)
    folders = (headers, *parsed.include_folders) if headers else parsed.include_folders
    preamble = as_lines(parsed.defines) + f'#line 1 "{KERNEL_FILE}"\n' + _normalised(source)
    main_path = os.path.join(headers or working_directory or os.getcwd(), KERNEL_FILE)
    extra = [f"-I{folder}" for folder in folders]
    if parsed.no_warnings:
        extra.append("-w")
    if parsed.warnings_are_errors:
        extra.append("-Werror")
    definitions = Definitions(language, parsed)
    plain, failed = "", ""
    try:
        plain = preprocess(preamble, "<options>", folders, definitions, seen)
        plain = plain[plain.index(f'#line 1 "{KERNEL_FILE}"') :]
    except (MacroError, OSError) as cause:
        failed = f"error: {cause}\n"
    # Of a text as it was written clang says more; but where it would take other lines than the members'
    # compilers, those that these take count.
    is_clangs = bool(failed) or definitions.agrees_with_clang()
    checked = _encoded(preamble if is_clangs else plain)
    macros = {**language_macros(parsed.version, language), **(definitions.header() if is_clangs else {})}
    targets = tuple(dict.fromkeys((USUAL_TARGET, language.assembly)))

    def parsed_by_clang(text: bytes) -> BuildReport:
        for target in targets:
            with parse_unit(main_path, text, parsed, macros, extra, target) as unit:
                found = report(unit, text, parsed.no_warnings)
            if not found.errors or " in asm" not in found.text:
                break
        return found

    found = parsed_by_clang(checked)
    if found.errors and _GLOBAL_SAMPLER in found.text and dialect.name == nvidia_name():
        plain = _SAMPLER.sub("const ", plain)
        found = parsed_by_clang(_encoded(plain))
    if found.errors or failed:
        raise BuildError(found.text if found.errors else found.text + failed)
    return ObjectText(plain, parsed.standard, parsed.flags), found.text


def _named_character(match: re.Match[str]) -> str:
    """What a universal character name names, if identifiers may have it: strings mean the same by both."""
    number = int(match[2] or match[3], 16)
    is_letter = 0xA0 <= number < 0xD800 or 0xE000 <= number < 0x110000
    return match[1] + chr(number) if is_letter else match[0]


def _normalised(source: str) -> str:
    text = source.rstrip("\0").removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\\u" in text or "\\U" in text:
        text = _UNIVERSAL.sub(_named_character, text)
    return text if text.endswith("\n") else text + "\n"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _kernel_model(tree: Tree, function: Function, lines: LineMap) -> KernelModel:
    from sdi.clc import arguments as of
    from sdi.clc.appends import FoundAppends, find_appends
    from sdi.clc.constness import reaches_pointers
    from sdi.clc.effects import EffectAnalysis
    from sdi.clc.pointers import follows_pointers
    from sdi.clc.printing import prints

    analysis = EffectAnalysis(tree, function, lines, find_appends(tree, function, lines))
    if analysis.refused:
        analysis = EffectAnalysis(tree, function, lines, FoundAppends(refused=analysis.refused))
    found: list[Argument] = []
    for parameter, effects in zip(function.parameters, analysis.arguments, strict=True):
        kind = parameter.type
        found.append(
            Argument(
                name=parameter.name,
                type_name=of.type_name(kind),
                kind=of.argument_kind(kind),
                nbytes=of.argument_nbytes(kind),
                address_qualifier=of.address_qualifier(kind),
                access_qualifier=of.access_qualifier(kind),
                type_qualifier=of.type_qualifier(kind),
                reads=effects.reads,
                writes=effects.writes,
                atomic=effects.atomic,
                unit_nbytes=effects.unit_nbytes,
                smallest_unit_nbytes=effects.smallest_unit_nbytes,
                updates=tuple(sorted(effects.updates)),
                only_updates=bool(effects.updates) and effects.only_updates,
                holds_pointers=reaches_pointers(kind),
            )
        )
    assert function.definition is not None
    is_printing, follows = prints(tree, function), follows_pointers(tree, function)
    why_whole = analysis.why_whole
    if analysis.appends or analysis.watched:
        if is_printing:  # what runs again would print again
            why_whole = why_whole or "prints, and uses results of atomic functions"
        if follows:
            why_whole = why_whole or "follows pointers, and uses results of atomic functions"
    return KernelModel(
        name=function.name,
        arguments=tuple(found),
        required_work_group_size=of.required_work_group_size(tree, function),
        attributes=of.attributes_text(tree, function),
        why_whole=why_whole,
        line=lines.place(function.definition.location)[1],
        prints=is_printing,
        follows_pointers=lines.place(follows.begin)[1] if follows else 0,
        appends=() if why_whole else analysis.appends,
        watched=() if why_whole else analysis.watched,
        claimed=() if why_whole else analysis.claimed,
    )
