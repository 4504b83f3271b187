/* Kernels print: every line once, through this program's own stdio, before the launch is complete. */
#include "session.h"

#include <fcntl.h>

enum { ITEMS = 5000, ROUNDS = 3 };

static const char *source = "void tell(int round, int item) { printf(\"%d:%d %s\\n\", round, item, \"done\"); }\n"
                            "__kernel void pr_tell(__global int *seen, int round)\n"
                            "{\n"
                            "    int item = get_global_id(0);\n"
                            "    seen[item] += 1;\n"
                            "    tell(round, item);\n"
                            "}\n"
                            "__kernel void pr_quiet(__global int *seen)\n"
                            "{\n"
                            "    if (seen[get_global_id(0)] < 0)\n"
                            "        printf(\"never\\n\");\n"
                            "}\n"
                            "__kernel void pr_silent(__global int *seen) { seen[get_global_id(0)] *= 2; }\n";

static char counts[ROUNDS][ITEMS];

/* Reads what stdout's file has got since the last call; every line once, no other. */
static size_t look(int file)
{
    static char text[1 << 20];
    static size_t seen;
    fflush(stdout);
    ssize_t got = pread(file, text, sizeof text - 1, (off_t)seen);
    REQUIRE(got >= 0, "read");
    text[got] = 0;
    seen += (size_t)got;
    size_t lines = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), lines++) {
        int round, item, end = 0;
        REQUIRE(sscanf(line, "%d:%d done%n", &round, &item, &end) == 2 && line[end] == 0, "a line '%s'", line);
        REQUIRE(round >= 0 && round < ROUNDS && item >= 0 && item < ITEMS, "a line '%s'", line);
        REQUIRE(counts[round][item]++ == 0, "twice '%s'", line);
    }
    return lines;
}

int main(void)
{
    const size_t global = ITEMS, local = 50;
    const cl_int zero = 0;
    cl_int status, seen[ITEMS];
    cl_device_id device = first_device();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &status);
    CHECK(status);
    cl_program program = built_program(context, device, source);
    cl_kernel tell = clCreateKernel(program, "pr_tell", &status), quiet = clCreateKernel(program, "pr_quiet", &status);
    CHECK(status);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof seen, NULL, &status);
    CHECK(status);
    CHECK(clEnqueueFillBuffer(queue, buffer, &zero, sizeof zero, 0, sizeof seen, 0, NULL, NULL));
    CHECK(clSetKernelArg(tell, 0, sizeof buffer, &buffer));
    CHECK(clSetKernelArg(quiet, 0, sizeof buffer, &buffer));

    char name[] = "/tmp/sdi-prints-XXXXXX";
    int file = mkstemp(name);
    REQUIRE(file >= 0, "%s", name);
    unlink(name);
    REQUIRE(dup2(file, STDOUT_FILENO) >= 0, "dup2");
    for (cl_int round = 0; round < ROUNDS; round++) {
        cl_event event;
        CHECK(clSetKernelArg(tell, 1, sizeof round, &round));
        CHECK(clEnqueueNDRangeKernel(queue, tell, 1, NULL, &global, &local, 0, NULL, &event));
        if (round == 0)
            CHECK(clFinish(queue));
        else if (round == 1)
            CHECK(clWaitForEvents(1, &event));
        else
            CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof seen, seen, 0, NULL, NULL));
        size_t lines = look(file);
        REQUIRE(lines == ITEMS, "%zu lines in round %d", lines, round);
        cl_ulong start, end;
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
        CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
        REQUIRE(start < end, "from %lu to %lu", start, end);
        CHECK(clReleaseEvent(event));
        CHECK(clEnqueueNDRangeKernel(queue, quiet, 1, NULL, &global, &local, 0, NULL, NULL));
    }
    CHECK(clFinish(queue));
    for (int item = 0; item < ITEMS; item++)
        REQUIRE(seen[item] == ROUNDS, "item %d ran %d times", item, seen[item]);
    REQUIRE(look(file) == 0, "more lines");
    return 0;
}
