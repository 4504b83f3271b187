/* Threads with a fine-grained region each, which they write between launches without a command. */
#include "opencl_check.h"

#include <pthread.h>

enum { THREADS = 3, NUM = 1 << 16, ROUNDS = 60, WRITES = 3 };

static const char *source = "kernel void add(global int *data, int term) { data[get_global_id(0)] += term; }";
static cl_context context;
static cl_device_id device;

static void *use(void *argument)
{
    unsigned seed = (unsigned)(size_t)argument;
    cl_int status;
    cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
    CHECK(status);
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    CHECK(status);
    CHECK(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "add", &status);
    CHECK(status);
    cl_int *expected = calloc(NUM, sizeof *expected);
    cl_int *region = clSVMAlloc(context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, NUM * sizeof *region, 0);
    REQUIRE(expected && region, "%s", "no memory");
    memset(region, 0, NUM * sizeof *region);
    CHECK(clSetKernelArgSVMPointer(kernel, 0, region));
    for (cl_int round = 0; round < ROUNDS; round++) {
        const size_t global = NUM;
        for (int write = 0; write < WRITES; write++) {
            const int at = rand_r(&seed) % NUM;
            region[at] = expected[at] = rand_r(&seed) % 1000;
        }
        CHECK(clSetKernelArg(kernel, 1, sizeof round, &round));
        CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
        CHECK(clFinish(queue));
        for (int i = 0; i < NUM; i++) {
            expected[i] += round;
            REQUIRE(region[i] == expected[i], "round %d, %d: %d, not %d", round, i, region[i], expected[i]);
        }
    }
    clSVMFree(context, region);
    free(expected);
    CHECK(clReleaseKernel(kernel));
    CHECK(clReleaseProgram(program));
    CHECK(clReleaseCommandQueue(queue));
    return NULL;
}

int main(void)
{
    cl_int status;
    pthread_t threads[THREADS];
    device = first_device();
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    for (size_t i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, use, (void *)(i + 1)) == 0, "%s", "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK(clReleaseContext(context));
    printf("regions of threads: ok\n");
    return 0;
}
