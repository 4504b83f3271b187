"""Dataclasses made from code that was kept are the same as others."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sdi import cache
from sdi.dataclass_code import CompiledTexts


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache folder, and ``dataclasses`` as it was afterwards."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield
    assert "exec" not in vars(dataclasses)


def kept() -> list[bytes]:
    """The files that there are."""
    folder = cache.folder("dataclasses")
    assert folder is not None
    return [path.read_bytes() for path in Path(folder).iterdir()]


def make(default: Any) -> Any:
    """A dataclass, made anew by each call."""

    @dataclass(frozen=True, slots=True, order=True)
    class Made:
        a: int
        b: list[int] = field(default_factory=list)
        c: object = default

    return Made


def make_and_keep(*defaults: Any) -> list[Any]:
    """Dataclasses whose code comes from the file, if it is there, and is kept there."""
    texts = CompiledTexts()
    texts.install()
    try:
        made = [make(default) for default in defaults]
    finally:
        texts.remove()
    texts.save()
    return made


def behaviour(made: Any) -> list[object]:
    one = made(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.a = 2
    return [
        repr(one),
        one == made(1, []),
        made(2) > one,
        dataclasses.asdict(one),
        dataclasses.replace(one, a=3).a,
        made.__match_args__,
        one.b is not made(1).b,
    ]


def test_classes_from_kept_code_do_what_others_do() -> None:
    expected = behaviour(make("x"))
    for _ in range(2):  # compiled, and from the file
        made, other = make_and_keep("x", "y")
        assert behaviour(made) == expected
        assert made(1).c == "x" and other(1).c == "y", "defaults are each class's own"
    assert len(kept()) == 1


def test_the_file_is_written_only_when_something_new_was_compiled() -> None:
    for _ in range(2):
        make_and_keep(0)
        folder = cache.folder("dataclasses")
        assert folder is not None
        (file,) = Path(folder).iterdir()
        inode = file.stat().st_ino
        make_and_keep(1)
        assert file.stat().st_ino == inode


@pytest.mark.parametrize("content", [b"", b"nonsense", pickle.dumps({})], ids=["empty", "nonsense", "pickle"])
def test_a_file_that_is_no_bytecode_counts_as_none(content: bytes) -> None:
    make_and_keep(0)
    folder = cache.folder("dataclasses")
    assert folder is not None
    (file,) = Path(folder).iterdir()
    cache.write("dataclasses", file.name, content)
    texts = CompiledTexts()
    texts.install()
    try:
        made = make(0)
    finally:
        texts.remove()
    assert made(4).a == 4
