"""Programs that hang are ended, and say where they and their services stand; runs without the player."""

import json
import sys
from pathlib import Path

import pytest

from tests import image_runs
from tests.image_runs import computed, image_environ, run

HANGS = """
import pyopencl as cl
from tests.image_runs import end_after
from tests.programs.runner import choose_device
event = cl.UserEvent(cl.Context([choose_device()]))
end_after(0.0)
event.wait()
"""


def test_a_program_that_hangs_is_ended_and_its_service_says_where_it_stands() -> None:
    ended = run([sys.executable, "-c", HANGS], image_environ(1), 60.0)
    assert ended.returncode == 1 and not ended.remained, ended.describe()
    assert 'sdi/service/main.py"' in ended.stderr and '"<string>", line 7 in <module>' in ended.stderr


@pytest.mark.parametrize("player", ["on", "off"])
def test_images_go_without_the_player_where_tests_are_run_so(
    player: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_runs, "PLAYER", player)
    stats = tmp_path / "stats.json"
    computed(["vector_add"], tmp_path, image_environ(2, SDI_STATS=str(stats)), 60.0)
    assert bool(json.loads(stats.read_text())["records"]) == (player == "on")
