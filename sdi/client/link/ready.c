/* The process that `sdi run` has ready to become a service: see sdi/service/ready.py. */
#include "link/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { PATIENCE_S = 10, FILES_MAX = 4 };

/* Connected to a process of this user that listens by this name, which is no file's; -1: there is none. */
static int reach(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const size_t length = strlen(name);
    if (length >= sizeof address.sun_path)
        return -1;
    memcpy(address.sun_path + 1, name, length);
    const socklen_t address_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    int low = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); /* the application may have closed its output */
    if (low >= 0)
        close(low);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0
        && connect(fd, (const void *)&address, address_size) == 0
        && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid())
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The sockets, and what this process has open of its two outputs. */
static bool send_head(int fd, const int sockets[2], uint64_t nbytes)
{
    int files[FILES_MAX] = {sockets[0], sockets[1]};
    size_t count = 2;
    struct sdi_wire_applicant head = {.text_nbytes = nbytes};
    for (int output = STDOUT_FILENO; output <= STDERR_FILENO; output++)
        if (fcntl(output, F_GETFD) >= 0) {
            head.outputs |= UINT32_C(1) << output;
            files[count++] = output;
        }
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof files)];
    } control = {.bytes = {0}};
    struct iovec part = {&head, sizeof head};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
    message.msg_controllen = CMSG_SPACE(count * sizeof *files);
    struct cmsghdr *with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(count * sizeof *files);
    memcpy(CMSG_DATA(with), files, count * sizeof *files);
    ssize_t n;
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof head;
}

/* One behind the other, each with its end. */
static char *joined(char *const *arguments, char *const *environment, size_t *nbytes)
{
    char *const *lists[] = {arguments, environment};
    *nbytes = 0;
    for (int i = 0; i < 2; i++)
        for (char *const *at = lists[i]; *at; at++)
            *nbytes += strlen(*at) + 1;
    char *text = malloc(*nbytes), *end = text;
    for (int i = 0; text && i < 2; i++)
        for (char *const *at = lists[i]; *at; at++)
            end = stpcpy(end, *at) + 1;
    return text;
}

/* Whether it becomes the service, and says so in time, whatever signals there are. */
static bool has_agreed(int fd)
{
    const uint64_t until_ns = sdi_now_ns() + PATIENCE_S * UINT64_C(1000000000);
    struct pollfd look = {.fd = fd, .events = POLLIN};
    for (uint64_t now_ns; (now_ns = sdi_now_ns()) < until_ns;) {
        int ready = poll(&look, 1, (int)((until_ns - now_ns) / 1000000) + 1);
        char answer = 0;
        if (ready > 0)
            return recv(fd, &answer, 1, MSG_DONTWAIT) == 1 && answer == 'y';
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

bool sdi_take_ready(const int sockets[2], char *const *arguments, char *const *environment)
{
    const char *name = secure_getenv("_SDI_READY"), *python = secure_getenv("SDI_PYTHON");
    if (!name || !name[0] || (python && python[0]))
        return false;
    int fd = reach(name);
    size_t nbytes;
    char *text = fd >= 0 ? joined(arguments, environment, &nbytes) : NULL;
    /* Who is no longer waited for gets no word, and does not become a service beside another one. */
    bool is_served = text && send_head(fd, sockets, nbytes) && sdi_send_all(fd, text, nbytes) && has_agreed(fd)
        && sdi_send_all(fd, "y", 1);
    free(text);
    if (fd >= 0)
        close(fd);
    return is_served;
}
