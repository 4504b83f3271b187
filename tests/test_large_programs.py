"""As ``test_programs``, for programs of very many commands, regions or cells, on an image of each kind."""

from __future__ import annotations

import os

import pytest

from tests.image_runs import plain_environ
from tests.test_programs import (
    CONFIGURATIONS,
    LARGE,
    RUN_LIMIT_S,
    Configuration,
    Pass,
    assert_members_used,
    assert_nothing_merged,
    assert_same_bytes,
    run_all,
)

pytestmark = pytest.mark.timeout(RUN_LIMIT_S + 60)
KINDS = ("N2", "N8", "N3-member1-late", "N3-32K", "N3-host-32K", "N4-verified-shares2")
"""Of the images: few members and many, late ones, both protocols, too little memory, cuts anywhere."""
IMAGES = [each for each in CONFIGURATIONS if os.environ.get("ALL_IMAGES") or str(each) in KINDS]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What the programs compute on the plain driver."""
    return run_all(tmp_path_factory.mktemp("plain"), lambda stats: plain_environ(), programs=LARGE)


@pytest.fixture(scope="module", params=IMAGES, ids=str)
def configuration(request: pytest.FixtureRequest) -> Configuration:
    """Each image in turn."""
    chosen: Configuration = request.param
    return chosen


@pytest.fixture(scope="module")
def image(configuration: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Pass:
    """What the programs compute on the image."""
    return run_all(tmp_path_factory.mktemp(str(configuration)), configuration.environ, programs=LARGE)


def test_images_are_of_all_kinds() -> None:
    assert len(IMAGES) >= len(KINDS)


@pytest.mark.parametrize("program", LARGE)
def test_image_computes_the_bytes_of_the_plain_driver(program: str, plain: Pass, image: Pass) -> None:
    assert plain.outputs(program), f"{program} returns nothing"
    assert_same_bytes(program, plain, image)


@pytest.mark.parametrize("program", LARGE)
def test_each_launch_uses_the_members_it_should(
    program: str, image: Pass, configuration: Configuration
) -> None:
    assert_members_used(program, image, configuration)


def test_what_members_write_of_a_lattice_in_place_is_not_merged(image: Pass) -> None:
    assert_nothing_merged("lattice_gas", image)


def test_members_hold_no_more_than_they_may(image: Pass, configuration: Configuration) -> None:
    peak = max(max(memory["peak_nbytes"]) for memory in image.memory)
    assert not configuration.limit_nbytes or peak <= configuration.limit_nbytes


def test_runner_survives_and_leaves_no_process(image: Pass) -> None:
    for ended in image.runs:
        assert ended.returncode in (0, 1), ended.describe()
        assert not ended.remained
