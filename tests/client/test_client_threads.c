/* Eight threads use one context at once: each has a queue and buffers of its own; all take turns with objects. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

enum { NUM_THREADS = 8, NUM_STEPS = 60, NUM_ITEMS = 256 };

static cl_device_id device;
static cl_context context;
static const char *source = "__kernel void add(__global int *data, int term) { data[get_global_id(0)] += term; }";

static void CL_CALLBACK count(cl_event event, cl_int status, void *data)
{
    (void)event;
    CHECK(status == CL_COMPLETE);
    __atomic_fetch_add((int *)data, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument)
{
    static int num_called;
    cl_int number = (cl_int)(size_t)argument, status;
    int in[NUM_ITEMS] = {0}, out[NUM_ITEMS];
    cl_command_queue queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &status);
    CHECK(status == CL_SUCCESS);
    for (int step = 0; step < NUM_STEPS; step++) {
        cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
        CHECK(clBuildProgram(program, 0, NULL, NULL, NULL, NULL) == CL_SUCCESS);
        cl_kernel kernel = clCreateKernel(program, "add", &status);
        cl_mem buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof in, in, &status);
        CHECK(status == CL_SUCCESS);
        CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS);
        CHECK(clSetKernelArg(kernel, 1, sizeof number, &number) == CL_SUCCESS);
        size_t items = NUM_ITEMS;
        cl_event events[2];
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, &events[0]) == CL_SUCCESS);
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, sizeof out, out, 1, events, &events[1]) == CL_SUCCESS);
        CHECK(clSetEventCallback(events[1], CL_COMPLETE, count, &num_called) == CL_SUCCESS);
        CHECK(clReleaseKernel(kernel) == CL_SUCCESS);
        CHECK(clReleaseProgram(program) == CL_SUCCESS);
        CHECK(clReleaseMemObject(buffer) == CL_SUCCESS);
        CHECK(clWaitForEvents(2, events) == CL_SUCCESS);
        for (int i = 0; i < NUM_ITEMS; i++)
            CHECK(out[i] == number);
        CHECK(clReleaseEvent(events[0]) == CL_SUCCESS);
        CHECK(clReleaseEvent(events[1]) == CL_SUCCESS);
    }
    CHECK(clFinish(queue) == CL_SUCCESS);
    CHECK(clReleaseCommandQueue(queue) == CL_SUCCESS);
    return NULL;
}

int main(void)
{
    cl_platform_id platform;
    cl_int status;
    pthread_t threads[NUM_THREADS];
    CHECK(clGetPlatformIDs(1, &platform, NULL) == CL_SUCCESS);
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status == CL_SUCCESS);
    for (size_t i = 0; i < NUM_THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < NUM_THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(clReleaseContext(context) == CL_SUCCESS);
    return 0;
}
