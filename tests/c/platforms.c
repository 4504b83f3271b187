/* Only asks for platforms, and says how long that took. */
#include "opencl_check.h"

#include <time.h>

int main(void)
{
    struct timespec start, end;
    cl_platform_id platforms[16];
    cl_uint count = 0;
    char name[256] = "none";

    clock_gettime(CLOCK_MONOTONIC, &start);
    cl_int status = clGetPlatformIDs(16, platforms, &count);
    REQUIRE(status == CL_SUCCESS || status == -1001, "clGetPlatformIDs failed with %d", status);
    if (status == CL_SUCCESS && count > 0)
        CHECK(clGetPlatformInfo(platforms[0], CL_PLATFORM_NAME, sizeof name, name, NULL));
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ms = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) / 1e6;
    printf("platforms %u\nname %s\nms %.3f\n", count, name, ms);
    return 0;
}
