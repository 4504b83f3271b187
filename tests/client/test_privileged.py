"""Programs with more rights than who started them (setuid, setgid, file capabilities) find no platform.

The environment is the starter's and says what the service is: nothing of it may run with those rights.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sdi.locate import library

USER = 4321
"""Somebody else, who needs no account."""
SOURCE = Path(__file__).with_name("privileged.c")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that everybody may look into, with the program, and a script that tells who ran it."""

    program: Path
    library: Path
    script: Path
    told: Path
    profile: Path

    def run(self, user: int | None) -> tuple[int, int, int]:
        """AT_SECURE, platforms and devices, where the program is run by ``user`` (None: this one)."""
        as_user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        environ = {
            **os.environ,
            "SDI_PYTHON": str(self.script),
            "SDI_PROFILE": str(self.profile),
            "SDI_LOG": "debug",
        }
        done = subprocess.run(
            [self.program, self.library],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            **as_user,
        )
        assert done.returncode == 0, done.stderr
        secure, platforms, devices = map(int, done.stdout.split())
        assert not secure or not done.stderr, "what is not offered is not spoken of either"
        return secure, platforms, devices

    def traces(self) -> list[str]:
        """Who ran the script, and what was written."""
        return [*self.told.read_text().split(), *(path.name for path in self.profile.iterdir())]


@pytest.fixture
def place() -> Iterator[Place]:
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    with tempfile.TemporaryDirectory(prefix="sdi-privileged-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            pytest.skip(f"the file system of {folder} ignores such rights")
        copy = folder / "libsdi_icd.so"
        shutil.copy(library(), copy)
        program, script, told, profile = (folder / part for part in ("program", "script", "told", "profile"))
        command = ["cc", "-std=c11", "-D_GNU_SOURCE", str(SOURCE), "-o", str(program)]
        subprocess.run([*command, "-ldl"], check=True)
        script.write_text(f"#!/bin/sh\nid -u >> {told}\n")
        for path in (copy, script, program):
            path.chmod(0o755)
        told.touch()
        told.chmod(0o666)
        profile.mkdir()
        profile.chmod(0o777)
        yield Place(program, copy, script, told, profile)


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs away")


def test_the_same_program_without_such_rights_starts_what_the_environment_says(place: Place) -> None:
    user = USER if os.geteuid() == 0 else None
    assert place.run(user)[:2] == (0, 1)
    ran = place.traces()
    assert str(USER if user else os.geteuid()) in ran and any(name.startswith("calls-") for name in ran)


@needs_root
def test_a_setuid_program_finds_no_platform_and_starts_nothing(place: Place) -> None:
    place.program.chmod(0o4755)
    assert place.run(USER) == (1, 0, 0)
    assert place.traces() == []


def test_a_setgid_program_finds_no_platform_and_starts_nothing(place: Place) -> None:
    if os.geteuid() == 0:
        os.chown(place.program, 0, 7)
        user = USER
    else:
        user, others = None, set(os.getgroups()) - {os.getegid()}
        if not others:
            pytest.skip("this user is in one group only")
        os.chown(place.program, -1, min(others))
    place.program.chmod(0o2755)
    assert place.run(user) == (1, 0, 0)
    assert place.traces() == []


@needs_root
def test_a_program_with_file_capabilities_finds_no_platform_and_starts_nothing(place: Place) -> None:
    # struct vfs_cap_data, revision 2, effective: CAP_NET_RAW permitted
    capabilities = struct.pack("<IIIII", 0x02000000 | 1, 1 << 13, 0, 0, 0)
    try:
        os.setxattr(place.program, "security.capability", capabilities)
    except OSError as error:
        pytest.skip(f"no file capabilities here: {error.strerror}")
    assert place.run(USER) == (1, 0, 0)
    assert place.traces() == []
