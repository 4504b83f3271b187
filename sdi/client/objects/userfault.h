/* What the kernel has for who wants to know of accesses to memory (userfaultfd), written from its documentation: its headers
 * are older on many machines. */
#ifndef SDI_USERFAULT_H
#define SDI_USERFAULT_H

#include "client.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

struct uffd_range {
    uint64_t start, nbytes;
};
struct uffd_api {
    uint64_t api, features, ioctls;
};
struct uffd_register {
    struct uffd_range range;
    uint64_t mode, ioctls;
};
struct uffd_protect {
    struct uffd_range range;
    uint64_t mode;
};
struct uffd_copy {
    uint64_t to, from, nbytes, mode;
    int64_t copied; /* or the error, negative */
};
struct uffd_message {
    uint8_t event, reserved[7];
    uint64_t flags, address;
    uint32_t thread, unused;
};
_Static_assert(sizeof(struct uffd_message) == 32, "what is read of it");
#define UFFD_USER_MODE_ONLY 1
#define UFFD_API UINT64_C(0xAA)
#define UFFD_FEATURE_WP (UINT64_C(1) << 0)
#define UFFD_FEATURE_THREAD_ID (UINT64_C(1) << 8)
#define UFFD_FEATURE_WP_UNPOPULATED (UINT64_C(1) << 13)
#define UFFD_FEATURE_WP_ASYNC (UINT64_C(1) << 15)
#define UFFD_MISSING UINT64_C(1)
#define UFFD_WRITE_PROTECT UINT64_C(2)
#define UFFD_EVENT_FAULT 0x12
#define UFFD_FAULT_WRITES UINT64_C(1)
#define UFFD_FAULT_PROTECTED UINT64_C(2)
#define UFFD_COPY_SILENTLY UINT64_C(1)
#define UFFD_COPY_PROTECTED UINT64_C(2)
#define UFFDIO_API _IOWR(0xAA, 0x3F, struct uffd_api)
#define UFFDIO_REGISTER _IOWR(0xAA, 0x00, struct uffd_register)
#define UFFDIO_UNREGISTER _IOR(0xAA, 0x01, struct uffd_range)
#define UFFDIO_WAKE _IOR(0xAA, 0x02, struct uffd_range)
#define UFFDIO_COPY _IOWR(0xAA, 0x03, struct uffd_copy)
#define UFFDIO_WRITEPROTECT _IOWR(0xAA, 0x06, struct uffd_protect)
#define UFFD_DEVICE "/dev/userfaultfd"
#define UFFD_DEVICE_NEW _IO(0xAA, 0x00)

/* A descriptor with these features, which does not block; -1: there is none. */
static inline int sdi_userfault_with(int fd, uint64_t features)
{
    struct uffd_api api = {.api = UFFD_API, .features = features};
    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static inline bool sdi_userfault_register(int fd, const void *at, size_t nbytes, uint64_t mode)
{
    struct uffd_register all = {.range = {(uintptr_t)at, nbytes}, .mode = mode};
    return ioctl(fd, UFFDIO_REGISTER, &all) == 0;
}

/* Whether writes to these bytes are told of from now on, or not any more; that wakes who waits there. */
static inline bool sdi_userfault_protect(int fd, const void *at, size_t nbytes, bool tells)
{
    struct uffd_protect protect = {.range = {(uintptr_t)at, nbytes}, .mode = tells};
    return ioctl(fd, UFFDIO_WRITEPROTECT, &protect) == 0;
}

#endif
