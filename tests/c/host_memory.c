/* Random programs on buffers in memory of this program, which is never mapped: it is written before commands, and
 * looked at after each way to wait.  Arguments: the first seed, how many.  Prints a checksum for each seed. */
#include "opencl_check.h"

enum { BUFFERS = 3, INTS = 6000, NBYTES = INTS * 4, PART = 4096, PARTS = 4, STEPS = 30 };

static const char *source =
    "__kernel void hm_own(__global int *a, int v) { size_t i = get_global_id(0); a[i] = a[i] * 3 + v; }\n"
    "__kernel void hm_some(__global int *a, int v) { size_t i = get_global_id(0); if (a[i] % 3 == 0) a[i] ^= v; }\n"
    "__kernel void hm_from(__global const int *a, __global int *b, int v)\n"
    "{ size_t i = get_global_id(0), n = get_global_size(0); b[i] = a[i] + a[(i + 1) % n] * v; }\n"
    "__kernel void hm_scatter(__global const int *a, __global int *b, int v)\n"
    "{ size_t i = get_global_id(0), n = get_global_size(0); b[(i * 7 + 3) % n] = a[i] - v; }\n";

static unsigned long long state;

static unsigned pick(unsigned below)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)(state >> 33) % below;
}

static struct {
    int *memory;
    cl_mem whole, parts[PARTS];
} all[BUFFERS];
static cl_context context;
static cl_command_queue queues[2];
static cl_kernel kernels[4];
static unsigned long long sum;

static void look(void)
{
    for (int b = 0; b < BUFFERS; b++)
        for (int i = 0; i < INTS; i++)
            sum = sum * 1099511628211ull + (unsigned)all[b].memory[i];
}

static void change(void)
{
    int *at = all[pick(BUFFERS)].memory;
    switch (pick(4)) {
    case 0:
        at[pick(INTS)] = (int)pick(1000);
        break;
    case 1:
        for (int i = 0; i < INTS; i++)
            at[i] = i - (int)pick(1000);
        break;
    case 2:
        for (unsigned i = pick(100), step = 1 + pick(3000); i < INTS; i += step)
            at[i] += 5;
        break;
    default:
        ((char *)at)[pick(NBYTES)] = (char)pick(256);
    }
}

static void launch(cl_command_queue queue, cl_event *event)
{
    unsigned k = pick(4), from = pick(BUFFERS), to = (from + 1 + pick(BUFFERS - 1)) % BUFFERS;
    size_t global = PART / 4;
    cl_int v = (cl_int)pick(100);
    cl_mem source_ = all[from].whole, target = all[to].whole;
    if (pick(2))
        global = INTS;
    else {
        source_ = all[from].parts[pick(PARTS)];
        target = all[to].parts[pick(PARTS)];
    }
    size_t local = global == INTS ? 40 : 64;
    CHECK(clSetKernelArg(kernels[k], 0, sizeof source_, k < 2 ? &target : &source_));
    if (k >= 2)
        CHECK(clSetKernelArg(kernels[k], 1, sizeof target, &target));
    CHECK(clSetKernelArg(kernels[k], k < 2 ? 1 : 2, sizeof v, &v));
    CHECK(clEnqueueNDRangeKernel(queue, kernels[k], 1, NULL, &global, &local, 0, NULL, event));
}

static void other_command(cl_command_queue queue)
{
    static int data[PART / 4];
    unsigned from = pick(BUFFERS), to = (from + 1 + pick(BUFFERS - 1)) % BUFFERS;
    size_t a = pick(NBYTES - PART), b = pick(NBYTES - PART) / 4 * 4, n = 4 * (1 + pick(PART / 4));
    switch (pick(5)) {
    case 0:
        CHECK(clEnqueueCopyBuffer(queue, all[from].whole, all[to].whole, a, b, n, 0, NULL, NULL));
        break;
    case 1:
        CHECK(clEnqueueFillBuffer(queue, all[to].whole, &a, 4, b, n, 0, NULL, NULL));
        break;
    case 2: {
        size_t from_[3] = {a % 64, 2, 0}, to_[3] = {b % 64, 5, 0}, region[3] = {40, 20, 1};
        CHECK(clEnqueueCopyBufferRect(queue, all[from].whole, all[to].whole, from_, to_, region, 128, 0, 112, 0, 0,
                                      NULL, NULL));
        break;
    }
    case 3:
        for (int i = 0; i < PART / 4; i++)
            data[i] = (int)pick(50);
        CHECK(clEnqueueWriteBuffer(queue, all[to].whole, CL_TRUE, b, n, data, 0, NULL, NULL));
        break;
    default:
        CHECK(clEnqueueReadBuffer(queue, all[from].whole, CL_TRUE, a, n, data, 0, NULL, NULL));
        for (size_t i = 0; i < n / 4; i++)
            sum = sum * 31 + (unsigned)data[i];
    }
}

/* After it nothing is pending. */
static void wait_somehow(cl_command_queue queue)
{
    static int data[16];
    cl_int status;
    cl_event event;
    switch (pick(5)) {
    case 0:
        CHECK(clFinish(queue));
        break;
    case 1:
        launch(queue, &event);
        CHECK(clWaitForEvents(1, &event));
        CHECK(clReleaseEvent(event));
        break;
    case 2:
        launch(queue, &event);
        do
            CHECK(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL));
        while (status > 0);
        CHECK(clReleaseEvent(event));
        break;
    case 3: {
        cl_event gate = clCreateUserEvent(context, &status);
        CHECK(status);
        CHECK(clFinish(queue));
        CHECK(clEnqueueMarkerWithWaitList(queue, 1, &gate, NULL));
        launch(queue, NULL);
        change(); /* nothing runs until the gate opens */
        CHECK(clSetUserEventStatus(gate, CL_COMPLETE));
        CHECK(clFinish(queue));
        CHECK(clReleaseEvent(gate));
        break;
    }
    default:
        CHECK(clEnqueueReadBuffer(queue, all[0].whole, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    }
}

static void run(unsigned seed)
{
    cl_int status;
    state = seed * 2654435761u + 1;
    sum = 0;
    for (int b = 0; b < BUFFERS; b++) {
        all[b].memory = aligned_alloc(4096, (NBYTES + 4095) / 4096 * 4096);
        for (int i = 0; i < INTS; i++)
            all[b].memory[i] = i * (b + 1);
        all[b].whole = clCreateBuffer(context, CL_MEM_USE_HOST_PTR, NBYTES, all[b].memory, &status);
        CHECK(status);
        for (size_t p = 0; p < PARTS; p++) {
            cl_buffer_region region = {p * PART, PART};
            all[b].parts[p] = clCreateSubBuffer(all[b].whole, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
            CHECK(status);
        }
    }
    for (int step = 0; step < STEPS; step++) {
        cl_command_queue queue = queues[pick(2)];
        if (pick(2))
            change();
        for (unsigned n = pick(4); n; n--)
            launch(queue, NULL);
        if (pick(2))
            other_command(queue);
        wait_somehow(queue);
        look();
    }
    for (int b = 0; b < BUFFERS; b++) {
        for (int p = 0; p < PARTS; p++)
            CHECK(clReleaseMemObject(all[b].parts[p]));
        CHECK(clReleaseMemObject(all[b].whole));
        free(all[b].memory);
    }
    printf("%u %016llx\n", seed, sum);
}

int main(int argc, char **argv)
{
    static const char *names[4] = {"hm_own", "hm_some", "hm_from", "hm_scatter"};
    unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 0, count = argc > 2 ? (unsigned)atoi(argv[2]) : 10;
    cl_int status;
    cl_device_id device = first_device();
    cl_device_type type;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    if (!(type & CL_DEVICE_TYPE_CPU)) {
        printf("no CPU\n");
        return 0;
    }
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    for (int q = 0; q < 2; q++) {
        queues[q] = clCreateCommandQueue(context, device, 0, &status);
        CHECK(status);
    }
    cl_program program = built_program(context, device, source);
    for (int k = 0; k < 4; k++) {
        kernels[k] = clCreateKernel(program, names[k], &status);
        CHECK(status);
    }
    for (unsigned seed = first; seed < first + count; seed++)
        run(seed);
    return 0;
}
