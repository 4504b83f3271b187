"""The C client against a fake service, through the system's ICD loader; plain and under sanitizers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sdi.wire.generate import generate
from sdi.wire.records import PROTOCOL_VERSION
from tests.client import (
    test_client_copies,
    test_client_door,
    test_client_events,
    test_client_host_pointers,
    test_client_images,
    test_client_launches,
    test_client_links,
    test_client_memory,
    test_client_objects,
    test_client_recycling,
    test_client_session,
    test_client_several,
    test_client_sub_groups,
    test_client_svm,
    test_client_svm_commands,
    test_client_svm_fine,
    test_client_svm_lazy,
    test_client_wrong,
)
from tests.client.test_client_setting import environment, fake_python, library, run, run_program, vendors
from tests.image_runs import answers_faults

MODULES = (
    test_client_objects,
    test_client_memory,
    test_client_copies,
    test_client_recycling,
    test_client_host_pointers,
    test_client_images,
    test_client_door,
    test_client_launches,
    test_client_links,
    test_client_events,
    test_client_session,
    test_client_several,
    test_client_sub_groups,
    test_client_svm,
    test_client_svm_commands,
    test_client_svm_fine,
    test_client_svm_lazy,
    test_client_wrong,
)
CASES = [
    pytest.param(module.__name__.rpartition(".")[2], program.__name__, id=program.__name__)
    for module in MODULES
    for program in module.PROGRAMS
]

OTHER_VERSION = (
    f"sdi: the service speaks another version of the protocol than this library ({PROTOCOL_VERSION})\n"
)


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "sanitized"])
@pytest.mark.parametrize(("module", "name"), CASES)
def test_program(module: str, name: str, sanitize: bool, tmp_path: Path) -> None:
    if sanitize and name in test_client_session.NOT_SANITIZED | test_client_copies.NOT_SANITIZED:
        pytest.skip("the sanitizers' own locks do not survive a fork among busy threads")
    env = environment(tmp_path, sanitize)
    if sanitize:
        env["SDI_FAKE_RING"] = "yes"
    if name in test_client_images.WITHOUT_IMAGES:
        env["SDI_FAKE_IMAGES"] = "0"
    if name in test_client_memory.ON_GPUS | test_client_images.ON_GPUS:
        env["SDI_FAKE_TYPE"] = "4"
    if (
        module == test_client_sub_groups.__name__.rpartition(".")[2]
        and name not in test_client_sub_groups.WITHOUT
    ):
        env["SDI_FAKE_SUB_GROUPS"] = "sizes" if name in test_client_sub_groups.WITH_SIZES else "yes"
    if name in test_client_recycling.POISONED:
        env["SDI_FAKE_RECYCLING"] = "poisoned"
    if module.startswith("test_client_svm") and name not in test_client_svm.WITHOUT:
        env["SDI_FAKE_SVM"] = hex(test_client_svm.ADDRESS)
        env["SDI_FAKE_SVM_KINDS"] = "3" if name in test_client_svm.FINE else "1"
    errors = test_client_session.SAID.get(name, "")
    if module == test_client_svm_lazy.__name__.rpartition(".")[2]:
        if name not in test_client_svm_lazy.WITHOUT_FAULTS and not answers_faults():
            pytest.skip("this process may not answer its own page faults (userfaultfd)")
        allowed = Path("/proc/sys/vm/unprivileged_userfaultfd")
        if name in test_client_svm_lazy.REFUSED_IN and allowed.exists() and allowed.read_text() == "1\n":
            pytest.skip("every process may answer its own page faults here")
        update = {program.__name__: said for program, said in test_client_svm_lazy.UPDATES.items()}[name]
        env["SDI_FAKE_SVM_UPDATE"] = ",".join(map(str, update))
        errors += test_client_svm_lazy.REFUSED * (name in test_client_svm_lazy.REFUSED_IN)
    if module in ("test_client_svm_fine", "test_client_svm_lazy"):
        env["SDI_FAKE_SVM_KINDS"] = "3"
        env["SDI_FAKE_TYPE"] = "4"  # whose members have copies
    if module == "test_client_several":
        env["SDI_FAKE_DEVICES"] = str(test_client_several.DEVICES)
    run_program(module, name, env, errors)


# -- the service cannot start -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("refuse", "sdi: no device for you\n"),
        ("vanish", "sdi: the service ended before it was ready\n"),
        ("garbage", OTHER_VERSION),
        ("old", OTHER_VERSION),
    ],
)
def test_a_service_that_fails_to_start_is_explained_once(how: str, message: str, tmp_path: Path) -> None:
    env = environment(tmp_path) | {"SDI_FAKE_START": how}
    run_program("test_client_session", "a_service_that_cannot_start_is_no_device", env, message)


def test_a_python_that_does_not_exist_is_explained_once(tmp_path: Path) -> None:
    env = environment(tmp_path) | {"SDI_PYTHON": "/nowhere/python3"}
    message = "sdi: cannot start the service with /nowhere/python3: No such file or directory\n"
    run_program("test_client_session", "a_service_that_cannot_start_is_no_device", env, message)


@pytest.mark.parametrize("sanitize", [False, True], ids=["plain", "sanitized"])
def test_a_corrupt_reply_is_a_dead_service(sanitize: bool, tmp_path: Path) -> None:
    env = environment(tmp_path, sanitize) | {"SDI_FAKE_START": "corrupt"}
    run_program("test_client_session", "a_corrupt_reply_ends_the_session", env)


def test_the_service_does_not_find_itself(tmp_path: Path) -> None:
    env = environment(tmp_path) | {"SDI_IN_SERVICE": "1"}
    run_program("test_client_session", "the_service_itself_sees_no_platform", env)


@pytest.mark.parametrize("relative", [False, True], ids=["absolute", "relative"])
def test_python_is_found_above_the_path_by_which_the_library_was_loaded(
    relative: bool, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib" / "sdi").mkdir(parents=True)
    (prefix / "bin" / "python3").symlink_to(fake_python())
    link = prefix / "lib" / "sdi" / "libsdi_icd.so"
    link.symlink_to(library(False))
    folder = tmp_path / "vendors"
    folder.mkdir()
    named = os.path.relpath(link, Path(__file__).resolve().parents[2]) if relative else link
    (folder / "sdi.icd").write_text(f"{named}\n", encoding="utf-8")
    env = environment(tmp_path) | {"OCL_ICD_VENDORS": str(folder)}
    del env["SDI_PYTHON"]
    run_program("test_client_session", "the_service_is_no_child_of_the_application", env)


@pytest.mark.parametrize("foreign", ["folder", "file", "all"])
def test_a_python_that_others_can_put_there_is_passed_over(foreign: str, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    near = prefix / "lib" / "sdi"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python3").symlink_to(fake_python())
    (near / "bin").mkdir(parents=True)
    (near / "bin" / "python3").write_text("#!/bin/sh\nexit 1\n")
    (near / "bin" / "python3").chmod(0o755)
    if foreign == "all":
        (near / "bin").chmod(0o777)
    elif os.geteuid() != 0:
        pytest.skip("only root can give files to others")
    else:
        os.chown(near / "bin" if foreign == "folder" else near / "bin" / "python3", 4321, 4321)
    (near / "libsdi_icd.so").symlink_to(library(False))
    (prefix / "sdi.icd").write_text(f"{near / 'libsdi_icd.so'}\n", encoding="utf-8")
    env = environment(tmp_path) | {"OCL_ICD_VENDORS": str(prefix)}
    del env["SDI_PYTHON"]
    run_program("test_client_session", "the_service_is_no_child_of_the_application", env)


# -- other programs -----------------------------------------------------------------------------------


def test_the_library_exports_five_functions_and_needs_only_libc() -> None:
    listed = run(["nm", "-D", "--defined-only", str(library(False))], dict(os.environ)).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    loaders = {"clGetExtensionFunctionAddress", "clIcdGetPlatformIDsKHR", "clGetPlatformInfo"}
    assert names == loaders | {"sdi_watch_client", "sdi_tell_signals"}
    dynamic = run(["readelf", "-d", str(library(False))], dict(os.environ)).stdout
    assert [line.split("[")[1] for line in dynamic.splitlines() if "NEEDED" in line] == ["libc.so.6]"]
    assert "NODELETE" in dynamic and "SYMBOLIC" in dynamic


def test_generated_files_are_the_same_every_time(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        generate(tmp_path / folder)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_client_compiles_without_the_package_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c"]
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); from sdi.wire import generate as g"
    code += f"; g.main([{str(tmp_path)!r}])"
    run([*command, code], dict(os.environ))
    assert (tmp_path / "libsdi_icd.so").exists()


def facts_of_a_real_device(folder: Path) -> dict[str, str]:
    """What the system's own driver says about its device; skips where there is none."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SDI_", "OCL_ICD_"))}
    command = [
        sys.executable,
        "-m",
        "tests.client.test_client_binding",
        "tests.client.test_client_facts",
        "print_facts",
    ]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, cwd=Path(__file__).resolve().parents[2]
    )
    if done.returncode:
        pytest.skip(f"no OpenCL driver: {done.stderr.splitlines()[-1:]}")
    (folder / "facts.json").write_text(done.stdout, encoding="utf-8")
    return {"SDI_FAKE_FACTS": str(folder / "facts.json")}


def test_clinfo_lists_everything_it_asks_for(tmp_path: Path) -> None:
    if not shutil.which("clinfo"):
        pytest.skip("no clinfo")
    env = environment(tmp_path) | facts_of_a_real_device(tmp_path)
    text = run(["clinfo"], env).stdout
    facts = json.loads((tmp_path / "facts.json").read_text())
    name = bytes.fromhex(facts[str(0x102B)]).rstrip(b"\0").decode()
    assert "Platform Name                                   SDI" in text and name in text
    assert "NULL platform behavior" in text
    for line in text.splitlines():
        assert "Error" not in line or "Error Correction" in line or "Error for events" in line, line


PYOPENCL = """
import numpy, pyopencl
[platform] = [p for p in pyopencl.get_platforms() if p.name == "SDI"]
context = pyopencl.Context(platform.get_devices())
queue = pyopencl.CommandQueue(context)
data = numpy.arange(256, dtype=numpy.int32)
buffer = pyopencl.Buffer(context, pyopencl.mem_flags.COPY_HOST_PTR, hostbuf=data)
kernel = pyopencl.Program(context, "__kernel void add(global int *data, int term) {} // quiet").build().add
kernel(queue, (256,), None, buffer, numpy.int32(5))
result = numpy.empty_like(data)
pyopencl.enqueue_copy(queue, result, buffer)
assert (result == data + 5).all()
with pyopencl.enqueue_map_buffer(queue, buffer, pyopencl.map_flags.READ, 0, 256, numpy.int32)[0].base:
    pass
"""


def test_pyopencl_works_with_the_loader_that_it_brings(tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    env = environment(tmp_path) | facts_of_a_real_device(tmp_path) | {"PYOPENCL_NO_CACHE": "1"}
    run([sys.executable, "-c", PYOPENCL], env)


def test_programs_in_c_use_it_from_eight_threads(tmp_path: Path) -> None:
    source = Path(__file__).with_name("test_client_threads.c")
    for sanitize in (False, True):
        target = tmp_path / f"threads-{sanitize}"
        flags = ["-fsanitize=address,undefined"] if sanitize else []
        command = [
            "cc",
            "-std=c11",
            "-O1",
            "-g",
            "-pthread",
            *flags,
            str(source),
            "-o",
            str(target),
            "-lOpenCL",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no OpenCL headers or library: {done.stderr}")
        env = environment(tmp_path) | {
            "OCL_ICD_VENDORS": str(vendors(sanitize)),
            "ASAN_OPTIONS": "detect_leaks=0",
        }
        run([str(target)], env)
