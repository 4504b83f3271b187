/* Rounds of what programs do around short kernels, each in its own way, on the first device found.  Knows nothing of sdi.
 *
 *   patterns [NAME...]   prints, by pattern, microseconds of a round: median and mean of the second half of the rounds
 *
 * A round launches a kernel on 4,096 numbers and waits.  Exit status 1: a call failed, or a number that was read is wrong. */
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { COUNT = 4096, GROUP = 64, NBYTES = 4 * COUNT, MANY = 500, SIDE = 32, LIMIT_US = 6000000 };

static cl_device_id device;
static cl_context context;
static cl_command_queue queue, other_queue, any_order;
static cl_program program;
static cl_kernel add, sum, turn, shade;
static cl_mem one, two, three, many[MANY], pictures[2];
static cl_int data[COUNT];
static volatile int called;

static void check(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "patterns: %s: %d\n", what, (int)status);
        exit(1);
    }
}
#define TRY(call) check(call, #call)

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static const char SOURCE[] =
    "kernel void add(global int *a, int n) { a[get_global_id(0)] += n; }\n"
    "kernel void sum(global const int *a, global const int *b, global int *c, int n)\n"
    "{ size_t i = get_global_id(0); if (i < n) c[i] = a[i] + b[i]; }\n"
    "kernel void turn(global int *a, local int *l)\n"
    "{ size_t i = get_global_id(0), j = get_local_id(0); l[j] = a[i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  a[i] = l[get_local_size(0) - 1 - j]; }\n"
    "kernel void shade(read_only image2d_t from, write_only image2d_t to)\n"
    "{ const sampler_t s = CLK_ADDRESS_NONE; int2 at = (int2)(get_global_id(0), get_global_id(1));\n"
    "  write_imagef(to, at, read_imagef(from, s, at) + 1.0f); }\n";

static cl_mem buffer(size_t nbytes, const void *from)
{
    cl_int status;
    cl_mem_flags flags = CL_MEM_READ_WRITE | (from ? CL_MEM_COPY_HOST_PTR : 0);
    cl_mem made = clCreateBuffer(context, flags, nbytes, (void *)from, &status);
    check(status, "clCreateBuffer");
    return made;
}

static cl_kernel kernel(const char *name)
{
    cl_int status;
    cl_kernel made = clCreateKernel(program, name, &status);
    check(status, "clCreateKernel");
    return made;
}

static cl_command_queue a_queue(cl_command_queue_properties how)
{
    cl_int status;
    cl_command_queue made = clCreateCommandQueue(context, device, how, &status);
    check(status, "clCreateCommandQueue");
    return made;
}

static void launch(cl_command_queue to, cl_kernel k, cl_mem on, int number, size_t items, cl_event *event)
{
    size_t group = GROUP;
    TRY(clSetKernelArg(k, 0, sizeof on, &on));
    TRY(clSetKernelArg(k, 1, sizeof number, &number));
    TRY(clEnqueueNDRangeKernel(to, k, 1, NULL, &items, &group, 0, NULL, event));
}

/* ---- patterns: `r` is the round -------------------------------------------------------------------------- */

static void same(int r)
{
    (void)r;
    launch(queue, add, one, 1, COUNT, NULL);
    TRY(clFinish(queue));
}

static void scalar(int r)
{
    launch(queue, add, one, r, COUNT, NULL);
    TRY(clFinish(queue));
}

static void new_kernel(int r)
{
    cl_kernel k = kernel("add");
    launch(queue, k, one, r, COUNT, NULL);
    TRY(clFinish(queue));
    TRY(clReleaseKernel(k));
}

static void part(int r)
{
    cl_int status;
    cl_buffer_region region = {(size_t)(r % 4) * COUNT, COUNT};
    cl_mem made = clCreateSubBuffer(one, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    check(status, "clCreateSubBuffer");
    launch(queue, add, made, r, COUNT / 4, NULL);
    TRY(clFinish(queue));
    TRY(clReleaseMemObject(made));
}

static void with_buffer(int r, size_t nbytes, bool keeps, bool copies)
{
    cl_mem made = buffer(nbytes, copies ? data : NULL);
    if (!copies)
        TRY(clEnqueueWriteBuffer(queue, made, CL_TRUE, 0, NBYTES, data, 0, NULL, NULL));
    launch(queue, add, made, r, COUNT, NULL);
    TRY(clEnqueueReadBuffer(queue, made, CL_TRUE, 0, NBYTES, data, 0, NULL, NULL));
    if (!keeps)
        TRY(clReleaseMemObject(made));
}

static void new_buffer(int r) { with_buffer(r, NBYTES, false, false); }
static void new_copy(int r) { with_buffer(r, NBYTES, false, true); }
static void kept_buffer(int r) { with_buffer(r, NBYTES, true, false); }
static void other_size(int r) { with_buffer(r, NBYTES + 256 * (size_t)(r % 500), false, false); }

static void new_queue(int r)
{
    cl_command_queue made = a_queue(0);
    launch(made, add, one, r, COUNT, NULL);
    TRY(clFinish(made));
    TRY(clReleaseCommandQueue(made));
}

static void user_event(int r)
{
    cl_int status;
    size_t items = COUNT, group = GROUP;
    cl_event gate = clCreateUserEvent(context, &status);
    check(status, "clCreateUserEvent");
    TRY(clSetKernelArg(add, 1, sizeof r, &r));
    TRY(clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, &group, 1, &gate, NULL));
    TRY(clSetUserEventStatus(gate, CL_COMPLETE));
    TRY(clFinish(queue));
    TRY(clReleaseEvent(gate));
}

static void CL_CALLBACK note(cl_event event, cl_int status, void *user)
{
    (void)event, (void)status, (void)user;
    __atomic_fetch_add(&called, 1, __ATOMIC_SEQ_CST);
}

static void callback(int r)
{
    cl_event event;
    int before = called;
    launch(queue, add, one, r, COUNT, &event);
    TRY(clSetEventCallback(event, CL_COMPLETE, note, NULL));
    TRY(clFlush(queue));
    while (called == before)
        ;
    TRY(clReleaseEvent(event));
}

static void poll(int r)
{
    cl_event event;
    cl_int stage;
    launch(queue, add, one, r, COUNT, &event);
    TRY(clFlush(queue));
    do
        TRY(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof stage, &stage, NULL));
    while (stage != CL_COMPLETE);
    TRY(clReleaseEvent(event));
}

static void rows(int r)
{
    size_t at[3] = {(size_t)r % 64, 0, 0}, here[3] = {0}, region[3] = {64, 32, 1};
    TRY(clEnqueueWriteBufferRect(queue, one, CL_TRUE, at, here, region, 256, 0, 64, 0, data, 0, NULL, NULL));
    launch(queue, add, one, r, COUNT, NULL);
    TRY(clEnqueueReadBufferRect(queue, one, CL_TRUE, at, here, region, 256, 0, 64, 0, data, 0, NULL, NULL));
}

static void copied_rows(int r)
{
    size_t from[3] = {0}, to[3] = {64, 3, 0}, region[3] = {64, 32, 1};
    TRY(clEnqueueCopyBufferRect(queue, one, two, from, to, region, 256, 0, 256, 0, 0, NULL, NULL));
    scalar(r);
}

static void copied(int r)
{
    TRY(clEnqueueCopyBuffer(queue, two, one, 0, 0, NBYTES, 0, NULL, NULL));
    scalar(r);
}

static void copied_elsewhere(int r)
{
    size_t at = (size_t)r * 64 % (NBYTES / 2);
    TRY(clEnqueueCopyBuffer(queue, two, one, at, at, 1024, 0, NULL, NULL));
    scalar(r);
}

static void filled(int r)
{
    TRY(clEnqueueFillBuffer(queue, one, &r, sizeof r, 0, NBYTES, 0, NULL, NULL));
    scalar(r);
}

static void mapped(int r)
{
    cl_int status;
    size_t at = (size_t)r * 64 % (NBYTES / 2);
    cl_int *seen = clEnqueueMapBuffer(queue, one, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, at, 256, 0, NULL, NULL, &status);
    check(status, "clEnqueueMapBuffer");
    seen[5] = r;
    TRY(clEnqueueUnmapMemObject(queue, one, seen, 0, NULL, NULL));
    scalar(r);
}

static void sum_up(int count, size_t items)
{
    size_t group = GROUP;
    TRY(clSetKernelArg(sum, 0, sizeof one, &one));
    TRY(clSetKernelArg(sum, 1, sizeof two, &two));
    TRY(clSetKernelArg(sum, 2, sizeof three, &three));
    TRY(clSetKernelArg(sum, 3, sizeof count, &count));
    TRY(clEnqueueNDRangeKernel(queue, sum, 1, NULL, &items, &group, 0, NULL, NULL));
}

static void rows_for_reader(int r)
{
    size_t at[3] = {(size_t)r % 64, (size_t)r % 32, 0}, here[3] = {0}, region[3] = {64, 32, 1};
    TRY(clEnqueueWriteBufferRect(queue, two, CL_TRUE, at, here, region, 256, 0, 64, 0, data, 0, NULL, NULL));
    sum_up(COUNT, COUNT);
    TRY(clFinish(queue));
}

static cl_mem picture_of(void)
{
    const cl_image_format format = {CL_RGBA, CL_FLOAT};
    const cl_image_desc shape = {.image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = SIDE, .image_height = SIDE};
    cl_int status;
    cl_mem made = clCreateImage(context, CL_MEM_READ_WRITE, &format, &shape, NULL, &status);
    check(status, "clCreateImage");
    return made;
}

/* A box of an image is written, another image made of it, and a box of that is read. */
static void shaded(cl_mem from, cl_mem to, const size_t *at, const size_t *region)
{
    size_t items[2] = {SIDE, SIDE}, group[2] = {8, 8};
    TRY(clEnqueueWriteImage(queue, from, CL_TRUE, at, region, 0, 0, data, 0, NULL, NULL));
    TRY(clSetKernelArg(shade, 0, sizeof from, &from));
    TRY(clSetKernelArg(shade, 1, sizeof to, &to));
    TRY(clEnqueueNDRangeKernel(queue, shade, 2, NULL, items, group, 0, NULL, NULL));
    TRY(clEnqueueReadImage(queue, to, CL_TRUE, at, region, 0, 0, data, 0, NULL, NULL));
}

static void picture(int r)
{
    size_t at[3] = {0}, region[3] = {SIDE, SIDE, 1};
    (void)r;
    shaded(pictures[0], pictures[1], at, region);
}

static void picture_part(int r)
{
    size_t at[3] = {(size_t)r % 16, (size_t)r % 8, 0}, region[3] = {16, 24, 1};
    shaded(pictures[0], pictures[1], at, region);
}

static void new_pictures(int r)
{
    size_t at[3] = {0}, region[3] = {SIDE, SIDE, 1};
    cl_mem from = picture_of(), to = picture_of();
    (void)r;
    shaded(from, to, at, region);
    TRY(clReleaseMemObject(from));
    TRY(clReleaseMemObject(to));
}

static void picture_copied(int r)
{
    size_t at[3] = {0}, region[3] = {SIDE, SIDE, 1};
    TRY(clEnqueueCopyImageToBuffer(queue, pictures[1], one, at, region, 0, 0, NULL, NULL));
    launch(queue, add, one, r, COUNT, NULL);
    TRY(clEnqueueCopyBufferToImage(queue, one, pictures[0], 0, at, region, 0, NULL, NULL));
    shaded(pictures[0], pictures[1], at, (size_t[3]){SIDE, 1, 1});
}

static void two_queues(int r)
{
    cl_event first, second;
    size_t items = COUNT, group = GROUP;
    launch(queue, add, one, r, COUNT, &first);
    TRY(clFlush(queue));
    TRY(clEnqueueNDRangeKernel(other_queue, add, 1, NULL, &items, &group, 1, &first, &second));
    TRY(clFlush(other_queue));
    TRY(clEnqueueNDRangeKernel(queue, add, 1, NULL, &items, &group, 1, &second, NULL));
    TRY(clFinish(queue));
    TRY(clReleaseEvent(first));
    TRY(clReleaseEvent(second));
}

static void out_of_order(int r)
{
    cl_event events[2];
    launch(any_order, add, one, r, COUNT, &events[0]);
    launch(any_order, add, two, r, COUNT, &events[1]);
    TRY(clWaitForEvents(2, events));
    TRY(clReleaseEvent(events[0]));
    TRY(clReleaseEvent(events[1]));
}

static void other_local(int r)
{
    size_t group = (size_t)32 << r % 3, items = COUNT;
    TRY(clSetKernelArg(turn, 0, sizeof one, &one));
    TRY(clSetKernelArg(turn, 1, 4 * group, NULL));
    TRY(clEnqueueNDRangeKernel(queue, turn, 1, NULL, &items, &group, 0, NULL, NULL));
    TRY(clFinish(queue));
}

static void fewer_items(int r)
{
    int count = COUNT - r % 1000;
    sum_up(count, (size_t)(count + GROUP - 1) / GROUP * GROUP);
    TRY(clFinish(queue));
}

static void read_elsewhere(int r)
{
    cl_int before, after;
    size_t at = 4 * (size_t)(r % COUNT);
    TRY(clEnqueueReadBuffer(queue, one, CL_TRUE, at, 4, &before, 0, NULL, NULL));
    launch(queue, add, one, r, COUNT, NULL);
    TRY(clEnqueueReadBuffer(queue, one, CL_TRUE, at, 4, &after, 0, NULL, NULL));
    check(after != before + r, "what is read");
}

static void write_elsewhere(int r)
{
    TRY(clEnqueueWriteBuffer(queue, one, CL_TRUE, 4 * (size_t)(r % COUNT), 4, &r, 0, NULL, NULL));
    scalar(r);
}

static void many_buffers(int r)
{
    if (!many[r % MANY])
        many[r % MANY] = buffer(NBYTES, data);
    launch(queue, add, many[r % MANY], r, COUNT, NULL);
    TRY(clFinish(queue));
}

static void burst(int r)
{
    for (int n = 0; n < 50; n++)
        launch(queue, add, one, r + n, COUNT, NULL);
    TRY(clFinish(queue));
}

static const struct {
    const char *name;
    void (*round)(int);
    int rounds;
} PATTERNS[] = {
    {"same", same, 400}, {"scalar", scalar, 400}, {"new_kernel", new_kernel, 400}, {"part", part, 400},
    {"new_buffer", new_buffer, 400}, {"new_copy", new_copy, 400}, {"kept_buffer", kept_buffer, 1500},
    {"other_size", other_size, 1500}, {"new_queue", new_queue, 400}, {"user_event", user_event, 400},
    {"callback", callback, 400}, {"poll", poll, 400}, {"rows", rows, 400}, {"copied_rows", copied_rows, 400},
    {"copied", copied, 400}, {"copied_elsewhere", copied_elsewhere, 400}, {"filled", filled, 400},
    {"mapped", mapped, 400}, {"picture", picture, 400}, {"picture_part", picture_part, 400},
    {"new_pictures", new_pictures, 400}, {"picture_copied", picture_copied, 400},
    {"rows_for_reader", rows_for_reader, 400}, {"two_queues", two_queues, 400},
    {"out_of_order", out_of_order, 400}, {"other_local", other_local, 400}, {"fewer_items", fewer_items, 1500},
    {"read_elsewhere", read_elsewhere, 400}, {"write_elsewhere", write_elsewhere, 400},
    {"many_buffers", many_buffers, 2000}, {"burst", burst, 60},
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(size_t pattern)
{
    double took[2000], begin = now_us(), sum_us = 0;
    int count = 0;
    for (; count < PATTERNS[pattern].rounds && now_us() - begin < LIMIT_US; count++) {
        double since = now_us();
        PATTERNS[pattern].round(count);
        took[count] = now_us() - since;
    }
    const int half = count / 2;
    for (int n = half; n < count; n++)
        sum_us += took[n];
    qsort(took + half, (size_t)(count - half), sizeof *took, compare);
    printf("%s %.2f\n%s.mean %.2f\n", PATTERNS[pattern].name, took[half + (count - half) / 2], PATTERNS[pattern].name,
           sum_us / (count - half));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    cl_platform_id platform;
    cl_int status;
    const char *text = SOURCE;
    TRY(clGetPlatformIDs(1, &platform, NULL));
    TRY(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "clCreateContext");
    queue = a_queue(0);
    other_queue = a_queue(0);
    any_order = a_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    program = clCreateProgramWithSource(context, 1, &text, NULL, &status);
    check(status, "clCreateProgramWithSource");
    TRY(clBuildProgram(program, 1, &device, "", NULL, NULL));
    add = kernel("add"), sum = kernel("sum"), turn = kernel("turn"), shade = kernel("shade");
    one = buffer(NBYTES, data), two = buffer(NBYTES, data), three = buffer(NBYTES, data);
    for (int n = 0; n < 2; n++)
        pictures[n] = picture_of();
    for (size_t n = 0; n < sizeof PATTERNS / sizeof *PATTERNS; n++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted = wanted || strcmp(argv[a], PATTERNS[n].name) == 0;
        if (wanted)
            measure(n);
    }
    return 0;
}
