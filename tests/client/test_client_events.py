"""Programs about events: waiting, user events, callbacks, profiling, failure (see test_client.py)."""

from __future__ import annotations

import ctypes
import threading
import time
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint64, c_void_p

from tests.client.test_client_binding import (
    ADD,
    COMPLETE,
    COPY_HOST_PTR,
    OUT_OF_ORDER,
    PROFILING,
    RUNNING,
    SUBMITTED,
    Cl,
    handles,
    sizes,
    until,
)

NAMED = " ".join(f"kernel void {name}() {{}}" for name in ("hold", "let_go", "fail", "nothing"))


class Calls:
    """What callbacks were given, in order."""

    def __init__(self, cl: Cl) -> None:
        self.seen: list[tuple[int, int, int]] = []
        self.threads: set[int] = set()
        self.changed = threading.Condition()
        self.function = cl.callback(self.called, c_void_p, c_int32)

    def called(self, event: int, status: int, data: int) -> None:
        """The callback."""
        with self.changed:
            self.seen.append((event, status, data))
            self.threads.add(threading.get_native_id())
            self.changed.notify_all()

    def wait_for(self, num: int) -> list[tuple[int, int, int]]:
        """The first ``num`` calls."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.seen) >= num, 60), self.seen
            return self.seen[:num]


def marker(cl: Cl, queue: int, *waits: int) -> int:
    """The event of a marker."""
    return cl.event_of("clEnqueueMarkerWithWaitList", queue, len(waits), handles(waits))


def commands_without_an_event_use_no_slot(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    first = marker(cl, queue)
    cl.check(cl.clEnqueueMarkerWithWaitList(queue, 0, None, None))
    cl.check(cl.clEnqueueBarrierWithWaitList(queue, 1, handles([first]), None))
    cl.check(cl.clEnqueueBarrier(queue))
    assert cl.clEnqueueMarker(queue, None) == -30
    assert cl.clEnqueueWaitForEvents(queue, 0, None) == -30
    assert cl.clEnqueueWaitForEvents(queue, 1, handles([queue])) == -58
    cl.check(cl.clEnqueueWaitForEvents(queue, 1, handles([first])))
    old = cl.event_of("clEnqueueMarker", queue)
    assert cl.wait(first, old) == 0
    records = cl.records("MARKER", "BARRIER")
    assert [r["op"] for r in records] == ["MARKER", "MARKER", "BARRIER", "BARRIER", "BARRIER", "MARKER"]
    assert [bool(r["slot"]) for r in records] == [True, False, False, False, False, True]
    ids = [r["id"] for r in records]
    assert [r["waits"] for r in records] == [[], [], [ids[0]], [], [ids[0]], []]


def events_say_what_they_are(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    kernel = cl.kernel(cl.program(context, ADD), "add")
    cl.set_args(kernel, c_void_p(buffer), c_int32(1))
    at = ctypes.create_string_buffer(64)
    box = (sizes([0, 0, 0]), sizes([0, 0, 0]), sizes([2, 2, 1]), 0, 0, 0, 0)
    other = cl.buffer(context, 64)
    for code, name, arguments in (
        (0x11F0, "clEnqueueNDRangeKernel", (queue, kernel, 1, None, sizes([4]), None)),
        (0x11F1, "clEnqueueTask", (queue, kernel)),
        (0x11F3, "clEnqueueReadBuffer", (queue, buffer, 1, 0, 4, at)),
        (0x11F4, "clEnqueueWriteBuffer", (queue, buffer, 0, 0, 4, at)),
        (0x11F5, "clEnqueueCopyBuffer", (queue, buffer, other, 0, 8, 4)),
        (0x11FE, "clEnqueueMarkerWithWaitList", (queue,)),
        (0x1201, "clEnqueueReadBufferRect", (queue, buffer, 1, *box, at)),
        (0x1202, "clEnqueueWriteBufferRect", (queue, buffer, 0, *box, at)),
        (0x1203, "clEnqueueCopyBufferRect", (queue, buffer, other, *box)),
        (0x1205, "clEnqueueBarrierWithWaitList", (queue,)),
        (0x1206, "clEnqueueMigrateMemObjects", (queue, 1, handles([buffer]), 0)),
        (0x1206, "clEnqueueMigrateMemObjects", (queue, 1, handles([buffer]), 1)),
        (0x1207, "clEnqueueFillBuffer", (queue, buffer, b"abcd", 4, 0, 8)),
    ):
        event = cl.event_of(name, *arguments, 0, None)
        assert cl.number("clGetEventInfo", event, 0x11D1) == code, name
        assert cl.number("clGetEventInfo", event, 0x11D0) == queue
        assert cl.number("clGetEventInfo", event, 0x11D4) == context
        assert cl.number("clGetEventInfo", event, 0x11D2) == 1
        assert cl.wait(event) == 0
        assert cl.status(event) == COMPLETE
        cl.check(cl.clReleaseEvent(event))
        assert cl.clGetEventInfo(event, 0x11D3, 0, None, None) == -58
    event = cl.user_event(context)
    assert cl.number("clGetEventInfo", event, 0x11D1) == 0x1204
    assert cl.number("clGetEventInfo", event, 0x11D0) == 0
    assert cl.clGetEventInfo(event, 0x11D9, 0, None, None) == -30


def profiling_has_its_conditions(cl: Cl) -> None:
    context = cl.context()
    queue, plain = cl.queue(context, PROFILING), cl.queue(context)
    gate = cl.user_event(context)
    value = c_uint64()

    def code(event: int, param: int = 0x1280) -> int:
        return cl.clGetEventProfilingInfo(event, param, 8, byref(value), None)

    before = time.monotonic_ns()
    event, unprofiled = marker(cl, queue, gate), marker(cl, plain)
    assert code(event) == code(unprofiled) == code(gate) == -7
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(event, unprofiled) == 0
    assert code(unprofiled) == code(gate) == -7
    assert code(event, 0x1285) == -30
    times = [cl.number("clGetEventProfilingInfo", event, param) for param in range(0x1280, 0x1285)]
    assert before <= times[0] <= times[1] <= times[2] <= times[3] == times[4] <= time.monotonic_ns()


def complete_events_are_left_out_of_wait_lists(cl: Cl) -> None:
    context = cl.context()
    queue, buffer = cl.queue(context), cl.buffer(context, 64)
    gate = cl.user_event(context)
    done, failed = marker(cl, queue), cl.user_event(context)
    assert cl.wait(done) == 0
    cl.check(cl.clSetUserEventStatus(failed, -7))
    waits = (3, handles([done, gate, done]))
    cl.check(cl.clEnqueueFillBuffer(queue, buffer, b"x", 1, 0, 1, *waits, None))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    event = cl.event_of("clEnqueueFillBuffer", queue, buffer, b"x", 1, 0, 1, 2, handles([done, failed]))
    assert cl.wait(event) == -14
    assert cl.status(event) == -14
    created = [r["id"] for r in cl.records("CREATE_USER_EVENT")]
    assert [r["waits"] for r in cl.records("FILL")] == [[created[0]], [created[1]]]


def waiting_for_many_events_ends_with_the_last(cl: Cl) -> None:
    context = cl.context()
    queues = [cl.queue(context) for _ in range(4)]
    gates = [cl.user_event(context) for _ in range(4)]
    events = [marker(cl, queue, gate) for queue, gate in zip(queues, gates, strict=True)]
    result: list[int] = []
    waiter = threading.Thread(target=lambda: result.append(cl.wait(*events)))
    waiter.start()
    for gate in reversed(gates):
        assert not result
        cl.check(cl.clSetUserEventStatus(gate, 0))
    waiter.join()
    assert result == [0]
    assert cl.clWaitForEvents(0, None) == cl.clWaitForEvents(1, None) == -30
    assert cl.clWaitForEvents(2, handles([events[0], queues[0]])) == -58
    assert cl.wait(events[0], cl.user_event(cl.context())) == -34


def user_events_are_set_once(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    event = cl.user_event(context)
    assert cl.status(event) == SUBMITTED
    assert cl.clSetUserEventStatus(event, 1) == -30
    cl.check(cl.clSetUserEventStatus(event, 0))
    assert cl.clSetUserEventStatus(event, 0) == -59
    assert cl.status(event) == COMPLETE
    assert cl.wait(event) == 0
    assert cl.clSetUserEventStatus(marker(cl, queue), 0) == -58
    assert cl.clSetUserEventStatus(queue, 0) == -58
    assert cl.code("clCreateUserEvent", queue) == -34
    failed = cl.user_event(context)
    event = marker(cl, queue, failed)
    cl.check(cl.clSetUserEventStatus(failed, -42))
    assert cl.status(failed) == -42
    assert cl.wait(failed) == cl.wait(event) == -14
    assert [r["status"] for r in cl.records("SET_USER_EVENT")] == [0, -42]


def callbacks_run_on_one_thread_of_their_own(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    gate, calls = cl.user_event(context), Calls(cl)
    event = marker(cl, queue, gate)
    for data, status in ((1, COMPLETE), (2, SUBMITTED), (3, RUNNING)):
        cl.check(cl.clSetEventCallback(event, status, calls.function, data))
        cl.check(cl.clSetEventCallback(gate, status, calls.function, data + 10))
    assert {d for _, _, d in calls.wait_for(3)} <= {2, 3, 12}
    cl.check(cl.clSetUserEventStatus(gate, 0))
    seen = {data: (handle, status) for handle, status, data in calls.wait_for(6)}
    assert seen[1] == (event, COMPLETE) and seen[2] == (event, SUBMITTED) and seen[3] == (event, RUNNING)
    assert seen[11] == (gate, COMPLETE) and seen[12] == (gate, SUBMITTED) and seen[13] == (gate, RUNNING)
    cl.check(cl.clSetEventCallback(event, COMPLETE, calls.function, 7))
    assert calls.wait_for(7)[-1] == (event, COMPLETE, 7)
    assert len(calls.threads) == 1 and threading.get_native_id() not in calls.threads
    assert cl.clSetEventCallback(event, 3, calls.function, None) == -30
    assert cl.clSetEventCallback(event, -1, calls.function, None) == -30
    assert cl.clSetEventCallback(event, 0, None, None) == -30
    assert cl.clSetEventCallback(queue, 0, calls.function, None) == -58


def failed_events_call_all_their_callbacks(cl: Cl) -> None:
    context = cl.context()
    queue, other = cl.queue(context), cl.queue(context)
    program, calls = cl.program(context, NAMED), Calls(cl)
    hold, fail = cl.kernel(program, "hold"), cl.kernel(program, "fail")
    first = cl.event_of("clEnqueueTask", queue, hold, 0, None)
    event = cl.event_of("clEnqueueTask", queue, fail, 0, None)
    dependent = marker(cl, other, event)
    for data, status in ((1, COMPLETE), (2, RUNNING)):
        cl.check(cl.clSetEventCallback(event, status, calls.function, data))
    cl.check(cl.clEnqueueTask(cl.queue(context), cl.kernel(program, "let_go"), 0, None, None))
    assert cl.wait(first) == 0
    assert cl.wait(event) == cl.wait(dependent) == -14
    assert cl.status(event) == -5 and cl.status(dependent) == -14
    assert {(d, s) for _, s, d in calls.wait_for(2)} <= {(1, -5), (2, -5), (2, RUNNING)}
    at = ctypes.create_string_buffer(64)
    buffer = cl.buffer(context, 64)
    read = cl.clEnqueueReadBuffer
    assert read(queue, buffer, 1, 0, 64, at, 1, handles([event]), None) == -14
    made = c_void_p(77)
    assert read(queue, buffer, 1, 0, 64, at, 1, handles([event]), byref(made)) == -14
    assert made.value == 77
    mapped = cl.made("clEnqueueMapBuffer", queue, buffer, 1, 1, 0, 64, 1, handles([event]), None)
    assert mapped == (None, -14)
    assert cl.number("clGetMemObjectInfo", buffer, 0x1104) == 0
    cl.check(read(queue, buffer, 0, 0, 64, at, 1, handles([event]), None))
    cl.check(cl.clFinish(queue))


class Errors:
    """What the callbacks of contexts were told, in order: text, binary data, its size, user data."""

    def __init__(self, cl: Cl) -> None:
        self.seen: list[tuple[bytes, int | None, int, int]] = []
        self.changed = threading.Condition()
        self.function = cl.callback(self.called, c_char_p, c_void_p, c_size_t)

    def called(self, text: bytes, binary: int | None, nbytes: int, data: int) -> None:
        """The callback."""
        with self.changed:
            self.seen.append((text, binary, nbytes, data))
            self.changed.notify_all()

    def wait_for(self, num: int) -> list[tuple[bytes, int | None, int, int]]:
        """The first ``num`` calls."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.seen) >= num, 60), self.seen
            return self.seen[:num]


def contexts_hear_of_their_commands_that_fail(cl: Cl) -> None:
    errors = Errors(cl)
    other, context = (
        cl.make("clCreateContext", None, 1, handles([cl.device()]), errors.function, c_void_p(data))
        for data in (7, 8)
    )
    from_type = cl.make("clCreateContextFromType", None, 0xFFFFFFFF, errors.function, c_void_p(9))
    assert cl.queue(other)
    for where in (context, from_type, cl.context()):  # the last has no callback
        queue, kernel = cl.queue(where), cl.kernel(cl.program(where, NAMED), "fail")
        cl.launch(queue, kernel)
        cl.clFinish(queue)
    assert errors.wait_for(2) == [(b"launch failed, as asked", None, 0, data) for data in (8, 9)]
    queue = cl.queue(other)
    kernel = cl.kernel(cl.program(other, NAMED), "fail")
    event = c_void_p()
    cl.launch(queue, kernel, event=byref(event))
    failed = cl.user_event(other)
    waiting = marker(cl, queue, failed)
    cl.check(cl.clSetUserEventStatus(failed, -5))  # the application knows that itself
    assert cl.wait(event.value or 0) == cl.wait(waiting) == -14
    cl.check(cl.clReleaseContext(other))  # commands and callbacks go on
    assert errors.wait_for(3)[2] == (b"launch failed, as asked", None, 0, 7)
    assert [bool(r["listener"]) for r in cl.records("CREATE_QUEUE")] == [True, True, True, False, True]


def contexts_hear_that_the_service_has_ended(cl: Cl) -> None:
    errors = Errors(cl)
    context = cl.make("clCreateContext", None, 1, handles([cl.device()]), errors.function, c_void_p(7))
    queue, kernel = cl.queue(context), cl.kernel(cl.program(context, "kernel void die() {}"), "die")
    cl.launch(queue, kernel)
    assert errors.wait_for(1) == [(b"sdi: the service has ended", None, 0, 7)]


def callbacks_may_use_everything(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    buffer = cl.buffer(context, 1024, COPY_HOST_PTR, bytes(1024))
    kernel = cl.kernel(cl.program(context, ADD), "add")
    cl.set_args(kernel, c_void_p(buffer), c_int32(1))
    finished = threading.Event()
    left = [25]
    failures: list[BaseException] = []

    def again(event: int, status: int, data: int) -> None:
        try:
            cl.check(status)
            cl.launch(queue, kernel)
            assert cl.read(queue, buffer, 4) == (26 - left[0]).to_bytes(4, "little")
            cl.check(cl.clFinish(queue))
            left[0] -= 1
            if left[0]:
                following = marker(cl, queue)
                cl.check(cl.clSetEventCallback(following, COMPLETE, function, None))
                cl.check(cl.clReleaseEvent(following))
            else:
                finished.set()
        except BaseException as failure:
            failures.append(failure)
            finished.set()

    function = cl.callback(again, c_void_p, c_int32)
    first = cl.user_event(context)
    cl.check(cl.clSetEventCallback(first, COMPLETE, function, None))
    cl.check(cl.clSetUserEventStatus(first, 0))
    assert finished.wait(60)
    if failures:
        raise failures[0]


def thousands_of_commands_wait_for_one_user_event(cl: Cl) -> None:
    context = cl.context()
    queue, gate = cl.queue(context), cl.user_event(context)
    buffer = cl.buffer(context, 4096)
    event = marker(cl, queue, gate)
    events = []
    for n in range(2000):
        events.append(marker(cl, queue, event))
        data = ctypes.create_string_buffer(n.to_bytes(4, "little"), 4)
        cl.kept.append(data)
        cl.check(cl.clEnqueueWriteBuffer(queue, buffer, 0, 0, 4, data, 0, None, None))
    cl.check(cl.clSetUserEventStatus(gate, 0))
    assert cl.wait(*events) == 0
    assert cl.read(queue, buffer, 4) == (1999).to_bytes(4, "little")
    for event in events:
        cl.check(cl.clReleaseEvent(event))
    cl.check(cl.clFinish(queue))


def slots_are_used_again(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    for _ in range(500):
        event = marker(cl, queue)
        cl.check(cl.wait(event))
        cl.check(cl.clReleaseEvent(event))
    cl.check(cl.clFinish(queue))
    assert max(r["slot"] for r in cl.records("MARKER")) <= 4


def queues_out_of_order_are_told_to_the_service(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context, OUT_OF_ORDER)
    program = cl.program(context, NAMED)
    held = cl.event_of("clEnqueueTask", queue, cl.kernel(program, "hold"), 0, None)
    let_go = cl.event_of("clEnqueueTask", queue, cl.kernel(program, "let_go"), 0, None)
    assert cl.wait(let_go, held) == 0
    cl.check(cl.clFinish(queue))


def polling_alone_makes_progress(cl: Cl) -> None:
    context = cl.context()
    queue = cl.queue(context)
    event = cl.event_of("clEnqueueTask", queue, cl.kernel(cl.program(context, NAMED), "nothing"), 0, None)
    until(lambda: cl.status(event) == COMPLETE)


PROGRAMS = (
    commands_without_an_event_use_no_slot,
    events_say_what_they_are,
    profiling_has_its_conditions,
    complete_events_are_left_out_of_wait_lists,
    waiting_for_many_events_ends_with_the_last,
    user_events_are_set_once,
    callbacks_run_on_one_thread_of_their_own,
    failed_events_call_all_their_callbacks,
    contexts_hear_of_their_commands_that_fail,
    contexts_hear_that_the_service_has_ended,
    callbacks_may_use_everything,
    thousands_of_commands_wait_for_one_user_event,
    slots_are_used_again,
    queues_out_of_order_are_told_to_the_service,
    polling_alone_makes_progress,
)
