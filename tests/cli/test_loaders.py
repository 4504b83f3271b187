"""Real loaders find the image under ``sdi run``; where none did, it says which was used and what to set."""

import ctypes.util
import os
import shlex
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest

from sdi.cli.loaders import ASKED, SHOWN, LoaderWatch, drivers_named_in
from sdi.locate import library
from sdi.service.progress import UNDER_RUN

SDI = [sys.executable, "-m", "sdi.cli"]
ROOT = Path(__file__).resolve().parents[2]
UNUSED = "sdi: the application did not use the image"
PACKAGES = Path(sysconfig.get_path("platlib"))
LOADERS = {
    "Debian's": ctypes.util.find_library("OpenCL"),
    "pyopencl's": "pyopencl/.libs/libOpenCL*.so*",
    "CUDA's": "nvidia/*/lib/libOpenCL.so*",
    "Khronos'": "pyclesperanto_opencl.libs/libOpenCL*.so*",
}
PLATFORMS = """
    import ctypes, sys, time
    cl = ctypes.CDLL({loader!r})
    def platforms():
        number = ctypes.c_uint()
        if cl.clGetPlatformIDs(0, None, ctypes.byref(number)):
            return []
        found = (ctypes.c_void_p * number.value)()
        cl.clGetPlatformIDs(number, found, None)
        return [*found]
    def text(platform, what=0x0902):
        said = ctypes.create_string_buffer(256)
        cl.clGetPlatformInfo(ctypes.c_void_p(platform), what, 256, said, None)
        return said.value.decode()
    def devices(platform, every=0xFFFFFFFF):
        number = ctypes.c_uint()
        cl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_ulong(every), 0, None, ctypes.byref(number))
        return number.value
"""


def loader(title: str) -> str:
    """The file, or the name by which programs load it."""
    given = LOADERS[title]
    found = [given] if given and "/" not in given else [*map(str, PACKAGES.glob(given or "none"))]
    if not found:
        pytest.skip(f"{title} loader is not installed")
    return found[0]


def python(code: str, **values: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(PLATFORMS + code).format(**values)]


def sdi(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SDI, *arguments],
        env={**os.environ, "SDI_NUM_GPUS": "2", "PYOPENCL_HOME": str(PACKAGES / "pyopencl"), **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Why the image was not used, of an application that succeeded."""
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(UNUSED) and done.stderr.endswith("\n"), done.stderr
    return done.stderr.removeprefix(UNUSED).strip()


@pytest.mark.parametrize("title", LOADERS)
def test_every_loader_finds_the_image_and_nothing_else(title: str) -> None:
    show = "    print([(text(each), devices(each)) for each in platforms()])"
    done = sdi("run", "--", *python(show, loader=loader(title)))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[('SDI', 1)]\n", "")


@pytest.mark.parametrize("title", LOADERS)
def test_a_program_that_wants_another_platform_is_told_by_which_loader_it_saw_the_image(title: str) -> None:
    wants = "    print([text(each) for each in platforms() if text(each) == 'NVIDIA CUDA']); time.sleep(0.3)"
    path = loader(title)
    found = said(sdi("run", "--", *python(wants, loader=path)))
    assert Path(path).name in found and "was shown the platform SDI" in found
    assert "asked it for no device" in found and "SDI_PLATFORM_VENDOR" in found


def test_asking_for_the_platforms_vendor_only_is_no_use_of_the_image() -> None:
    wants = "    print([text(each, 0x0903) for each in platforms()]); time.sleep(0.3)"
    assert "asked it for no device" in said(sdi("run", "--", *python(wants, loader=loader("Debian's"))))


def test_a_program_that_ends_too_soon_to_be_looked_at_is_told_all_the_same() -> None:
    watch = LoaderWatch(library())
    try:
        Path(watch.environ()[UNDER_RUN]).write_bytes(SHOWN)
        assert "was shown the platform SDI" in watch.verdict()
        Path(watch.environ()[UNDER_RUN]).write_bytes(SHOWN + ASKED)
        assert watch.verdict() == ""
    finally:
        watch.close()


def test_a_loader_that_is_asked_for_nothing_is_named() -> None:
    found = said(sdi("run", "--", *python("    time.sleep(0.3)", loader=loader("Debian's"))))
    assert "libOpenCL.so" in found and "asked it for no platforms" in found


def test_variables_that_do_not_reach_the_program_are_named() -> None:
    code = "    print([text(each) for each in platforms()]); time.sleep(0.3)"
    stripped = ["env", "-u", "OCL_ICD_VENDORS", "-u", "OCL_ICD_FILENAMES"]
    found = said(sdi("run", "--", *stripped, *python(code, loader=loader("Debian's"))))
    assert "libOpenCL.so" in found and "'sdi env'" in found


def test_a_loader_that_follows_no_variable_gets_the_file_for_the_systems_folder(tmp_path: Path) -> None:
    deaf = tmp_path / "libOpenCL.so.1"
    source = tmp_path / "deaf.c"
    source.write_text("int clGetPlatformIDs(unsigned n, void *all, unsigned *found) { return -1001; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(deaf), str(source)], check=True)
    found = said(sdi("run", "--", *python("    platforms(); time.sleep(0.3)", loader=str(deaf))))
    assert str(deaf) in found and "OCL_ICD_VENDORS" in found and "/etc/OpenCL/vendors/sdi.icd" in found
    assert str(library()) in found


def test_a_program_that_loads_the_driver_itself_is_told_which(tmp_path: Path) -> None:
    source = tmp_path / "driver.c"
    source.write_text("int none;")
    for name in ("libnvidia-opencl.so.1", "libmine.so.2.1"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / name), str(source)], check=True)
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    (vendors / "mine.icd").write_text("libmine.so.2\n")
    assert drivers_named_in(vendors) == {"libmine"}
    for name in ("libnvidia-opencl.so.1", "libmine.so.2.1"):
        code = f"import ctypes, time; ctypes.CDLL({str(tmp_path / name)!r}); time.sleep(0.3)"
        environ = {"SDI_MEMBER_VENDORS": str(vendors)}
        found = said(sdi("run", "--", sys.executable, "-c", code, **environ))
        assert str(tmp_path / name) in found and "itself" in found and "libOpenCL.so.1" in found


@pytest.mark.parametrize("how", [[], ["--stats"], ["--explain"]])
def test_children_of_the_application_count_as_it_does(how: list[str]) -> None:
    use = "    print([devices(each) for each in platforms()])"
    program = shlex.join(python(use, loader=loader("Debian's")))
    quiet = sdi("run", *how, "--", "sh", "-c", f"true; {program}; true")
    assert quiet.stdout == "[1]\n" and UNUSED not in quiet.stderr
    driver = f"{sys.executable} -c 'import ctypes, time; ctypes.CDLL(\"libpocl.so.2\"); time.sleep(0.3)'"
    assert "libpocl" in said(sdi("run", *how, "--", "sh", "-c", f"true; {driver}; true"))


@pytest.mark.parametrize("how", [[], ["--stats"]])
def test_a_program_without_opencl_gets_one_plain_line(how: list[str]) -> None:
    assert sdi("run", *how, "--", "true").stderr == f"{UNUSED}\n"


def test_the_application_ends_when_the_program_that_watches_it_is_killed() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([*SDI, "run", "--", sys.executable, "-c", code], stdout=-1, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        descriptor = os.pidfd_open(child)
        process.kill()
        assert process.stdout.read() == ""  # until the application, which had it too, has ended
        os.close(descriptor)


def test_descriptors_that_are_handed_on_stay_open() -> None:
    read, write = os.pipe()
    try:
        done = subprocess.run(
            [*SDI, "run", "--", "sh", "-c", f"echo there >/dev/fd/{write}"],
            pass_fds=[write],
            timeout=30,
            check=True,
            capture_output=True,
        )
        assert done.returncode == 0 and os.read(read, 100) == b"there\n"
    finally:
        os.close(read)
        os.close(write)
