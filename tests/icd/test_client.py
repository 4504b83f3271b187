"""The C client against a fake service, through the system's ICD loader; plain and under sanitizers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.icd import test_client_events, test_client_launches, test_client_memory, test_client_objects
from tests.icd.test_client_setting import environment, run_program

MODULES = (test_client_objects, test_client_memory, test_client_launches, test_client_events)
CASES = [
    pytest.param(module.__name__.rpartition(".")[2], program.__name__, id=program.__name__)
    for module in MODULES
    for program in module.PROGRAMS
]


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "sanitized"])
@pytest.mark.parametrize(("module", "name"), CASES)
def test_program(module: str, name: str, sanitize: bool, tmp_path: Path) -> None:
    run_program(module, name, environment(tmp_path, sanitize))
