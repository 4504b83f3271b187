"""``sdi doctor``: is everything there, and does it work together?

Each check prints one line: ok, note (works, but you should know) or FAIL with what to do.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from sdi import cache
from sdi import settings as settings_module
from sdi.cli.hosts import find_mpiexec
from sdi.cli.progress import doing
from sdi.cluster import start
from sdi.dataclass import dataclass
from sdi.locate import NotInstalled, image_environ, library, service_python
from sdi.player import load as player
from sdi.settings import NAMES, Settings, SettingsError
from sdi.sizes import size
from sdi.vmem.spill.budget import spill_of
from sdi.vmem.spill.file import SpillFile

EXPORTS = ("clGetExtensionFunctionAddress", "clIcdGetPlatformIDsKHR", "clGetPlatformInfo")
SLOW_START_S = 2.0
PATIENCE_S = 60.0
_REINSTALL = "install sdi again: pip install --force-reinstall --no-deps, or make in its sources"
_NO_SVM = (
    "members that are neither all CPUs of this machine nor all CUDA GPUs of it that reach each other, "
    "or no address that service and applications both have free"
)
_DRIVER_HINT = "install a driver, for CPUs: apt-get install pocl-opencl-icd"


State = Literal["ok", "note", "FAIL"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``fix``: what to do about a FAIL or note."""

    state: State
    what: str
    text: str
    fix: str = ""

    def __str__(self) -> str:
        first = f"{self.state:<5} {self.what:<9} {self.text}"
        return f"{first}\n{'':<16}fix: {self.fix}" if self.fix else first


def examine(changes: Mapping[str, str]) -> int:
    """Print all findings; 1 when something is broken."""
    environ = {**os.environ, **changes}
    place = start.place(environ)
    if place is not None and place.rank:  # rank 0 says what is on its machine; this one takes part
        found = _world(place)
        if found.state == "FAIL":
            print(f"rank {place.rank}: {found}", flush=True)
        return 1 if found.state == "FAIL" else 0
    broken = 0
    findings = _findings(environ)
    while True:
        with doing("sdi doctor: looking"):
            finding = next(findings, None)
        if finding is None:
            break
        print(finding, flush=True)
        broken += finding.state == "FAIL"
    print("everything works" if not broken else f"{broken} problem{'s' * (broken > 1)} found")
    return 1 if broken else 0


def _findings(environ: Mapping[str, str]) -> Iterator[Finding]:
    sound = True
    place, environ = start.place(environ), start.alone(environ)
    for check in (_settings, _library, _python, _cache, _files, _drivers, _cuda, partial(_mpi, place=place)):
        for finding in check(environ):
            sound = sound and finding.state != "FAIL"
            yield finding
    if sound:
        yield from _copies(environ)
        yield from _loaders(environ)
    else:
        yield Finding("note", "image", "not tried: the problems above come first")


def _cache(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The service runs with the same user, home and XDG_CACHE_HOME."""
    try:
        where = os.path.dirname(cache.folder("programs"))
        has_learnt = environ.get("SDI_LEARNT", "").lower() != "off"
        yield Finding("ok", "cache", where + ", with what launches taught in learnt/" * has_learnt)
    except cache.NoCache as error:
        text = f"nothing is kept from run to run, every start compiles anew: {error}"
        yield Finding("note", "cache", text, "give XDG_CACHE_HOME a folder that only this user may write to")


def _files(environ: Mapping[str, str]) -> Iterator[Finding]:
    """What SDI_SPILL says."""
    try:
        settings = Settings.from_environ(environ)
    except SettingsError:
        return
    if settings.spill is None:
        return
    folder, limit_nbytes = settings.spill
    try:
        spill = spill_of(folder, limit_nbytes, settings.host_memory, 0)
        file = SpillFile(folder, spill.limit_nbytes)
        try:
            file.extend(1 << 20)
        finally:
            file.close()
        found = os.statvfs(folder)
    except OSError as error:
        text = f"SDI_SPILL={folder}: {error.strerror or error}"
        yield Finding("FAIL", "files", text, "name a folder on a local disk (ext4, XFS) that is yours")
        return
    free_nbytes = found.f_bavail * found.f_frsize
    text = f"{folder}: up to {size(spill.limit_nbytes)}, {size(free_nbytes)} are free there"
    if file.is_in_memory:
        yield Finding("note", "files", f"{text}, but it is in memory itself", "name a folder on a disk")
    elif spill.limit_nbytes > free_nbytes:
        yield Finding("note", "files", f"{text}: less than the limit")
    else:
        yield Finding("ok", "files", text)


def _settings(environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        Settings.from_environ(environ)
    except SettingsError as error:
        yield Finding("FAIL", "settings", str(error), "change or unset this variable")
        return
    given = [f"{name}={environ[name]}" for name in NAMES if environ.get(name)]
    yield Finding("ok", "settings", " ".join(given) or "none, all defaults")
    for text in settings_module.without_effect(environ):
        yield Finding("note", "settings", text)


def _library(_environ: Mapping[str, str]) -> Iterator[Finding]:
    try:
        path = library()
    except NotInstalled as error:
        yield Finding("FAIL", "library", str(error), _REINSTALL)
        return
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        yield Finding("FAIL", "library", f"{path} can't be loaded: {error}", _REINSTALL)
        return
    missing = [name for name in EXPORTS if not hasattr(loaded, name)]
    if missing:
        yield Finding("FAIL", "library", f"{path} lacks {', '.join(missing)}", _REINSTALL)
    else:
        yield Finding("ok", "library", str(path))
    yield _player()


def _player() -> Finding:
    """Without it all works."""
    try:
        library, _ = player.loaded()
    except player.NoPlayer as error:
        return Finding("note", "player", str(error), _REINSTALL)
    return Finding("ok", "player", library._name)


def _python(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The Python that the library starts must find this sdi."""
    effective = {**environ, **_image_environ(environ)}
    python = service_python(effective)
    if python is None:
        yield Finding("FAIL", "service", "no Python to start", f"export SDI_PYTHON={sys.executable}")
        return
    code = "import sdi.service.main, sdi; print(sdi.__file__)"
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("FAIL", "service", f"{python}: {error}", f"export SDI_PYTHON={sys.executable}")
        return
    if done.returncode:
        yield Finding(
            "FAIL", "service", f"{python}: {_last_line(done.stderr)}", f"export SDI_PYTHON={sys.executable}"
        )
        return
    yield Finding("ok", "service", f"{python}, sdi in {Path(done.stdout.strip()).parent}")
    if "SDI_PYTHON" not in environ and "SDI_PYTHON" in effective:
        yield Finding(
            "note", "service", f"without sdi run or sdi env, set SDI_PYTHON={effective['SDI_PYTHON']}"
        )


def _drivers(environ: Mapping[str, str]) -> Iterator[Finding]:
    """In a process of its own: drivers have been seen to crash."""
    try:
        done = _run("-m", "sdi.cli", "devices", environ=environ)
    except subprocess.TimeoutExpired:
        yield Finding(
            "FAIL", "members", f"drivers do not answer within {PATIENCE_S:.0f} s", "see sdi devices"
        )
        return
    if done.returncode == 2:
        yield Finding("note", "members", "not looked for: the settings come first")
    elif done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("sdi devices:")]
        line = said[0] if said else f"a driver failed, status {done.returncode}: {_last_line(done.stderr)}"
        hint = "see sdi devices" if "SDI_DEVICES" in line or "SDI_NUM_GPUS" in line else _DRIVER_HINT
        yield Finding("FAIL", "members", line, hint)
    else:
        for line in done.stdout.partition("\n\n")[0].splitlines()[1:]:
            yield Finding("ok", "members", " ".join(line.split()))


def _cuda(_environ: Mapping[str, str]) -> Iterator[Finding]:
    """What CUDA members need, where there is an NVIDIA driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return  # no NVIDIA GPU: nothing to say
    number, count = ctypes.c_int(), ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDriverGetVersion(ctypes.byref(number))
    status = status or driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        text = f"the driver's library answers {status}: no GPU can be used"
        yield Finding(
            "note", "cuda", text, "nvidia-smi says more; is the driver loaded, is it another version?"
        )
        return
    major, minor = divmod(number.value, 1000)
    yield Finding("ok", "cuda", f"driver for CUDA {major}.{minor // 10}, GPUs: {count.value}")
    from sdi.devices.cuda import driver as cuda_driver
    from sdi.devices.cuda import nvrtc

    missing = cuda_driver.why_missing()
    if missing is not None:
        text = f"pycuda can't be used, GPUs become members through OpenCL: {missing}"
        yield Finding("note", "cuda", text, "pip install 'sdi[cuda]'")
    try:
        compiler = "{}.{}".format(*nvrtc.version())
    except nvrtc.NvrtcMissing as error:
        yield Finding(
            "note",
            "cuda",
            f"no NVRTC, GPUs become members through OpenCL: {error}",
            "pip install 'sdi[cuda]'",
        )
    else:
        yield Finding("ok", "cuda", f"NVRTC {compiler}")


def _mpi(environ: Mapping[str, str], place: start.RankPlace | None = None) -> Iterator[Finding]:
    """What jobs on several machines need; ``place``: this process' in one, if it is in one."""
    fix = "pip install 'sdi[mpi]'"
    missing: State = "note" if place is None else "FAIL"
    if find_spec("mpi4py") is None:
        yield Finding(missing, "mpi", "no mpi4py: only this machine's devices can be members", fix)
        return
    script = (
        "import mpi4py; mpi4py.rc.initialize = False\n"
        "from mpi4py import MPI; print(MPI.Get_library_version())"
    )
    done = _run("-I", "-c", script, environ=environ)
    if done.returncode:
        yield Finding(missing, "mpi", f"mpi4py finds no MPI: {_last_line(done.stderr)}", fix)
        return
    library = done.stdout.split(",")[0].split("\n")[0].strip()
    mpiexec = find_mpiexec(environ)
    if mpiexec is None:
        yield Finding("note", "mpi", f"{library}, and no mpiexec that starts jobs", fix)
        return
    yield Finding("ok", "mpi", f"{library}; jobs are started by {mpiexec}")
    if place is not None:
        yield _world(place)


def _world(place: start.RankPlace) -> Finding:
    """Whether the ranks of this process' job see each other, and have the same version.  Waits for all."""
    from sdi.cluster.mpi import MpiTransport, MpiUnavailable

    try:
        transport = MpiTransport(place.size)
    except MpiUnavailable as error:
        fix = "start the job with the mpiexec of the MPI that mpi4py uses, and the same sdi everywhere"
        return Finding("FAIL", "mpi", str(error), fix)
    transport.close()
    deaf = [f"; rank {rank}, idle, looks for messages: {why}" for rank, why in transport.deaf.items()]
    return Finding("note" if deaf else "ok", "mpi", f"{place.size} ranks see each other{''.join(deaf)}")


def _copies(environ: Mapping[str, str]) -> Iterator[Finding]:
    """A checked copy each way between host and members, and between all pairs of members."""
    try:
        done = _run("-I", "-m", "sdi.cli.copies", environ=environ)
        found = json.loads(done.stdout)["copies"]
    except subprocess.TimeoutExpired:
        yield Finding("FAIL", "copies", f"not done within {PATIENCE_S:.0f} s", "see sdi devices --measure")
        return
    except (ValueError, KeyError):
        said = f"status {done.returncode}: {_last_line(done.stderr or done.stdout)}"
        yield Finding("FAIL", "copies", said, "see sdi devices --measure")
        return
    failed = [copied for copied in found if copied["failure"]]
    for copied in failed:
        ends = ["the host" if end < 0 else f"member {end}" for end in (copied["source"], copied["target"])]
        text = f"from {ends[0]} to {ends[1]}: {copied['failure']}"
        yield Finding("FAIL", "copies", text, "leave one of them out with SDI_DEVICES")
    if not failed:
        pairs = sum(copied["source"] >= 0 and copied["target"] >= 0 for copied in found)
        between = f", and all {pairs} between members" if pairs else ""
        yield Finding("ok", "copies", f"between host and members arrive whole{between}")


def _loaders(environ: Mapping[str, str]) -> Iterator[Finding]:
    """The whole way, through each loader: find the image, start the service, build and run a kernel."""
    system, bundled = ctypes.util.find_library("OpenCL"), _bundled_loader()
    if system is None:
        text = "the system has no libOpenCL: programs in C find no platform"
        yield Finding("note", "loader", text, "apt-get install ocl-icd-libopencl1")
    if bundled is None:
        yield Finding("note", "loader", "this pyopencl brings no loader, it uses the system's")
    if system is None and bundled is None:
        yield Finding("FAIL", "loader", "there is no OpenCL loader", "apt-get install ocl-icd-libopencl1")
    for title, loader in (("system's", system), ("pyopencl's", bundled)):
        if loader is not None:
            yield _image(title, loader, environ)


def _image(title: str, loader: str, environ: Mapping[str, str]) -> Finding:
    what = f"{title} {Path(loader).name}"
    home = str(Path(loader).parent.parent)  # the loader in pyopencl's wheel wants to know; others do not look
    try:
        variables = {**environ, **_image_environ(environ), "PYOPENCL_HOME": home}
        done = _run("-I", "-m", "sdi.cli.probe", loader, environ=variables)
    except subprocess.TimeoutExpired:
        return Finding("FAIL", "image", f"{what}: no answer within {PATIENCE_S:.0f} s", "try SDI_LOG=debug")
    try:
        found = json.loads(done.stdout)
    except ValueError:
        text = f"{what}: the program ended with status {done.returncode}: {_last_line(done.stderr)}"
        return Finding("FAIL", "image", text, "try SDI_LOG=debug")
    if "error" in found:
        said = f" ({_last_line(done.stderr)})" if done.stderr.strip() else ""
        return Finding("FAIL", "image", f"{what}: {found['error']}{said}", "try SDI_LOG=debug")
    first, kernel = float(found["first_s"]), float(found["kernel_s"])
    text = f"{what}: {found['device']}; device after {first:.2f} s, kernel built and run in {kernel:.2f} s"
    if not found["svm"]:
        text += "; no shared virtual memory: " + _NO_SVM
    if first > SLOW_START_S:
        return Finding("note", "image", f"{text}: the service starts slowly")
    return Finding("ok", "image", text)


def _image_environ(environ: Mapping[str, str]) -> dict[str, str]:
    try:
        return image_environ(environ)
    except NotInstalled:
        return {}


def _bundled_loader() -> str | None:
    """The loader inside pyopencl's wheel."""
    spec = find_spec("pyopencl")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    found = sorted(package.glob(".libs/libOpenCL*.so*"))
    return str(found[0]) if found else None


def _run(*words: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Python in a process of its own.  Raises TimeoutExpired."""
    return subprocess.run(
        [sys.executable, *words],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
