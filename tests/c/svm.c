/* Lists in shared virtual memory, coarse and fine, where the device has any; buffers in any case.
 *
 * Says what CL_DEVICE_SVM_CAPABILITIES is, and "right".  With an argument, a child does the same beside. */
#include "session.h"

#include <signal.h>
#include <sys/wait.h>

enum { NODES = 960, STEPS = 5 };

typedef struct node {
    struct node *next;
    cl_int value, sum;
} node;

static const char source[] =
    "typedef struct node { global struct node *next; int value, sum; } node;\n"
    "kernel void link(global node *nodes, int count, int first) {\n"
    "    int i = get_global_id(0);\n"
    "    nodes[i].next = i + 1 < count ? &nodes[i + 1] : 0;\n"
    "    nodes[i].value = first + i;\n"
    "}\n"
    "kernel void walk(global node *nodes, int steps) {\n"
    "    global node *own = &nodes[get_global_id(0)], *at = own;\n"
    "    own->sum = 0;\n"
    "    for (; at && steps; steps--, at = at->next) own->sum += at->value;\n"
    "}\n";

static void launch(session_t *s, cl_program program, const char *name, node *nodes, int argc, const cl_int *argv)
{
    cl_int status;
    const size_t global = NODES, local = 16;
    cl_kernel kernel = clCreateKernel(program, name, &status);
    CHECK(status);
    CHECK(clSetKernelArgSVMPointer(kernel, 0, nodes));
    for (int i = 0; i < argc; i++)
        CHECK(clSetKernelArg(kernel, 1 + i, sizeof argv[i], &argv[i]));
    CHECK(clEnqueueNDRangeKernel(s->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    CHECK(clReleaseKernel(kernel));
}

/* Kernels make a list, the host changes it, a kernel and the host follow it. */
static void lists(session_t *s, cl_program program, cl_svm_mem_flags fine)
{
    const cl_int linked[] = {NODES, 7}, steps = STEPS;
    node *nodes = clSVMAlloc(s->context, CL_MEM_READ_WRITE | fine, NODES * sizeof *nodes, 0);
    REQUIRE(nodes != NULL, "%s", "no region");
    launch(s, program, "link", nodes, 2, linked);
    if (!fine)
        CHECK(clEnqueueSVMMap(s->queue, CL_TRUE, CL_MAP_WRITE, nodes, NODES * sizeof *nodes, 0, NULL, NULL));
    CHECK(clFinish(s->queue));
    nodes[0].next = &nodes[NODES / 2];
    if (!fine)
        CHECK(clEnqueueSVMUnmap(s->queue, nodes, 0, NULL, NULL));
    launch(s, program, "walk", nodes, 1, &steps);
    if (!fine)
        CHECK(clEnqueueSVMMap(s->queue, CL_TRUE, CL_MAP_READ, nodes, NODES * sizeof *nodes, 0, NULL, NULL));
    CHECK(clFinish(s->queue));
    for (int i = 0; i < NODES; i++) {
        cl_int sum = 0;
        const node *at = &nodes[i];
        for (int k = 0; k < STEPS && at; k++, at = at->next)
            sum += at->value;
        REQUIRE(nodes[i].sum == sum && nodes[i].value == 7 + i, "node %d: %d, not %d", i, nodes[i].sum, sum);
    }
    if (!fine)
        CHECK(clEnqueueSVMUnmap(s->queue, nodes, 0, NULL, NULL));
    CHECK(clEnqueueSVMFree(s->queue, 1, (void *[]){nodes}, NULL, NULL, 0, NULL, NULL));
}

static cl_program program_of(session_t *s)
{
    return built_program(s->context, first_device(), source);
}

static void all(session_t *s, cl_program program, cl_device_svm_capabilities has)
{
    if (has & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)
        lists(s, program, 0);
    else
        REQUIRE(clSVMAlloc(s->context, 0, 4096, 0) == NULL, "%s", "a region where there are none");
    if (has & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)
        lists(s, program, CL_MEM_SVM_FINE_GRAIN_BUFFER);
    session_step(s, 2);
}

/* A child reads what its parent has mapped, and what it changes is its own. */
static void child_reads(session_t *s)
{
    int *mine = clSVMAlloc(s->context, CL_MEM_READ_WRITE, NODES * sizeof *mine, 0);
    CHECK(clEnqueueSVMMap(s->queue, CL_TRUE, CL_MAP_WRITE, mine, NODES * sizeof *mine, 0, NULL, NULL));
    for (int i = 0; i < NODES; i++)
        mine[i] = 3 * i + 1;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < NODES; i++) {
            REQUIRE(mine[i] == 3 * i + 1, "the child has %d at %d", mine[i], i);
            mine[i] = -1;
        }
        _exit(32);
    }
    int status;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 32,
            "child's status is %#x", (unsigned)status);
    for (int i = 0; i < NODES; i++)
        REQUIRE(mine[i] == 3 * i + 1, "the parent has %d at %d", mine[i], i);
    CHECK(clEnqueueSVMUnmap(s->queue, mine, 0, NULL, NULL));
    CHECK(clEnqueueSVMFree(s->queue, 1, (void *[]){mine}, NULL, NULL, 0, NULL, NULL));
}

static volatile sig_atomic_t num_signals;

static void count_signal(int number)
{
    (void)number;
    num_signals++;
}

int main(int argc, char **argv)
{
    (void)argv;
    signal(SIGUSR2, count_signal); /* which the service's start leaves as it is, sanitizers' tables too */
    cl_device_svm_capabilities has = 0;
    CHECK(clGetDeviceInfo(first_device(), CL_DEVICE_SVM_CAPABILITIES, sizeof has, &has, NULL));
    raise(SIGUSR2);
    REQUIRE(num_signals == 1, "%d signals handled", (int)num_signals);
    session_t s = session_start();
    cl_program program = program_of(&s);
    all(&s, program, has);
    if (argc > 1 && has & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER)
        child_reads(&s);
    pid_t child = argc > 1 ? fork() : -1;
    if (child == 0) {
        session_t own = session_start();
        all(&own, program_of(&own), has);
        _exit(31);
    }
    all(&s, program, has);
    if (child > 0) {
        int status;
        REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 31,
                "child's status is %#x", (unsigned)status);
    }
    CHECK(clFinish(s.queue));
    CHECK(clReleaseProgram(program));
    session_end(&s);
    printf("%d\nright\n", (int)has);
    return 0;
}
