/* Entry points that few programs use: they work, answer about themselves, and call back. */
#include "opencl_check.h"

#include <pthread.h>
#include <stdint.h>
#include <time.h>

enum { ITEMS = 320 };

static const char *source = "__kernel void ee_init(__global int *data) { data[0] = 7; data[1] = 8; }\n"
                            "__kernel void ee_add(__global int *data, int v) { data[get_global_id(0)] += v; }\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int called;

static void note(int bit)
{
    pthread_mutex_lock(&lock);
    called |= bit;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_for(int bit, const char *what)
{
    struct timespec deadline;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 20;
    pthread_mutex_lock(&lock);
    while (!(called & bit))
        REQUIRE(pthread_cond_timedwait(&changed, &lock, &deadline) == 0, "%s was not called", what);
    pthread_mutex_unlock(&lock);
}

static void CL_CALLBACK built(cl_program program, void *data)
{
    (void)program;
    note((int)(intptr_t)data);
}

static void CL_CALLBACK freed(cl_mem buffer, void *data)
{
    (void)buffer;
    note((int)(intptr_t)data);
}

static void CL_CALLBACK happened(cl_event event, cl_int status, void *data)
{
    (void)event;
    REQUIRE(status <= CL_SUBMITTED, "callback with status %d", status);
    note((int)(intptr_t)data);
}

int main(void)
{
    cl_int status;
    cl_platform_id platform = first_platform();
    cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)platform, 0};
    cl_context context = clCreateContextFromType(properties, CL_DEVICE_TYPE_ALL, NULL, NULL, &status);
    CHECK(status);
    cl_device_id device;
    CHECK(clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof device, &device, NULL));
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
    CHECK(status);

    /* A build that reports by callback, and all kernels at once. */
    const char *lines[2] = {source, strchr(source, '\n') + 1};
    const size_t lengths[2] = {(size_t)(lines[1] - source), 0};
    cl_program program = clCreateProgramWithSource(context, 2, lines, lengths, &status);
    CHECK(status);
    CHECK(clBuildProgram(program, 0, NULL, NULL, built, (void *)1));
    wait_for(1, "the build's callback");
    cl_kernel kernels[2];
    cl_uint count;
    CHECK(clCreateKernelsInProgram(program, 0, NULL, &count));
    REQUIRE(count == 2, "%u kernels", count);
    CHECK(clCreateKernelsInProgram(program, 2, kernels, NULL));
    char name[32];
    CHECK(clGetKernelInfo(kernels[0], CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL));
    cl_kernel init = strcmp(name, "ee_init") == 0 ? kernels[0] : kernels[1];
    cl_kernel add = init == kernels[0] ? kernels[1] : kernels[0];

    /* Reference counts. */
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, ITEMS * sizeof(cl_int), NULL, &status);
    CHECK(status);
    CHECK(clRetainMemObject(buffer));
    CHECK(clGetMemObjectInfo(buffer, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL));
    REQUIRE(count == 2, "count is %u", count);
    CHECK(clReleaseMemObject(buffer));
    CHECK(clSetMemObjectDestructorCallback(buffer, freed, (void *)2));

    /* A task, old and new markers and barriers. */
    const cl_int zero = 0, five = 5;
    const size_t global = ITEMS, local = 16;
    cl_event marker, waited[2];
    CHECK(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, ITEMS * sizeof zero, 0, NULL, &waited[0]));
    CHECK(clSetKernelArg(init, 0, sizeof buffer, &buffer));
    CHECK(clEnqueueTask(queue, init, 1, waited, &waited[1]));
    CHECK(clEnqueueBarrierWithWaitList(queue, 2, waited, NULL));
    CHECK(clEnqueueBarrier(queue));
    CHECK(clSetKernelArg(add, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(add, 1, sizeof five, &five));
    CHECK(clEnqueueNDRangeKernel(queue, add, 1, NULL, &global, &local, 0, NULL, NULL));
    CHECK(clEnqueueMarker(queue, &marker));
    CHECK(clSetEventCallback(marker, CL_SUBMITTED, happened, (void *)4));
    CHECK(clSetEventCallback(marker, CL_RUNNING, happened, (void *)8));
    CHECK(clSetEventCallback(marker, CL_COMPLETE, happened, (void *)16));

    /* Polling alone must see it complete, without a flush. */
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    cl_int state;
    do {
        CHECK(clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
        clock_gettime(CLOCK_MONOTONIC, &now);
        REQUIRE(now.tv_sec < start.tv_sec + 20, "still %d after 20 s of polling", state);
    } while (state > CL_COMPLETE);
    REQUIRE(state == CL_COMPLETE, "status is %d", state);
    for (int bit = 4; bit <= 16; bit *= 2)
        wait_for(bit, "an event's callback");
    CHECK(clReleaseEvent(waited[0]));
    CHECK(clReleaseEvent(waited[1]));
    CHECK(clReleaseEvent(marker));

    /* Two maps at once, unmapped by what they returned. */
    cl_int *all = clEnqueueMapBuffer(queue, buffer, CL_TRUE, CL_MAP_READ, 0, ITEMS * sizeof *all, 0, NULL, NULL,
                                     &status);
    CHECK(status);
    cl_int *some = clEnqueueMapBuffer(queue, buffer, CL_FALSE, CL_MAP_READ, 64, 64, 0, NULL, &marker, &status);
    CHECK(status);
    CHECK(clWaitForEvents(1, &marker));
    for (int i = 0; i < ITEMS; i++)
        REQUIRE(all[i] == (i == 0 ? 12 : i == 1 ? 13 : 5), "[%d] is %d", i, all[i]);
    REQUIRE(memcmp(some, all + 16, 64) == 0, "the second map differs");
    CHECK(clGetMemObjectInfo(buffer, CL_MEM_MAP_COUNT, sizeof count, &count, NULL));
    REQUIRE(count == 2, "map count is %u", count);
    CHECK(clEnqueueUnmapMemObject(queue, buffer, some, 0, NULL, NULL));
    CHECK(clEnqueueUnmapMemObject(queue, buffer, all, 0, NULL, NULL));
    CHECK(clReleaseEvent(marker));

    /* Released with a command pending: the destructor's callback comes when that is done. */
    CHECK(clEnqueueNDRangeKernel(queue, add, 1, NULL, &global, &local, 0, NULL, NULL));
    CHECK(clReleaseMemObject(buffer));
    CHECK(clReleaseKernel(init));
    CHECK(clReleaseKernel(add));
    CHECK(clReleaseProgram(program));
    CHECK(clFinish(queue));
    wait_for(2, "the destructor's callback");
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    printf("entry points: ok\n");
    return 0;
}
