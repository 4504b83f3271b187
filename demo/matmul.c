/* Multiplies two matrices with OpenCL, tile by tile, and checks the result.
 *
 *     cc -O2 -o matmul matmul.c -lOpenCL -lm && ./matmul [size [rounds [file]]]
 *
 * Each round multiplies the last product by the same matrix again.  Prints the device, a checksum of the
 * result's bytes, and the time of the rounds; the file gets those bytes. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TILE 16

static const char *source =
    "#define TILE 16\n"
    "__kernel void matmul(__global const float *a, __global const float *b, __global float *c, int n)\n"
    "{\n"
    "    __local float a_tile[TILE][TILE], b_tile[TILE][TILE];\n"
    "    int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);\n"
    "    float sum = 0.0f;\n"
    "    for (int t = 0; t < n; t += TILE) {\n"
    "        a_tile[ly][lx] = y < n && t + lx < n ? a[y * n + t + lx] : 0.0f;\n"
    "        b_tile[ly][lx] = x < n && t + ly < n ? b[(t + ly) * n + x] : 0.0f;\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (int k = 0; k < TILE; ++k)\n"
    "            sum += a_tile[ly][k] * b_tile[k][lx];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    if (x < n && y < n)\n"
    "        c[y * n + x] = sum;\n"
    "}\n";

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "%s failed with %d\n", what, status);
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Numbers in [0, 1) / n, so that products stay below 1. */
static void fill(float *matrix, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n * n; i++) {
        seed = seed * 1664525u + 1013904223u;
        matrix[i] = (float)(seed >> 8) / 16777216.0f / (float)n;
    }
}

/* The first platform with a device. */
static cl_device_id first_device(void)
{
    cl_platform_id platforms[16];
    cl_device_id device;
    cl_uint count = 0;

    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
            return device;
    fprintf(stderr, "no OpenCL device\n");
    exit(1);
}

int main(int argc, char **argv)
{
    const size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
    const int rounds = argc > 2 ? atoi(argv[2]) : 4;
    const size_t bytes = n * n * sizeof(float);
    const cl_int size = (cl_int)n;
    cl_int status;
    char name[256];

    if (n < 1 || n > 16384 || rounds < 1) {
        fprintf(stderr, "usage: %s [size [rounds [file]]]\n", argv[0]);
        return 2;
    }
    float *a = malloc(bytes), *b = malloc(bytes), *before = malloc(bytes), *c = malloc(bytes);
    if (!a || !b || !before || !c) {
        fprintf(stderr, "no memory for %zu x %zu\n", n, n);
        return 1;
    }
    fill(a, n, 1);
    fill(b, n, 2);

    cl_device_id device = first_device();
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "clGetDeviceInfo");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "matmul", &status);
    check(status, "clCreateKernel");
    cl_mem a_dev = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, bytes, a, &status);
    check(status, "clCreateBuffer");
    cl_mem b_dev = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes, b, &status);
    check(status, "clCreateBuffer");
    cl_mem c_dev = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &status);
    check(status, "clCreateBuffer");
    const size_t local[2] = {TILE, TILE}, side = (n + TILE - 1) / TILE * TILE, global[2] = {side, side};

    check(clSetKernelArg(kernel, 1, sizeof b_dev, &b_dev), "clSetKernelArg");
    check(clSetKernelArg(kernel, 3, sizeof size, &size), "clSetKernelArg");
    /* Some drivers compile at the first launch, which is not measured. */
    check(clSetKernelArg(kernel, 0, sizeof a_dev, &a_dev), "clSetKernelArg");
    check(clSetKernelArg(kernel, 2, sizeof c_dev, &c_dev), "clSetKernelArg");
    check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, local, local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
    check(clFinish(queue), "clFinish");

    double start = now();
    for (int round = 0; round < rounds; round++) {
        check(clSetKernelArg(kernel, 0, sizeof a_dev, &a_dev), "clSetKernelArg");
        check(clSetKernelArg(kernel, 2, sizeof c_dev, &c_dev), "clSetKernelArg");
        check(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, local, 0, NULL, NULL),
              "clEnqueueNDRangeKernel");
        cl_mem swap = a_dev;
        a_dev = c_dev;
        c_dev = swap;
    }
    check(clEnqueueReadBuffer(queue, a_dev, CL_TRUE, 0, bytes, c, 0, NULL, NULL), "clEnqueueReadBuffer");
    double seconds = now() - start;

    /* The last product is before x b, and c_dev holds what came before; with one round, that is a. */
    check(clEnqueueReadBuffer(queue, c_dev, CL_TRUE, 0, bytes, before, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (size_t i = 0; i < 200; i++) {
        size_t y = i * 7919 % n, x = i * 104729 % n;
        double sum = 0;
        for (size_t k = 0; k < n; k++)
            sum += (double)before[y * n + k] * b[k * n + x];
        if (!(fabs(c[y * n + x] - sum) <= 1e-4 * sum)) {
            fprintf(stderr, "wrong: [%zu][%zu] is %g, expected %g\n", y, x, c[y * n + x], sum);
            return 1;
        }
    }

    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)c)[i]) * 1099511628211u;
    if (argc > 3) {
        FILE *file = fopen(argv[3], "wb");
        if (file == NULL || fwrite(c, 1, bytes, file) != bytes || fclose(file) != 0) {
            perror(argv[3]);
            return 1;
        }
    }
    printf("device %s\n", name);
    printf("%d products of %zu x %zu: right\n", rounds, n, n);
    printf("checksum %016llx\n", (unsigned long long)hash);
    printf("time %.3f\n", seconds);

    clReleaseMemObject(a_dev);
    clReleaseMemObject(b_dev);
    clReleaseMemObject(c_dev);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    free(a);
    free(b);
    free(before);
    free(c);
    return 0;
}
