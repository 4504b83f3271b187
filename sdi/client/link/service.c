/* Starting the service process.
 *
 * It must not be a child that the application's wait(-1) could see.  A middle process (no exit signal: reaped with
 * __WCLONE only) starts the service and leaves at once, so the service belongs to nobody here.  Both are made with
 * CLONE_VM | CLONE_VFORK: nothing is copied, whatever the size of the application, and no fork handler runs. */
#include "link/link.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { STACK_NBYTES = 128 << 10, COMMANDS_FD = 3, NOTICES_FD = 4 };
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

int sdi_service_descriptors[4] = {-1, -1, -1, -1};

/* What runs on the stack of a process that becomes another one: a sanitizer would mark it and never take that back,
 * and the application's next memory may be there. */
#define UNMARKED __attribute__((no_sanitize_address))

struct launch {
    const char *python;
    char *const *arguments;
    char **environment;
    int commands, notices; /* the service's ends */
    char *stack;           /* of the service until it runs its program */
    int (*clone)(int (*run)(void *), void *stack, int flags, void *argument, ...);
    volatile int error; /* errno of what failed; 0: the service runs */
};

/* ---- what to run ---------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The application's environment without what would change the service's Python or hide real drivers from it. */
static char **service_environment(void)
{
    static char mark[] = "SDI_IN_SERVICE=1";
    size_t n = 0, kept = 0;
    while (environ && environ[n])
        n++;
    char **copy = malloc((n + 2) * sizeof *copy);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const char *item = environ[i];
        if (!starts_with(item, "PYTHON") && !starts_with(item, "LD_PRELOAD=") && !starts_with(item, "OCL_ICD_")
            && !starts_with(item, "SDI_IN_SERVICE="))
            copy[kept++] = environ[i];
    }
    copy[kept++] = mark;
    copy[kept] = NULL;
    return copy;
}

/* Whether only root, this user or the library's owner can have put it there. */
static bool is_trusted(const char *path, uid_t owner)
{
    struct stat found;
    return stat(path, &found) == 0 && !(found.st_mode & S_IWOTH)
        && (found.st_uid == 0 || found.st_uid == geteuid() || found.st_uid == owner);
}

/* `bin/python3` in the nearest folder above this library that has one; SDI_PYTHON overrides. */
static bool find_python(char *found, size_t size)
{
    const char *chosen = secure_getenv("SDI_PYTHON");
    if (chosen && chosen[0]) {
        snprintf(found, size, "%s", chosen);
        return true;
    }
    char folder[4096], bin[4096 + sizeof "/bin"];
    struct stat library;
    uid_t owner = stat(sdi_library_path(), &library) == 0 ? library.st_uid : 0;
    snprintf(folder, sizeof folder, "%s", sdi_library_path());
    for (char *slash = strrchr(folder, '/'); slash; slash = strrchr(folder, '/')) {
        *slash = 0;
        snprintf(bin, sizeof bin, "%s/bin", folder);
        if ((size_t)snprintf(found, size, "%s/python3", bin) < size && access(found, X_OK) == 0
            && is_trusted(bin, owner) && is_trusted(found, owner))
            return true;
    }
    sdi_complain("no bin/python3 that only you can change in any folder above %s; set SDI_PYTHON to the Python that "
                 "has sdi", sdi_library_path());
    return false;
}

/* ---- the two processes ----------------------------------------------------------------------------------- */

/* Closes the descriptors from `first` to `last`. */
UNMARKED static void close_between(unsigned first, unsigned last)
{
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    long limit = sysconf(_SC_OPEN_MAX);
    for (unsigned fd = first; fd <= last && fd < (limit > 0 && limit < 65536 ? (unsigned)limit : 65536u); fd++)
        close((int)fd);
}

/* Something to read nothing from.  Without /dev (a chroot) it is the end of a pipe that nobody writes to. */
UNMARKED static int open_nothing(void)
{
    int ends[2], nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0 || pipe(ends) != 0)
        return nothing;
    close(ends[1]);
    return ends[0];
}

/* Three for input and output, the two sockets, and nothing else.  What is not needed goes first: there may be few. */
UNMARKED static int arrange_descriptors(const struct launch *launch)
{
    unsigned low = (unsigned)SDI_MIN(launch->commands, launch->notices);
    unsigned high = (unsigned)(launch->commands + launch->notices) - low;
    close_between(STDERR_FILENO + 1, low - 1);
    close_between(low + 1, high - 1);
    close_between(high + 1, ~0u);
    int commands = fcntl(launch->commands, F_DUPFD, NOTICES_FD + 1);
    int notices = fcntl(launch->notices, F_DUPFD, NOTICES_FD + 1);
    if (commands < 0 || notices < 0 || dup2(commands, COMMANDS_FD) < 0 || dup2(notices, NOTICES_FD) < 0)
        return -1;
    close_between(NOTICES_FD + 1, ~0u);
    int nothing = open_nothing();
    if (nothing < 0 || (nothing != STDIN_FILENO && dup2(nothing, STDIN_FILENO) < 0))
        return -1;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && dup2(nothing, fd) < 0)
            return -1;
    close_between(NOTICES_FD + 1, ~0u);
    return 0;
}

/* Runs in the service's process until it becomes Python; memory is shared with the application, which waits. */
UNMARKED static int become_service(void *argument)
{
    struct launch *launch = argument;
    if (arrange_descriptors(launch) != 0)
        goto failed;
    setsid();
    static const unsigned long normal[8]; /* SIG_DFL, for the kernel: a sanitizer would forget the application's */
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, normal, NULL, NSIG / 8);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvpe(launch->python, launch->arguments, launch->environment);
failed:
    launch->error = errno ? errno : EINVAL;
    return 127;
}

/* The process between: starts the service and leaves. */
UNMARKED static int start_and_leave(void *argument)
{
    struct launch *launch = argument;
    if (launch->clone(become_service, launch->stack + STACK_NBYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, launch) < 0)
        launch->error = errno ? errno : EINVAL;
    return 0;
}

/* The C library's clone.  ThreadSanitizer's takes who shares our memory for a child of fork, and ceases to watch. */
static void find_clone(struct launch *launch)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), *own = libc ? dlsym(libc, "clone") : NULL;
    launch->clone = clone;
    if (own)
        memcpy(&launch->clone, &own, sizeof own);
    if (libc)
        dlclose(libc);
}

static int run(struct launch *launch)
{
    find_clone(launch);
    char *stacks = mmap(NULL, 2 * STACK_NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stacks == MAP_FAILED)
        return errno;
    launch->stack = stacks;
    sigset_t all, before;
    int cancellation;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellation);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* no handler of the application may run in our processes */
    int middle = launch->clone(start_and_leave, stacks + 2 * STACK_NBYTES, CLONE_VM | CLONE_VFORK, launch);
    int error = middle < 0 ? errno : 0;
    if (middle > 0)
        while (waitpid(middle, NULL, __WCLONE) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setcancelstate(cancellation, NULL);
    munmap(stacks, 2 * STACK_NBYTES);
    return error ? error : launch->error;
}

/* A connected pair, none of the three for input and output, which the application may have closed: what others write
 * there must not reach the service. */
static int make_pair(int ends[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return errno;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > STDERR_FILENO)
            continue;
        int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (moved < 0)
            return errno;
        close(ends[i]);
        ends[i] = moved;
    }
    return 0;
}

/* Every `step`th from `first` on, as far as it is open. */
static void close_ends(int fds[4], int first, int step)
{
    for (int i = first; i < 4; i += step) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Both, in place of what there is. */
static int make_pairs(int fds[4])
{
    close_ends(fds, 0, 1);
    int error = make_pair(fds);
    return error ? error : make_pair(fds + 2);
}

/* Whether the process that `sdi run` has ready is the service from now on; else it may have these sockets. */
static bool is_taken(const int *fds, char *shared, char *places, char *const *environment)
{
    const int ends[2] = {fds[1], fds[3]};
    char *const arguments[] = {shared, places, NULL};
    return sdi_take_ready(ends, arguments, environment);
}

int sdi_service_start(int sockets[2])
{
    static char isolated[] = "-I", module[] = "-m", name[] = "sdi.service.main", three[] = "3", four[] = "4";
    char python[4096], shared[32], places[128];
    if (!find_python(python, sizeof python))
        return -1;
    /* A third of what is left, if that is limited: less than drivers in this process would take. */
    uint64_t room = sdi_room(SDI_ARENA_NBYTES);
    if (room < SDI_ARENA_NBYTES)
        room /= 3;
    sdi_places(&room, places, sizeof places);
    snprintf(shared, sizeof shared, "%" PRIu64, room);
    char *arguments[] = {python, isolated, module, name, three, four, shared, places, NULL};
    struct launch launch = {.python = python, .arguments = arguments};
    int *fds = sdi_service_descriptors;
    int error = 0;
    launch.environment = service_environment();
    error = launch.environment ? make_pairs(fds) : ENOMEM;
    const bool is_ready = !error && is_taken(fds, shared, places, launch.environment);
    if (!error && !is_ready)
        error = make_pairs(fds);
    launch.commands = fds[1];
    launch.notices = fds[3];
    if (!error && !is_ready)
        error = run(&launch);
    free(launch.environment);
    if (error) {
        sdi_complain("cannot start the service with %s: %s", python, strerror(error));
        close_ends(fds, 0, 1);
        return -1;
    }
    close_ends(fds, 1, 2);
    if (is_ready)
        sdi_log("the process that sdi run had ready is the service");
    else
        sdi_log("started %s -I -m %s", python, name);
    sockets[0] = fds[0];
    sockets[1] = fds[2];
    return 0;
}
