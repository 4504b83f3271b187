/* What is of this process, whatever became of its service: forks, messages, threads, room, time. */
#include "link/link.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool forks_are_unknown;
static pthread_mutex_t path_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(void)
{
    path_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

SDI_AT_FORK(forget)

void sdi_register_fork(void (*forget)(void))
{
    forks_are_unknown |= pthread_atfork(NULL, NULL, forget) != 0;
}

bool sdi_forks_are_known(void)
{
    return !forks_are_unknown;
}

bool sdi_hidden(void)
{
    const char *mark = getenv("SDI_IN_SERVICE");
    return getauxval(AT_SECURE) != 0 || (mark && mark[0]);
}

void sdi_leave_mark(char what)
{
    static bool left[2]; /* in a child of this process too: whoever runs it asks only whether anybody did */
    const char *path = secure_getenv("_SDI_RUN");
    if (__atomic_exchange_n(&left[what == 'd'], true, __ATOMIC_RELAXED) || !path || !path[0])
        return;
    int fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t written = write(fd, &what, 1);
    (void)written;
    close(fd);
}

/* ---- messages ------------------------------------------------------------------------------------------------ */

static void print(const char *format, va_list arguments)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "sdi: ");
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
    n = SDI_MIN(n, (int)sizeof line - 2);
    line[n++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, (size_t)n);
    (void)written;
}

void sdi_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

void sdi_log(const char *format, ...)
{
    const char *level = secure_getenv("SDI_LOG");
    if (!level || strcmp(level, "debug") != 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    print(format, arguments);
    va_end(arguments);
}

const char *sdi_library_path(void)
{
    static char path[4096];
    pthread_mutex_lock(&path_lock);
    Dl_info info;
    if (!path[0] && dladdr((void *)&sdi_session, &info) && info.dli_fname) {
        if (info.dli_fname[0] == '/')
            snprintf(path, sizeof path, "%s", info.dli_fname);
        else if (getcwd(path, sizeof path)) {
            size_t n = strlen(path);
            snprintf(path + n, sizeof path - n, "/%s", info.dli_fname);
        }
    }
    pthread_mutex_unlock(&path_lock);
    return path;
}

/* ---- resources ----------------------------------------------------------------------------------------------- */

uint64_t sdi_room(uint64_t most)
{
    uint64_t fits = 0;
    for (uint64_t step = most; fits < most && step >= SDI_PIECE_NBYTES; step /= 2) {
        void *at = mmap(NULL, fits + step, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED)
            continue;
        munmap(at, fits + step);
        fits += step;
    }
    return fits;
}

/* The kernel is asked: ThreadSanitizer's mmap takes 0 for an address that it does not like. */
static bool is_free(uint64_t address, uint64_t nbytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    long at = syscall(SYS_mmap, address, nbytes, PROT_NONE, flags, -1, 0);
    if (at != -1)
        syscall(SYS_munmap, at, nbytes);
    return (uint64_t)at == address; /* elsewhere: an old kernel takes the address for a hint */
}

void sdi_places(uint64_t *nbytes, char *text, size_t room)
{
    static const uint64_t addresses[] = {SDI_SHARED_ADDRESSES};
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        if (is_free(addresses[i], *nbytes))
            used += (size_t)snprintf(text + used, room - used, "%s%" PRIx64, used ? "," : "", addresses[i]);
    const uint64_t fewer = SDI_MIN(*nbytes, SDI_NEAR_NBYTES);
    if (!used && is_free(SDI_NEAR_ADDRESS, fewer)) {
        snprintf(text, room, "%" PRIx64, SDI_NEAR_ADDRESS);
        *nbytes = fewer;
    }
}

uint64_t sdi_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

int sdi_start_thread(void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return -1;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    sigdelset(&all, SIGSEGV); /* memory of the application that its own handler makes accessible */
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error ? -1 : 0;
}
