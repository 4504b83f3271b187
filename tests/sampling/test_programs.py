"""Every launch of tests/programs: the access maps against the record, and larger ones against isl's sets."""

from __future__ import annotations

import functools
from importlib import import_module
from random import Random

import pyopencl as cl
import pytest

from sdi.clc.frontend.syntax import Function, Tree
from sdi.sampling import KernelAnalysis, analyse
from tests.sampling.checking import CONTENTS, check
from tests.sampling.comparing import Tally, compare, larger, some_boxes
from tests.sampling.launches import catch, program_names
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


def depends_on_data(analysis: KernelAnalysis) -> bool:
    """Whether a kernel may only run on data that its program made: an address or a loop depends on them."""
    loops = any(analysis.table.opaque[c] for loop in analysis.loops if loop for c in loop.conditions)
    return (
        loops
        or any(analysis.table.opaque[access.offset] for access in analysis.accesses)
        or any(e.reads_anything or e.writes_anything for e in analysis.pointers)
    )


@functools.cache
def analysed(source: str, options: str, kernel: str) -> tuple[Tree, Function, KernelAnalysis]:
    """A kernel of a program, which launches it many times."""
    tree = tree_of(source, options)
    function = kernels_of(tree)[kernel]
    return tree, function, analyse(tree, function)


# Programs that make no launch which can be caught: they test what is no launch, or include files.
# Left out: what is linked from objects has no one source to analyse here.
LINKED = ("compile_and_link", "argument_info")


@pytest.mark.parametrize("name", [name for name in program_names() if name not in LINKED])
def test_maps_of_each_launch_of_a_program_agree_with_what_it_touches(name: str, recorder: Recorder) -> None:
    def needs_content(source: str, options: str, kernel: str) -> bool:
        return depends_on_data(analysed(source, options, kernel)[2])

    if not getattr(import_module(f"tests.programs.{name}"), "NEEDS", bool)(recorder.device):
        pytest.skip(f"the device has not what {name} needs")
    context = cl.Context([recorder.device])
    for caught in catch(name, context, needs_content):
        tree, function, analysis = analysed(caught.source, caught.options, caught.kernel)
        contents = ("given",) if depends_on_data(analysis) else CONTENTS
        check(recorder, tree, function, caught.options, caught.launch, contents, analysis)
        random = Random(caught.kernel)
        asked = larger(caught.launch.ndrange, caught.launch.arguments, random)
        boxes = some_boxes(asked.ndrange.num_groups, random, 2)
        compare(analysis, asked, boxes, Tally(), operations=10_000)
