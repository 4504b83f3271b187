"""What others can put in the way of a service, and reach of it.  design/0014-doors.md has the list."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sdi.clc.compile import compile_object
from sdi.errors import BuildError
from tests.image_runs import ROOT, image_environ, run

LIMIT_S = 120.0
OTHER_UID = 4321

FIND_SERVICE = """
import os, subprocess, sys, pyopencl as cl
(device,) = cl.get_platforms()[0].get_devices()
def service():
    mark = os.environ["OCL_TEST_RUN"]
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if (mark in open(f"/proc/{name}/environ").read()
                    and "sdi.service.main" in open(f"/proc/{name}/cmdline").read()):
                return int(name)
        except OSError:
            pass
"""


def test_a_service_runs_no_code_from_the_working_directory_or_the_users_python(tmp_path: Path) -> None:
    told, site = (
        tmp_path / "told",
        f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
    )
    evil = f"open({str(told)!r}, 'a').write(__name__ + chr(10))\n"
    here, home = tmp_path / "here", tmp_path / "home"
    for folder in (here, here / "sdi", home / site):
        folder.mkdir(parents=True)
    for name in ("socket.py", "numpy.py", "sitecustomize.py", "usercustomize.py", "sdi/__init__.py"):
        (here / name).write_text(evil)
    (home / site / "usercustomize.py").write_text(evil)
    (home / site / "evil.pth").write_text(f"import sys; {evil}")
    (here / "preloaded.c").write_text("int nothing;")
    program = here / "limited"
    command = ["gcc", "-std=gnu11", str(ROOT / "tests" / "c" / "limited.c"), "-o", str(program), "-lOpenCL"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs gcc, opencl-headers and ocl-icd-opencl-dev")
    environ = image_environ(2, HOME=str(home), PYTHONPATH=str(here), PYTHONSTARTUP=str(here / "socket.py"))
    control = [sys.executable, "-c", "import socket"]
    subprocess.run(control, env=environ, cwd=here, check=False, capture_output=True)
    assert "socket" in told.read_text().split(), "any other Python runs it"
    told.unlink()
    result = run(["sh", "-c", f"cd {here}; ./limited 4096"], environ, LIMIT_S)
    assert result.returncode == 0 and result.stdout.endswith("right\n"), result.describe()
    assert not told.exists(), told.read_text()


def test_programs_that_the_application_starts_get_nothing_of_the_service(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(
        FIND_SERVICE
        + textwrap.dedent(
            """
            assert service()
            context = cl.Context([device])
            cl.Buffer(context, 0, 4096)
            how = dict(capture_output=True, text=True, close_fds=False)
            done = subprocess.run(["ls", "-l", "/proc/self/fd"], **how)
            assert "socket" not in done.stdout and "sdi" not in done.stdout, done.stdout
            maps = subprocess.run(["cat", "/proc/self/maps"], **how)
            assert "sdi-arena" not in maps.stdout
            print("nothing")
            """
        )
    )
    result = run([sys.executable, script], image_environ(2), LIMIT_S)
    assert result.stdout == "nothing\n", result.describe()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_other_users_of_the_host_reach_nothing_of_a_service(tmp_path: Path) -> None:
    script = tmp_path / "application.py"
    script.write_text(
        FIND_SERVICE
        + textwrap.dedent(
            f"""
            other = dict(user={OTHER_UID}, group={OTHER_UID}, extra_groups=[], capture_output=True, text=True)
            for pid in (service(), os.getpid()):
                for what in ("environ", "mem", "maps", "fd/3", "map_files", "cwd"):
                    read = f"head -c 1 /proc/{{pid}}/{{what}} || ls /proc/{{pid}}/{{what}}/"
                    done = subprocess.run(["sh", "-c", read], **other)
                    assert done.returncode and not done.stdout and "denied" in done.stderr, (what, done)
                assert subprocess.run(["sh", "-c", f"kill {{pid}}"], **other).returncode
            print("nothing")
            """
        )
    )
    result = run([sys.executable, script], image_environ(2), LIMIT_S)
    assert result.stdout == "nothing\n", result.describe()


def test_the_drivers_cache_is_never_the_one_in_tmp_that_anybody_may_have_made(tmp_path: Path) -> None:
    """Without HOME, PoCL keeps code in /tmp/pocl; the home of the user's account is used instead."""
    script = tmp_path / "application.py"
    script.write_text(FIND_SERVICE + 'print(os.path.exists("/tmp/pocl"), service() is not None)\n')
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    if not os.access(home, os.W_OK):
        pytest.skip(f"{home} cannot be written to")
    if Path("/tmp/pocl").exists():
        pytest.skip("there is a /tmp/pocl already")
    environ = image_environ(2)
    for name in ("HOME", "XDG_CACHE_HOME", "POCL_CACHE_DIR"):
        environ.pop(name, None)
    result = run([sys.executable, script], environ, LIMIT_S)
    assert result.stdout == "False True\n", result.describe()


@pytest.mark.parametrize("name", ["../../../../../x.h", "a/../../../../../../x.h", "/../../../../../x.h"])
def test_headers_of_a_program_are_written_nowhere_but_in_a_folder_of_their_own(name: str) -> None:
    with pytest.raises(BuildError, match="a header cannot be named"):
        compile_object("kernel void k() {}", "", "/", {name: "int x;"})


def test_every_rule_has_tests_that_exist() -> None:
    rows = [line for line in (ROOT / "design" / "0014-doors.md").read_text().splitlines() if line[:2] == "| "]
    assert len(rows) > 10
    for row in rows[1:]:
        file = ""
        named = re.findall(r"`([\w/]*\.py)?::(test_\w+)`", row.split("|")[3])
        assert named, row
        for path, test in named:
            file = path or file
            assert re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.M), (file, test)
