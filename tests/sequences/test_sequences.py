"""A few random sequences of API calls; ``make soak`` runs ten thousand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.seeds import num_seeds
from tests.sequences.compare import difference, ends
from tests.sequences.generate import generate

COUNT = num_seeds(20, 40)
MEMBERS = (1, 3)


@pytest.mark.timeout(600)
def test_random_sequences_end_as_on_the_plain_driver() -> None:
    with ThreadPoolExecutor(2) as pool:
        plain, *images = pool.map(lambda members: ends(0, COUNT, members), (0, *MEMBERS))
    found = [
        f"{members} members, {text}"
        for members, image in zip(MEMBERS, images, strict=True)
        for seed in range(COUNT)
        if (text := difference(seed, plain[seed], image[seed]))
    ]
    assert not found, "\n".join(found[:5])


@pytest.mark.timeout(600)
def test_sequences_with_members_too_small_for_their_buffers_end_the_same() -> None:
    first, count = 1000, 20
    plain, image = ends(first, count, 0), ends(first, count, 3, {"SDI_MEMBER_MEMORY": "64K"})
    found = [difference(seed, plain[seed], image[seed]) for seed in range(first, first + count)]
    assert not any(found), "\n".join(text for text in found if text)


@pytest.mark.timeout(600)
def test_sequences_whose_queues_are_for_several_devices_end_the_same() -> None:
    first, count = 2000, num_seeds(20, 40)
    with ThreadPoolExecutor(2) as pool:
        settings = {"SDI_IMAGE": "off", "SDI_SPLIT": ""}
        plain, *apart = pool.map(lambda members: ends(first, count, members, settings), (0, 2, 3))
    found = [difference(seed, plain[seed], each[seed]) for each in apart for seed in plain]
    assert not any(found), "\n".join(text for text in found if text)


@pytest.mark.parametrize("seed", [*range(20), 1115])  # which once had no whole buffer left
def test_a_sequence_is_the_same_each_time_and_does_a_bit_of_everything(seed: int) -> None:
    steps = generate(seed)
    assert steps == generate(seed)
    kinds = {op for op, _ in steps}
    assert {"create_buffer", "create_program", "create_kernel"} & kinds and len(kinds) > 12
