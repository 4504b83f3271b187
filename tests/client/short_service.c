/* The least service that the client can talk to, for tests of what it does when something that is said to it is cut
 * short: "SDI_FAKE_SHORT=KIND LENGTH HOW" (see test_short_replies.py).  What it says is in the files of SDI_FAKE_SAYS. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdi_wire.h"

enum { COMMANDS = 3, NOTICES = 4 };
static const size_t ARENA_NBYTES = (size_t)256 << 20;

static char *arena;
static int memory;
static char kind[32], how[32];
static unsigned length;

static void leave(void)
{
    _exit(0);
}

static void send_all(int end, const char *at, size_t nbytes, bool with_memory)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec piece = {.iov_base = (char *)at, .iov_len = nbytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    memset(control, 0, sizeof control);
    if (with_memory) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
        passed->cmsg_level = SOL_SOCKET;
        passed->cmsg_type = SCM_RIGHTS;
        passed->cmsg_len = CMSG_LEN(sizeof memory);
        memcpy(CMSG_DATA(passed), &memory, sizeof memory);
    }
    if (nbytes && sendmsg(end, &message, MSG_NOSIGNAL) != (ssize_t)nbytes)
        leave();
}

/* Until the client has gone. */
static void be_silent(void)
{
    struct pollfd look = {.fd = COMMANDS, .events = POLLRDHUP};
    poll(&look, 1, -1);
    leave();
}

/* Says what is in the file `what`, about `id`; all of it, or as the test wants. */
static void say(const char *what, uint64_t id, uint64_t value)
{
    static char bytes[1 << 20];
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("SDI_FAKE_SAYS"), what);
    FILE *file = fopen(path, "rb");
    size_t nbytes = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (!nbytes)
        leave();
    fclose(file);
    struct sdi_rec_reply *reply = (struct sdi_rec_reply *)bytes;
    reply->id = id;
    if (reply->op == SDI_OP_REPLY && value)
        reply->value = value;
    if (strcmp(what, kind) == 0 && strcmp(how, "late") == 0)
        poll(NULL, 0, (int)length);
    bool is_notice = reply->op == SDI_OP_NOTICE;
    bool is_short = strcmp(what, kind) == 0 && length < nbytes && strcmp(how, "late") != 0;
    if (is_short && strcmp(how, "says so") == 0 && length >= 4)
        reply->nbytes = length;
    if (is_short && strcmp(how, "damaged") == 0) {
        bytes[length] ^= 0xff;
        is_short = false;
    }
    send_all(is_notice ? NOTICES : COMMANDS, bytes, is_short ? length : nbytes, strcmp(what, "FACTS") == 0);
    if (is_short && strcmp(how, "silent") == 0)
        be_silent();
    if (is_short && strcmp(how, "ends") == 0)
        leave();
}

static void finish(uint32_t slot, int status)
{
    struct sdi_wire_slot *at = (struct sdi_wire_slot *)(arena + SDI_SLOTS_OFFSET) + slot;
    struct sdi_wire_arena_header *header = (struct sdi_wire_arena_header *)arena;
    if (slot)
        __atomic_store_n(&at->status, status, __ATOMIC_RELEASE);
    __atomic_add_fetch(&header->epoch, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &header->epoch, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void obey(const struct sdi_rec_read *record)
{
    static uint32_t waits_for_client[1 << 12]; /* slots by id */
    static uint64_t listener;
    struct sdi_wire_slot *slots = (struct sdi_wire_slot *)(arena + SDI_SLOTS_OFFSET);
    uint32_t slot = record->slot;
    switch (record->op) {
    case SDI_OP_CREATE_QUEUE:
        listener = ((const struct sdi_rec_create_queue *)record)->listener;
        break;
    case SDI_OP_CREATE_BUFFER:
        say("CREATE_BUFFER", record->id, SDI_HEAP_OFFSET);
        break;
    case SDI_OP_BUILD:
        say("BUILD", record->id, 0);
        break;
    case SDI_OP_COMPILE:
        say("COMPILE", record->id, 0);
        break;
    case SDI_OP_LINK:
        say("LINK", record->id, 0);
        break;
    case SDI_OP_READ:
        waits_for_client[record->id % 4096] = slot;
        slots[slot].ready_nbytes = record->region[0];
        finish(0, 0);
        say("TRANSFER_READY", record->id, 0);
        break;
    case SDI_OP_NDRANGE:
        waits_for_client[record->id % 4096] = slot;
        say("PRINTED", record->id, 0);
        break;
    case SDI_OP_FILL: /* fails */
        finish(slot, -5);
        say("FAILED", listener, 0);
        break;
    case SDI_OP_TRANSFER_DONE:
        finish(waits_for_client[record->id % 4096], 0);
        break;
    case SDI_OP_MARKER: /* until somebody watches */
        waits_for_client[record->id % 4096] = slot;
        break;
    case SDI_OP_WATCH:
        finish(waits_for_client[record->id % 4096], 0);
        say("EVENT_STATUS", record->id, 0);
        break;
    default:
        break;
    }
}

int main(void)
{
    static char bytes[1 << 20];
    size_t filled = 0;
    const char *asked = getenv("SDI_FAKE_SHORT");
    if (asked)
        sscanf(asked, "%31s %u %31[a-z ]", kind, &length, how);
    memory = memfd_create("short", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, (off_t)ARENA_NBYTES) != 0)
        return 1;
    arena = mmap(NULL, ARENA_NBYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
    if (arena == MAP_FAILED)
        return 1;
    struct sdi_wire_arena_header *header = (struct sdi_wire_arena_header *)arena;
    *header = (struct sdi_wire_arena_header){.magic = SDI_MAGIC, .version = SDI_PROTOCOL_VERSION};
    say("FACTS", 0, 0);
    for (;;) {
        ssize_t n = recv(COMMANDS, bytes + filled, sizeof bytes - filled, 0);
        if (n <= 0)
            return 0;
        filled += (size_t)n;
        struct sdi_wire_header head;
        while (filled >= sizeof head && (memcpy(&head, bytes, sizeof head), filled >= head.nbytes)) {
            obey((const struct sdi_rec_read *)bytes);
            memmove(bytes, bytes + head.nbytes, filled - head.nbytes);
            filled -= head.nbytes;
        }
    }
}
