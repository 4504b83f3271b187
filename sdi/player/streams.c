/* Streams: a queue of the application has one of its own on each member, or all share the first one.
 *
 * Short kernels of two queues run beside each other on streams of their own; large ones only take each other's units, and what
 * the application waits for comes later.  So while the same work repeats both ways are tried in turn, and the faster one is
 * kept until the next trial.  Work repeats where a recording, the heart, comes again and again while two queues are used; what is
 * compared is the time from one heart that is complete to the next. */
#include "player.h"

#include <string.h>

enum {
    SETTLE = 2,   /* hearts of a window that are not timed: what is before them began in the other way */
    BEATS = 64,   /* that are, at least */
    BEATS_LONG = 16, /* and at least where that takes long */
    SURE = 3,     /* windows of each way, where the median of one is shorter by a twentieth */
    LOST = 4096,  /* records without a heart: there is none any more */
    PATIENCE = 3, /* a window with one stream takes no longer than so many without */
};
#define WINDOW_NS UINT64_C(20000000)
#define WINDOW_LONG_NS UINT64_C(200000000)
#define WINDOW_MOST_NS UINT64_C(2000000000)
#define REST_NS UINT64_C(2000000000) /* after the first trial, and after one that came to another end; else four times as long as before */
#define REST_MOST_NS UINT64_C(60000000000)
#define PAUSE_NS UINT64_C(10000000) /* with nothing in flight: the application does something else */

uint32_t stream_of(const struct sdi_player *p, const struct queue *queue)
{
    return p->is_shared ? 0 : queue->stream;
}

/* One more stream for each member, in the members' order; -1: there is no room. */
API int sdi_player_streams(struct sdi_player *p, void *const *streams)
{
    if ((p->num_streams + 1) * p->num_members > LANES_MAX || p->num_streams == STREAMS_MAX)
        return -1;
    for (unsigned m = 0; m < p->num_members; m++) {
        struct lane *lane = &p->lanes[p->num_streams * p->num_members + m];
        lane->driver = p->lanes[m].driver;
        lane->context = p->lanes[m].context;
        lane->stream = streams[m];
    }
    p->num_streams++;
    return 0;
}

/* The stream that the fewest queues have; the first one of these. */
uint32_t stream_for_queue(const struct sdi_player *p)
{
    unsigned queues[STREAMS_MAX] = {0}, found = 0;
    for (unsigned n = 0; n < p->num_queues; n++)
        queues[p->queues[n].stream] += p->queues[n].is_playable;
    for (unsigned s = 1; s < p->num_streams; s++)
        if (queues[s] < queues[found])
            found = s;
    return found;
}

/* From now on queues share a stream, or have their own.  What one was given before is before what it is given next. */
void streams_share(struct sdi_player *p, bool shared)
{
    for (unsigned n = 0; n < p->num_queues && p->is_shared != shared; n++) {
        struct queue *queue = &p->queues[n];
        const unsigned first = stream_of(p, queue) * p->num_members;
        for (unsigned l = first; queue->stream && l < first + p->num_members && l < p->num_lanes; l++)
            if (queue->after[l] < p->lanes[l].issued)
                queue->after[l] = p->lanes[l].issued;
    }
    p->is_shared = shared;
}

/* ---- trials ---------------------------------------------------------------------------------------------- */

static void turn(struct trial *t, bool shared)
{
    t->turns = true;
    t->shares = shared;
    t->epoch++; /* no node has this one before the turn */
}

/* The trial is over. */
static void keep(struct trial *t, bool shared, uint64_t now)
{
    t->rest_ns = shared != t->found || !t->rest_ns ? REST_NS : t->rest_ns < REST_MOST_NS / 4 ? 4 * t->rest_ns : REST_MOST_NS;
    t->found = shared;
    t->until_ns = now + t->rest_ns;
    t->is_on = false;
    turn(t, shared);
}

static void begin(struct trial *t)
{
    t->is_on = true;
    t->num = 0;
    t->trials++;
    turn(t, false);
}

static uint64_t median(const uint64_t *some, unsigned count)
{
    for (unsigned a = 0; a < count; a++) {
        unsigned less = 0, same = 0;
        for (unsigned b = 0; b < count; b++) {
            less += some[b] < some[a];
            same += some[b] == some[a];
        }
        if (less <= count / 2 && less + same > count / 2)
            return some[a];
    }
    return 0;
}

/* A window is over that took `ns` for each heart. */
static void window_over(struct trial *t, uint64_t ns, uint64_t now)
{
    unsigned used = 0;
    uint64_t records = 0;
    for (unsigned s = 0; s < STREAMS_MAX; s++) {
        used += t->done[s] >= BEATS_LONG / 4;
        records += t->done[s];
    }
    records = records * BEATS / (t->beats - SETTLE);
    if (!t->num)
        t->records = records;
    const uint64_t more = records > t->records ? records - t->records : t->records - records;
    if (used < 2 || more > t->records / 8) { /* too little of several queues, or no longer the same work */
        keep(t, used >= 2 && t->found, now);
        return;
    }
    const unsigned pairs = t->num / 2;
    t->took_ns[t->shares][pairs] = ns;
    if (!t->shares)
        t->window_ns = now - t->began_ns;
    t->num++;
    if (t->num % 2 == 0 && pairs + 1 >= SURE) {
        const uint64_t apart = median(t->took_ns[false], pairs + 1), shared = median(t->took_ns[true], pairs + 1);
        const bool is_sure = shared + shared / 20 < apart || apart + apart / 20 < shared;
        if (is_sure || pairs + 1 == WINDOWS_MAX) {
            keep(t, shared < apart, now);
            return;
        }
    }
    /* One of each in each pair, but in no regular order: something else may come every so often. */
    turn(t, (unsigned)__builtin_popcount(t->num) % 2);
}

/* Whether a window takes longer than it is worth. */
static bool takes_long(const struct trial *t, uint64_t now)
{
    const uint64_t took = now - t->began_ns;
    return took > WINDOW_MOST_NS || (t->shares && took > PATIENCE * t->window_ns);
}

/* All records that were there have been taken: what was decided begins. */
void streams_turn(struct sdi_player *p, uint64_t now)
{
    struct trial *t = &p->trial;
    streams_share(p, t->shares);
    t->turns = false;
    t->beats = 0;
    t->began_ns = t->first_ns = now;
}

/* A command came while there was none.  Time in which the application did something else is neither the window's nor the
 * rest's. */
void streams_paused(struct sdi_player *p, uint64_t now)
{
    struct trial *t = &p->trial;
    const uint64_t since = t->ended_ns > t->began_ns ? t->ended_ns : t->began_ns;
    if (now <= since || now - since < PAUSE_NS)
        return;
    t->began_ns += now - since;
    t->first_ns += now - since;
    t->until_ns += now - since;
}

/* A record was executed. */
void streams_issued(struct sdi_player *p, struct node *node)
{
    struct trial *t = &p->trial;
    const uint32_t stream = p->queues[node->queue].stream;
    const uint64_t now = p->record_ns; /* the node of a write may say when the application made it, before the window */
    if (p->num_streams == 1)
        return;
    t->used[stream] = node->sequence + 1;
    if (t->heart != node->recording + 1 && node->sequence - t->beat_at > LOST)
        t->heart = 0;
    for (unsigned s = 0; s < p->num_streams && !t->heart; s++)
        if (s != stream && t->used[s] && node->sequence - t->used[s] < LOST) {
            t->heart = node->recording + 1;
            if (t->until_ns > now + t->rest_ns / 4) /* it may be other work */
                t->until_ns = now + t->rest_ns / 4;
        }
    if (t->turns)
        return;
    if (t->is_on && takes_long(t, now))
        keep(t, false, now);
    if (t->heart != node->recording + 1)
        return;
    t->beat_at = node->sequence;
    if (!t->is_on && now >= t->until_ns)
        begin(t);
    node->beat = t->is_on && !t->turns ? t->epoch : 0;
}

/* A command is complete that `node` was. */
void streams_completed(struct sdi_player *p, const struct node *node, uint64_t now)
{
    struct trial *t = &p->trial;
    t->ended_ns = now;
    if (!t->is_on || t->turns)
        return;
    if (takes_long(t, now)) {
        keep(t, false, now);
        return;
    }
    t->done[p->queues[node->queue].stream]++;
    if (node->beat != t->epoch)
        return;
    if (++t->beats <= SETTLE) {
        t->first_ns = now;
        memset(t->done, 0, sizeof t->done);
    } else {
        const unsigned beats = t->beats - SETTLE;
        const uint64_t took = now - t->first_ns;
        if ((beats >= BEATS && took >= WINDOW_NS) || (beats >= BEATS_LONG && took >= WINDOW_LONG_NS))
            window_over(t, took / beats, now);
    }
}

API bool sdi_player_shares(const struct sdi_player *p)
{
    return p->trial.found;
}
