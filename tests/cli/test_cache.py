"""``sdi cache``: what is learnt is listed, removed, and moved as data that is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sdi import cache
from sdi.cli.cache import members_text, size_text
from sdi.cli.main import main
from sdi.launch.learning import KIND, VERSION, keep, read
from sdi.partition.learnt import Attempts, Learnt, LearntProgram

GPUS = (("gpu", "a GPU", "1.0", 0),) * 4
NAME = "0123456789abcdef" * 4
ONE = Learnt({1: 100.0, 4: 120.0}, (1, 4, 1), 4, {(1, 4, 1): (0.0, 0.5, 0.75, 0.9, 1.0)}, 2)
PROGRAM = LearntProgram(NAME, GPUS, {"step": {(2, 11): ONE}}, {"claim": Attempts(5, 1)}, 1_700_000_000)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))


def test_the_list_names_kernel_members_size_choice_times_and_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache"]) == 0
    assert "nothing learnt yet" in capsys.readouterr().out
    keep(PROGRAM)
    cache.write("programs", "x", bytes(1000))
    assert main(["cache", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    claim, step = (" ".join(line.split()) for line in lines[1:3])
    assert claim.startswith("01234567 claim 4 x a GPU (gpu, 1.0) 1 of 6 undone 2023-11-1")
    assert step.startswith(
        "01234567 step 4 x a GPU (gpu, 1.0) 2-D, 1024 to 2047 4 of 4 100 on 1, 120 on 4 2023-11-1"
    )
    assert "programs 1 (1.0 KiB)" in lines[3]


def test_sizes_and_members_in_words() -> None:
    assert (size_text((1, 1)), size_text((3, 2))) == ("1-D, 1", "3-D, 2 to 3")
    others = (("cpu", "a CPU", "", 1), ("cpu", "a CPU", "", 2))
    assert members_text((*GPUS[:1], *others)) == "1 x a GPU (gpu, 1.0) + 2 x a CPU (cpu) on 3 nodes"


def test_what_is_cleared_is_gone_and_only_that(capsys: pytest.CaptureFixture[str]) -> None:
    keep(PROGRAM)
    cache.write("programs", "x", b"")
    (Path(cache.base()) / "programs" / "of another").write_text("")
    assert main(["cache", "--clear"]) == 0
    assert "learnt 1, programs 1" in capsys.readouterr().out
    assert read(NAME) is None
    assert (Path(cache.base()) / "programs" / "of another").exists()
    assert main(["cache", "--clear"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_another_machine_begins_with_what_was_exported_beside_what_it_knew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "learnt.json")
    assert main(["cache", "--export", file]) == 2, "nothing is there"
    keep(PROGRAM)
    assert main(["cache", "--export", file]) == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    own = Learnt({1: 50.0}, (1, 1, 1), 1, {})
    keep(LearntProgram(NAME, GPUS, {"step": {(2, 11): own}}))
    capsys.readouterr()
    assert main(["cache", "--import", file]) == 0
    assert capsys.readouterr().out.startswith("1 of 1 programs told something new")
    found = read(NAME)
    assert found is not None and found.launches == {"step": {(2, 11): own}}
    assert found.attempts == PROGRAM.attempts
    assert main(["cache", "--import", file]) == 0
    assert capsys.readouterr().out.startswith("0 of 1 programs")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"format": "other"}, "not what sdi cache --export writes"),
        ({"version": VERSION + 1, "sdi": "9.9"}, "version 3 of what sdi keeps, written by sdi '9.9'"),
        ({"programs": [{"program": "../../evil"}]}, "damaged; nothing was imported"),
        ({"programs": 5}, "damaged; nothing was imported"),
    ],
)
def test_files_of_others_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, object], why: str
) -> None:
    keep(PROGRAM)
    file = tmp_path / "learnt.json"
    assert main(["cache", "--export", str(file)]) == 0
    good = json.loads(file.read_text())
    file.write_text(json.dumps({**good, **changed}))
    cache.clear(KIND)
    capsys.readouterr()
    assert main(["cache", "--import", str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said and why in said
    assert not cache.entries(KIND)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"[" * 100_000, b"5"])
def test_what_is_no_json_of_ours_is_never_executed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    file = tmp_path / "learnt.json"
    file.write_bytes(content)
    assert main(["cache", "--import", str(file)]) == 2
    assert "not what sdi cache --export writes" in capsys.readouterr().err
    assert main(["cache", "--import", str(tmp_path / "absent")]) == 2
