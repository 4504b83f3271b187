"""Where an application can map the arena, as it says."""

from __future__ import annotations

import pytest

from sdi.service.room import ArenaRoom, room_of


@pytest.mark.parametrize(
    ("said", "addresses"),
    [("200000000000,400000000000", (1 << 45, 1 << 46)), ("4000000000", (1 << 38,)), ("", ())],
)
def test_it_says_how_much_and_at_which_addresses(said: str, addresses: tuple[int, ...]) -> None:
    assert room_of(["4096", said]) == ArenaRoom(4096, addresses)


@pytest.mark.parametrize("said", [["4096"], ["4096", "here"], ["much", ""]])
def test_what_it_can_not_have_said_is_an_error(said: list[str]) -> None:
    with pytest.raises(ValueError):
        room_of(said)
