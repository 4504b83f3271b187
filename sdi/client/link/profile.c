/* Times the application's calls when SDI_PROFILE is set: counts and spans in a file of its folder that is mapped
 * shared, so that they are there however the process ends.
 *
 * Without the setting objects get the ordinary dispatch table and nothing here runs.  With it they get a second one
 * (generated), whose functions call the ordinary ones between sdi_call_begin and sdi_call_end.  sdi/wire/profile.py has
 * the file's layout. */
#include "link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CAPACITY = 1 << 18 };

struct calls_file {
    struct sdi_calls_header head;
    struct sdi_calls_counts functions[SDI_NUM_API];
    struct sdi_calls_span spans[CAPACITY];
};

const sdi_function *sdi_table = sdi_dispatch;
struct sdi_platform sdi_platform = {sdi_dispatch};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct calls_file *file; /* of this process; NULL before its first call */
static bool tried;
static uint64_t loaded_ns;

/* In the child of a fork: its calls go to a file of its own. */
static void forget(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    file = NULL;
    tried = false;
    loaded_ns = sdi_now_ns();
}

__attribute__((constructor)) static void choose_table(void)
{
    const char *folder = secure_getenv("SDI_PROFILE");
    if (!folder || !folder[0] || sdi_hidden())
        return;
    loaded_ns = sdi_now_ns();
    sdi_table = sdi_timed_dispatch;
    sdi_platform.dispatch = sdi_table;
    pthread_atfork(NULL, NULL, forget);
}

/* Makes the folder and those above it; errors show when the file is made. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

static struct calls_file *open_file(void)
{
    char path[4096];
    struct rlimit limit;
    const char *folder = secure_getenv("SDI_PROFILE");
    if ((size_t)snprintf(path, sizeof path, "%s/calls-%ld.bin", folder ? folder : ".", (long)getpid()) >= sizeof path)
        return NULL;
    make_folders(path);
    /* Never through a link that waits there, and no file that somebody else made. */
    unlink(path);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    void *at = MAP_FAILED;
    int error = errno;
    if (fd >= 0) {
        /* All of it now: a full disk, or a limit, must not become a signal later. */
        if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(struct calls_file))
            error = EFBIG;
        else
            error = posix_fallocate(fd, 0, sizeof(struct calls_file));
        if (!error) {
            at = mmap(NULL, sizeof(struct calls_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            error = errno;
        } else {
            unlink(path);
        }
        close(fd);
    }
    if (at == MAP_FAILED) {
        sdi_complain("SDI_PROFILE: %s: %s: calls are not recorded", path, strerror(error));
        return NULL;
    }
    struct calls_file *made = at;
    madvise(made, sizeof *made, MADV_DONTDUMP);
    made->head.version = SDI_CALLS_VERSION;
    made->head.num_functions = SDI_NUM_API;
    made->head.pid = (uint64_t)getpid();
    made->head.started_ns = loaded_ns;
    made->head.capacity = CAPACITY;
    __atomic_store_n(&made->head.magic, SDI_CALLS_MAGIC, __ATOMIC_RELEASE);
    return made;
}

static struct calls_file *calls(void)
{
    struct calls_file *found = __atomic_load_n(&file, __ATOMIC_ACQUIRE);
    if (found || __atomic_load_n(&tried, __ATOMIC_RELAXED))
        return found;
    int saved = errno;
    pthread_mutex_lock(&lock);
    if (!tried) {
        __atomic_store_n(&file, open_file(), __ATOMIC_RELEASE);
        __atomic_store_n(&tried, true, __ATOMIC_RELAXED);
    }
    found = file;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return found;
}

struct sdi_timed_call sdi_call_begin(uint32_t function)
{
    struct sdi_timed_call call = {.function = function};
    struct calls_file *to = calls();
    if (!to)
        return call;
    uint64_t number = __atomic_fetch_add(&to->head.used, 1, __ATOMIC_RELAXED);
    call.start_ns = sdi_now_ns();
    if (number < CAPACITY) {
        struct sdi_calls_span *span = &to->spans[number];
        span->function = function;
        span->thread = (uint32_t)syscall(SYS_gettid); /* a thread-local one would need ld.so */
        __atomic_store_n(&span->start_ns, call.start_ns, __ATOMIC_RELEASE);
        call.end_ns = &span->end_ns;
    }
    return call;
}

void sdi_call_end(const struct sdi_timed_call *call, bool failed)
{
    struct calls_file *to = __atomic_load_n(&file, __ATOMIC_ACQUIRE);
    if (!to || !call->start_ns)
        return;
    uint64_t now = sdi_now_ns(), took = now - call->start_ns, seen;
    struct sdi_calls_counts *counts = &to->functions[call->function];
    if (call->end_ns)
        __atomic_store_n(call->end_ns, now, __ATOMIC_RELEASE);
    __atomic_fetch_add(&counts->ns, took, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts->failed, failed, __ATOMIC_RELAXED);
    /* Stored as one more, so that the zero of a fresh file means none. */
    seen = __atomic_load_n(&counts->min_ns, __ATOMIC_RELAXED);
    while ((seen == 0 || took + 1 < seen)
           && !__atomic_compare_exchange_n(&counts->min_ns, &seen, took + 1, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    seen = __atomic_load_n(&counts->max_ns, __ATOMIC_RELAXED);
    while (took > seen
           && !__atomic_compare_exchange_n(&counts->max_ns, &seen, took, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
    __atomic_fetch_add(&counts->calls, 1, __ATOMIC_RELEASE);
}
