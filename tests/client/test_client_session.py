"""Programs about the service's life: death, fork, exit, what its process is given (see test_client.py)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from ctypes import byref, c_int32, c_uint32, c_void_p

from tests.client.test_client_binding import ADD, COPY_HOST_PTR, READ, SUBMITTED, WRITE, Cl, handles, until
from tests.client.test_client_events import NAMED, Calls, marker

OUT_OF_RESOURCES = -5
DYING = NAMED + "kernel void die() {} kernel void die_by_a_signal() {} kernel void die_as_said() {}"
AFTER = "; all calls of this program fail from now on\n"
UNNAMED = (
    "sdi: the service has ended and did not say why: it was killed, perhaps for want of memory, or a kernel "
    f"or a driver ended it{AFTER}"
)
NAMED_SIGNAL = (
    "sdi: the service was ended by SIGBUS, perhaps by a kernel that stores outside of its buffers, or by "
    f"a driver{AFTER}"
)


def die(cl: Cl, context: int, how: str = "die") -> None:
    """The service ends."""
    cl.check(cl.clEnqueueTask(cl.queue(context), cl.kernel(cl.program(context, DYING), how), 0, None, None))


def a_dead_service_fails_what_is_pending(cl: Cl) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    cl.set_args(kernel, c_void_p(buffer), c_int32(1))
    calls, gate = Calls(cl), cl.user_event(context)
    event = marker(cl, queue, gate)
    done = marker(cl, cl.queue(context))
    assert cl.wait(done) == 0
    cl.check(cl.clSetEventCallback(event, 0, calls.function, 5))
    results: list[int] = []
    at = ctypes.create_string_buffer(64)
    waiters = [
        threading.Thread(target=lambda: results.append(cl.wait(event))),
        threading.Thread(target=lambda: results.append(cl.wait(gate))),
        threading.Thread(target=lambda: results.append(cl.clFinish(queue))),
        threading.Thread(
            target=lambda: results.append(cl.clEnqueueReadBuffer(queue, buffer, 1, 0, 64, at, 0, None, None))
        ),
    ]
    for waiter in waiters:
        waiter.start()
    until(lambda: len(cl.records("READ")) == 1 and len(cl.records("MARKER")) == 3)
    die(cl, context)
    for waiter in waiters:
        waiter.join()
    assert results == [OUT_OF_RESOURCES] * 4
    assert calls.wait_for(1) == [(event, OUT_OF_RESOURCES, 5)]
    assert cl.status(event) == cl.status(gate) == OUT_OF_RESOURCES
    assert cl.status(done) == 0
    # every call says so, none crashes
    for _ in range(2):
        assert cl.clFinish(queue) == cl.clFlush(queue) == cl.clEnqueueBarrier(queue) == OUT_OF_RESOURCES
        assert cl.clEnqueueTask(queue, kernel, 0, None, None) == OUT_OF_RESOURCES
        assert (
            cl.clEnqueueReadBuffer(queue, buffer, 0, 0, 4, at, 0, None, byref(c_void_p())) == OUT_OF_RESOURCES
        )
        assert cl.clEnqueueWriteBuffer(queue, buffer, 1, 0, 4, at, 0, None, None) == OUT_OF_RESOURCES
        mapped = cl.code("clEnqueueMapBuffer", queue, buffer, 0, READ, 0, 64, 0, None, None)
        assert mapped == OUT_OF_RESOURCES
        assert cl.code("clCreateBuffer", context, 0, 64, None) == OUT_OF_RESOURCES
        assert cl.code("clCreateCommandQueue", context, cl.device(), 0) == OUT_OF_RESOURCES
        assert cl.code("clCreateUserEvent", context) == OUT_OF_RESOURCES
        assert cl.code("clCreateContext", None, 1, handles([cl.device()]), None, None) == OUT_OF_RESOURCES
        program = cl.source(context, ADD)
        assert cl.clBuildProgram(program, 0, None, None, None, None) == OUT_OF_RESOURCES
    assert cl.clSetUserEventStatus(gate, 0) == OUT_OF_RESOURCES
    cl.check(cl.clSetEventCallback(event, 0, calls.function, 6))
    assert calls.wait_for(2)[-1] == (event, OUT_OF_RESOURCES, 6)
    for handle in (event, gate, done):
        cl.check(cl.clReleaseEvent(handle))
    for release, handle in (("Kernel", kernel), ("MemObject", buffer), ("CommandQueue", queue)):
        cl.check(cl.functions[f"clRelease{release}"](handle))


def polling_notices_a_dead_service(cl: Cl) -> None:
    context = cl.context()
    event = marker(cl, cl.queue(context), cl.user_event(context))
    die(cl, context)
    until(lambda: cl.status(event) == OUT_OF_RESOURCES)


def a_service_that_a_signal_ended_is_explained(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    die(cl, context, "die_by_a_signal")
    for _ in range(2):
        assert cl.clFinish(queue) == OUT_OF_RESOURCES


def a_service_that_has_said_why_it_ends_is_not(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    die(cl, context, "die_as_said")
    assert cl.clFinish(queue) == OUT_OF_RESOURCES


def nothing_is_said_where_the_application_closes_what_is_not_its_own(cl: Cl) -> None:
    queue = cl.queue(cl.context())
    os.closerange(3, 1024)
    # A service that is awake may answer by the arena alone.
    assert cl.clFinish(queue) in (0, OUT_OF_RESOURCES)


def a_build_ends_with_its_service(cl: Cl) -> None:
    context = cl.context()
    results: list[int] = []
    programs = [cl.source(context, f"{ADD} // {n} wait for a fill") for n in range(3)]
    build = cl.clBuildProgram
    threads = [
        threading.Thread(target=lambda p=program: results.append(build(p, 0, None, None, None, None)))
        for program in programs
    ]
    killer = cl.source(context, DYING)
    cl.check(build(killer, 0, None, None, None, None))
    for thread in threads:
        thread.start()
    until(lambda: len(cl.records("BUILD")) == 4)
    cl.check(cl.clEnqueueTask(cl.queue(context), cl.kernel(killer, "die"), 0, None, None))
    for thread in threads:
        thread.join()
    assert results == [OUT_OF_RESOURCES] * 3


def transfers_in_flight_end_with_their_service(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    host = ctypes.create_string_buffer(4096)
    buffer = cl.buffer(context, 4096, 8, host)
    at = ctypes.create_string_buffer(4096)
    waits = (1, handles([gate]))
    events = [cl.event_of("clEnqueueReadBuffer", queue, buffer, 0, 0, 4096, at, *waits) for _ in range(10)]
    cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 0, 0, 4096, at, *waits, None))
    pointer = cl.make("clEnqueueMapBuffer", queue, buffer, 0, READ | WRITE, 0, 4096, *waits, None)
    cl.check(cl.clEnqueueUnmapMemObject(queue, buffer, pointer, *waits, None))
    die(cl, context)
    assert cl.wait(*events) == OUT_OF_RESOURCES
    for event in events:
        cl.check(cl.clReleaseEvent(event))
    cl.check(cl.clReleaseMemObject(buffer))


def a_corrupt_reply_ends_the_session(cl: Cl) -> None:
    context = cl.context()
    assert cl.code("clCreateBuffer", context, 0, 64, None) == OUT_OF_RESOURCES
    assert cl.code("clCreateCommandQueue", context, cl.device(), 0) == OUT_OF_RESOURCES


def a_service_that_cannot_start_is_no_device(cl: Cl) -> None:
    for _ in range(3):
        num = c_uint32(7)
        assert cl.clGetDeviceIDs(cl.platform(), 0xFFFFFFFF, 0, None, byref(num)) == -1
        assert num.value == 0
    assert cl.code("clCreateContextFromType", None, 0xFFFFFFFF, None, None) in (-1, -32)
    assert cl.text("clGetPlatformInfo", cl.platform(), 0x0903) == "sdi"


def the_service_itself_sees_no_platform(cl: Cl) -> None:
    num = c_uint32(7)
    assert cl.clGetPlatformIDs(0, None, byref(num)) in (-1001, 0)
    assert num.value == 0


# -- processes ----------------------------------------------------------------------------------------


def in_child(function: object, *arguments: object) -> None:
    """Run it in a forked child, which must succeed."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function(*arguments)  # type: ignore[operator]
            status = 0
        except BaseException as failure:
            import traceback

            traceback.print_exception(failure)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def compute(cl: Cl) -> None:
    """A small program from the beginning."""
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 1024, COPY_HOST_PTR, bytes(1024))
    kernel = cl.kernel(cl.program(context, ADD), "add")
    cl.set_args(kernel, c_void_p(buffer), c_int32(3))
    cl.launch(queue, kernel)
    at = ctypes.create_string_buffer(4)
    event = cl.event_of("clEnqueueReadBuffer", queue, buffer, 0, 0, 4, at, 0, None)
    calls = Calls(cl)
    cl.check(cl.clSetEventCallback(event, 0, calls.function, 1))
    assert calls.wait_for(1) == [(event, 0, 1)]
    assert at.raw == b"\3\0\0\0"


def children_of_a_fork_start_anew(cl: Cl) -> None:
    context = cl.context()
    device, queue, gate = cl.device(), cl.queue(context), cl.user_event(context)
    buffer = cl.buffer(context, 1024, COPY_HOST_PTR, (b"parent" * 171)[:1024])
    program = cl.program(context, ADD)
    kernel, event = cl.kernel(program, "add"), marker(cl, queue)
    calls = Calls(cl)
    pending = marker(cl, cl.queue(context), gate)
    cl.check(cl.clSetEventCallback(pending, 0, calls.function, 1))
    cl.check(cl.clSetEventCallback(pending, SUBMITTED, calls.function, 2))
    assert calls.wait_for(1) == [(pending, SUBMITTED, 2)]  # both threads are there, and idle

    def child() -> None:
        at = ctypes.create_string_buffer(64)
        assert cl.clGetDeviceInfo(device, 0x1000, 0, None, None) == -33
        assert cl.clGetContextInfo(context, 0x1080, 0, None, None) == cl.clRetainContext(context) == -34
        assert cl.clFinish(queue) == cl.clReleaseCommandQueue(queue) == -36
        assert cl.clEnqueueReadBuffer(queue, buffer, 1, 0, 64, at, 0, None, None) == -36
        assert cl.clReleaseMemObject(buffer) == -38
        assert cl.clReleaseProgram(program) == -44
        assert cl.set_arg(kernel, 1, c_int32(1)) == cl.clReleaseKernel(kernel) == -48
        assert cl.wait(event) == cl.clSetUserEventStatus(gate, 0) == cl.clReleaseEvent(event) == -58
        assert cl.code("clCreateContext", None, 1, handles([device]), None, None) == -33
        assert len(cl.starts()) == 1
        compute(cl)
        assert len(cl.starts()) == 2
        assert cl.clGetContextInfo(context, 0x1080, 0, None, None) == -34
        in_child(compute, cl)

    in_child(child)
    in_child(lambda: None)
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert calls.wait_for(2)[1] == (pending, 0, 1)
    assert cl.read(queue, buffer, 6) == b"parent"


def a_callback_may_fork(cl: Cl) -> None:
    context = cl.context()
    event = cl.user_event(context)
    statuses: list[int] = []
    finished = threading.Event()

    def fork(event: int, status: int, data: int) -> None:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                compute(cl)
                status = 0
            finally:
                os._exit(status)
        statuses.append(os.waitpid(pid, 0)[1])
        finished.set()

    cl.check(cl.clSetEventCallback(event, 0, cl.callback(fork, c_void_p, c_int32), None))
    cl.check(cl.clSetUserEventStatus(event, 0))
    assert finished.wait(60)
    assert statuses == [0]
    compute(cl)


def forks_may_come_while_threads_are_busy(cl: Cl) -> None:
    context = cl.context()
    stop = threading.Event()

    def busy() -> None:
        queue = cl.queue(context)
        while not stop.is_set():
            buffer = cl.buffer(context, 64)
            cl.write(queue, buffer, b"busy")
            cl.check(cl.clFinish(queue))
            cl.check(cl.clReleaseMemObject(buffer))

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        in_child(compute, cl)
    stop.set()
    for thread in threads:
        thread.join()


def the_service_is_no_child_of_the_application(cl: Cl) -> None:
    cl.device()
    for options in (0, os.WNOHANG):
        try:
            os.waitpid(-1, options)
        except ChildProcessError:
            continue
        raise AssertionError("the application has a child")
    (start,) = cl.starts()
    assert os.getppid() != start["pid"] != os.getpid()
    assert start["session"] == start["pid"]


def the_service_gets_a_clean_process(cl: Cl) -> None:
    hidden = {"PYTHONSTARTUP", "LD_PRELOAD", "OCL_ICD_VENDORS", "OCL_ICD_DEBUG"}
    given = {"SDI_NUM_GPUS", "POCL_DEBUG", "XDG_CACHE_HOME", "TMPDIR", "HOME"}
    for name in given | hidden - set(os.environ):
        os.environ.setdefault(name, "/tmp")
    if os.environ["LD_PRELOAD"] == "/tmp":
        del os.environ["LD_PRELOAD"]
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.signal(signal.SIGUSR2, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])
    opened = os.open("/dev/zero", os.O_RDONLY)
    os.set_inheritable(opened, True)
    cl.device()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == {signal.SIGTERM, signal.SIGUSR2}
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    (start,) = cl.starts()
    names = set(start["environment"])
    assert not names & hidden and names >= given | {"SDI_IN_SERVICE"}
    assert not any(name.startswith("PYTHON") for name in names)
    assert start["arguments"][-7:-2] == ["-I", "-m", "sdi.service.main", "3", "4"]
    room = ["1099511627776", "200000000000,300000000000,400000000000,700000000000"]
    assert start["arguments"][-2:] == room, "address space is not limited here"
    assert start["blocked"] == 0
    # SIGPIPE and SIGXFSZ are Python's own, 32 and 33 the C library's
    expected = {signal.SIGPIPE, signal.SIGXFSZ, 32, 33}
    assert not {number for number in range(1, 65) if start["ignored"] >> (number - 1) & 1} - expected
    assert start["links"]["0"] == "/dev/null"
    assert all(start["links"][fd].startswith("socket:") for fd in "34")
    # its log, its arena (twice: the mapping keeps one), the folder being listed
    assert sorted(start["descriptors"])[:5] == [0, 1, 2, 3, 4]
    assert not any(d == opened for d in start["descriptors"][5:]) or len(start["descriptors"]) <= 9
    assert start["directory"] == os.getcwd()


def closed_standard_streams_are_replaced(cl: Cl) -> None:
    for number in (0, 1, 2):
        os.close(number)
    compute(cl)
    (start,) = cl.starts()
    assert start["links"]["0"] == "/dev/null"
    assert set(start["descriptors"]) >= {0, 1, 2, 3, 4}


def exit_does_not_wait_for_pending_work(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    buffer = cl.buffer(context, 4096)
    at = ctypes.create_string_buffer(4096)
    cl.check(cl.clEnqueueReadBuffer(queue, buffer, 0, 0, 4096, at, 1, handles([gate]), None))
    calls = Calls(cl)
    cl.check(cl.clSetEventCallback(gate, 0, calls.function, 1))
    hold = cl.kernel(cl.program(context, NAMED), "hold")
    cl.check(cl.clEnqueueTask(queue, hold, 0, None, None))


def exit_may_come_while_a_thread_waits(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    cl.check(cl.clEnqueueBarrierWithWaitList(queue, 1, handles([gate]), None))
    threading.Thread(target=lambda: cl.clFinish(queue), daemon=True).start()
    until(lambda: len(cl.records("MARKER")) == 1)


# The sanitizers' allocator may be locked by another thread at the moment of a fork: the child hangs in it.
NOT_SANITIZED = frozenset({"forks_may_come_while_threads_are_busy"})

SAID = {
    "a_dead_service_fails_what_is_pending": UNNAMED,
    "polling_notices_a_dead_service": UNNAMED,
    "a_build_ends_with_its_service": UNNAMED,
    "transfers_in_flight_end_with_their_service": UNNAMED,
    "contexts_hear_that_the_service_has_ended": UNNAMED,
    "a_dead_service_refuses_them": UNNAMED,
    "faults_are_answered_when_the_service_is_gone": UNNAMED,
    "a_service_that_a_signal_ended_is_explained": NAMED_SIGNAL,
}
"""What programs whose service ends find on stderr."""

PROGRAMS = (
    a_dead_service_fails_what_is_pending,
    polling_notices_a_dead_service,
    a_service_that_a_signal_ended_is_explained,
    a_service_that_has_said_why_it_ends_is_not,
    nothing_is_said_where_the_application_closes_what_is_not_its_own,
    a_build_ends_with_its_service,
    transfers_in_flight_end_with_their_service,
    children_of_a_fork_start_anew,
    a_callback_may_fork,
    forks_may_come_while_threads_are_busy,
    the_service_is_no_child_of_the_application,
    the_service_gets_a_clean_process,
    closed_standard_streams_are_replaced,
    exit_does_not_wait_for_pending_work,
    exit_may_come_while_a_thread_waits,
)
