"""clang's diagnostics as the build log an application's author expects from a compiler."""

from __future__ import annotations

from ctypes import byref, c_uint, c_void_p

from sdi.clc.frontend.base_header import HEADER_PATH
from sdi.clc.frontend.libclang import CXSourceLocation, CXString, Unit, text_of
from sdi.dataclass import dataclass

_SEVERITIES = ("ignored", "note", "warning", "error", "fatal error")
_WARNING = 2
_ERROR = 3


@dataclass(frozen=True, slots=True)
class BuildReport:
    """``text``: the log; ``errors``: how many made the program invalid."""

    text: str
    errors: int


@dataclass(frozen=True, slots=True)
class _SourcePosition:
    """A place in a real file: ``line`` and ``column`` ignore ``#line``."""

    file: int
    line: int
    column: int


def _place(unit: Unit, location: CXSourceLocation) -> _SourcePosition:
    file, line, column = c_void_p(), c_uint(), c_uint()
    unit.lib.clang_getExpansionLocation(location, byref(file), byref(line), byref(column), None)
    return _SourcePosition(int(file.value or 0), line.value, column.value)


def _presumed(unit: Unit, location: CXSourceLocation) -> str:
    name, line, column = CXString(), c_uint(), c_uint()
    unit.lib.clang_getPresumedLocation(location, byref(name), byref(line), byref(column))
    file = text_of(name)
    return f"{file}:{line.value}:{column.value}: " if file else ""


class _LogWriter:
    """Collects one log."""

    def __init__(self, unit: Unit, main_text: bytes) -> None:
        self.unit = unit
        self.lib = unit.lib
        self.files: dict[int, list[bytes]] = {unit.main_file(): main_text.split(b"\n")}
        self.parts: list[str] = []
        self.counts = [0] * len(_SEVERITIES)

    def add(self, diagnostic: c_void_p, lowest: int) -> None:
        lib = self.lib
        severity: int = lib.clang_getDiagnosticSeverity(diagnostic)
        if severity < lowest:
            return
        location = lib.clang_getDiagnosticLocation(diagnostic)
        where = _presumed(self.unit, location)
        if where.startswith(HEADER_PATH):
            return
        self.counts[severity] += 1
        message = text_of(lib.clang_getDiagnosticSpelling(diagnostic))
        option = text_of(lib.clang_getDiagnosticOption(diagnostic, None))
        if severity == _ERROR and option.startswith("-W"):
            option = f"-Werror,{option}"
        suffix = f" [{option}]" if option else ""
        self.parts.append(f"{where}{_SEVERITIES[severity]}: {message}{suffix}\n")
        self.parts.append(self.excerpt(diagnostic, _place(self.unit, location)))
        children = lib.clang_getChildDiagnostics(diagnostic)
        for number in range(lib.clang_getNumDiagnosticsInSet(children)):
            self.add(c_void_p(lib.clang_getDiagnosticInSet(children, number)), 1)

    def excerpt(self, diagnostic: c_void_p, at: _SourcePosition) -> str:
        """The source line, and below it a caret and the ranges that lie on the line."""
        lines = self.lines(at.file)
        if not 1 <= at.line <= len(lines):
            return ""
        source = lines[at.line - 1].rstrip(b"\r")
        marks = [9 if char == 9 else 32 for char in source] + [32]
        for number in range(self.lib.clang_getDiagnosticNumRanges(diagnostic)):
            extent = self.lib.clang_getDiagnosticRange(diagnostic, number)
            first = _place(self.unit, self.lib.clang_getRangeStart(extent))
            last = _place(self.unit, self.lib.clang_getRangeEnd(extent))
            if (first.file, first.line, last.line) == (at.file, at.line, at.line):
                for column in range(first.column - 1, min(last.column - 1, len(source))):
                    if marks[column] == 32:
                        marks[column] = ord("~")
        if at.column <= len(source) + 1:
            marks[at.column - 1] = ord("^")
        caret = bytes(marks).rstrip()
        # Continuation bytes of UTF-8 take no column on a terminal.
        caret = bytes(m for m, c in zip(caret, source + b" ", strict=False) if c & 0xC0 != 0x80)
        return f"{source.decode('utf-8', 'replace')}\n{caret.decode('ascii', 'replace')}\n"

    def lines(self, file: int) -> list[bytes]:
        known = self.files.get(file)
        if known is None:
            known = []
            if file:
                name = text_of(self.lib.clang_getFileName(c_void_p(file)))
                try:
                    with open(name, "rb") as stream:
                        known = stream.read().split(b"\n")
                except OSError:
                    known = []
            self.files[file] = known
        return known


def report(unit: Unit, main_text: bytes, no_warnings: bool) -> BuildReport:
    """The log of a parse: diagnostics in clang's form, each with its line and a caret."""
    writer = _LogWriter(unit, main_text)
    lowest = _ERROR if no_warnings else _WARNING
    for number in range(unit.lib.clang_getNumDiagnostics(unit.handle)):
        diagnostic = c_void_p(unit.lib.clang_getDiagnostic(unit.handle, number))
        writer.add(diagnostic, lowest)
        unit.lib.clang_disposeDiagnostic(diagnostic)
    warnings = writer.counts[_WARNING]
    errors = writer.counts[3] + writer.counts[4]
    said = [f"{n} {word}{'s' * (n > 1)}" for n, word in ((warnings, "warning"), (errors, "error")) if n]
    if said:
        writer.parts.append(" and ".join(said) + " generated.\n")
    return BuildReport("".join(writer.parts), errors)
