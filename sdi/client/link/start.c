/* The start of the service of this process, at the first use, once; and the facts that it begins with. */
#include "link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static bool start_failed;
static unsigned char *facts; /* the FACTS record's variable part */
static uint32_t num_facts;

/* What children get of the arena: of this file, which its number may no longer stand for, as applications close what they
 * did not open. */
static struct kept {
    int fd;
    struct stat is;
    char *at;
    size_t nbytes;
    bool is_shown, is_apart;
} kept = {.fd = -1};
static char *inherited; /* this process' own copy of its parent's arena */
static size_t inherited_nbytes;

static void keep(int fd, const struct stat *is)
{
    kept.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    kept.is = *is;
    kept.at = sdi_session.arena;
    kept.nbytes = sdi_session.file_offset;
}

void sdi_arena_shows(bool is_apart)
{
    kept.is_shown = true;
    kept.is_apart |= is_apart;
}

/* In the child of a fork, which has no arena (MADV_DONTFORK). */
static void inherit(void)
{
    struct stat is;
    const struct kept of = kept;
    kept = (struct kept){.fd = -1};
    if (of.fd < 0 || fstat(of.fd, &is) != 0 || is.st_ino != of.is.st_ino || is.st_dev != of.is.st_dev)
        return;
    if (of.is_shown && !of.is_apart) {
        int flags = MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
        char *at = mmap(of.at, of.nbytes, PROT_READ | PROT_WRITE, flags, of.fd, 0);
        if (at == of.at) {
            madvise(at, of.nbytes, MADV_DONTDUMP);
            inherited = at;
            inherited_nbytes = of.nbytes;
        } else if (at != MAP_FAILED) { /* an old kernel takes the address for a hint */
            munmap(at, of.nbytes);
        }
    }
    close(of.fd);
}

static void forget(void)
{
    inherit();
    for (int i = 0; i < 4; i++)
        if (sdi_service_descriptors[i] >= 0)
            close(sdi_service_descriptors[i]);
    memset(sdi_service_descriptors, -1, sizeof sdi_service_descriptors);
    start_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    start_failed = false;
    facts = NULL;
    num_facts = 0;
}

SDI_AT_FORK(forget)

/* ---- facts ----------------------------------------------------------------------------------------------- */

const void *sdi_fact(cl_uint device, cl_uint param, size_t *nbytes)
{
    const unsigned char *at = facts;
    for (uint32_t i = 0; i < num_facts; i++) {
        struct sdi_wire_info_entry entry;
        memcpy(&entry, at, sizeof entry);
        at += sizeof entry;
        if (entry.param == SDI_FACT_NEXT_DEVICE && device-- == 0)
            break;
        if (entry.param == param && device == 0) {
            *nbytes = entry.nbytes;
            return at;
        }
        at += sdi_padded(entry.nbytes);
    }
    *nbytes = 0;
    return NULL;
}

static uint64_t number(cl_uint device, cl_uint param, uint64_t otherwise)
{
    size_t nbytes;
    const void *data = sdi_fact(device, param, &nbytes);
    uint64_t value = 0;
    if (!data || (nbytes != 4 && nbytes != 8))
        return otherwise;
    memcpy(&value, data, nbytes);
    return value;
}

static void read_limits(cl_uint device, struct sdi_limits *limits)
{
    limits->type = number(device, CL_DEVICE_TYPE, CL_DEVICE_TYPE_GPU);
    limits->max_alloc_nbytes = number(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, UINT64_MAX);
    limits->local_mem_nbytes = number(device, CL_DEVICE_LOCAL_MEM_SIZE, UINT64_MAX);
    limits->queue_properties = number(device, CL_DEVICE_QUEUE_ON_HOST_PROPERTIES, CL_QUEUE_PROFILING_ENABLE);
    limits->base_align_nbytes = number(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 1024) / 8;
    if (limits->base_align_nbytes == 0)
        limits->base_align_nbytes = 1;
    limits->max_work_group_size = number(device, CL_DEVICE_MAX_WORK_GROUP_SIZE, SIZE_MAX);
    limits->work_dimensions = SDI_MIN((cl_uint)number(device, CL_DEVICE_MAX_WORK_ITEM_DIMENSIONS, 3), 3u);
    limits->version = (cl_uint)number(device, CL_DEVICE_NUMERIC_VERSION, 0);
    limits->non_uniform = number(device, CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, 0) != 0;
    limits->images = number(device, CL_DEVICE_IMAGE_SUPPORT, 0) != 0;
    for (cl_uint i = 0; i < 2; i++)
        limits->image2d[i] = number(device, CL_DEVICE_IMAGE2D_MAX_WIDTH + i, 0);
    for (cl_uint i = 0; i < 3; i++)
        limits->image3d[i] = number(device, CL_DEVICE_IMAGE3D_MAX_WIDTH + i, 0);
    limits->image_layers = number(device, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE, 0);
    limits->image_buffer = number(device, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, 0);
    /* GPUs filter only such rows where they lie (sdi/devices/cuda/textures.py). */
    limits->image_row_align = limits->type & CL_DEVICE_TYPE_GPU ? 32 : 1;
    size_t nbytes;
    const void *sizes = sdi_fact(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, &nbytes);
    for (int i = 0; i < 3; i++)
        limits->max_work_item_sizes[i] = SIZE_MAX;
    if (sizes)
        memcpy(limits->max_work_item_sizes, sizes, SDI_MIN(nbytes, sizeof limits->max_work_item_sizes));
}

/* False: no memory. */
static bool read_devices(void)
{
    cl_uint num = 1;
    const unsigned char *at = facts;
    for (uint32_t i = 0; i < num_facts; i++) {
        struct sdi_wire_info_entry entry;
        memcpy(&entry, at, sizeof entry);
        at += sizeof entry + sdi_padded(entry.nbytes);
        num += entry.param == SDI_FACT_NEXT_DEVICE;
    }
    struct sdi_limits *limits = calloc(num, sizeof *limits);
    if (!limits)
        return false;
    sdi_session.num_devices = num;
    sdi_session.limits = limits;
    for (cl_uint device = 0; device < num; device++) {
        read_limits(device, &limits[device]);
        sdi_session.types |= limits[device].type;
    }
    return true;
}

static bool facts_well_formed(const unsigned char *at, size_t nbytes, uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        struct sdi_wire_info_entry entry;
        if (nbytes < sizeof entry)
            return false;
        memcpy(&entry, at, sizeof entry);
        size_t whole = sizeof entry + sdi_padded(entry.nbytes);
        if (nbytes < whole)
            return false;
        at += whole;
        nbytes -= whole;
    }
    return nbytes == 0;
}

/* At `address`, where nothing is, or anywhere. */
static void *map_at(uint64_t address, int fd, uint64_t nbytes)
{
    int shared = MAP_SHARED | MAP_NORESERVE;
    if (address) {
        void *wanted = (void *)(uintptr_t)address;
        void *at = mmap(wanted, nbytes, PROT_READ | PROT_WRITE, shared | MAP_FIXED_NOREPLACE, fd, 0);
        if (at != MAP_FAILED)
            return at; /* elsewhere: an old kernel takes the address for a hint */
    }
    return mmap(NULL, nbytes, PROT_READ | PROT_WRITE, shared, fd, 0);
}

/* What lies in a file: from `offset` on, instead of the memory that is mapped there. */
static bool map_file(char *at, uint64_t nbytes, uint64_t offset, int fd)
{
    if (offset < SDI_HEAP_OFFSET || offset >= nbytes || offset % 4096) {
        errno = EINVAL;
        return false;
    }
    int flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
    return mmap(at + offset, nbytes - offset, PROT_READ | PROT_WRITE, flags, fd, 0) != MAP_FAILED;
}

/* `files`: of the memory, and from `file_offset` on, where that is not 0, of what lies on disk. */
static bool map_arena(const int files[SDI_PASSED_MAX], uint64_t nbytes, uint64_t address, uint64_t file_offset)
{
    int fd = files[0];
    if (fd < 0 || (file_offset && files[1] < 0)) {
        errno = EMFILE; /* it came, and there was no number left for it */
        return false;
    }
    struct stat file;
    if (nbytes < SDI_HEAP_OFFSET || fstat(fd, &file) != 0 || (uint64_t)file.st_size < nbytes) {
        errno = EINVAL;
        return false;
    }
    void *at = map_at(address, fd, nbytes);
    if (at == MAP_FAILED || (file_offset && !map_file(at, nbytes, file_offset, files[1])))
        return false;
    madvise(at, nbytes, MADV_DONTFORK);
    madvise(at, nbytes, MADV_DONTDUMP);
    sdi_session.arena = at;
    sdi_session.arena_nbytes = nbytes;
    sdi_session.file_offset = file_offset ? file_offset : nbytes;
    sdi_session.has_svm = address && (uintptr_t)at == address;
    if (sdi_session.has_svm)
        keep(fd, &file);
    else if (address)
        sdi_log("no shared virtual memory: the application has no room at %#llx", (unsigned long long)address);
    sdi_session.header = at;
    sdi_session.slots = (struct sdi_wire_slot *)(sdi_session.arena + SDI_SLOTS_OFFSET);
    return sdi_session.header->magic == SDI_MAGIC;
}

/* Reads the FACTS record; false after one line on stderr. */
static bool read_facts(int fd)
{
    struct sdi_rec_facts record;
    int files[SDI_PASSED_MAX] = {-1, -1};
    bool ok = false;
    if (!sdi_receive(fd, &record, sizeof record, false, files)) {
        sdi_complain("the service ended before it was ready");
        goto out;
    }
    if (record.op != SDI_OP_FACTS || record.nbytes < sizeof record || record.nbytes > SDI_MAX_RECORD_NBYTES
        || record.version != SDI_PROTOCOL_VERSION) {
        sdi_complain("the service speaks another version of the protocol than this library (%d)",
                     SDI_PROTOCOL_VERSION);
        goto out;
    }
    size_t nbytes = record.nbytes - sizeof record;
    facts = malloc(nbytes + 1);
    if (!facts || !sdi_receive(fd, facts, nbytes, true, files)) {
        sdi_complain("the service ended before it was ready");
        goto out;
    }
    if (record.status != 0) {
        int length = (int)SDI_MIN(SDI_MIN((size_t)record.message_nbytes, nbytes), (size_t)960);
        sdi_complain("%.*s", length, (const char *)facts);
        goto out;
    }
    if (!facts_well_formed(facts, nbytes, record.num_facts)) {
        sdi_complain("the service described its device in a way that this library does not understand");
        goto out;
    }
    if (!map_arena(files, record.arena_nbytes, record.arena_address, record.file_offset)) {
        sdi_complain("cannot map the memory shared with the service: %s", strerror(errno));
        goto out;
    }
    num_facts = record.num_facts;
    ok = read_devices();
    if (!ok)
        sdi_complain("no memory");
out:
    for (int i = 0; i < SDI_PASSED_MAX; i++)
        if (files[i] >= 0)
            close(files[i]);
    if (!ok) {
        free(facts);
        facts = NULL;
    }
    return ok;
}

/* ---- start ----------------------------------------------------------------------------------------------- */

static bool start(void)
{
    int sockets[2];
    if (!sdi_forks_are_known()) {
        sdi_complain("no memory");
        return false;
    }
    if (inherited)
        munmap(inherited, inherited_nbytes);
    inherited = NULL;
    if (sdi_service_start(sockets) != 0)
        return false;
    sdi_session.commands = sockets[0];
    sdi_session.notices = sockets[1];
    memset(sdi_service_descriptors, -1, sizeof sdi_service_descriptors);
    if (read_facts(sdi_session.commands))
        return true;
    close(sdi_session.commands);
    close(sdi_session.notices);
    sdi_session.commands = sdi_session.notices = -1;
    return false;
}

bool sdi_session_start(void)
{
    if (__atomic_load_n(&sdi_session.running, __ATOMIC_ACQUIRE))
        return true;
    if (sdi_hidden())
        return false;
    pthread_mutex_lock(&start_lock);
    if (!sdi_session.running && !start_failed) {
        start_failed = !start();
        __atomic_store_n(&sdi_session.running, !start_failed, __ATOMIC_RELEASE);
    }
    bool is_running = sdi_session.running;
    pthread_mutex_unlock(&start_lock);
    return is_running;
}
