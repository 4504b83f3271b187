/* What the C programs share: the device under test, and calls that must succeed. */
#ifndef OPENCL_CHECK_H
#define OPENCL_CHECK_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#include <CL/cl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* End the process unless status is CL_SUCCESS. */
#define CHECK(status) check_status((status), #status, __FILE__, __LINE__)

/* End the process unless the condition holds. */
#define REQUIRE(condition, ...)                                                                                \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);                                    \
            fprintf(stderr, __VA_ARGS__);                                                                      \
            fputc('\n', stderr);                                                                               \
            _exit(1);                                                                                          \
        }                                                                                                      \
    } while (0)

static inline void check_status(cl_int status, const char *call, const char *file, int line)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "%s:%d: %s failed with %d\n", file, line, call, status);
        _exit(1);
    }
}

/* The first platform whose name contains OCL_TEST_PLATFORM, or the first of all. */
static inline cl_platform_id first_platform(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    const char *wanted = getenv("OCL_TEST_PLATFORM");

    CHECK(clGetPlatformIDs(16, platforms, &count));
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[256];
        CHECK(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL));
        if (wanted == NULL || strstr(name, wanted) != NULL)
            return platforms[i];
    }
    REQUIRE(0, "no platform %s", wanted ? wanted : "at all");
    return NULL;
}

static inline cl_device_id first_device(void)
{
    cl_device_id device;
    CHECK(clGetDeviceIDs(first_platform(), CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    return device;
}

/* A built program; a failure prints the log and ends the process. */
static inline cl_program built_program(cl_context context, cl_device_id device, const char *source)
{
    cl_int status;
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, &status);
    CHECK(status);
    status = clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (status != CL_SUCCESS) {
        static char log[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        REQUIRE(0, "build failed with %d:\n%s", status, log);
    }
    return program;
}

#endif
