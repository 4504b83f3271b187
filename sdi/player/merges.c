/* What several members wrote to their copies of a few bytes, brought together (design/0019), as `vmem/merging/host.py` does. */
#include "player.h"

#include <string.h>

enum { BLOCK_NBYTES = 512 }; /* of which all is compared at once */

/* Numbers of updates: `devices/comparing.py`. */
enum { STORES, ADD, XOR, AND, OR, MIN, MAX, SIGNED_MIN = 8 + MIN, SIGNED_MAX = 8 + MAX };

const char *copy_of_member(const struct watched *w, uint32_t k)
{
    return (const char *)(uintptr_t)(w->copies_at + k * ((w->nbytes + 7) / 8 * 8));
}

static bool is_same(const struct watched *w, const char *host, uint64_t at, uint64_t nbytes)
{
    for (uint32_t k = 0; k < w->num_copies; k++)
        if (memcmp(host + at, copy_of_member(w, k) + at, nbytes))
            return false;
    return true;
}

/* A unit that several have changed: all that is in `small` parts, or, where two made one part different, the last one's. */
static void merge_shared(struct watched *w, char *host, uint64_t at, uint32_t unit, uint32_t small)
{
    char before[8];
    uint32_t changed = 0;
    memcpy(before, host + at, unit);
    for (uint32_t k = 0; k < w->num_copies; k++) {
        const char *own = copy_of_member(w, k) + at;
        uint32_t mask = 0;
        bool clashes = false;
        for (uint32_t part = 0; part < unit; part += small)
            if (memcmp(before + part, own + part, small)) {
                mask |= UINT32_C(1) << part;
                clashes |= (changed >> part & 1) && memcmp(host + at + part, own + part, small);
                memcpy(host + at + part, own + part, small);
            }
        w->conflicts += (mask & changed) != 0;
        if (clashes)
            memcpy(host + at, own, unit);
        changed = clashes ? mask : changed | mask;
    }
}

/* Units of type T in a block. */
#define MERGE_STORES(T)                                                                                                \
    static void merge_##T(struct watched *w, char *host, uint64_t from, uint64_t to, uint32_t small)                   \
    {                                                                                                                  \
        for (uint64_t at = from; at < to; at += sizeof(T)) {                                                           \
            T before, made, own;                                                                                       \
            uint32_t writers = 0;                                                                                      \
            bool are_alike = true;                                                                                     \
            memcpy(&before, host + at, sizeof before);                                                                 \
            made = before;                                                                                             \
            for (uint32_t k = 0; k < w->num_copies; k++) {                                                             \
                memcpy(&own, copy_of_member(w, k) + at, sizeof own);                                                   \
                are_alike &= !writers || own == before || own == made;                                                 \
                writers += own != before;                                                                              \
                made = own != before ? own : made;                                                                     \
            }                                                                                                          \
            if (are_alike || small == sizeof(T)) {                                                                     \
                memcpy(host + at, &made, sizeof made);                                                                 \
                w->conflicts += writers ? writers - 1 : 0;                                                             \
            } else {                                                                                                   \
                merge_shared(w, host, at, sizeof(T), small);                                                           \
            }                                                                                                          \
            w->changed_nbytes += writers ? w->element_nbytes : 0;                                                      \
        }                                                                                                              \
    }

#define EACH(T, expression)                                                                                            \
    for (uint64_t i = 0; i < nbytes; i += sizeof(T)) {                                                                 \
        T here, old, own;                                                                                              \
        memcpy(&here, host + i, sizeof here);                                                                          \
        memcpy(&old, before + i, sizeof old);                                                                          \
        memcpy(&own, copy + i, sizeof own);                                                                            \
        (void)old;                                                                                                     \
        here = (T)(expression);                                                                                        \
        memcpy(host + i, &here, sizeof here);                                                                          \
    }

/* What one member's updates make of units of type T, S if they have a sign, in a block; `before`: all members'. */
#define UPDATE(T, S)                                                                                                   \
    static void update_##T(char *restrict host, const char *restrict before, const char *restrict copy,                \
                           uint64_t nbytes, uint32_t operation)                                                        \
    {                                                                                                                  \
        switch (operation) {                                                                                           \
        case ADD: EACH(T, here + (own - old)) break;                                                                   \
        case XOR: EACH(T, here ^ own ^ old) break;                                                                     \
        case AND: EACH(T, here & own) break;                                                                           \
        case OR: EACH(T, here | own) break;                                                                            \
        case MIN: EACH(T, own < here ? own : here) break;                                                              \
        case MAX: EACH(T, own > here ? own : here) break;                                                              \
        case SIGNED_MIN: EACH(S, own < here ? own : here) break;                                                       \
        case SIGNED_MAX: EACH(S, own > here ? own : here) break;                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    static uint64_t changed_##T(const char *host, const char *before, uint64_t nbytes)                                 \
    {                                                                                                                  \
        uint64_t found = 0;                                                                                            \
        for (uint64_t i = 0; i < nbytes; i += sizeof(T)) {                                                             \
            T here, old;                                                                                               \
            memcpy(&here, host + i, sizeof here);                                                                      \
            memcpy(&old, before + i, sizeof old);                                                                      \
            found += here != old ? sizeof(T) : 0;                                                                      \
        }                                                                                                              \
        return found;                                                                                                  \
    }

MERGE_STORES(uint8_t)
MERGE_STORES(uint16_t)
MERGE_STORES(uint32_t)
MERGE_STORES(uint64_t)
UPDATE(uint32_t, int32_t)
UPDATE(uint64_t, int64_t)

static void merge_block(struct watched *w, char *host, uint64_t from, uint64_t to)
{
    const uint64_t unit = w->element_nbytes, whole = to - (to - from) % unit;
    switch (unit) {
    case 1: merge_uint8_t(w, host, from, whole, 1); break;
    case 2: merge_uint16_t(w, host, from, whole, w->smallest_nbytes); break;
    case 4: merge_uint32_t(w, host, from, whole, w->smallest_nbytes); break;
    case 8: merge_uint64_t(w, host, from, whole, w->smallest_nbytes); break;
    }
    merge_uint8_t(w, host, whole, to, 1);
}

static void update_block(struct watched *w, char *host, uint64_t from, uint64_t to)
{
    const bool is_small = w->element_nbytes == sizeof(uint32_t);
    const uint64_t nbytes = to - from;
    char before[BLOCK_NBYTES];
    memcpy(before, host + from, nbytes);
    for (uint32_t k = 0; k < w->num_copies; k++)
        (is_small ? update_uint32_t : update_uint64_t)(host + from, before, copy_of_member(w, k) + from, nbytes, w->operation);
    w->changed_nbytes += (is_small ? changed_uint32_t : changed_uint64_t)(host + from, before, nbytes);
}

/* Into the host's bytes, which are as they were before the launch. */
API void sdi_player_merge(struct watched *w)
{
    char *host = (char *)(uintptr_t)w->host_at;
    for (uint64_t from = 0; from < w->nbytes; from += BLOCK_NBYTES) {
        const uint64_t left = w->nbytes - from, to = from + (left < BLOCK_NBYTES ? left : BLOCK_NBYTES);
        if (is_same(w, host, from, to - from))
            continue;
        if (w->operation == STORES)
            merge_block(w, host, from, to);
        else
            update_block(w, host, from, to);
    }
}
