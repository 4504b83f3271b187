/* A launch and a wait on three buffers in memory of the application (CL_MEM_USE_HOST_PTR), which looks there without a map.
 *
 *     gcc -O2 -o host_pointers bench/host_pointers.c -l:libOpenCL.so.1
 *     OCL_ICD_VENDORS=... ./host_pointers INTS STEPS [writes | reads | maps]
 *
 * Prints the median and the ninth of ten, in us.  `writes`: the program changes an integer before each launch.  `reads`: the
 * kernel writes one integer alone.  `maps`: the program maps one buffer in place of waiting.  As on the drivers of CPUs: on
 * those of GPUs the results are not there without a map. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFERS = 3, FIRST = 200, PAGE = 4096 };

static const char *const source =
    "kernel void change(global int *a, global int *b, global int *c)\n"
    "{\n"
    "    int i = get_global_id(0);\n"
    "    a[i] += 1;\n"
    "    b[i] += 2;\n"
    "    c[i] = a[i] + b[i];\n"
    "}\n"
    "kernel void change_one(global int *a, global int *b, global int *c)\n"
    "{\n"
    "    int i = get_global_id(0);\n"
    "    if (i == 0)\n"
    "        b[i] += 2 + (a[i] + c[i] == -1);\n"
    "}\n";

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void check(cl_int status, const char *what)
{
    if (status == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, status);
    exit(1);
}

int main(int count, char **arguments)
{
    const size_t ints = count > 1 ? strtoull(arguments[1], NULL, 10) : 1024, nbytes = ints * sizeof(cl_int);
    const int steps = count > 2 ? atoi(arguments[2]) : 3000;
    const char *way = count > 3 ? arguments[3] : "";
    const bool writes = strcmp(way, "writes") == 0, maps = strcmp(way, "maps") == 0;
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL), "platform");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "queue");
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &status);
    check(status, "program");
    check(clBuildProgram(program, 1, &device, "", NULL, NULL), "build");
    cl_kernel kernel = clCreateKernel(program, strcmp(way, "reads") == 0 ? "change_one" : "change", &status);
    check(status, "kernel");
    cl_int *memory[BUFFERS];
    cl_mem buffers[BUFFERS];
    for (cl_uint i = 0; i < BUFFERS; i++) {
        memory[i] = aligned_alloc(PAGE, (nbytes + PAGE - 1) / PAGE * PAGE);
        if (!memory[i])
            return 1;
        memset(memory[i], 0, nbytes);
        buffers[i] = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, nbytes, memory[i], &status);
        check(status, "buffer");
        check(clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]), "argument");
    }
    double *took = malloc((size_t)(FIRST + steps) * sizeof *took);
    if (!took)
        return 1;
    for (int step = 0; step < FIRST + steps; step++) {
        const double begin = now_us();
        if (writes)
            memory[0][(size_t)step % ints] += 5;
        check(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &ints, NULL, 0, NULL, NULL), "launch");
        if (maps) {
            void *mapped = clEnqueueMapBuffer(queue, buffers[1], CL_TRUE, CL_MAP_READ, 0, nbytes, 0, NULL, NULL, &status);
            check(status, "map");
            check(clEnqueueUnmapMemObject(queue, buffers[1], mapped, 0, NULL, NULL), "unmap");
        } else {
            check(clFinish(queue), "wait");
        }
        took[step] = now_us() - begin;
        if (memory[1][0] != 2 * (step + 1)) {
            fprintf(stderr, "step %d: %d in place of %d\n", step, memory[1][0], 2 * (step + 1));
            return 1;
        }
    }
    qsort(took + FIRST, (size_t)steps, sizeof *took, by_size);
    printf("%zu ints %s: median %.1f us, ninth of ten %.1f\n", ints, way, took[FIRST + steps / 2], took[FIRST + steps * 9 / 10]);
    return 0;
}
