"""The command line as the README has it."""

from __future__ import annotations

import re
import shlex

import pytest

from sdi.cli.main import _parser
from sdi.settings import Settings
from tests.image_runs import ROOT

README = (ROOT / "README.md").read_text()
CODE = re.findall(r"^    (?!\s|\||sdi: )(\S.*)$", README, re.MULTILINE)
INLINE = re.findall(r"`((?:sdi|mpiexec|make) [^`…]+)`", README)


def commands() -> list[str]:
    """All that the README has people type, without comments."""
    found = [line.partition("  #")[0].strip() for line in [*CODE, *INLINE]]
    return sorted({line for line in found if re.search(r"(^|\s)(sdi|make) [a-z]", line)})


@pytest.mark.parametrize("line", [line for line in commands() if "sdi " in line])
def test_each_command_of_the_readme_is_understood(line: str) -> None:
    words = shlex.split(line)
    while words[0] != "sdi":
        name, is_setting, value = words.pop(0).partition("=")
        if is_setting and name.startswith("SDI_"):
            Settings.from_environ({name: value} if name != "SDI_PROFILE" else {})
    if len(words) > 2:
        _parser().parse_args(words[1:])
    else:  # its name
        with pytest.raises(SystemExit, match=r"^0$"):
            _parser().parse_args([*words[1:], "--help"])


def test_each_target_of_the_readme_is_one_of_the_makefiles() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {line.split()[1] for line in commands() if line.startswith("make ")}
    assert asked >= {"demo", "test"}
    assert asked <= targets
