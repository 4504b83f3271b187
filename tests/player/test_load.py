"""Without a player: sdi says so once, and all works."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sdi.cli import doctor
from sdi.locate import LIBRARY, library
from sdi.player import load
from sdi.player.library import LIBRARY_NAME
from tests.player.test_player import Loop
from tests.service.conftest import Serve


def _absent(path: Path) -> None:
    assert not path.exists()


def _damaged(path: Path) -> None:
    path.write_bytes(b"no library")


def _of_another_version(path: Path) -> None:
    """It lacks what is called."""
    shutil.copy(library(), path)


@pytest.fixture(params=[_absent, _damaged, _of_another_version], ids=lambda make: make.__name__.strip("_"))
def no_player(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Where there should be a player."""
    make: Callable[[Path], None] = request.param
    path = tmp_path / LIBRARY.parent / LIBRARY_NAME
    path.parent.mkdir(parents=True)
    make(path)
    monkeypatch.setattr(load, "prefix", lambda: tmp_path)
    load.loaded.cache_clear()
    yield path
    load.loaded.cache_clear()


@pytest.mark.logs("no player, so launches take longer: ")
@pytest.mark.parametrize("members", [1, 2])
def test_without_a_player_bytes_are_right_and_a_warning_comes_once(
    serve: Serve, no_player: Path, members: int, caplog: pytest.LogCaptureFixture
) -> None:
    loop = Loop(serve(members, plays=True))
    assert loop.client.session.player is None
    loop.rounds(30, changing=True)
    loop.fill(7)
    loop.mapped(1)
    loop.check()
    (said,) = caplog.messages
    assert no_player.name in said
    assert not loop.client.session.counters.records()


def test_doctor_notes_that_there_is_no_player(no_player: Path) -> None:
    found = doctor._player()
    assert (found.state, found.what) == ("note", "player")
    assert "launches take longer" in found.text and no_player.name in found.text
    assert "install sdi again" in found.fix


def test_doctor_finds_the_player() -> None:
    (_, found) = doctor._library({})
    assert (found.state, found.what) == ("ok", "player") and found.text.endswith(LIBRARY_NAME)
