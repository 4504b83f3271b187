/* Eight threads, each with a queue, a program, a kernel and buffers of its own, in one context. */
#include "opencl_check.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 60, ITEMS = 1000, LOCAL = 50 };

static const char *source =
    "__kernel void ct_step(__global const uint *in, __global uint *out, uint factor, __local uint *tile)\n"
    "{\n"
    "    size_t i = get_global_id(0), l = get_local_id(0), n = get_local_size(0);\n"
    "    tile[l] = in[i];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    out[i] = tile[(l + 1) % n] * factor + (uint)get_group_id(0);\n"
    "}\n";

static cl_context context;
static cl_device_id device;

static void step(cl_uint *data, cl_uint factor)
{
    static _Thread_local cl_uint out[ITEMS];
    for (int i = 0; i < ITEMS; i++) {
        int group = i / LOCAL, l = i % LOCAL;
        out[i] = data[group * LOCAL + (l + 1) % LOCAL] * factor + (cl_uint)group;
    }
    memcpy(data, out, sizeof out);
}

static void *work(void *argument)
{
    int id = (int)(size_t)argument;
    cl_int status;
    cl_uint data[ITEMS], result[ITEMS];
    const size_t global = ITEMS, local = LOCAL;

    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    cl_program program = built_program(context, device, source);
    cl_kernel kernel = clCreateKernel(program, "ct_step", &status);
    CHECK(status);
    cl_mem a = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof data, NULL, &status);
    CHECK(status);
    cl_mem b = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof data, NULL, &status);
    CHECK(status);

    for (int i = 0; i < ITEMS; i++)
        data[i] = (cl_uint)(i * 17 + id);
    CHECK(clEnqueueWriteBuffer(queue, a, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        cl_uint factor = (cl_uint)(2 * round + 3 + id);
        cl_event launched;
        CHECK(clSetKernelArg(kernel, 0, sizeof a, &a));
        CHECK(clSetKernelArg(kernel, 1, sizeof b, &b));
        CHECK(clSetKernelArg(kernel, 2, sizeof factor, &factor));
        CHECK(clSetKernelArg(kernel, 3, LOCAL * sizeof(cl_uint), NULL));
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, &launched));
        step(data, factor);
        CHECK(clEnqueueReadBuffer(queue, b, round % 2 ? CL_FALSE : CL_TRUE, 0, sizeof result, result, 1,
                                  &launched, NULL));
        CHECK(clReleaseEvent(launched));
        if (round % 2)
            CHECK(clFinish(queue));
        for (int i = 0; i < ITEMS; i++)
            REQUIRE(result[i] == data[i], "thread %d, round %d, [%d]: %u, expected %u", id, round, i, result[i],
                    data[i]);
        cl_mem swap = a;
        a = b;
        b = swap;
    }
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    cl_int status;

    device = first_device();
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0, "no thread %zu", i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(clReleaseContext(context));
    printf("%d threads, %d rounds each: ok\n", THREADS, ROUNDS);
    return 0;
}
