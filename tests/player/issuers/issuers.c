/* issuers [--first SEED] [--streams COUNT]: calls for several lanes, which issuers make in threads of their own.
 *
 * The driver here knows what each stream is to be given, and in which order: an operation has its number and its bytes, a
 * wait the operation of another stream that it is for.  What is recorded anew too early, waited for before it is
 * recorded, made twice, by the wrong thread or after a failure, is said with the seed. */
#include "player.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 4, OPS = 400, MORE_OPS = 100, LOST = 719, BLOCK_MOST = 30000, LANES = 12 };

struct event {
    struct event *older;
    unsigned lane; /* + 1, where it was recorded; 0: nowhere yet */
    uint64_t position;
    bool is_freed;
};

/* What a stream is to be given next: an operation, or (`other`) a wait for one of lane other - 1. */
struct expected {
    uint64_t number;
    unsigned other;
};

struct stream {
    unsigned lane;
    void *context;
    struct expected expected[4 * OPS];
    unsigned num_expected, at;
    uint64_t made, done;
    uint64_t after[OPS + MORE_OPS][LANES]; /* an operation is done after so many of other lanes */
    uint64_t waits[LANES];
};

static struct sdi_player *player;
static struct stream streams[LANES];
static struct event *events;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seed, calls, fails_at;
static unsigned fails_on; /* member */
static bool has_failed, is_over, is_wide, is_alone;
static _Thread_local void *current;
static _Thread_local bool is_player;
static uint64_t counted[6];
enum { MADE, WAITED, FAILED, SLEPT, STARTED, ALONE };

static _Noreturn void broken(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "seed %lu: ", (unsigned long)seed);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    abort();
}

static _Thread_local uint64_t chance;

static unsigned below(unsigned limit)
{
    uint64_t z = (chance += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (unsigned)(((z ^ (z >> 31)) >> 32) * limit >> 32);
}

static uint8_t byte_of(unsigned lane, uint64_t number, uint32_t at)
{
    return (uint8_t)(lane * 31 + number * 7 + at);
}

/* ---- the driver ---------------------------------------------------------------------------------------- */

/* A call on a stream; its failure, or 0.  A thread takes its time now and then. */
static int called(struct stream *s)
{
    const bool is_slow = below(40) == 0;
    if (is_slow)
        usleep(below(is_wide && below(8) == 0 ? 20000 : 60));
    pthread_mutex_lock(&lock);
    const unsigned member = s->lane % player->num_members;
    if (current != s->context)
        broken("another context is current");
    if (is_alone && !is_player)
        broken("the only member with calls has an issuer make them");
    if (fails_at && member == fails_on && ++calls == fails_at)
        has_failed = true;
    if (has_failed && member == fails_on && calls > fails_at)
        broken("a call comes behind one that failed");
    return has_failed && member == fails_on ? calls++, LOST : 0;
}

static int leave(int status)
{
    pthread_mutex_unlock(&lock);
    return status;
}

static int set_current(void *context)
{
    if (!chance)
        chance = seed ^ (uintptr_t)context;
    current = context;
    return 0;
}

static const struct expected *next_of(struct stream *s)
{
    if (s->at == s->num_expected)
        broken("lane %u is given more than it was to be", s->lane);
    return &s->expected[s->at++];
}

static int operation(struct stream *s, uint64_t number)
{
    int status = called(s);
    if (status)
        return leave(status);
    const struct expected *next = next_of(s);
    if (next->other || next->number != number || number != s->made + 1)
        broken("operation %lu of lane %u comes out of turn", (unsigned long)number, s->lane);
    memcpy(s->after[number - 1], s->waits, sizeof s->waits);
    s->made = number;
    counted[MADE]++;
    return leave(0);
}

static int launch(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                  void *stream, void **parameters, void **extra)
{
    struct stream *s = stream;
    const uint64_t number = (uintptr_t)function;
    const uint8_t *block = extra[1];
    if (gx != number || gy != 2 || gz != 3 || bx != 4 || by != 5 || bz != s->lane || shared != 7 || parameters)
        broken("a launch has another size");
    for (uint32_t at = 0; at < *(size_t *)extra[3]; at++)
        if (block[at] != byte_of(s->lane, number, at))
            broken("a launch has other parameters");
    return operation(s, number);
}

static int upload(uint64_t to, const void *from, size_t nbytes, void *stream)
{
    if ((uintptr_t)from != 2 * to || nbytes != 3 * to)
        broken("an upload is another one");
    return operation(stream, to);
}

static int download(void *to, uint64_t from, size_t nbytes, void *stream)
{
    if ((uintptr_t)to != 2 * from || nbytes != 3 * from)
        broken("a download is another one");
    return operation(stream, from);
}

static int copy(uint64_t to, uint64_t from, size_t nbytes, void *stream)
{
    if (from != 2 * to || nbytes != 3 * to)
        broken("a copy is another one");
    return operation(stream, to);
}

static int copy_peer(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t nbytes, void *stream)
{
    if (to_context != &streams[0] || from_context != &streams[1])
        broken("a copy is between others");
    return copy(to, from, nbytes, stream);
}

static int event_new(void **event, unsigned flags)
{
    if (flags != CU_EVENT_DISABLE_TIMING)
        broken("an event of another kind");
    struct event *made = calloc(1, sizeof *made);
    pthread_mutex_lock(&lock);
    made->older = events;
    events = made;
    *event = made;
    return leave(0);
}

static int event_record(void *event, void *stream)
{
    struct stream *s = stream;
    struct event *of = event;
    int status = called(s);
    if (status)
        return leave(status);
    if (of->is_freed)
        broken("an event is recorded after it was freed");
    of->lane = s->lane + 1;
    of->position = s->made;
    return leave(0);
}

static int event_query(void *event)
{
    const struct event *of = event;
    pthread_mutex_lock(&lock);
    if (!of->lane || of->is_freed)
        broken("an event is asked for that was not recorded");
    return leave(streams[of->lane - 1].done >= of->position ? 0 : CUDA_ERROR_NOT_READY);
}

static int event_free(void *event)
{
    struct event *of = event;
    pthread_mutex_lock(&lock);
    if (of->is_freed)
        broken("an event is freed twice");
    of->is_freed = true;
    return leave(0);
}

static int stream_wait(void *stream, void *event, unsigned flags)
{
    struct stream *s = stream;
    const struct event *of = event;
    int status = called(s);
    if (status)
        return leave(status);
    const struct expected *next = next_of(s);
    if (flags || of->is_freed || next->other != of->lane || next->number != of->position)
        broken("lane %u waits for operation %lu of lane %d, not for %lu of lane %d", s->lane, (unsigned long)of->position,
               (int)of->lane - 1, (unsigned long)next->number, (int)next->other - 1);
    if (of->position > s->waits[of->lane - 1])
        s->waits[of->lane - 1] = of->position;
    counted[WAITED]++;
    return leave(0);
}

static const struct cuda_table cuda = {
    .set_current = set_current, .launch = launch, .upload = upload, .download = download, .copy = copy, .copy_peer = copy_peer,
    .event_new = event_new, .event_record = event_record, .event_query = event_query, .event_free = event_free,
    .stream_wait = stream_wait,
};

/* Streams do what they were given, in order. */
static bool go_on(void)
{
    bool more = false;
    for (unsigned l = 0; l < player->num_lanes; l++) {
        struct stream *s = &streams[l];
        bool may = s->done < s->made;
        for (unsigned other = 0; may && other < player->num_lanes; other++)
            may = s->after[s->done][other] <= streams[other].done;
        s->done += may;
        more |= may;
    }
    return more;
}

static void *driver(void *unused)
{
    chance = seed + 1;
    for (bool ended = false; !ended;) {
        pthread_mutex_lock(&lock);
        for (unsigned n = below(6); n; n--)
            go_on();
        ended = is_over;
        pthread_mutex_unlock(&lock);
        usleep(1);
    }
    return unused;
}

/* ---- the player ---------------------------------------------------------------------------------------- */

static void expect(struct stream *s, unsigned other, uint64_t number)
{
    pthread_mutex_lock(&lock);
    s->expected[s->num_expected++] = (struct expected){number, other};
    pthread_mutex_unlock(&lock);
}

/* What the lane does next is behind some of another one; a failure. */
static int wait_for(unsigned lane, unsigned other)
{
    struct lane *own = &player->lanes[lane];
    const struct lane *before = &player->lanes[other];
    if (lane == other || !before->issued || streams[lane].num_expected > 3 * OPS)
        return 0;
    const uint64_t wanted = before->issued - below(before->issued < 5 ? (unsigned)before->issued : 5), seen = own->seen[other];
    if (before->reached >= wanted || seen >= wanted)
        return 0;
    /* The player says which operation it is that is waited for; the wait may be made before it has said so. */
    int status = lane_mark_behind(player, other, wanted);
    if (status)
        return status;
    const struct mark *mark = NULL;
    for (unsigned n = 0; n < before->num_marks && !mark; n++)
        if (lane_mark_at(&player->lanes[other], n)->number >= wanted)
            mark = lane_mark_at(&player->lanes[other], n);
    expect(&streams[lane], other + 1, mark->number);
    status = lane_wait(player, lane, other, wanted);
    if (status == 0 && own->seen[other] != mark->number)
        broken("another operation is waited for");
    return status;
}

static int give(unsigned lane)
{
    struct lane *own = &player->lanes[lane];
    const uint64_t number = own->issued + 1;
    uint8_t block[BLOCK_MOST];
    struct call call = {.kind = CALL_LAUNCH + below(is_wide ? 2 : 5), .to = number, .from = 2 * number, .count = 3 * number};
    if (call.kind == CALL_LAUNCH) {
        call.object = (void *)(uintptr_t)number;
        memcpy(call.groups, (uint32_t[]){(uint32_t)number, 2, 3}, sizeof call.groups);
        memcpy(call.local, (uint32_t[]){4, 5, lane}, sizeof call.local);
        call.shared = 7;
        call.block_nbytes = below(10) ? below(64) : below(is_wide ? BLOCK_MOST : 3000);
        if (is_wide && below(2))
            call.block_nbytes = below(BLOCK_MOST);
        for (uint32_t at = 0; at < call.block_nbytes; at++)
            block[at] = byte_of(lane, number, at);
    } else if (call.kind == CALL_COPY_PEER) {
        call.object = &streams[0];
        call.other = &streams[1];
    } else if (call.kind == CALL_DOWNLOAD) {
        call.to = 2 * number;
        call.from = number;
    }
    expect(&streams[lane], 0, number);
    int status = issue_call(player, lane, &call, block);
    memset(block, 0xEE, sizeof block); /* it is the player's again */
    if (status)
        return status;
    own->issued++;
    struct node *node = &player->nodes[player->num_nodes++];
    *node = (struct node){.next = player->num_nodes + 1};
    node->waits[lane] = number;
    player->queues[0].first = 1;
    return 0;
}

static int step(void)
{
    player->record_ns += below(4) ? 2000 : below(2) ? 1000000 : 0;
    if (below(60) == 0) {
        counted[SLEPT]++;
        usleep(below(2) ? 800 : 200 + below(100)); /* issuers go to sleep, or are just about to */
    }
    int status = 0;
    for (unsigned n = 1 + below(4); n && status == 0; n--) {
        const unsigned lane = below(player->num_lanes);
        for (unsigned waits = is_wide ? 0 : below(3); waits && status == 0; waits--)
            status = wait_for(lane, below(player->num_lanes));
        if (status == 0)
            status = give(lane);
    }
    for (unsigned l = 0; l < player->num_lanes && status == 0; l++) {
        if (below(3) == 0)
            status = lane_mark(player, l);
        if (status == 0 && below(3) == 0)
            status = lane_poll(player, l);
    }
    if (status == 0 && below(30) == 0)
        issuers_settle(player);
    return status;
}

static bool are_others_asleep(void)
{
    for (unsigned m = 1; m < player->num_members; m++)
        if (player->issuers[m].is_started && __atomic_load_n(&player->issuers[m].state, __ATOMIC_SEQ_CST))
            return false;
    return true;
}

/* Only the first member goes on: its issuer is awake until the others sleep, and then the player makes its calls. */
static int go_on_alone(void)
{
    int status = 0;
    for (uint64_t next = 0; status == 0 && !are_others_asleep() && player->num_nodes + 8 < OPS + MORE_OPS;)
        if (sdi_player_now() >= next) {
            status = give(0);
            next = sdi_player_now() + 20000;
        }
    issuers_settle(player);
    pthread_mutex_lock(&lock);
    is_alone = are_others_asleep();
    pthread_mutex_unlock(&lock);
    counted[ALONE] += is_alone && player->issuers[0].is_started;
    for (unsigned n = 0; n < 5 && status == 0; n++)
        status = give(0);
    return status;
}

static void check_made(void)
{
    issuers_settle(player);
    pthread_mutex_lock(&lock);
    const bool failed = has_failed;
    for (unsigned l = 0; l < player->num_lanes; l++)
        if (!failed && streams[l].made != player->lanes[l].issued)
            broken("lane %u was given %lu operations of %lu", l, (unsigned long)streams[l].made,
                   (unsigned long)player->lanes[l].issued);
    pthread_mutex_unlock(&lock);
    player->num_queues = 1;
    if (player->num_nodes)
        player->nodes[player->num_nodes - 1].next = 0;
    issuers_blame(player);
    for (unsigned n = 0; n < player->num_nodes; n++)
        for (unsigned l = 0; l < player->num_lanes; l++)
            if (player->nodes[n].waits[l] > streams[l].made && !player->nodes[n].status)
                broken("a command that was not given to lane %u has not failed", l);
            else if (!failed && player->nodes[n].status)
                broken("a command has failed");
}

static void run(void)
{
    static char contexts[MEMBERS];
    chance = seed << 20;
    memset(streams, 0, sizeof streams);
    calls = 0;
    has_failed = is_over = is_alone = false;
    is_player = true;
    player = sdi_player_new(-1, -1, NULL, NULL, NULL, NULL);
    sdi_player_drivers(player, &cuda, NULL);
    const unsigned members = 2 + below(MEMBERS - 1), each = 1 + below(3);
    void *others[LANES];
    for (unsigned l = 0; l < members * each; l++) {
        streams[l].lane = l;
        streams[l].context = &contexts[l % members];
        others[l] = &streams[l];
        if (l < members)
            sdi_player_lane(player, DRIVER_CUDA, streams[l].context, &streams[l]);
        else if (l % members == 0 && sdi_player_streams(player, others + l))
            broken("there is no room for streams");
        if (l >= members)
            player->lanes[l].stream = &streams[l];
    }
    player->wake_after = 1 + below(4);
    player->record_ns = 1000000;
    is_wide = below(5) == 0;
    fails_at = below(4) ? 0 : 1 + below(200);
    fails_on = below(members);
    pthread_t others_thread;
    if (pthread_create(&others_thread, NULL, driver, NULL))
        broken("no threads");
    int status = 0;
    player->current = NULL;
    current = NULL;
    while (status == 0 && player->num_nodes + 8 < OPS)
        status = step();
    if (status == 0)
        status = go_on_alone();
    check_made();
    if (status && !has_failed)
        broken("a call has failed that did not");
    for (unsigned m = 0; m < members; m++)
        counted[STARTED] += player->issuers[m].is_started;
    counted[FAILED] += has_failed;
    pthread_mutex_lock(&lock);
    is_over = true;
    pthread_mutex_unlock(&lock);
    pthread_join(others_thread, NULL);
    while (go_on())
        ;
    for (unsigned l = 0; l < player->num_lanes; l++)
        if (streams[l].done != streams[l].made)
            broken("lane %u waits for ever", l);
    sdi_player_free(player);
    for (struct event *older; events; events = older) {
        older = events->older;
        if (!events->is_freed)
            broken("an event was not freed");
        free(events);
    }
}

int main(int count, char **arguments)
{
    uint64_t first = 1, runs = 100;
    for (int n = 1; n + 1 < count; n += 2)
        *(strcmp(arguments[n], "--first") ? &runs : &first) = strtoull(arguments[n + 1], NULL, 10);
    for (seed = first; seed < first + runs; seed++)
        run();
    printf("{\"made\": %lu, \"waited\": %lu, \"failed\": %lu, \"slept\": %lu, \"started\": %lu, \"alone\": %lu}\n", (unsigned long)counted[MADE],
           (unsigned long)counted[WAITED], (unsigned long)counted[FAILED], (unsigned long)counted[SLEPT], (unsigned long)counted[STARTED],
           (unsigned long)counted[ALONE]);
    return 0;
}
