"""``sdi devices --where`` and ``--attributes``, and what a query that is wrong leads to, by all ways."""

from __future__ import annotations

import sys

import pytest

from sdi.selection import ATTRIBUTES
from tests.image_runs import Run, image_environ, run

QUERY = "cpu and memory > 1M order by memory desc top 4"
WRONG = "cpu and memry > 1M"
SAID = f"SDI_DEVICES: '{WRONG}': there is no attribute 'memry' (character 9); did you mean memory?"
LIST = "import pyopencl as cl; print([d.name for p in cl.get_platforms() for d in p.get_devices()])"


def sdi(*words: str, **settings: str) -> Run:
    return run([sys.executable, "-m", "sdi.cli", *words], image_environ(2, **settings), 60)


def test_the_devices_that_a_query_selects_are_listed_with_what_it_asks() -> None:
    done = sdi("devices", "--where", f"driver !~ nothing and {QUERY}")
    head, *rows = done.stdout.splitlines()
    assert done.returncode == 0, done.describe()
    assert head.split() == ["number", "node", "kind", "name", "memory", "units", "clock", "MHz", "driver"]
    assert len(rows) == 1 and rows[0].split()[:3] == ["0", "0", "cpu"]


def test_numbers_select_too() -> None:
    assert len(sdi("devices", "--where", "0").stdout.splitlines()) == 2


def test_all_attributes_are_listed_with_type_unit_and_an_example() -> None:
    done = sdi("devices", "--attributes")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert [row[0] for row in rows[1:]] == [*ATTRIBUTES]
    kind, memory = rows[1], next(row for row in rows if row[0] == "memory")
    assert kind[1:4] == ["text", "-", '"cpu"']
    assert memory[1:3] == ["number", "bytes"] and int(memory[3]) > 1 << 20


@pytest.mark.parametrize("option", ["--where", "--devices"])
def test_a_word_that_is_no_attribute_is_one_line_that_points_at_it(option: str) -> None:
    done = sdi("devices", option, WRONG)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"sdi: {SAID}\n")


def test_an_application_finds_the_members_that_a_query_selects() -> None:
    done = run([sys.executable, "-c", LIST], image_environ(3, SDI_DEVICES=QUERY), 60)
    assert "SDI (3 x " in done.stdout, done.describe()


@pytest.mark.parametrize("nodes", [None, "2"])
def test_an_application_is_told_what_is_wrong_with_a_query(nodes: str | None) -> None:
    settings = {"SDI_DEVICES": WRONG} | ({"SDI_TEST_NODES": nodes} if nodes else {})
    done = sdi("run", "--", sys.executable, "-c", LIST, **settings)
    assert [line for line in done.stderr.splitlines() if "memry" in line] == [f"sdi: {SAID}"], done.describe()


def test_a_query_is_over_the_devices_of_all_nodes() -> None:
    done = sdi("run", "--", sys.executable, "-c", LIST, SDI_TEST_NODES="3", SDI_DEVICES="cpu and node != 1")
    assert done.returncode == 0 and "SDI (2 x " in done.stdout, done.describe()
