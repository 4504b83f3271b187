/* What single OpenCL calls cost on one platform.  Knows nothing of sdi.
 *
 *   calls times NAME LAUNCHES   set-arg, enqueue, launch + finish, sustained launches
 *   calls loops NAME LAUNCHES   launches of a kernel that writes: sustained, and each waited for; with the same and
 *                               with a new scalar each time, and with a small read behind each
 *   calls halos NAME LAUNCHES   launches in a row that each read what their neighbours in the launch before wrote
 *   calls changes NAME ROUNDS   a round changes a buffer by a write, a fill or a map, launches a kernel that reads it, and
 *                               reads 4 bytes of what that writes; or maps and unmaps these
 *   calls copies NAME NBYTES    write and read of one large buffer beside memcpy in this process
 *   calls stages NAME           says "stage" and waits for a line on stdin: before a build, after it
 *   calls first NAME            seconds until the first device is known
 *   calls platforms             only asks for the platforms and their names
 *
 * NAME: how the platform's name starts.  Prints lines "key value"; times in seconds.  Exit status 0: all is
 * well, 1: an OpenCL call failed or an answer was wrong (said on stderr).
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COPY_ROUNDS 5

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "calls: %s: error %d\n", what, (int)status);
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

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

static void say(const char *key, double value)
{
    printf("%s %.9g\n", key, value);
    fflush(stdout);
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
    fprintf(stderr, "calls: no platform is called %s\n", name);
    exit(1);
}

static void list_platforms(void)
{
    cl_platform_id platforms[16];
    cl_uint count = 0;
    check(clGetPlatformIDs(16, platforms, &count), "clGetPlatformIDs");
    for (cl_uint i = 0; i < count && i < 16; i++) {
        char name[256];
        check(clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL), "clGetPlatformInfo");
    }
}

static const char SOURCE[] =
    "__kernel void empty(__global int *p, int n) { }\n"
    "__kernel void number(__global uint *p, uint first) { p[get_global_id(0)] = first + get_global_id(0); }\n"
    "__kernel void spread(__global uint *p, uint first, __global const uint *from)\n"
    "{ p[get_global_id(0)] = first + from[get_global_id(0)]; }\n"
    "__kernel void beside(__global uint *p, uint last, __global const uint *from)\n"
    "{ uint i = get_global_id(0); p[i] = from[i ? i - 1 : 0] + from[i < last ? i + 1 : last] + 1; }\n";

struct session {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
};

static struct session open_session(const char *name)
{
    struct session s;
    cl_int status;
    check(clGetDeviceIDs(find_platform(name), CL_DEVICE_TYPE_ALL, 1, &s.device, NULL), "clGetDeviceIDs");
    s.context = clCreateContext(NULL, 1, &s.device, NULL, NULL, &status);
    check(status, "clCreateContext");
    s.queue = clCreateCommandQueue(s.context, s.device, 0, &status);
    check(status, "clCreateCommandQueue");
    s.program = NULL;
    return s;
}

static void build(struct session *s)
{
    const char *text = SOURCE;
    cl_int status;
    s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &status);
    check(status, "clCreateProgramWithSource");
    check(clBuildProgram(s->program, 1, &s->device, "", NULL, NULL), "clBuildProgram");
}

static cl_kernel make_kernel(const struct session *s, const char *name, cl_mem buffer, cl_uint value)
{
    cl_int status;
    cl_kernel kernel = clCreateKernel(s->program, name, &status);
    check(status, "clCreateKernel");
    check(clSetKernelArg(kernel, 0, sizeof buffer, &buffer), "clSetKernelArg");
    check(clSetKernelArg(kernel, 1, sizeof value, &value), "clSetKernelArg");
    return kernel;
}

static cl_mem make_buffer(const struct session *s, size_t nbytes)
{
    cl_int status;
    cl_mem buffer = clCreateBuffer(s->context, CL_MEM_READ_WRITE, nbytes, NULL, &status);
    check(status, "clCreateBuffer");
    return buffer;
}

static void launch(const struct session *s, cl_kernel kernel, size_t items)
{
    const size_t group = 64;
    check(clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &items, &group, 0, NULL, NULL), "clEnqueueNDRangeKernel");
}

static void close_session(struct session *s)
{
    if (s->program)
        clReleaseProgram(s->program);
    clReleaseCommandQueue(s->queue);
    clReleaseContext(s->context);
}

static void times(const char *name, size_t launches)
{
    struct session s = open_session(name);
    build(&s);
    cl_mem buffer = make_buffer(&s, 4096);
    cl_kernel kernel = make_kernel(&s, "empty", buffer, 1);
    const size_t items = 512; /* 8 work-groups */

    for (int i = 0; i < 50; i++)
        launch(&s, kernel, items);
    check(clFinish(s.queue), "clFinish");

    const size_t sets = 1000000;
    double start = now();
    for (size_t i = 0; i < sets; i++) {
        cl_int value = (cl_int)i;
        check(clSetKernelArg(kernel, 1, sizeof value, &value), "clSetKernelArg");
    }
    say("set_arg", (now() - start) / (double)sets);

    double *samples = malloc(launches * sizeof *samples);
    if (!samples)
        exit(1);
    for (size_t i = 0; i < launches; i++) {
        start = now();
        launch(&s, kernel, items);
        samples[i] = now() - start;
        if (i % 100 == 99)
            check(clFinish(s.queue), "clFinish");
    }
    check(clFinish(s.queue), "clFinish");
    say("enqueue", median(samples, launches));

    for (size_t i = 0; i < launches; i++) {
        start = now();
        launch(&s, kernel, items);
        check(clFinish(s.queue), "clFinish");
        samples[i] = now() - start;
    }
    say("launch_finish", median(samples, launches));

    start = now();
    for (size_t i = 0; i < 5 * launches; i++)
        launch(&s, kernel, items);
    check(clFinish(s.queue), "clFinish");
    say("sustained", (double)(5 * launches) / (now() - start));

    free(samples);
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    close_session(&s);
}

static void set_first(cl_kernel kernel, cl_uint first)
{
    check(clSetKernelArg(kernel, 1, sizeof first, &first), "clSetKernelArg");
}

/* `scalars`: a new one for each launch; `reads`: 4 bytes are read behind each. */
static void loop(const struct session *s, cl_kernel kernel, cl_mem buffer, size_t launches, int scalars, int reads,
                 const char *key)
{
    const size_t items = 4096;
    double best = 1e9;
    cl_uint found = 0;
    for (int round = 0; round < 5; round++) {
        double start = now();
        for (size_t i = 0; i < launches; i++) {
            if (scalars)
                set_first(kernel, (cl_uint)i);
            launch(s, kernel, items);
            if (reads) {
                check(clEnqueueReadBuffer(s->queue, buffer, CL_TRUE, 40, 4, &found, 0, NULL, NULL), "clEnqueueReadBuffer");
                if (found != (scalars ? (cl_uint)i : 1) + 10)
                    check(-1, "a wrong answer");
            }
        }
        check(clFinish(s->queue), "clFinish");
        double took = (now() - start) / (double)launches;
        best = took < best ? took : best;
    }
    say(key, best);
}

static void loops(const char *name, size_t launches)
{
    struct session s = open_session(name);
    build(&s);
    cl_mem buffer = make_buffer(&s, 4 * 4096);
    cl_kernel kernel = make_kernel(&s, "number", buffer, 1);
    const size_t items = 4096;
    double *samples = malloc(launches * sizeof *samples);
    if (!samples)
        exit(1);
    for (int i = 0; i < 500; i++)
        launch(&s, kernel, items);
    check(clFinish(s.queue), "clFinish");
    loop(&s, kernel, buffer, launches, 0, 0, "sustained_same");
    loop(&s, kernel, buffer, launches, 1, 0, "sustained_scalar");
    set_first(kernel, 1);
    loop(&s, kernel, buffer, launches, 0, 1, "read_same");
    loop(&s, kernel, buffer, launches, 1, 1, "read_scalar");
    for (int scalars = 0; scalars < 2; scalars++) {
        for (size_t i = 0; i < launches; i++) {
            double start = now();
            if (scalars)
                set_first(kernel, (cl_uint)i);
            launch(&s, kernel, items);
            check(clFinish(s.queue), "clFinish");
            samples[i] = now() - start;
        }
        say(scalars ? "alone_scalar" : "alone_same", median(samples, launches));
    }
    free(samples);
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    close_session(&s);
}

static void fill(unsigned char *bytes, size_t nbytes, unsigned char seed)
{
    for (size_t i = 0; i < nbytes; i += 64)
        memset(bytes + i, (unsigned char)(i / 64 + seed), nbytes - i < 64 ? nbytes - i : 64);
}

static void expect(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "calls: wrong bytes: %s\n", what);
        exit(1);
    }
}

static void halos(const char *name, size_t launches)
{
    enum { ITEMS = 4096, ROUNDS = 5 };
    static cl_uint wanted[2][ITEMS], found[ITEMS];
    struct session s = open_session(name);
    build(&s);
    cl_mem buffers[2];
    cl_kernel kernels[2];
    for (int k = 0; k < 2; k++) {
        buffers[k] = make_buffer(&s, sizeof found);
        check(clEnqueueWriteBuffer(s.queue, buffers[k], CL_TRUE, 0, sizeof found, found, 0, NULL, NULL), "write");
    }
    for (int k = 0; k < 2; k++) {
        kernels[k] = make_kernel(&s, "beside", buffers[k], ITEMS - 1);
        check(clSetKernelArg(kernels[k], 2, sizeof buffers[!k], &buffers[!k]), "clSetKernelArg");
    }
    double best = 1e9;
    int last = 0;
    for (int round = 0; round < ROUNDS + 1; round++) { /* the first one warms up */
        double start = now();
        for (size_t i = 0; i < launches; i++) {
            last = !last;
            launch(&s, kernels[last], ITEMS);
        }
        check(clFinish(s.queue), "clFinish");
        double took = (now() - start) / (double)launches;
        best = round && took < best ? took : best;
    }
    check(clEnqueueReadBuffer(s.queue, buffers[last], CL_TRUE, 0, sizeof found, found, 0, NULL, NULL), "read");
    int to = 0;
    for (size_t step = 0; step < launches * (ROUNDS + 1); step++) {
        to = !to;
        for (cl_uint i = 0; i < ITEMS; i++)
            wanted[to][i] = wanted[!to][i ? i - 1 : 0] + wanted[!to][i < ITEMS - 1 ? i + 1 : i] + 1;
    }
    expect(memcmp(wanted[to], found, sizeof found) == 0, "of neighbours");
    say("sustained_halos", best);
    for (int k = 0; k < 2; k++) {
        clReleaseKernel(kernels[k]);
        clReleaseMemObject(buffers[k]);
    }
    close_session(&s);
}

static void copies(const char *name, size_t nbytes)
{
    struct session s = open_session(name);
    build(&s);
    cl_ulong limit = 0;
    check(clGetDeviceInfo(s.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof limit, &limit, NULL), "clGetDeviceInfo");
    if (nbytes > limit)
        nbytes = (size_t)limit;
    nbytes &= ~(size_t)4095;
    unsigned char *source = malloc(nbytes), *target = malloc(nbytes);
    if (!source || !target)
        exit(1);
    fill(source, nbytes, 1);
    memset(target, 0, nbytes);
    cl_mem buffer = make_buffer(&s, nbytes);
    cl_kernel kernel = make_kernel(&s, "number", buffer, 0);

    double copied[COPY_ROUNDS], written[COPY_ROUNDS], read[COPY_ROUNDS], computed[COPY_ROUNDS];
    for (int round = -1; round < COPY_ROUNDS; round++) { /* round -1 warms up */
        double t0 = now();
        memcpy(target, source, nbytes);
        double t1 = now();
        memset(target, 0, nbytes);
        fill(source, nbytes, (unsigned char)(round + 2));

        double t2 = now();
        check(clEnqueueWriteBuffer(s.queue, buffer, CL_TRUE, 0, nbytes, source, 0, NULL, NULL), "write");
        double t3 = now();
        check(clEnqueueReadBuffer(s.queue, buffer, CL_TRUE, 0, nbytes, target, 0, NULL, NULL), "read");
        double t4 = now();
        expect(memcmp(source, target, nbytes) == 0, "read after write");

        cl_uint first = (cl_uint)(round + 2);
        check(clSetKernelArg(kernel, 1, sizeof first, &first), "clSetKernelArg");
        launch(&s, kernel, nbytes / 4);
        check(clFinish(s.queue), "clFinish");
        double t5 = now();
        check(clEnqueueReadBuffer(s.queue, buffer, CL_TRUE, 0, nbytes, target, 0, NULL, NULL), "read");
        double t6 = now();
        for (size_t i = 0; i < nbytes / 4; i += 1021) {
            cl_uint value;
            memcpy(&value, target + 4 * i, 4);
            expect(value == first + (cl_uint)i, "read after a kernel");
        }
        if (round >= 0) {
            copied[round] = t1 - t0;
            written[round] = t3 - t2;
            read[round] = t4 - t3;
            computed[round] = t6 - t5;
        }
    }
    say("nbytes", (double)nbytes);
    say("memcpy", median(copied, COPY_ROUNDS));
    say("write", median(written, COPY_ROUNDS));
    say("read_host", median(read, COPY_ROUNDS));
    say("read_kernel", median(computed, COPY_ROUNDS));

    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    free(source);
    free(target);
    close_session(&s);
}

static void wait_for_line(void)
{
    puts("stage");
    fflush(stdout);
    for (int c = getchar(); c != '\n' && c != EOF;)
        c = getchar();
}

static void stages(const char *name)
{
    struct session s = open_session(name);
    wait_for_line();
    build(&s);
    cl_mem buffer = make_buffer(&s, 4096);
    cl_kernel kernel = make_kernel(&s, "number", buffer, 0);
    launch(&s, kernel, 512);
    check(clFinish(s.queue), "clFinish");
    wait_for_line();
    clReleaseKernel(kernel);
    clReleaseMemObject(buffer);
    close_session(&s);
}

enum change { WRITE, WRITE_LATER, FILL, MAP, MAP_RESULT };

static void *map(const struct session *s, cl_mem buffer, cl_map_flags flags, size_t nbytes)
{
    cl_int status;
    void *found = clEnqueueMapBuffer(s->queue, buffer, CL_TRUE, flags, 0, nbytes, 0, NULL, NULL, &status);
    check(status, "clEnqueueMapBuffer");
    return found;
}

static void unmap(const struct session *s, cl_mem buffer, void *mapped)
{
    check(clEnqueueUnmapMemObject(s->queue, buffer, mapped, 0, NULL, NULL), "clEnqueueUnmapMemObject");
}

/* One round: `from` gets a value, the kernel copies it, it is looked at. */
static void change(const struct session *s, enum change how, cl_mem from, cl_mem to, cl_kernel kernel, cl_uint *data,
                   size_t nbytes)
{
    cl_uint found = 0, value = ++data[0];
    if (how == WRITE || how == WRITE_LATER)
        check(clEnqueueWriteBuffer(s->queue, from, how == WRITE, 0, nbytes, data, 0, NULL, NULL), "clEnqueueWriteBuffer");
    else if (how == FILL)
        check(clEnqueueFillBuffer(s->queue, from, &value, sizeof value, 0, nbytes, 0, NULL, NULL), "clEnqueueFillBuffer");
    else if (how == MAP) {
        cl_uint *mapped = map(s, from, CL_MAP_READ | CL_MAP_WRITE, nbytes);
        *mapped = value;
        unmap(s, from, mapped);
    } else {
        value = 1;
    }
    launch(s, kernel, 4096);
    if (how == MAP_RESULT) {
        cl_uint *mapped = map(s, to, CL_MAP_READ, nbytes);
        found = mapped[0];
        unmap(s, to, mapped);
    } else {
        check(clEnqueueReadBuffer(s->queue, to, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL), "clEnqueueReadBuffer");
    }
    if (found != value)
        check(-1, "a wrong answer");
}

static void changes(const char *name, size_t rounds)
{
    static const struct {
        const char *key;
        enum change how;
        size_t nbytes;
    } ways[] = {
        {"write_4", WRITE, 4},           {"write_later_4", WRITE_LATER, 4}, {"write_16K", WRITE, 16 << 10},
        {"write_64K", WRITE, 64 << 10},  {"write_256K", WRITE, 256 << 10},  {"fill_4", FILL, 4},
        {"fill_64K", FILL, 64 << 10},    {"map_4K", MAP, 4 << 10},          {"map_64K", MAP, 64 << 10},
        {"result_4K", MAP_RESULT, 4 << 10},
    };
    struct session s = open_session(name);
    build(&s);
    cl_uint *data = calloc(1, 256 << 10);
    double *samples = malloc(rounds * sizeof *samples);
    if (!data || !samples)
        exit(1);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        cl_mem from = make_buffer(&s, 256 << 10), to = make_buffer(&s, 4 * 4096);
        cl_kernel kernel = make_kernel(&s, "spread", to, 0);
        check(clSetKernelArg(kernel, 2, sizeof from, &from), "clSetKernelArg");
        data[0] = 1;
        check(clEnqueueWriteBuffer(s.queue, from, CL_TRUE, 0, 256 << 10, data, 0, NULL, NULL), "clEnqueueWriteBuffer");
        for (int i = 0; i < 300; i++)
            change(&s, ways[way].how, from, to, kernel, data, ways[way].nbytes);
        for (size_t i = 0; i < rounds; i++) {
            double start = now();
            change(&s, ways[way].how, from, to, kernel, data, ways[way].nbytes);
            samples[i] = now() - start;
        }
        say(ways[way].key, median(samples, rounds));
        clReleaseKernel(kernel);
        clReleaseMemObject(from);
        clReleaseMemObject(to);
    }
    free(data);
    free(samples);
    close_session(&s);
}

static void first(const char *name)
{
    cl_platform_id platform = find_platform(name);
    cl_device_id device;
    double start = now();
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    say("first", now() - start);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "times") == 0 && argc == 4)
        times(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    else if (strcmp(what, "loops") == 0 && argc == 4)
        loops(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    else if (strcmp(what, "halos") == 0 && argc == 4)
        halos(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    else if (strcmp(what, "changes") == 0 && argc == 4)
        changes(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    else if (strcmp(what, "copies") == 0 && argc == 4)
        copies(argv[2], (size_t)strtoull(argv[3], NULL, 10));
    else if (strcmp(what, "stages") == 0 && argc == 3)
        stages(argv[2]);
    else if (strcmp(what, "first") == 0 && argc == 3)
        first(argv[2]);
    else if (strcmp(what, "platforms") == 0 && argc == 2)
        list_platforms();
    else {
        fprintf(stderr, "usage: calls times|loops|halos|changes|copies|stages|first|platforms ...\n");
        return 2;
    }
    return 0;
}
