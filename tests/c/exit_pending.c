/* Ends with work pending, in the way that its argument names. */
#include "session.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

enum { LAUNCHES = 200, ITEMS = 4096 };

static const char *source = "__kernel void ep_spin(__global float *data, int rounds)\n"
                            "{\n"
                            "    float v = data[get_global_id(0)];\n"
                            "    for (int k = 0; k < rounds; k++)\n"
                            "        v = v * 0.999f + 0.5f;\n"
                            "    data[get_global_id(0)] = v;\n"
                            "}\n";

static float result[ITEMS];

static void CL_CALLBACK ignore(cl_event event, cl_int status, void *data)
{
    (void)event, (void)status, (void)data;
}

static void *exit_from_here(void *argument)
{
    (void)argument;
    exit(0);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "exit";
    const size_t global = ITEMS, local = 64;
    const float zero = 0;
    const cl_int rounds = 20000;
    cl_int status;
    cl_device_id device = first_device();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    cl_kernel kernel = clCreateKernel(built_program(context, device, source), "ep_spin", &status);
    CHECK(status);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof result, NULL, &status);
    CHECK(status);
    cl_event gate = clCreateUserEvent(context, &status);
    CHECK(status);

    CHECK(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, sizeof result, 0, NULL, NULL));
    CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(kernel, 1, sizeof rounds, &rounds));
    for (int k = 0; k < LAUNCHES; k++) {
        cl_event event;
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, sizeof result, result, 0, NULL, &event));
        CHECK(clSetEventCallback(event, CL_COMPLETE, ignore, NULL));
        if (k == LAUNCHES / 2 && strcmp(how, "gated") == 0)
            CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, NULL));
    }
    CHECK(clFlush(queue));
    printf("leaving by %s\n", how);
    fflush(stdout);

    if (strcmp(how, "_exit") == 0)
        _exit(0);
    if (strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, exit_from_here, NULL);
        CHECK(clFinish(queue));
        for (;;)
            pause();
    }
    if (strcmp(how, "return") == 0)
        return 0;
    exit(0);
}
