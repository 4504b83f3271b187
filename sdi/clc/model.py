"""What the front end tells about a program: kernels, arguments, and what they do to memory.

All values are frozen: a model is computed once per build and shared by threads.
"""

from __future__ import annotations

from sdi.appends import Append
from sdi.atomics import Update
from sdi.clc.frontend.objects import ObjectText
from sdi.clc.frontend.syntax import Tree
from sdi.dataclass import dataclass
from sdi.ndrange import GroupBox, Int3, NDRange
from sdi.wire.arguments import ArgumentKind


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument as the application declared it.

    ``nbytes``: size that ``clSetKernelArg`` demands (8 for memory objects and samplers; for LOCAL any
    non-zero size is right and ``nbytes`` is 0).
    ``type_name``, ``address_qualifier``, ``access_qualifier``, ``type_qualifier``: the values that
    ``clGetKernelArgInfo`` answers (an ``ArgumentAddress``, an ``ArgumentAccess``, bits of ``ArgumentType``).
    ``reads``, ``writes``, ``atomic``: whether any path of the kernel (helpers and macros included) may
    read, write, or atomically update memory through this pointer.  In doubt: True.
    ``unit_nbytes``: size of the largest scalar the kernel stores through this pointer (1, 2, 4, 8;
    0 when it stores nothing; 1 when unknown, for example after a cast to an unknown type).
    ``smallest_unit_nbytes``: likewise, of the smallest one.
    ``holds_pointers``: what it points to has addresses in it.
    ``updates``: the atomic updates through this pointer that may be made on private copies, sorted;
    ``only_updates``: nothing else is done through it.
    """

    name: str
    type_name: str
    kind: ArgumentKind
    nbytes: int
    address_qualifier: int
    access_qualifier: int
    type_qualifier: int
    reads: bool
    writes: bool
    atomic: bool
    unit_nbytes: int
    smallest_unit_nbytes: int
    updates: tuple[Update, ...] = ()
    only_updates: bool = False
    holds_pointers: bool = False


@dataclass(frozen=True, slots=True)
class KernelModel:
    """One kernel.  ``why_whole`` is empty when the kernel may be split over members; otherwise one
    sentence for the user that says what prevents it (atomics with a result, spinning on a volatile, an
    unknown callee, a written program-scope variable, a global pointer stored to memory ...) with the
    line of the user's text.  ``prints``: it may call printf.  ``follows_pointers``: the line where
    it may reach memory through a pointer in memory, or may do what the value of one decides; 0: none.
    ``appends``: the atomic additions whose results it uses, all of which append; none where it runs whole.
    ``watched``: else, the arguments through which it uses results of atomic functions, if that may be seldom
    and it waits for nobody: it may be split while at most one member changes what these name.
    ``claimed``: others that only whoever uses such a result writes through.
    """

    name: str
    arguments: tuple[Argument, ...]
    required_work_group_size: Int3 | None
    attributes: str
    why_whole: str
    line: int
    prints: bool = False
    follows_pointers: int = 0
    appends: tuple[Append, ...] = ()
    watched: tuple[int, ...] = ()
    claimed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A program ready for the members.

    ``text``: sub-range OpenCL C, self-contained (preprocessed; no -D or -I needed).  Kernels have their
    original names and arguments plus ONE last argument, a struct by value whose content is
    ``pack_hidden(...)``.
    ``member_options``: options for the member's compiler (``-cl-...``), without -D and -I.
    ``log``: warnings, for the build log.  ``tree``: what later passes read.
    ``object``: the preprocessed program, from which it can be made again.
    """

    kernels: tuple[KernelModel, ...]
    text: str
    member_options: tuple[str, ...]
    log: str
    tree: Tree
    object: ObjectText


__all__ = [
    "Argument",
    "ArgumentKind",
    "CompiledProgram",
    "GroupBox",
    "KernelModel",
    "NDRange",
]
