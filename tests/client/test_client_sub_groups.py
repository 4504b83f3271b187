"""Programs that ask for kernels' sub-groups."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import byref, c_size_t, c_void_p

from tests.client.test_client_binding import ADD, Cl, sizes

LARGEST, COUNT, LOCAL_SIZE, MOST, REQUIRED, REQUIRED_SIZE = 0x2033, 0x2034, 0x11B8, 0x11B9, 0x11BA, 0x410A
INVALID_VALUE, INVALID_DEVICE, INVALID_KERNEL, INVALID_OPERATION = -30, -33, -48, -59


def kernel_of(cl: Cl) -> int:
    return cl.kernel(cl.program(cl.context(), ADD), "add")


def answer(cl: Cl, kernel: int, param: int, given: Sequence[int] = (), num: int = 1) -> list[int]:
    """The numbers that a query answers."""
    out, nbytes = (c_size_t * num)(), c_size_t()
    room, input_nbytes = ctypes.sizeof(out), 8 * len(given)
    for name in ("clGetKernelSubGroupInfo", "clGetKernelSubGroupInfoKHR"):
        ask = getattr(cl, name)
        host = sizes(given) if given else None
        cl.check(ask(kernel, cl.device(), param, input_nbytes, host, room, out, byref(nbytes)))
    return list(out)[: nbytes.value // 8]


def asked(cl: Cl) -> list[tuple[int, list[int], int]]:
    """What the service was asked, in order."""
    records = cl.records("SUB_GROUPS")
    return [(r["param"], r["given"][: r["num_given"]], r["num_answers"]) for r in records]


def each_question_is_asked_once(cl: Cl) -> None:
    kernel = kernel_of(cl)
    for _ in range(2):
        assert answer(cl, kernel, LARGEST, [16, 4]) == [8]
        assert answer(cl, kernel, COUNT, [20]) == [3]
        assert answer(cl, kernel, COUNT, [20, 1]) == [3], "of another number of dimensions"
        assert answer(cl, kernel, COUNT, [5, 5, 2]) == [7]
        assert answer(cl, kernel, LOCAL_SIZE, [3], 2) == [24, 1]
        assert answer(cl, kernel, LOCAL_SIZE, [3], 4) == [24, 1, 1], "there are three dimensions"
        assert answer(cl, kernel, MOST) == [MOST] and answer(cl, kernel, REQUIRED) == [REQUIRED]
    others = [(COUNT, [20], 1), (COUNT, [20, 1], 1), (COUNT, [5, 5, 2], 1)]
    sizes_of = [(LOCAL_SIZE, [3], 2), (LOCAL_SIZE, [3], 3)]
    assert asked(cl) == [(LARGEST, [16, 4], 1), *others, *sizes_of, (MOST, [], 1), (REQUIRED, [], 1)]
    builds = {(r["build"], r["kernel_index"]) for r in cl.records("SUB_GROUPS")}
    assert builds == {(cl.last("BUILD")["id"], 0)}


def another_kernel_of_the_same_function_knows_the_answers(cl: Cl) -> None:
    program = cl.program(cl.context(), ADD + ADD.replace("add", "other"))
    one, same, other = (cl.kernel(program, name) for name in ("add", "add", "other"))
    assert [answer(cl, kernel, COUNT, [64]) for kernel in (one, same, other)] == [[8]] * 3
    assert [r["kernel_index"] for r in cl.records("SUB_GROUPS")] == [0, 1]


def many_answers_are_remembered_and_the_oldest_forgotten(cl: Cl) -> None:
    kernel = kernel_of(cl)
    for _ in range(2):
        assert [answer(cl, kernel, COUNT, [n]) for n in range(1, 17)] == [[1]] * 8 + [[2]] * 8
    assert len(asked(cl)) == 16
    assert answer(cl, kernel, COUNT, [17]) == [3] and answer(cl, kernel, COUNT, [2]) == [1]
    assert len(asked(cl)) == 17
    assert answer(cl, kernel, COUNT, [1]) == [1]
    assert asked(cl)[17:] == [(COUNT, [1], 1)]


def what_the_driver_refuses_is_told_and_asked_again(cl: Cl) -> None:
    kernel, out = kernel_of(cl), c_size_t(5)
    for _ in range(2):
        arguments = (kernel, cl.device(), COUNT, 8, sizes([1000]), 8, byref(out), None)
        assert cl.clGetKernelSubGroupInfo(*arguments) == INVALID_VALUE and out.value == 5
    assert len(asked(cl)) == 2


def wrong_questions_have_their_codes(cl: Cl) -> None:
    kernel, device, out, nbytes = kernel_of(cl), cl.device(), (c_size_t * 3)(5, 5, 5), c_size_t(7)

    def code(param: int, given: list[int] | None, input_nbytes: int, room: int = 8, **other: int) -> int:
        what = [other.get("kernel", kernel), other.get("device", device), param, input_nbytes]
        return cl.clGetKernelSubGroupInfo(*what, sizes(given), room, out, byref(nbytes))

    queue = cl.queue(cl.context())
    assert code(COUNT, [8], 8, kernel=queue) == code(COUNT, [8], 8, kernel=0) == INVALID_KERNEL
    assert code(COUNT, [8], 8, device=queue) == INVALID_DEVICE
    for param in (0, 0x11B0, 0x2032, 0x2035):
        assert code(param, [8], 8) == INVALID_VALUE
    for param in (LARGEST, COUNT):
        for given, input_nbytes in (
            (None, 8),
            ([8], 0),
            ([8], 4),
            ([8, 8], 12),
            ([1] * 4, 32),
            ([0], 8),
            ([8, 0], 16),
        ):
            assert code(param, given, input_nbytes) == INVALID_VALUE, (given, input_nbytes)
        assert code(param, [8], 8, room=7) == INVALID_VALUE
    for given, input_nbytes in ((None, 8), ([1], 0), ([1, 1], 16), ([1], 7)):
        assert code(LOCAL_SIZE, given, input_nbytes) == INVALID_VALUE
    assert code(LOCAL_SIZE, [1], 8, room=7) == INVALID_VALUE
    assert code(MOST, None, 0, room=4) == INVALID_VALUE
    assert code(REQUIRED_SIZE, None, 0) == INVALID_VALUE, "sizes can't be asked for on this device"
    assert list(out) == [5, 5, 5] and nbytes.value == 7
    assert not cl.records("SUB_GROUPS")
    for param, given, wanted in ((COUNT, [8], 8), (LOCAL_SIZE, [1], 24), (MOST, None, 8)):
        room = (0, None, byref(nbytes))
        assert cl.clGetKernelSubGroupInfo(kernel, None, param, 8 if given else 0, sizes(given), *room) == 0
        assert nbytes.value == wanted, "how long an answer is can be said at once"
    assert not cl.records("SUB_GROUPS")


def sizes_that_kernels_require_are_asked_where_there_are_some(cl: Cl) -> None:
    kernel = kernel_of(cl)
    assert cl.info("clGetDeviceInfo", cl.device(), 0x4108) == struct.pack("<2Q", 8, 16)
    assert answer(cl, kernel, REQUIRED_SIZE) == [REQUIRED_SIZE]
    assert asked(cl) == [(REQUIRED_SIZE, [], 1)]


def a_device_without_sub_groups_says_so(cl: Cl) -> None:
    kernel, out = kernel_of(cl), c_void_p()
    for given in (sizes([8]), None):
        code = cl.clGetKernelSubGroupInfo(kernel, cl.device(), COUNT, 8, given, 8, byref(out), None)
        assert code == INVALID_OPERATION
    assert cl.clGetKernelSubGroupInfo(kernel, kernel, COUNT, 0, None, 0, None, None) == INVALID_DEVICE
    assert not cl.records("SUB_GROUPS")


WITHOUT = frozenset({"a_device_without_sub_groups_says_so"})
WITH_SIZES = frozenset({"sizes_that_kernels_require_are_asked_where_there_are_some"})
PROGRAMS = (
    each_question_is_asked_once,
    another_kernel_of_the_same_function_knows_the_answers,
    many_answers_are_remembered_and_the_oldest_forgotten,
    what_the_driver_refuses_is_told_and_asked_again,
    wrong_questions_have_their_codes,
    sizes_that_kernels_require_are_asked_where_there_are_some,
    a_device_without_sub_groups_says_so,
)
