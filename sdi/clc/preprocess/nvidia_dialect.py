"""What NVIDIA's own OpenCL compiler has defined, for members that sdi compiles for through CUDA.

Programs shall see there what they would see on that driver.  ``nvidia_macros.json`` is what it said when it
was asked (``tools/nvidia_macros.py``): the text by question, without options and for each list of them what
is different then, None for what is not defined.  As long as it was not asked, clang answers for it, which it
is made of, less what is clang's target's; with ``fma`` fast, as on all its GPUs.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Sequence
from importlib import resources

from sdi.clc.preprocess import clang_dialect
from sdi.clc.preprocess.probe import Answers

_TABLE = "nvidia_macros.json"
_TARGETS = re.compile(r"__spir", re.IGNORECASE)
_FACTS: Answers = {"FP_FAST_FMA": "1", "FP_FAST_FMAF": "1"}

Table = dict[str, dict[str, str | None]]


@functools.cache
def table() -> Table:
    """What was recorded; empty if nothing was."""
    found: Table = json.loads(_recorded())
    return found


@functools.cache
def nvidia_name() -> str:
    """See ``Capabilities.compiler``."""
    return f"NVIDIA {hashlib.sha256(_recorded()).hexdigest()}"


def _recorded() -> bytes:
    return resources.files("sdi.clc.preprocess").joinpath(_TABLE).read_bytes()


def nvidia_answers(questions: Sequence[str], options: Sequence[str]) -> Answers:
    """See ``Ask`` in ``dialect.py``.  Tests that were not recorded are not passed.

    Of lists of options that the driver was not asked with, that one counts which is most like them.
    """
    recorded = table()
    if recorded:
        wanted = frozenset(options)
        best = max(recorded, key=lambda each: _likeness(frozenset(each.split()), wanted))
        said: Answers = {**recorded[""], **recorded[best]}
    else:
        clangs = clang_dialect.ask([each for each in questions if "(" not in each], options)
        said = {name: None if _TARGETS.match(name) else text for name, text in clangs.items()} | dict(_FACTS)
    return {question: said.get(question, _failed(question, said)) for question in questions}


def _failed(question: str, said: Answers) -> str | None:
    """The answer to what was not recorded."""
    operator, parenthesis, _ = question.partition("(")
    return "0" if parenthesis and said.get(operator, "") is not None else None


def _likeness(has: frozenset[str], wanted: frozenset[str]) -> tuple[int, int, int]:
    """More is better: first the version, then options in common, then fewer others."""
    versions = [{each for each in one if each.startswith("-cl-std=")} for one in (has, wanted)]
    return (versions[0] == versions[1], len(has & wanted), -len(has - wanted))
