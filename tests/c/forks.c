/* Forks while OpenCL is in use: the child starts afresh, the parent goes on, and exec inherits nothing.
 * Only the first session writes what it did to where SDI_STATS says. */
#include "session.h"

#include <dirent.h>
#include <sys/wait.h>

enum { KNOWN_STEPS = 100 };

static void expect_exit(pid_t pid, int code)
{
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid, "no child %d", (int)pid);
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == code, "child's status is %#x, not exit %d",
            (unsigned)status, code);
}

/* The number of descriptors above 2, without the one that lists them. */
static int open_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += atoi(entry->d_name) > 2 && atoi(entry->d_name) != dirfd(directory);
    closedir(directory);
    return count;
}

static void fresh_session(void)
{
    session_t s = session_start();
    session_step(&s, 2);
    session_end(&s);
}

int main(int argc, char **argv)
{
    char inherited[16];

    if (argc > 1) {
        REQUIRE(open_descriptors() == atoi(argv[1]), "%d descriptors are open after exec, %s before OpenCL was used",
                open_descriptors(), argv[1]);
        return 33;
    }
    snprintf(inherited, sizeof inherited, "%d", open_descriptors());

    pid_t early = fork();
    if (early == 0) {
        unsetenv("SDI_STATS");
        fresh_session();
        exit(30);
    }
    session_t s = session_start();
    expect_exit(early, 30);
    for (int step = 0; step < KNOWN_STEPS; step++) /* they are replayed by now */
        session_step(&s, 3);

    /* A child with OpenCL of its own, whose child has again one, while the parent goes on. */
    pid_t child = fork();
    if (child == 0) {
        cl_uint count;
        const size_t global = SESSION_ITEMS;
        unsetenv("SDI_STATS");
        REQUIRE(clGetContextInfo(s.context, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, NULL) ==
                    CL_INVALID_CONTEXT, "an inherited context must be invalid");
        REQUIRE(clFinish(s.queue) == CL_INVALID_COMMAND_QUEUE, "an inherited queue must be invalid");
        REQUIRE(clEnqueueNDRangeKernel(s.queue, s.kernel, 1, NULL, &global, NULL, 0, NULL, NULL) ==
                    CL_INVALID_COMMAND_QUEUE, "nothing that the parent's session knows may reach it");
        REQUIRE(clReleaseMemObject(s.buffer) == CL_INVALID_MEM_OBJECT, "an inherited buffer must be invalid");
        session_t own = session_start();
        pid_t grandchild = fork();
        if (grandchild == 0) {
            fresh_session();
            _exit(31);
        }
        session_step(&own, 5);
        expect_exit(grandchild, 31);
        session_step(&own, 6);
        exit(32);
    }
    for (cl_uint digit = 2; digit < 8; digit++)
        session_step(&s, digit);
    expect_exit(child, 32);
    session_step(&s, 8);

    /* A child that never touches OpenCL, ended both ways, while commands are pending. */
    for (int way = 0; way < 2; way++) {
        const size_t global = SESSION_ITEMS, local = 32;
        CHECK(clEnqueueNDRangeKernel(s.queue, s.kernel, 1, NULL, &global, &local, 0, NULL, NULL));
        pid_t idle = fork();
        if (idle == 0) {
            if (way)
                _exit(34);
            exit(34);
        }
        expect_exit(idle, 34);
        CHECK(clFinish(s.queue));
        for (cl_uint i = 0; i < SESSION_ITEMS; i++)
            s.expected[i] = s.expected[i] * 10 + 8 + i / 32;
        session_step(&s, 8);
    }

    pid_t other = fork();
    if (other == 0) {
        execl("/proc/self/exe", argv[0], inherited, NULL);
        _exit(1);
    }
    expect_exit(other, 33);
    session_step(&s, 9);
    session_end(&s);
    printf("forks: ok\n");
    return 0;
}
