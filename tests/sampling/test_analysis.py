"""Every kernel of tests/kernels: the access maps against the recorded truth."""

from __future__ import annotations

import pytest

from sdi.ndrange import GroupBox
from sdi.sampling import Precision, analyse
from tests.kernels.cases import FOLDER, LAUNCHES, B
from tests.kernels.cases import launch as launch_of
from tests.sampling.checking import check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


def _of(file: str) -> list[str]:
    return [f"{file}/{kernel}" for kernel in LAUNCHES[file]]


@pytest.mark.parametrize("name", [name for file in LAUNCHES for name in _of(file)])
def test_maps_contain_what_each_box_touches_and_exact_ones_equal_it(name: str, recorder: Recorder) -> None:
    file, kernel = name.split("/")
    tree = tree_of((FOLDER / f"{file}.cl").read_text())
    for launch in LAUNCHES[file][kernel]:
        check(recorder, tree, kernels_of(tree)[kernel], "", launch)


FOLLOWED = (
    "arrays/rows_by_pointer",
    "arrays/planes_by_pointer",
    "arrays/rows_in_other_words",
    "arrays/own_rows_by_pointer",
    "pointers/arrays_in_arguments",
)


@pytest.mark.parametrize("name", [*FOLLOWED, *_of("vectors")])
def test_nothing_of_these_is_taken_for_data(name: str) -> None:
    file, kernel = name.split("/")
    tree = tree_of((FOLDER / f"{file}.cl").read_text())
    assert analyse(tree, kernels_of(tree)[kernel]).reasons == ()


# Not in tests/kernels: CUDA members refuse it.
SAME_NAME = """
struct Inner {
    int x, y;
};

__kernel void structure_of_the_same_name(__global int *b, __global const int *a)
{
    int i = get_global_id(0);
    struct Inner {
        int y;
        int x;
    } s = {2, i};
    __global const struct Inner *p = (__global const struct Inner *)a;
    b[4 * s.x + s.y] = p[i].y;
}
"""


def test_a_structure_that_hides_another_one_is_not_taken_for_it(recorder: Recorder) -> None:
    tree = tree_of(SAME_NAME)
    kernel = kernels_of(tree)["structure_of_the_same_name"]
    check(recorder, tree, kernel, "", launch_of(16, 4, [B(64), B(64)]))


@pytest.mark.parametrize("name", ["return_at_bound", "return_at_one", "return_of_all"])
def test_a_return_ends_a_loop_as_a_break_does(name: str) -> None:
    tree = tree_of((FOLDER / "loops.cl").read_text())
    analysis = analyse(tree, kernels_of(tree)[name])
    assert analysis.reasons == ()
    for launch in LAUNCHES["loops"][name]:
        whole = GroupBox((0, 0, 0), launch.ndrange.num_groups)
        values = tuple(each if isinstance(each, bytes) else None for each in launch.arguments)
        (found,) = analysis.bind(launch.ndrange, values, (256, None)).over(whole)
        assert found.precision is Precision.EXACT
