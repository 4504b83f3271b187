"""``sdi run``: the application gets the environment, its exit status and signals pass through."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_counters import WRITTEN

SDI = [sys.executable, "-m", "sdi.cli"]


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the installed library: nothing here loads it."""
    path = tmp_path / "prefix" / "lib" / "sdi" / "libsdi_icd.so"
    path.parent.mkdir(parents=True)
    path.touch()
    (tmp_path / "sitecustomize.py").write_text(
        f"import sysconfig; sysconfig._INSTALL_SCHEMES['venv']['data'] = {str(tmp_path / 'prefix')!r}\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[2])]))
    return path


def sdi(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SDI, *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_the_application_sees_only_the_image(library: Path) -> None:
    show = (
        "import os, json\n"
        "del os.environ['SDI_LEARNT']\n"  # of these tests
        "print(json.dumps({k: v for k, v in os.environ.items() if k.startswith(('SDI_', 'OCL_'))}))"
    )
    done = sdi(
        "run",
        "-n",
        "4",
        "--split",
        "always",
        "--devices",
        "cpu",
        "--",
        *python(show),
        OCL_ICD_FILENAMES="/a.so:/b.so",
    )
    assert done.returncode == 0, done.stderr
    environ = json.loads(done.stdout)
    folder = Path(environ.pop("OCL_ICD_VENDORS"))
    assert (folder / "sdi.icd").read_text() == f"{library}\n"
    assert [p.name for p in folder.iterdir()] == ["sdi.icd"]
    assert environ.pop("OCL_ICD_FILENAMES") == str(library)
    assert environ.pop("SDI_PYTHON") == sys.executable  # no Python of ours above the stand-in
    assert environ == {"SDI_NUM_GPUS": "4", "SDI_SPLIT": "always", "SDI_DEVICES": "cpu"}


def test_the_users_own_vendors_become_the_members(tmp_path: Path) -> None:
    show = "import os; print(os.environ.get('SDI_MEMBER_VENDORS'))"
    assert sdi("run", *python(show), OCL_ICD_VENDORS="/opt/drivers").stdout == "/opt/drivers\n"
    nested = str(tmp_path / "prefix" / "lib" / "sdi" / "vendors")
    assert sdi("run", *python(show), OCL_ICD_VENDORS=nested).stdout == "None\n"


def test_arguments_reach_the_application_untouched() -> None:
    done = sdi("run", "--", *python("import sys; print(sys.argv[1:])"), "-n", "--", "--stats", "a b")
    assert done.stdout == "['-n', '--', '--stats', 'a b']\n"


@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_exit_status_passes_through(stats: list[str]) -> None:
    assert sdi("run", *stats, "--", *python("raise SystemExit(7)")).returncode == 7


@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_death_by_a_signal_passes_through(stats: list[str]) -> None:
    killed = python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)")
    assert sdi("run", *stats, "--", *killed).returncode == -signal.SIGTERM


@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_signals_reach_the_application(stats: list[str]) -> None:
    waits = "import signal; print('ready', flush=True); signal.sigwait({signal.SIGUSR1}); print('got it')"
    code = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}}); {waits}"
    with subprocess.Popen([*SDI, "run", *stats, "--", *python(code)], stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGUSR1)
        assert process.communicate(timeout=30)[0] == "got it\n"
    assert process.returncode == 0


@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_signals_are_as_usual_in_the_application(stats: list[str]) -> None:
    show = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]
    plain = subprocess.run(show, capture_output=True, text=True, check=True)
    assert signals(sdi("run", *stats, "--", *show).stdout) == signals(plain.stdout)


def signals(status: str) -> list[int]:
    """Blocked and ignored signals as bits, without 32 and 33, which belong to the C library."""
    return [int(line.split()[1], 16) & ~(0b11 << 31) for line in status.splitlines()]


@pytest.mark.parametrize("how", [["run", "--stats"], ["profile"]])
def test_no_other_thread_can_take_the_signal_that_the_application_has_ended(how: list[str]) -> None:
    done = sdi(*how, "--", "sh", "-c", "ls /proc/$PPID/task")
    assert done.returncode == 0 and len(done.stdout.split()) == 1, done.stderr


def test_the_end_of_the_application_is_seen_also_if_somebody_s_thread_was_given_the_signal() -> None:
    taken = (
        "import sys, threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "import signal, os; from sdi.cli import run\n"
        "def late(wait):\n"
        "    def waited(*how):\n"
        "        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)\n"
        "        while signal.SIGCHLD in signal.sigpending():  # until the other thread has dropped it\n"
        "            os.sched_yield()\n"
        "        return wait(*how)\n"
        "    return waited\n"
        "run.next_signal = late(run.next_signal)\n"
        "print(run.run_and_wait(['true'], dict(os.environ)))"
    )
    done = subprocess.run(python(taken), capture_output=True, text=True, timeout=30, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")


@pytest.mark.parametrize("stats", [[], ["--stats"]])
def test_a_missing_program_is_said_in_one_line(stats: list[str]) -> None:
    done = sdi("run", *stats, "--", "./no-such-program")
    assert (done.returncode, done.stderr) == (127, "sdi run: ./no-such-program: no such program\n")


def test_a_malformed_setting_is_said_in_one_line() -> None:
    done = sdi("run", "-n", "none", "--", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sdi: SDI_NUM_GPUS='none': expected a whole number from 1 to 256\n"


@pytest.mark.parametrize(
    ("path", "why"),
    [("/proc/nowhere/x", "No such file or directory"), ("/dev/null", "it is there and is no regular file")],
)
def test_counters_that_cannot_be_kept_are_said_before_the_application_runs(path: str, why: str) -> None:
    done = sdi("run", "--stats", "--", *python("print('ran')"), SDI_STATS=path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"sdi: SDI_STATS={path!r}: {why}\n")


def test_no_application_is_said_in_one_line() -> None:
    done = sdi("run", "-n", "2")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)


def test_stats_waits_for_services_that_outlive_the_application(tmp_path: Path) -> None:
    written, keep = tmp_path / "written.json", tmp_path / "keep.json"
    written.write_text(json.dumps(WRITTEN))
    service = tmp_path / "service.py"
    service.write_text(
        "import os, pathlib, shutil, sys\n"
        "sys.stdin.read()  # until the application has ended\n"
        f"shutil.copy({str(written)!r}, os.environ['SDI_STATS'].replace('%p', str(os.getpid())))\n"
    )
    start = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, {str(service)!r}, 'sdi.service.main'], stdin=subprocess.PIPE,"
        " start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print('done')\n"
    )
    done = sdi("run", "--stats", "--", *python(start), SDI_STATS=str(keep))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "step          10      0  2        40 40" in done.stderr
    assert json.loads(keep.read_text()) == WRITTEN


def test_stats_says_when_the_image_was_not_used() -> None:
    assert sdi("run", "--stats", "--", "true").stderr == "sdi: the application did not use the image\n"


def test_env_prints_what_a_shell_can_read() -> None:
    done = sdi("env", "-n", "3")
    shown = subprocess.run(
        ["sh", "-c", 'eval "$1"; echo "$SDI_NUM_GPUS $OCL_ICD_VENDORS"', "sh", done.stdout],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == f"3 {sdi('env', '--vendors').stdout}"


def test_env_says_where_the_header_of_the_extension_is() -> None:
    assert (Path(sdi("env", "--include").stdout.strip()) / "CL" / "cl_sdi.h").is_file()


def test_vendors_fall_back_to_the_users_cache(library: Path, tmp_path: Path) -> None:
    (library.parent / "vendors").write_text("in the way: not a folder")
    done = sdi("env", "--vendors", XDG_CACHE_HOME=str(tmp_path / "cache"))
    folder = Path(done.stdout.strip())
    assert folder.parent == tmp_path / "cache" / "sdi"
    assert (folder / "sdi.icd").read_text() == f"{library}\n"


def test_a_missing_library_is_said_in_one_line(library: Path) -> None:
    library.unlink()
    done = sdi("env")
    assert done.returncode == 2
    assert done.stderr.startswith(f"sdi: {library} is missing") and len(done.stderr.splitlines()) == 1
