/* A round: two new buffers, one filled by the host, a short kernel, its result read, both released.
 *
 *   new_buffers NAME ROUNDS NBYTES [copy] [vary] [early]
 *
 * NAME: how the platform's name starts.  NBYTES: of each buffer.  copy: the first is made with
 * CL_MEM_COPY_HOST_PTR instead of written.  vary: NBYTES and 64 * (round % 97) more.  early: buffers are released
 * before the queue is finished, which a read that does not wait makes last.  Prints seconds of each round's
 * median, and of all rounds divided by their number, after ten rounds that do not count.  Exit status 0: all is
 * well, 1: an OpenCL call failed or an answer was wrong (said on stderr).
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM 10
#define LOCAL 64

static const char *const SOURCE =
    "__kernel void advance(__global const int *from, __global int *to, int n)"
    "{ int i = get_global_id(0); if (i < n) to[i] = 3 * from[i] + 1; }";

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "new_buffers: %s: error %d\n", what, (int)status);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static cl_platform_id find_platform(const char *name)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char found[256] = "";
        check(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof found, found, NULL), "clGetPlatformInfo");
        if (strncmp(found, name, strlen(name)) == 0)
            return platforms[i];
    }
    fprintf(stderr, "new_buffers: no platform is called %s\n", name);
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: new_buffers NAME ROUNDS NBYTES [copy] [vary] [early]\n");
        return 1;
    }
    int rounds = atoi(argv[2]), copies = 0, varies = 0, is_early = 0;
    size_t given_nbytes = strtoul(argv[3], NULL, 0);
    for (int i = 4; i < argc; i++) {
        copies |= strcmp(argv[i], "copy") == 0;
        varies |= strcmp(argv[i], "vary") == 0;
        is_early |= strcmp(argv[i], "early") == 0;
    }
    cl_platform_id platform = find_platform(argv[1]);
    cl_device_id device;
    cl_int status;
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "clCreateCommandQueue");
    const char *source = SOURCE;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "advance", &status);
    check(status, "clCreateKernel");

    size_t most_nbytes = given_nbytes + 64 * 97;
    int *given = malloc(most_nbytes), *found = malloc(most_nbytes);
    double *took = malloc(sizeof *took * (size_t)rounds);
    if (!given || !found || !took)
        return 1;
    for (size_t i = 0; i < most_nbytes / sizeof *given; i++)
        given[i] = (int)i;
    double begin = 0;
    for (int round = -WARM; round < rounds; round++) {
        size_t nbytes = given_nbytes + (varies ? 64 * (size_t)((round + WARM) % 97) : 0);
        size_t count = nbytes / sizeof *given;
        cl_int n = (cl_int)count;
        given[0] = given[count - 1] = round;
        double start = now();
        if (round == 0)
            begin = start;
        cl_mem_flags flags = CL_MEM_READ_ONLY | (copies ? CL_MEM_COPY_HOST_PTR : 0);
        cl_mem from = clCreateBuffer(context, flags, nbytes, copies ? given : NULL, &status);
        check(status, "clCreateBuffer");
        cl_mem to = clCreateBuffer(context, CL_MEM_WRITE_ONLY, nbytes, NULL, &status);
        check(status, "clCreateBuffer");
        if (!copies)
            check(clEnqueueWriteBuffer(queue, from, CL_FALSE, 0, nbytes, given, 0, NULL, NULL), "write");
        check(clSetKernelArg(kernel, 0, sizeof from, &from), "clSetKernelArg");
        check(clSetKernelArg(kernel, 1, sizeof to, &to), "clSetKernelArg");
        check(clSetKernelArg(kernel, 2, sizeof n, &n), "clSetKernelArg");
        size_t local = LOCAL, global = (count + LOCAL - 1) / LOCAL * LOCAL;
        check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL), "launch");
        check(clEnqueueReadBuffer(queue, to, is_early ? CL_FALSE : CL_TRUE, 0, nbytes, found, 0, NULL, NULL), "read");
        if (!is_early)
            check(clFinish(queue), "clFinish");
        check(clReleaseMemObject(from), "clReleaseMemObject");
        check(clReleaseMemObject(to), "clReleaseMemObject");
        if (is_early)
            check(clFinish(queue), "clFinish");
        if (round >= 0)
            took[round] = now() - start;
        for (size_t i = 0; i < count; i += i + 1 < count ? count - 1 : 1)
            if (found[i] != 3 * given[i] + 1) {
                fprintf(stderr, "new_buffers: round %d: element %zu is %d\n", round, i, found[i]);
                return 1;
            }
    }
    double all = now() - begin;
    qsort(took, (size_t)rounds, sizeof *took, compare);
    printf("median %.9g\nmean %.9g\n", took[rounds / 2], all / rounds);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    free(given);
    free(found);
    free(took);
    return 0;
}
