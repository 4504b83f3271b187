/* harness [--threads] [--first SEED] [--streams COUNT]: the player, over generated streams of records. */
#include "harness.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OUT_NBYTES = 1 << 20 };

struct world w;
uint64_t counted[NUM_COUNTED];
static const char *const names[] = {
    "commands", "replayed", "writes", "shown", "by_python", "operations", "staged", "staged_again", "aside", "at_once", "apart", "together", "lane_waits", "naps",
    "timed", "measured", "reports", "reports_known", "recycled", "recycled_by_python", "reused",
    "notices", "notices_late", "full", "taken_over", "wanted", "posted", "failures",
    "logged", "log_full", "turns", "in_ring",
    "copied", "copied_late", "copied_now", "given_after_all", "ways_changed", "tried", "surveyed", "alone", "followed", "unmarked", "rows_full", "watched", "planned",
};
static struct segment segments[SEGMENTS];
static uint64_t released[NODES_MAX];

int __real_ppoll(struct pollfd *, nfds_t, const struct timespec *, const void *);
int __real_clock_gettime(clockid_t, struct timespec *);
ssize_t __wrap_recv(int, void *, size_t, int);
int __real_sched_yield(void);
int __wrap_ppoll(struct pollfd *, nfds_t, const struct timespec *, const void *);
int __wrap_sched_yield(void);
int __wrap_clock_gettime(clockid_t, struct timespec *);

_Noreturn void broken(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "seed %lu%s: ", (unsigned long)w.seed, w.threads ? ", threads" : "");
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    abort();
}

/* ---- chance --------------------------------------------------------------------------------------------- */

static _Thread_local uint64_t state;

uint64_t random_bits(void)
{
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Seeds that are neighbours have nothing in common. */
void seed_with(uint64_t seed)
{
    state = seed;
    state = random_bits() ^ (seed << 32);
}

unsigned below(unsigned limit)
{
    return limit ? (unsigned)((random_bits() >> 32) * limit >> 32) : 0;
}

bool one_in(unsigned chances)
{
    return below(chances) == 0;
}

/* ---- what the player calls ------------------------------------------------------------------------------ */

void lock(void)
{
    if (w.threads)
        pthread_mutex_lock(&w.lock);
}

void unlock(void)
{
    if (w.threads)
        pthread_mutex_unlock(&w.lock);
}

uint64_t harness_now(void)
{
    struct timespec now;
    __wrap_clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (w.threads)
        return __real_clock_gettime(clock, now);
    if (w.player && w.player->num_nodes > w.most_nodes) /* a command that comes is told the time */
        w.most_nodes = w.player->num_nodes;
    w.now_ns += 1 + below(100);
    *now = (struct timespec){(time_t)(w.now_ns / 1000000000u), (long)(w.now_ns % 1000000000u)};
    return 0;
}

uint64_t stream_taken(void)
{
    return w.player->uses_ring ? w.ring_from + w.player->ring_tail : w.received;
}

static void others_go_on(unsigned steps)
{
    if (w.player->ring_tail != w.ring_seen)
        w.idle = 0;
    w.ring_seen = w.player->ring_tail;
    if (++w.idle > 100000)
        broken("the player waits for ever");
    if (one_in(2))
        client_step();
    for (; steps; steps--)
        driver_step();
}

/* Queues are to use streams in some way, which may be the one that they do, and some launch is the longest. */
static void change_way(struct trial *trial)
{
    trial->turns = true;
    trial->way = (enum streams_way)below(WAYS);
    trial->surveys = one_in(2);
    const uint32_t count = w.player->num_recordings, from = count ? below(count) : 0;
    for (uint32_t n = 0; n < count; n++) {
        const struct recording *r = &w.player->recordings[(from + n) % count];
        for (uint32_t i = 0; i < r->num_ops; i++)
            if (r->ops[i].kind == OP_LAUNCH) {
                trial->longest.kernel = r->ops[i].object;
                memcpy(trial->longest.size, r->ops[i].size, sizeof trial->longest.size);
                return;
            }
    }
}

ssize_t __wrap_recv(int end, void *to, size_t nbytes, int flags)
{
    if (!w.threads)
        others_go_on(w.pace == LAZY ? 0 : below(3));
    if (w.shares)
        model_turn();
    if (w.shares && one_in(6)) /* from where it asks the next time */
        change_way(&w.player->trial);
    bool is_empty = !w.threads && !w.has_left && !w.in_socket; /* most often, and the call is slow */
    errno = EAGAIN;
    ssize_t got = is_empty ? -1 : __real_recv(end, to, nbytes, flags);
    if (got > 0) {
        __atomic_fetch_sub(&w.in_socket, (uint64_t)got, __ATOMIC_RELAXED);
        if (!w.player->uses_ring)
            w.received += (uint64_t)got;
        if (!w.threads)
            w.idle = 0;
    } else if (!w.threads) {
        w.now_ns += below(30000);
    }
    return got;
}

/* With the ring it asks no socket between. */
int __wrap_sched_yield(void)
{
    if (w.threads || !w.player->uses_ring)
        return __real_sched_yield();
    others_go_on(w.pace == LAZY ? 0 : below(3));
    w.now_ns += below(30000);
    return 0;
}

int __wrap_ppoll(struct pollfd *ends, nfds_t count, const struct timespec *most, const void *mask)
{
    counted[NAPS]++;
    if (w.player->turn_ns)
        broken("the player sleeps in a turn");
    counted[NOTICES_LATE] += w.player->is_deaf;
    counted[FULL_TIMES] += w.player->num_nodes == NODES_MAX;
    if (w.threads)
        return __real_ppoll(ends, count, most, mask);
    others_go_on(1 + below(8));
    w.now_ns += (uint64_t)most->tv_nsec;
    const struct timespec now = {0};
    return __real_ppoll(ends, count, &now, mask);
}

/* ---- a stream ------------------------------------------------------------------------------------------- */

struct sdi_wire_slot *slot_at(uint32_t slot)
{
    return (struct sdi_wire_slot *)(w.arena + SDI_SLOTS_OFFSET) + slot;
}

static void make_members(void)
{
    static char contexts[MEMBERS];
    w.driver = one_in(3) ? DRIVER_OPENCL : DRIVER_CUDA;
    w.pace = (enum pace)below(3);
    w.num_members = 1 + below(MEMBERS);
    sdi_player_drivers(w.player, w.driver == DRIVER_CUDA ? &cuda : NULL, w.driver == DRIVER_CUDA ? NULL : &opencl);
    void *streams[LANES];
    for (unsigned l = 0; l < LANES; l++) {
        w.streams[l].lane = l;
        w.streams[l].context = l < w.num_members ? &contexts[l / (1 + below(2))] : w.streams[l % w.num_members].context;
        streams[l] = &w.streams[l];
        if (l < w.num_members)
            sdi_player_lane(w.player, w.driver, w.streams[l].context, streams[l]);
    }
    w.player->wake_after = 0; /* issuers have a harness of their own */
    w.num_lanes = w.num_members;
    for (unsigned n = w.driver == DRIVER_CUDA ? below(STREAMS_MAX) : 0; n && w.num_lanes + w.num_members <= LANES; n--) {
        if (sdi_player_streams(w.player, streams + w.num_lanes))
            broken("there is no room for streams");
        w.num_lanes += w.num_members;
    }
    w.fails_in = one_in(6) ? 1 + below(300) : 0;
    w.fails_later = one_in(2);
    w.stays_failed = one_in(2);
}

static void begin(uint64_t seed, bool threads)
{
    char *arena = w.arena, *bytes = w.bytes, *out = w.out;
    memset(&w, 0, sizeof w);
    *(struct sdi_wire_arena_header *)(void *)arena = (struct sdi_wire_arena_header){0};
    *(struct sdi_wire_ring *)(void *)(arena + SDI_RING_OFFSET) = (struct sdi_wire_ring){0};
    w.arena = arena, w.bytes = bytes, w.out = out;
    w.seed = seed;
    w.threads = threads;
    w.now_ns = 1000000;
    w.is_on = true;
    pthread_mutex_init(&w.lock, NULL);
    seed_with(seed);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, w.commands) || socketpair(AF_UNIX, SOCK_STREAM, 0, w.notices))
        broken("no sockets");
    int little = 1;
    setsockopt(w.notices[0], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    memset(segments, 0, sizeof segments);
    w.player = sdi_player_new(w.commands[0], w.notices[0], w.arena, w.cells, segments, released);
    sdi_player_hang_bell(w.player);
    w.offers_ring = one_in(2);
    if (w.offers_ring)
        sdi_player_offer_ring(w.player);
    w.is_profiled = one_in(3);
    if (w.is_profiled && sdi_player_profiled(w.player, 1 + below(40)))
        broken("there is no memory for a profile");
    make_members();
    w.player->trial.until_ns = UINT64_MAX / 2;
    w.player->trial.rest_ns = UINT64_MAX / 2;
    w.shares = !threads && !w.offers_ring; /* a ring is asked in another place */
    w.is_long = one_in(60);
    w.calm = w.is_long || !one_in(3);
    w.num_queues = w.is_long ? 1 + below(2) : one_in(40) ? QUEUES : 1 + below(FEW_QUEUES);
    for (unsigned q = 0; q < w.num_queues; q++) {
        model_queue(q, w.calm || !one_in(8));
        w.is_timed[q] = one_in(4);
        sdi_player_queue(w.player, q + 1, w.is_playable[q], w.is_timed[q], true);
    }
    for (unsigned n = CELLS_RESERVED; n < CELLS; n++)
        w.truth[n] = w.cells[n] = 1 + below(3);
    shared_begin();
    w.reads = !w.is_long || one_in(2);
    w.watches = seed % 3 != 0;
    w.is_near = one_in(2);
    client_generate(w.is_long ? 600 + below(1000) : 5 + below(120));
    w.hurry = w.is_long ? 300 : 1 + below(20);
    w.patience = w.is_long || one_in(4) ? 200 : 4;
    w.is_patient = !w.is_long && !one_in(4);
    w.posts = one_in(3);
    w.deaf = one_in(3) ? below(300) : 0;
    struct sdi_rec_notice told = {.nbytes = sizeof told, .op = SDI_OP_NOTICE, .kind = SDI_NOTICE_PRINTED};
    while (w.deaf && send(w.notices[0], &told, sizeof told, MSG_DONTWAIT) == sizeof told)
        ;
    w.leaves_after = one_in(12) ? 1 + below(w.num_script) : 0;
    for (unsigned n = 0; n < w.num_commands; n++)
        *slot_at(n + 1) = (struct sdi_wire_slot){.status = 3};
}

/* What a recording's launch is said to have taken in a survey is what the driver says of one of its commands. */
static void check_surveyed(uint32_t number, uint64_t told)
{
    for (unsigned n = 0; n < w.num_commands && !w.has_failed; n++) {
        const struct command *c = &w.all[n];
        if (!c->as || c->as->is_dropped || c->as->number != number)
            continue;
        unsigned first = 0;
        while (first < c->as->given.num_ops && c->as->ops[first].kind != OP_LAUNCH)
            first++;
        if (first < c->as->given.num_ops && model_took(c, first, told))
            return;
    }
    if (!w.has_failed)
        broken("recording %u is said to have taken %lu ns in a survey", number, (unsigned long)told);
}

/* What is tried is told of commands, and of their ends unless others see to these. */
static void check_trial(void)
{
    const struct trial *trial = &w.player->trial;
    bool is_used = false;
    for (unsigned n = 0; n < STREAMS_MAX; n++)
        is_used |= trial->used[n] != 0;
    if (w.player->num_streams > 1 && w.replays && !w.has_failed && !is_used)
        broken("nothing was said of commands that were executed");
    for (uint32_t n = 0; n < w.player->num_recordings; n++) {
        const struct recording *r = &w.player->recordings[n];
        if (r->surveyed)
            check_surveyed(n, r->surveyed_ns);
        counted[SURVEYED] += r->surveyed;
    }
    counted[TRIED] += is_used && trial->ended_ns;
}

static void end(void)
{
    counted[COMMANDS_SENT] += w.num_commands;
    check_trial();
    for (uint32_t op = 0; op < OPS_COUNT; op++)
        for (uint32_t why = PLAYED; why < WHY_COUNT; why++)
            counted[why == PLAYED ? RECORDS_PLAYED : RECORDS_LEFT] += sdi_player_records(w.player, op, why);
    counted[WRITES_PLAYED] += sdi_player_records(w.player, SDI_OP_WRITE, PLAYED);
    counted[FAILURES] += w.has_failed;
    counted[IN_RING] += w.in_ring;
    for (unsigned n = 0; n < w.num_commands; n++)
        if (w.all[n].is_played && !w.all[n].is_taken_over && w.all[n].as && w.all[n].as->given.client == CLIENT_STAGED)
            w.taken += w.all[n].carried;
    if (((struct sdi_wire_arena_header *)(void *)w.arena)->taken_nbytes != w.taken)
        broken("other bytes were taken than were staged");
    w.is_freeing = true;
    unlock();
    sdi_player_free(w.player);
    w.player = NULL;
    lock();
    model_end();
    shared_end();
    driver_drain();
    driver_reset();
    for (struct recorded *older; w.recorded; w.recorded = older) {
        older = w.recorded->older;
        free(w.recorded);
    }
    close(w.commands[0]);
    close(w.notices[0]);
    close(w.notices[1]);
    unlock();
    pthread_mutex_destroy(&w.lock);
}

static void *client_goes_on(void *unused)
{
    seed_with(w.seed + (UINT64_C(1) << 40));
    for (bool is_over = false; !is_over;) {
        lock();
        client_step();
        is_over = w.is_over;
        unlock();
        usleep(1);
    }
    return unused;
}

static void *driver_goes_on(void *unused)
{
    seed_with(w.seed + (UINT64_C(1) << 41));
    for (bool is_over = false; !is_over;) {
        lock();
        for (unsigned n = below(20); n; n--)
            driver_step();
        is_over = w.is_over;
        unlock();
        usleep(1);
    }
    return unused;
}

static void stream(uint64_t seed, bool threads)
{
    begin(seed, threads);
    pthread_t client, driver;
    if (threads && (pthread_create(&client, NULL, client_goes_on, NULL)
                    || pthread_create(&driver, NULL, driver_goes_on, NULL)))
        broken("no threads");
    lock();
    python_run();
    w.is_over = true;
    unlock();
    if (threads) {
        pthread_join(client, NULL);
        pthread_join(driver, NULL);
    }
    lock();
    end();
}

int main(int count, char **arguments)
{
    uint64_t first = 1, streams = 1000;
    bool threads = false;
    for (int n = 1; n < count; n++) {
        if (!strcmp(arguments[n], "--threads"))
            threads = true;
        else if (!strcmp(arguments[n], "--first") && n + 1 < count)
            first = strtoull(arguments[++n], NULL, 10);
        else if (!strcmp(arguments[n], "--streams") && n + 1 < count)
            streams = strtoull(arguments[++n], NULL, 10);
        else
            return 2;
    }
    w.arena = calloc(1, SDI_HEAP_OFFSET);
    w.bytes = malloc(OUT_NBYTES);
    w.out = malloc(OUT_NBYTES);
    for (uint64_t seed = first; seed < first + streams; seed++)
        stream(seed, threads);
    free(w.arena);
    free(w.bytes);
    free(w.out);
    printf("{\"streams\": %lu", (unsigned long)streams);
    for (unsigned n = 0; n < NUM_COUNTED; n++)
        printf(", \"%s\": %lu", names[n], (unsigned long)counted[n]);
    puts("}");
    return 0;
}
