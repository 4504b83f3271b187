/* The loop of a learner of trees on a GPU (LightGBM's): threads gather what belongs to a leaf, three writes of as many bytes,
 * a launch, a map of a few KiB that is waited for.
 *
 * cc -O2 -fopenmp -o leaves bench/leaves.c -lOpenCL && OCL_ICD_VENDORS=folder ./leaves [NUMBER]
 *
 * On the first device of the first platform; leaves of other lengths each time, up to the number that a line begins with,
 * 1,024 to 1,048,576 or the one that is given.
 * Microseconds, in the median: of all but the gathering; of that until the writes are enqueued; then until the map is.
 * The sum is the same on any device that adds floats in the same order.  Threads spin between loops as OpenMP's do, on all
 * cores: OMP_NUM_THREADS leaves some to the service. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 20, GROUPS = 60, GROUP = 256, KEPT = 64, ROUNDS = 300, FEW_ROUNDS = 60, WARM = 5 };

static const char *source =
    "kernel void sum(global const int *rows, global const float *g, global const float *h, global float *out, int count)\n"
    "{\n"
    "    local float sums[256];\n"
    "    int own = get_local_id(0);\n"
    "    float found = 0;\n"
    "    for (int i = get_global_id(0); i < count; i += get_global_size(0))\n"
    "        found += g[i] * h[i] + rows[i];\n"
    "    sums[own] = found;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (own < 64)\n"
    "        out[get_group_id(0) * 64 + own] = sums[own] + sums[own + 64] + sums[own + 128] + sums[own + 192];\n"
    "}\n";

static void check(cl_int status, const char *what)
{
    if (status) {
        fprintf(stderr, "%s: %d\n", what, status);
        exit(1);
    }
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static int compare(const void *one, const void *two)
{
    const double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

static double median(double *times, int count)
{
    qsort(times, count, sizeof *times, compare);
    return times[count / 2];
}

int main(int num_arguments, char **arguments)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 0, NULL, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "sum", &status);
    check(status, "clCreateKernel");
    int *rows = malloc(MOST * sizeof *rows);
    float *gathered[2], *whole[2];
    cl_mem buffers[4];
    for (int n = 0; n < 2; n++) {
        gathered[n] = malloc(MOST * sizeof(float));
        whole[n] = malloc(MOST * sizeof(float));
    }
    for (long i = 0; i < MOST; i++) {
        rows[i] = (int)(i * 7919 % MOST);
        whole[0][i] = (float)i;
        whole[1][i] = 1;
    }
    for (cl_uint n = 0; n < 4; n++) {
        const size_t nbytes = n < 3 ? MOST * sizeof(float) : GROUPS * KEPT * sizeof(float);
        buffers[n] = clCreateBuffer(context, n < 3 ? CL_MEM_READ_ONLY : CL_MEM_READ_WRITE, nbytes, NULL, &status);
        check(status, "clCreateBuffer");
        check(clSetKernelArg(kernel, n, sizeof buffers[n], &buffers[n]), "clSetKernelArg");
    }
    const size_t global = GROUPS * GROUP, group = GROUP;
    const int only = num_arguments > 1 ? atoi(arguments[1]) : 0;
    for (int most = 1024; most <= MOST; most *= 4) {
        if (only && most != only)
            continue;
        const int rounds = most > 200000 ? FEW_ROUNDS : ROUNDS;
        double all[ROUNDS], writes[ROUNDS], launch[ROUNDS], sum = 0;
        for (int round = 0; round < rounds; round++) {
            const int count = most - round * 37 % (most / 2);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
            for (int i = 0; i < count; i++) {
                gathered[0][i] = whole[0][rows[i]];
                gathered[1][i] = whole[1][rows[i]];
            }
            const void *from[3] = {rows, gathered[0], gathered[1]};
            const double begin = now_us();
            for (int n = 0; n < 3; n++)
                check(clEnqueueWriteBuffer(queue, buffers[n], 0, 0, count * sizeof(float), from[n], 0, NULL, NULL), "write");
            const double written = now_us();
            cl_event mapped;
            check(clSetKernelArg(kernel, 4, sizeof count, &count), "clSetKernelArg");
            check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &group, 0, NULL, NULL), "launch");
            const float *out = clEnqueueMapBuffer(queue, buffers[3], 0, CL_MAP_READ, 0, GROUPS * KEPT * sizeof(float), 0, NULL,
                                                  &mapped, &status);
            check(status, "map");
            const double enqueued = now_us();
            check(clWaitForEvents(1, &mapped), "wait");
            all[round] = now_us() - begin;
            writes[round] = written - begin;
            launch[round] = enqueued - written;
            for (int i = 0; i < KEPT; i++)
                sum += out[i];
            check(clEnqueueUnmapMemObject(queue, buffers[3], (void *)out, 0, NULL, NULL), "unmap");
            check(clReleaseEvent(mapped), "clReleaseEvent");
        }
        const int count = rounds - WARM;
        printf("%8d: %8.1f us, writes %7.1f, launch and map %6.1f; sum %g\n", most, median(all + WARM, count),
               median(writes + WARM, count), median(launch + WARM, count), sum);
    }
    return 0;
}
