"""The functions of libclang that the front end uses, bound with ctypes.

The library (60 MB) is found and loaded by the first call of ``library()``, never at import.  Every
parse has an Index and a translation unit of its own, so parses may run in several threads at once;
one ``Unit`` is used by one thread.  ctypes releases the GIL while clang parses.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import signal
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_longlong,
    c_uint,
    c_ulong,
    c_void_p,
)
from pathlib import Path
from types import TracebackType

from sdi.errors import BuildError

VISIT_CONTINUE = 1


class CXString(Structure):
    """A string owned by libclang; ``clang_disposeString`` frees it."""

    _fields_ = [("data", c_void_p), ("flags", c_uint)]


class CXCursor(Structure):
    """A node of clang's tree; valid while its translation unit lives."""

    kind: int
    _fields_ = [("kind", c_int), ("xdata", c_int), ("data", c_void_p * 3)]

    @property
    def identity(self) -> int:
        """Address of the declaration or statement: equal for equal nodes of one translation unit."""
        return int(self.data[0] or 0)


class CXType(Structure):
    """A type, qualifiers included; valid while its translation unit lives."""

    kind: int
    _fields_ = [("kind", c_int), ("data", c_void_p * 2)]

    @property
    def identity(self) -> tuple[int, int]:
        """Equal for equal types of one translation unit."""
        return (self.kind, int(self.data[0] or 0))


class CXSourceLocation(Structure):
    """A position in a file or in a macro expansion."""

    _fields_ = [("data", c_void_p * 2), ("value", c_uint)]


class CXSourceRange(Structure):
    """A half-open range of positions."""

    _fields_ = [("data", c_void_p * 2), ("begin", c_uint), ("end", c_uint)]


class CXUnsavedFile(Structure):
    """A file that exists in memory only."""

    _fields_ = [("filename", c_char_p), ("contents", c_char_p), ("nbytes", c_ulong)]


_VISITOR = CFUNCTYPE(c_int, CXCursor, CXCursor, c_void_p)
_FILE_LOCATION: list[type] = [
    CXSourceLocation,
    POINTER(c_void_p),
    POINTER(c_uint),
    POINTER(c_uint),
    POINTER(c_uint),
]

_SIGNATURES: dict[str, tuple[list[type], type | None]] = {
    "clang_createIndex": ([c_int, c_int], c_void_p),
    "clang_disposeIndex": ([c_void_p], None),
    "clang_parseTranslationUnit2": (
        [
            c_void_p,
            c_char_p,
            POINTER(c_char_p),
            c_int,
            POINTER(CXUnsavedFile),
            c_uint,
            c_uint,
            POINTER(c_void_p),
        ],
        c_int,
    ),
    "clang_disposeTranslationUnit": ([c_void_p], None),
    "clang_getTranslationUnitCursor": ([c_void_p], CXCursor),
    "clang_getFile": ([c_void_p, c_char_p], c_void_p),
    "clang_getLocationForOffset": ([c_void_p, c_void_p, c_uint], CXSourceLocation),
    "clang_getNumDiagnostics": ([c_void_p], c_uint),
    "clang_getDiagnostic": ([c_void_p, c_uint], c_void_p),
    "clang_disposeDiagnostic": ([c_void_p], None),
    "clang_getChildDiagnostics": ([c_void_p], c_void_p),
    "clang_getNumDiagnosticsInSet": ([c_void_p], c_uint),
    "clang_getDiagnosticInSet": ([c_void_p, c_uint], c_void_p),
    "clang_getDiagnosticSeverity": ([c_void_p], c_int),
    "clang_getDiagnosticSpelling": ([c_void_p], CXString),
    "clang_getDiagnosticOption": ([c_void_p, POINTER(CXString)], CXString),
    "clang_getDiagnosticLocation": ([c_void_p], CXSourceLocation),
    "clang_getDiagnosticNumRanges": ([c_void_p], c_uint),
    "clang_getDiagnosticRange": ([c_void_p, c_uint], CXSourceRange),
    "clang_getFileLocation": (_FILE_LOCATION, None),
    "clang_getExpansionLocation": (_FILE_LOCATION, None),
    "clang_getPresumedLocation": (
        [CXSourceLocation, POINTER(CXString), POINTER(c_uint), POINTER(c_uint)],
        None,
    ),
    "clang_getFileName": ([c_void_p], CXString),
    "clang_getCString": ([CXString], c_char_p),
    "clang_disposeString": ([CXString], None),
    "clang_visitChildren": ([CXCursor, _VISITOR, c_void_p], c_uint),
    "clang_getCursorExtent": ([CXCursor], CXSourceRange),
    "clang_getCursorLocation": ([CXCursor], CXSourceLocation),
    "clang_getRangeStart": ([CXSourceRange], CXSourceLocation),
    "clang_getRangeEnd": ([CXSourceRange], CXSourceLocation),
    "clang_getCursorSpelling": ([CXCursor], CXString),
    "clang_getCursorType": ([CXCursor], CXType),
    "clang_getCursorReferenced": ([CXCursor], CXCursor),
    "clang_getCanonicalCursor": ([CXCursor], CXCursor),
    "clang_isCursorDefinition": ([CXCursor], c_uint),
    "clang_getCursorBinaryOperatorKind": ([CXCursor], c_int),
    "clang_getCursorUnaryOperatorKind": ([CXCursor], c_int),
    "clang_Cursor_getStorageClass": ([CXCursor], c_int),
    "clang_getTypedefDeclUnderlyingType": ([CXCursor], CXType),
    "clang_getTypeDeclaration": ([CXType], CXCursor),
    "clang_getEnumDeclIntegerType": ([CXCursor], CXType),
    "clang_getTypeSpelling": ([CXType], CXString),
    "clang_getCanonicalType": ([CXType], CXType),
    "clang_getPointeeType": ([CXType], CXType),
    "clang_getElementType": ([CXType], CXType),
    "clang_getNumElements": ([CXType], c_longlong),
    "clang_getResultType": ([CXType], CXType),
    "clang_getNumArgTypes": ([CXType], c_int),
    "clang_getArgType": ([CXType, c_uint], CXType),
    "clang_getNumOverloadedDecls": ([CXCursor], c_uint),
    "clang_getOverloadedDecl": ([CXCursor, c_uint], CXCursor),
    "clang_Type_getSizeOf": ([CXType], c_longlong),
    "clang_Type_getAlignOf": ([CXType], c_longlong),
    "clang_Type_getValueType": ([CXType], CXType),
    "clang_getUnqualifiedType": ([CXType], CXType),
    "clang_getAddressSpace": ([CXType], c_uint),
    "clang_isConstQualifiedType": ([CXType], c_uint),
    "clang_isVolatileQualifiedType": ([CXType], c_uint),
    "clang_isRestrictQualifiedType": ([CXType], c_uint),
}


class LibclangMissing(Exception):
    """libclang is not installed, or its library can't be loaded."""


_SIGACTION_NBYTES = 256
"""More than a struct sigaction has anywhere."""


@functools.cache
def library() -> ctypes.CDLL:
    """libclang with its signatures set; loads it on the first call (about 50 ms)."""
    spec = importlib.util.find_spec("clang")
    if spec is None or not spec.submodule_search_locations:
        raise LibclangMissing("the Python package libclang is not installed")
    for folder in spec.submodule_search_locations:
        path = Path(folder) / "native" / "libclang.so"
        if path.exists():
            break
    else:
        raise LibclangMissing(f"no native/libclang.so beside {spec.origin}")
    try:
        lib = ctypes.CDLL(str(path))
        for name, (argument_types, result_type) in _SIGNATURES.items():
            function = getattr(lib, name)
            function.argtypes = argument_types
            function.restype = result_type
    except (OSError, AttributeError) as cause:
        raise LibclangMissing(f"{path}: {cause}") from cause
    _keep_handler(lib, signal.SIGFPE)
    return lib


def _keep_handler(lib: ctypes.CDLL, number: int) -> None:
    """Have clang take over fatal signals, as it does with its first index, but for this one.

    pocl lets kernels divide integers by zero, which OpenCL allows, with a handler of its own for SIGFPE.
    clang's would be called instead, and end the process.
    """
    libc = ctypes.CDLL(None)
    action = ctypes.create_string_buffer(_SIGACTION_NBYTES)
    libc.sigaction(number, None, action)
    lib.clang_disposeIndex(lib.clang_createIndex(0, 0))
    libc.sigaction(number, action, None)


def text_of(string: CXString) -> str:
    """The text of a libclang string, which is freed."""
    lib = library()
    raw = lib.clang_getCString(string)
    lib.clang_disposeString(string)
    return raw.decode("utf-8", "replace") if raw else ""


class Unit:
    """One parsed translation unit.  A context manager: leaving it frees clang's memory.

    ``files``: virtual files by absolute path; the first one is the main file.
    Owned by: the thread that made it.
    """

    def __init__(self, files: dict[str, bytes], arguments: list[str]) -> None:
        self.lib = library()
        self._sink: list[CXCursor] = []
        self._visitor = _VISITOR(self._visit)
        self._index = c_void_p(self.lib.clang_createIndex(0, 0))
        self._handle = c_void_p()
        self.main_path = next(iter(files))
        unsaved = (CXUnsavedFile * len(files))()
        for slot, (path, contents) in zip(unsaved, files.items(), strict=True):
            slot.filename, slot.contents, slot.nbytes = path.encode(), contents, len(contents)
        argv = (c_char_p * len(arguments))(*[os_encode(each) for each in arguments])
        failed = self.lib.clang_parseTranslationUnit2(
            self._index,
            self.main_path.encode(),
            argv,
            len(arguments),
            unsaved,
            len(files),
            0,
            byref(self._handle),
        )
        if failed:
            self.lib.clang_disposeIndex(self._index)
            raise BuildError(f"error: the front end could not read the program: libclang's error {failed}\n")
        self._nbytes = len(files[self.main_path])
        start = self.lib.clang_getLocationForOffset(self._handle, c_void_p(self.main_file()), 0)
        self._first: int = start.value

    def __enter__(self) -> Unit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lib.clang_disposeTranslationUnit(self._handle)
        self.lib.clang_disposeIndex(self._index)
        del self._visitor

    @property
    def handle(self) -> c_void_p:
        """libclang's CXTranslationUnit."""
        return self._handle

    def root(self) -> CXCursor:
        """The cursor of the translation unit."""
        cursor: CXCursor = self.lib.clang_getTranslationUnitCursor(self._handle)
        return cursor

    def main_file(self) -> int:
        """CXFile of the main file."""
        return int(self.lib.clang_getFile(self._handle, self.main_path.encode()) or 0)

    def children(self, cursor: CXCursor) -> list[CXCursor]:
        """The direct children, in source order."""
        sink: list[CXCursor] = []
        saved, self._sink = self._sink, sink
        self.lib.clang_visitChildren(cursor, self._visitor, None)
        self._sink = saved
        return sink

    def _visit(self, cursor: CXCursor, parent: CXCursor, data: int | None) -> int:
        self._sink.append(cursor)
        return VISIT_CONTINUE

    def file_offset(self, location: CXSourceLocation) -> tuple[int, int]:
        """(CXFile, byte offset); inside a macro's argument where it is spelled, else where it expands."""
        file, offset = c_void_p(), c_uint()
        self.lib.clang_getFileLocation(location, byref(file), None, None, byref(offset))
        return (int(file.value or 0), offset.value)

    def extent(self, cursor: CXCursor) -> tuple[int, int]:
        """Byte offsets of the cursor's first character and after its last one."""
        extent = self.lib.clang_getCursorExtent(cursor)
        # A location in the main file, outside macros, is the file's first location plus the offset.
        first, last = extent.begin - self._first, extent.end - self._first
        if 0 <= first <= last <= self._nbytes:
            return (first, last)
        begin = self.file_offset(self.lib.clang_getRangeStart(extent))[1]
        end = self.file_offset(self.lib.clang_getRangeEnd(extent))[1]
        return (begin, end)


def os_encode(text: str) -> bytes:
    """Bytes for clang's command line: paths keep their undecodable bytes."""
    return text.encode("utf-8", "surrogateescape")
