"""Random kernels: the access maps against the recorded truth."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdi.sampling import dense
from tests.sampling.checking import check
from tests.sampling.generated import generate
from tests.sampling.recorder import Recorder
from tests.sampling.sources import kernels_of, tree_of


@pytest.fixture(scope="module")
def recorder() -> Recorder:
    return Recorder()


@settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(seed=st.integers(0, 1_000_000), points=st.sampled_from((0, dense.MAX_POINTS)))
def test_maps_of_random_kernels_agree_with_what_they_touch(
    seed: int, points: int, recorder: Recorder
) -> None:
    # Without points, answers come from the closed forms only, as they do for large boxes.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense, "MAX_POINTS", points)
        check_seed(seed, recorder)


def check_seed(seed: int, recorder: Recorder) -> None:
    """Compare one kernel's maps with the record."""
    made = generate(seed)
    tree = tree_of(made.source)
    check(recorder, tree, kernels_of(tree)["k"], "", made.launch, ("random", "zeros", "ones"))
