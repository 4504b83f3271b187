"""SDI_VERIFY catches a split that gives other bytes, names them, and leaves right programs alone."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from sdi.clc.model import Argument, ArgumentKind, KernelModel
from sdi.launch.arguments import BufferArgument
from sdi.launch.verify.difference import Difference, Mismatch, first_difference, locate_argument
from sdi.ndrange import GroupBox
from sdi.vmem.directory import HOST, Directory, member_memory
from sdi.vmem.memory import VirtualBuffer
from tests.image_runs import ROOT, Run, image_environ, run

PROGRAM = [sys.executable, ROOT / "tests" / "launch" / "verify" / "verified_program.py"]


@pytest.fixture
def wrong_service(tmp_path: Path) -> str:
    """SDI_PYTHON for a service whose access maps are wrong."""
    script = tmp_path / "python3"
    wrong = ROOT / "tests" / "launch" / "verify" / "wrong_service.py"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{wrong}" "$@"\n')
    script.chmod(0o755)
    return str(script)


def verified(how: str, *arguments: str, **settings: str) -> Run:
    environ = image_environ(3, SDI_SPLIT="always", SDI_VERIFY=how, **settings)
    done = run([*PROGRAM, *arguments], environ, 60.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    return done


def answers(done: Run) -> dict[str, str]:
    pairs = (tuple(line.split(" ", 1)) for line in done.stdout.splitlines() if not line.startswith("printed"))
    return dict(pairs)


def test_a_wrong_split_is_named_and_fails_the_launch_and_all_later_calls(wrong_service: str) -> None:
    done = verified("1", SDI_PYTHON=wrong_service)
    failed = "OUT_OF_RESOURCES"
    assert answers(done) == {
        "read": failed, "wait": failed, "finish": failed, "create": failed, "right": "False"
    }  # fmt: skip
    # Of the 64 groups, member 0 runs 21 and says it writes the bytes up to 21 * 256 / 2.
    assert (
        "sdi: ERROR: kernel 'twice' split over 3 members leaves other bytes than whole on one:\n"
        "  argument 'out' (float*), byte 2688 (element 672): 0.0 (0x00000000) split, "
        "1344.0 (0x44a80000) whole; "
    ) in done.stderr
    assert "  work-group (10, 0, 0) writes it, which member 0 ran in (0, 0, 0) to (21, 1, 1)\n" in done.stderr


def test_warn_goes_on_with_the_bytes_of_the_whole_run(wrong_service: str) -> None:
    done = verified("warn", SDI_PYTHON=wrong_service)
    right = "SUCCESS"
    assert answers(done) == {
        "read": right, "wait": right, "finish": right, "create": right, "right": "True"
    }  # fmt: skip
    assert done.stderr.count("sdi: ERROR: kernel 'twice' split over 3 members") == 1


def test_each_of_the_launches_in_flight_is_searched_for_the_group_that_differs(wrong_service: str) -> None:
    """Those behind it don't hold the search up: here they are wider, which PoCL runs alone."""
    done = verified("warn", "4", SDI_PYTHON=wrong_service)
    assert answers(done)["right"] == "True"
    assert done.stderr.count("sdi: ERROR: kernel 'twice' split over 3 members") == 4
    assert done.stderr.count(" writes it, which member ") == 4


def test_without_verification_the_wrong_split_would_give_wrong_bytes(wrong_service: str) -> None:
    assert answers(verified("0", SDI_PYTHON=wrong_service))["right"] == "False"


def test_a_right_split_passes_and_prints_once(tmp_path: Path) -> None:
    done = verified("1", SDI_STATS=str(tmp_path / "stats.json"))
    assert answers(done)["right"] == "True"
    assert done.stdout.count("printed by item 5") == 1
    assert done.stderr == ""
    kernel = json.loads((tmp_path / "stats.json").read_text())["kernels"]["twice"]
    assert (kernel["launches_split"], kernel["launches_verified"]) == (1, 1)


CHAINED = """
import sys
import numpy as np
import pyopencl as cl
from tests.programs._svm import from_svm, reaches, to_svm
context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
chain = cl.Program(context, '''
    typedef struct node { global struct node *next; int order; } node;
    kernel void chain(global node *first)
    {
        global int *order = &first->next->order;
        *order = *order * 7 + get_group_id(1) * 3 + get_group_id(0) + 1;
    }
''').build().chain
node = np.dtype([("next", np.uint64), ("order", np.int32)], align=True)
second = to_svm(context, queue, np.zeros(1, node))
first = to_svm(context, queue, np.array([(second.svm_ptr, 0)], node))
chain.set_args(first)
reaches(chain, [second])
try:
    cl.enqueue_nd_range_kernel(queue, chain, (3, 2), (1, 1)).wait()
    print(from_svm(queue, second, np.zeros(1, node))["order"][0])
except cl.Error as error:
    print(cl.status_code.to_string(error.code))
"""


@pytest.mark.parametrize("how", ["0", "warn", "1"])
def test_a_node_of_a_list_to_which_groups_of_several_members_store_is_named(how: str) -> None:
    """Each group appends a digit.  The driver has one thread and runs row by row; members have columns."""
    environ = image_environ(
        3, SDI_SPLIT="always", SDI_VERIFY=how, SDI_DEVICES="cpu", POCL_MAX_PTHREAD_COUNT="1"
    )
    done = run([sys.executable, "-c", CHAINED], environ, 60.0)
    assert done.returncode == 0 and not done.remained, done.describe()
    whole, failed = str(int("123456", 7)), "EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"
    if how == "0":
        assert done.stdout.strip() not in ("", whole) and done.stderr == ""
        return
    assert done.stdout.strip() == (whole if how == "warn" else failed)
    said = "sdi: ERROR: kernel 'chain' split over 3 members leaves other bytes than whole on one:\n"
    assert f"{said}  argument '...' (16 bytes reached by pointers), byte 8: " in done.stderr
    assert "  work-group (0, 0, 0) writes it, which member 0 ran in (0, 0, 0) to (1, 2, 1)\n" in done.stderr
    assert "service" not in done.stderr, "that it ends is what was asked for"


def test_the_first_of_all_differences_is_found_across_chunks() -> None:
    a = np.zeros((3 << 20) + 5, np.uint8)
    b = a.copy()
    assert first_difference(a, b) is None
    b[-1] = b[(2 << 20) + 7] = b[(1 << 20) + 1] = 1
    assert first_difference(a, b) == Mismatch((1 << 20) + 1, 3)


def pointer(name: str, type_name: str, writes: bool = True) -> Argument:
    return Argument(name, type_name, ArgumentKind.GLOBAL, 8, 0, 0, 0, True, writes, False, 4, 4)


def model(*arguments: Argument) -> KernelModel:
    return KernelModel("step", arguments, None, "", "", 1)


def buffer(nbytes: int) -> VirtualBuffer:
    return VirtualBuffer(7, nbytes, 0, Directory(nbytes), [], [])


def test_a_difference_is_counted_to_the_written_argument_that_starts_last_before_it() -> None:
    step = model(pointer("all", "float*"), pointer("low", "float*"), pointer("given", "float*", False))
    values = (BufferArgument(7, 0), BufferArgument(7, 64), BufferArgument(7, 96))
    assert locate_argument(step, values, 7, 63) == (0, 0)
    assert locate_argument(step, values, 7, 200) == (1, 64)


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("int*", "byte 4 (element 1): 1 (0x00000001) split, -1 (0xffffffff) whole"),
        ("ushort*", "byte 4 (element 2): 1 (0x0001) split, 65535 (0xffff) whole"),
        ("uchar4*", "byte 4 (element 1): 1 (0x01) split, 255 (0xff) whole"),
        ("struct cell*", "byte 4: 0x00000001 split, 0xffffffff whole"),
    ],
)
def test_values_are_shown_as_the_elements_that_the_argument_points_to(type_name: str, text: str) -> None:
    split = np.array([0, 0, 0, 0, 9, 9, 1, 0, 0, 0], np.uint8)
    whole = np.array([0, 0, 0, 0, 9, 9, 255, 255, 255, 255], np.uint8)
    found = Difference.of(model(pointer("out", type_name)), (0, 2), buffer(10), Mismatch(6, 4), split, whole)
    found.member, found.member_box, found.group = 1, GroupBox((4, 0, 0), (8, 1, 1)), (5, 0, 0)
    assert found.describe("step", 2).splitlines() == [
        "kernel 'step' split over 2 members leaves other bytes than whole on one:",
        f"  argument 'out' ({type_name}), {text}; 4 bytes differ in all",
        "  work-group (5, 0, 0) writes it, which member 1 ran in (4, 0, 0) to (8, 1, 1)",
    ]


def test_undefined_bytes_become_defined_on_the_host_and_others_stay_where_they_are() -> None:
    from sdi.intervals import ByteRange

    directory = Directory(100)
    directory.wrote(member_memory(1), ByteRange(0, 10))
    directory.read(member_memory(0), ByteRange(0, 100))
    directory.define()
    assert directory.is_current(member_memory(1), ByteRange(0, 10))
    assert directory.is_current(HOST, ByteRange(10, 100))
    assert [copy.over for copy in directory.read(member_memory(0), ByteRange(0, 100))] == [ByteRange(10, 100)]
