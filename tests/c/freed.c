/* Frees memory of its own right after the last release of what it gave it to. */
#include "session.h"

#include <stdbool.h>
#include <sys/mman.h>

static const size_t NBYTES = 32 << 20;

static char *memory(void)
{
    char *made = mmap(NULL, NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(made != MAP_FAILED, "%s", "no memory");
    memset(made, 7, NBYTES);
    return made;
}

static cl_mem buffer_of(cl_context context, char *bytes)
{
    cl_int status;
    cl_mem buffer = clCreateBuffer(context, bytes ? CL_MEM_USE_HOST_PTR : 0, NBYTES, bytes, &status);
    CHECK(status);
    return buffer;
}

static void map_and_free(session_t *s, cl_bool blocking, cl_map_flags flags)
{
    cl_int status;
    char *bytes = memory();
    cl_mem buffer = buffer_of(s->context, bytes);
    char *at = clEnqueueMapBuffer(s->queue, buffer, blocking, flags, 0, NBYTES, 0, NULL, NULL, &status);
    CHECK(status);
    REQUIRE(at == bytes, "%p is not %p", (void *)at, (void *)bytes);
    if (blocking)
        memset(at, 8, NBYTES);
    CHECK(clEnqueueUnmapMemObject(s->queue, buffer, at, 0, NULL, NULL));
    CHECK(clReleaseMemObject(buffer));
    REQUIRE(munmap(bytes, NBYTES) == 0, "%s", "munmap");
    CHECK(clFinish(s->queue));
}

static void transfer_and_free(session_t *s, bool writes)
{
    char *bytes = memory(), *other = memory();
    cl_mem buffer = buffer_of(s->context, bytes);
    CHECK(clEnqueueFillBuffer(s->queue, buffer, "a", 1, 0, NBYTES, 0, NULL, NULL));
    if (writes)
        CHECK(clEnqueueWriteBuffer(s->queue, buffer, CL_FALSE, 0, NBYTES, other, 0, NULL, NULL));
    else
        CHECK(clEnqueueReadBuffer(s->queue, buffer, CL_FALSE, 0, NBYTES, other, 0, NULL, NULL));
    CHECK(clReleaseMemObject(buffer));
    REQUIRE(munmap(bytes, NBYTES) == 0 && munmap(other, NBYTES) == 0, "%s", "munmap");
    CHECK(clFinish(s->queue));
}

/* A queue and, when asked for, a context of its own, so that both go with their last reference. */
static void release_and_free(session_t *s, bool with_context)
{
    cl_int status;
    cl_device_id device = first_device();
    char *from = memory(), *to = memory();
    cl_context context = s->context;
    if (with_context) {
        context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
        CHECK(status);
    }
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    cl_mem buffer = buffer_of(context, NULL);
    CHECK(clEnqueueFillBuffer(queue, buffer, "a", 1, 0, NBYTES, 0, NULL, NULL));
    CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, NBYTES, from, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, NBYTES, to, 0, NULL, NULL));
    if (with_context)
        CHECK(clReleaseContext(context));
    else
        CHECK(clReleaseCommandQueue(queue));
    for (size_t i = 0; i < NBYTES; i += 4093)
        REQUIRE(to[i] == 7, "[%zu] is %d", i, to[i]);
    REQUIRE(munmap(from, NBYTES) == 0 && munmap(to, NBYTES) == 0, "%s", "munmap");
    CHECK(clReleaseMemObject(buffer));
    if (with_context)
        CHECK(clReleaseCommandQueue(queue));
}

/* Only this thread ends what the releases would have to wait for. */
static void release_before_the_gate_opens(session_t *s)
{
    cl_int status;
    char *bytes = memory(), *to = memory();
    cl_device_id device = first_device();
    cl_event gate = clCreateUserEvent(s->context, &status), done;
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(s->context, device, 0, &status);
    CHECK(status);
    cl_mem buffer = buffer_of(s->context, bytes);
    CHECK(clEnqueueFillBuffer(queue, buffer, "a", 1, 0, NBYTES / 2, 1, &gate, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, NBYTES, to, 0, NULL, &done));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
    CHECK(clWaitForEvents(1, &done));
    for (size_t i = 0; i < NBYTES; i += 4093)
        REQUIRE(to[i] == (i < NBYTES / 2 ? 'a' : 7), "[%zu] is %d", i, to[i]);
    CHECK(clReleaseEvent(done));
    CHECK(clReleaseEvent(gate));
    REQUIRE(munmap(bytes, NBYTES) == 0 && munmap(to, NBYTES) == 0, "%s", "munmap");
}

int main(void)
{
    session_t s = session_start();
    map_and_free(&s, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION);
    map_and_free(&s, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE);
    map_and_free(&s, CL_FALSE, CL_MAP_READ | CL_MAP_WRITE);
    transfer_and_free(&s, true);
    transfer_and_free(&s, false);
    release_and_free(&s, false);
    release_and_free(&s, true);
    release_before_the_gate_opens(&s);
    session_step(&s, 1);
    session_end(&s);
    printf("freed: ok\n");
    return 0;
}
