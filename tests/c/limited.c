/* A kernel on the end of one buffer: limited NBYTES OPTIONS [OUTPUT].  Says what the device has, and "right".
 *
 * NBYTES 0: a buffer as large as the device allows, all of it written. */
#include "opencl_check.h"

static const char source[] =
    "#ifdef WITH\n#include WITH\n#endif\n"
    "kernel void k(global int *a) { a[get_global_id(0)] = 3 * (int)get_global_id(0) + 1; }\n";

int main(int argc, char **argv)
{
    FILE *out = argc > 3 ? fopen(argv[3], "w") : stdout;
    cl_ulong memory, largest;
    cl_int status, got[4];
    size_t count, nbytes = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 4096;

    cl_device_id device = first_device();
    CHECK(clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL));
    fprintf(out, "%llu %llu\n", (unsigned long long)memory, (unsigned long long)largest);

    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    const char *text = source;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    CHECK(status);
    status = clBuildProgram(program, 1, &device, argc > 2 ? argv[2] : "", NULL, NULL);
    if (status) {
        static char log[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(out, "build failed with %d: %s\n", status, log);
        return fclose(out) != 0;
    }
    cl_kernel kernel = clCreateKernel(program, "k", &status);
    CHECK(status);
    count = nbytes ? 16384 : largest / 4;
    nbytes = nbytes ? nbytes : count * 4;
    cl_mem buffer = clCreateBuffer(context, 0, nbytes, NULL, &status);
    CHECK(status);
    size_t offset = nbytes / 4 - (count < nbytes / 4 ? count : nbytes / 4), items = nbytes / 4 - offset;
    CHECK(clSetKernelArg(kernel, 0, sizeof buffer, &buffer));
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, &offset, &items, NULL, 0, NULL, NULL));
    CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, nbytes - sizeof got, sizeof got, got, 0, NULL, NULL));
    for (int i = 0; i < 4; i++)
        REQUIRE(got[i] == 3 * ((int)(nbytes / 4) - 4 + i) + 1, "item %d is %d", i, got[i]);
    CHECK(clReleaseMemObject(buffer));
    fprintf(out, "right\n");
    return fclose(out) != 0;
}
