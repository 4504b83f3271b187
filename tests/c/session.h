/* One round of everything: device, context, queue, program, launch, check. */
#ifndef SESSION_H
#define SESSION_H

#include "opencl_check.h"

enum { SESSION_ITEMS = 640 };

typedef struct {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    cl_mem buffer;
    cl_uint expected[SESSION_ITEMS];
} session_t;

/* Append a digit to each number on the device, read them back, and compare. */
static inline void session_step(session_t *s, cl_uint digit)
{
    const size_t global = SESSION_ITEMS, local = 32;
    cl_uint result[SESSION_ITEMS];

    CHECK(clSetKernelArg(s->kernel, 0, sizeof s->buffer, &s->buffer));
    CHECK(clSetKernelArg(s->kernel, 1, sizeof digit, &digit));
    CHECK(clEnqueueNDRangeKernel(s->queue, s->kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(s->queue, s->buffer, CL_TRUE, 0, sizeof result, result, 0, NULL, NULL));
    for (cl_uint i = 0; i < SESSION_ITEMS; i++) {
        s->expected[i] = s->expected[i] * 10 + digit + i / local;
        REQUIRE(result[i] == s->expected[i], "[%u] is %u, expected %u", i, result[i], s->expected[i]);
    }
}

static inline session_t session_start(void)
{
    static const char *source = "__kernel void ss_append(__global uint *data, uint digit)\n"
                                "{\n"
                                "    size_t i = get_global_id(0);\n"
                                "    data[i] = data[i] * 10 + digit + (uint)get_group_id(0);\n"
                                "}\n";
    cl_int status;
    cl_uint zero = 0;
    cl_device_id device = first_device();
    session_t s = {0};

    s.context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    s.queue = clCreateCommandQueue(s.context, device, 0, &status);
    CHECK(status);
    s.program = built_program(s.context, device, source);
    s.kernel = clCreateKernel(s.program, "ss_append", &status);
    CHECK(status);
    s.buffer = clCreateBuffer(s.context, CL_MEM_READ_WRITE, sizeof s.expected, NULL, &status);
    CHECK(status);
    CHECK(clEnqueueFillBuffer(s.queue, s.buffer, &zero, sizeof zero, 0, sizeof s.expected, 0, NULL, NULL));
    session_step(&s, 1);
    return s;
}

static inline void session_end(session_t *s)
{
    CHECK(clReleaseMemObject(s->buffer));
    CHECK(clReleaseKernel(s->kernel));
    CHECK(clReleaseProgram(s->program));
    CHECK(clReleaseCommandQueue(s->queue));
    CHECK(clReleaseContext(s->context));
}

#endif
