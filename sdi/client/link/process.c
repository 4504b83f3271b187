/* What is of this process, whatever became of its service: forks, messages, threads, room, time. */
#include "link/link.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
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
