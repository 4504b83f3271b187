"""Every kernel of tests/kernels: the access maps against the recorded truth."""

from __future__ import annotations

import pytest

from tests.kernels.cases import FOLDER, LAUNCHES
from tests.sampling.checking import check
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@pytest.mark.parametrize("name", [f"{file}/{kernel}" for file, of in LAUNCHES.items() for kernel in of])
def test_maps_contain_what_each_box_touches_and_exact_ones_equal_it(name: str, recorder: Recorder) -> None:
    file, kernel = name.split("/")
    tree = tree_of((FOLDER / f"{file}.cl").read_text())
    for launch in LAUNCHES[file][kernel]:
        check(recorder, tree, kernels_of(tree)[kernel], "", launch)
