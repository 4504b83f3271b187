/* Large reads and writes of memory that the application protects, and an exit while they go on ("copies exit"). */
#include "opencl_check.h"

#include <signal.h>
#include <sys/mman.h>

enum { NBYTES = 48 << 20, STEP_NBYTES = 256 << 10, PENDING = 6 };

static char *guarded;
static int num_faults;

/* Makes a part of the guarded memory accessible; any other address is a fault as ever. */
static void open_step(int number, siginfo_t *info, void *context)
{
    (void)context;
    size_t at = (size_t)((char *)info->si_addr - guarded);
    if (at >= NBYTES || mprotect(guarded + at / STEP_NBYTES * STEP_NBYTES, STEP_NBYTES, PROT_READ | PROT_WRITE)) {
        signal(number, SIG_DFL);
        return;
    }
    __atomic_fetch_add(&num_faults, 1, __ATOMIC_RELAXED);
}

static void guard(void)
{
    REQUIRE(mprotect(guarded, NBYTES, PROT_NONE) == 0, "%s", "mprotect");
    num_faults = 0;
}

static void expect(unsigned seed, const char *what)
{
    REQUIRE(num_faults >= NBYTES / STEP_NBYTES, "%s: %d faults", what, num_faults);
    for (size_t i = 0; i < NBYTES / sizeof(cl_uint); i++)
        REQUIRE(((cl_uint *)guarded)[i] == i * seed, "%s: wrong at %zu", what, i);
}

static void number(cl_uint *values, unsigned seed)
{
    for (size_t i = 0; i < NBYTES / sizeof(cl_uint); i++)
        values[i] = (cl_uint)(i * seed);
}

int main(int argc, char **argv)
{
    cl_int status;
    cl_device_id device = first_device();
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CHECK(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CHECK(status);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, NBYTES, NULL, &status);
    CHECK(status);
    cl_uint *values = malloc(NBYTES);
    guarded = mmap(NULL, NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = open_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);

    for (int blocking = 0; blocking < 2; blocking++) {
        unsigned seed = 3 + 4 * (unsigned)blocking;
        number((cl_uint *)guarded, seed);
        guard();
        CHECK(clEnqueueWriteBuffer(queue, buffer, (cl_bool)blocking, 0, NBYTES, guarded, 0, NULL, NULL));
        CHECK(clFinish(queue));
        expect(seed, "written");
        CHECK(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, NBYTES, values, 0, NULL, NULL));
        REQUIRE(memcmp(values, guarded, NBYTES) == 0, "%s", "what was written is not what is read");

        number(values, seed + 2);
        CHECK(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, NBYTES, values, 0, NULL, NULL));
        guard();
        CHECK(clEnqueueReadBuffer(queue, buffer, (cl_bool)blocking, 0, NBYTES, guarded, 0, NULL, NULL));
        CHECK(clFinish(queue));
        expect(seed + 2, "read");
    }
    if (argc > 1 && strcmp(argv[1], "exit") == 0) {
        for (int k = 0; k < PENDING; k++) {
            CHECK(clEnqueueReadBuffer(queue, buffer, CL_FALSE, 0, NBYTES, values, 0, NULL, NULL));
            CHECK(clEnqueueWriteBuffer(queue, buffer, CL_FALSE, 0, NBYTES, values, 0, NULL, NULL));
        }
        CHECK(clFlush(queue));
        printf("leaving\n");
        exit(0);
    }
    printf("copies: ok\n");
    return 0;
}
