/* Streams: a queue of the application has one of its own on each member, or all share the first one.
 *
 * Short kernels of two queues run beside each other on streams of their own; large ones only take each other's units, and what
 * the application waits for comes later.  That has two remedies: queues share a stream, or the longest launch waits for all that
 * other queues were given, and has its member for itself.  So while the same work repeats all ways are tried in turn, and the
 * fastest is kept until the next trial.  Work repeats where a recording, the heart, comes again and again while two queues are
 * used; what is compared is the time from one heart that is complete to the next. */
#include "player.h"

#include <string.h>

enum {
    SETTLE = 2,   /* hearts of a window that are not timed: what is before them began in another way */
    BEATS = 64,   /* that are, at least */
    BEATS_LONG = 16, /* and at least where that takes long */
    SURE = 3,     /* windows of each way; then one that takes longer than the fastest by a twentieth has lost */
    LOST = 4096,  /* records without a heart: there is none any more */
    PATIENCE = 3, /* a window takes no longer than so many with queues apart */
    OFTEN = 8,    /* a launch that is surveyed less often is not the one that waits */
    LONG_PART = 8, /* one that takes less of all time than this may run beside anything */
    REST_PART = 10, /* a rest is at least so many times as long as the trial was */
};
#define WINDOW_NS UINT64_C(20000000)
#define WINDOW_LONG_NS UINT64_C(200000000)
#define WINDOW_MOST_NS UINT64_C(2000000000)
#define REST_NS UINT64_C(2000000000) /* after the first trial, and after one that came to another end; else four times as long as before */
#define REST_MOST_NS UINT64_C(60000000000)
#define PAUSE_NS UINT64_C(10000000) /* with nothing in flight: the application does something else */

uint32_t stream_of(const struct sdi_player *p, const struct queue *queue)
{
    return p->way == WAY_SHARED ? 0 : queue->stream;
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
        queues[p->queues[n].stream] += p->queues[n].is_playable && p->queues[n].launches;
    for (unsigned s = 1; s < p->num_streams; s++)
        if (queues[s] < queues[found])
            found = s;
    return found;
}

/* From now on queues use streams in another way.  What one was given before is before what it is given next. */
void streams_use(struct sdi_player *p, enum streams_way way)
{
    const bool moves = (way == WAY_SHARED) != (p->way == WAY_SHARED);
    for (unsigned n = 0; n < p->num_queues && moves; n++) {
        struct queue *queue = &p->queues[n];
        const unsigned first = stream_of(p, queue) * p->num_members;
        for (unsigned l = first; queue->stream && l < first + p->num_members && l < p->num_lanes; l++)
            if (queue->after[l] < p->lanes[l].issued)
                queue->after[l] = p->lanes[l].issued;
    }
    p->way = way;
}

/* ---- the longest launch ---------------------------------------------------------------------------------- */

static const struct op *first_launch(const struct recording *r)
{
    for (uint32_t i = 0; i < r->num_ops; i++)
        if (r->ops[i].kind == OP_LAUNCH)
            return &r->ops[i];
    return NULL;
}

static bool has_shape(const struct op *op, const struct launch_shape *shape)
{
    return op->object == shape->kernel && !memcmp(op->size, shape->size, sizeof op->size);
}

/* A recording is about to be executed: the longest launch comes after all that other queues were given on its members. */
void streams_issue(struct sdi_player *p, const struct recording *r, uint32_t queue)
{
    const struct op *first = p->way == WAY_ALONE ? first_launch(r) : NULL;
    if (!first || !has_shape(first, p->trial.is_on ? &p->trial.tried : &p->trial.longest))
        return;
    struct queue *own = &p->queues[queue];
    for (uint32_t i = 0; i < r->num_ops; i++)
        for (unsigned l = r->ops[i].lane; r->ops[i].kind == OP_LAUNCH && l < p->num_lanes; l += p->num_members)
            if (l / p->num_members != own->stream && own->after[l] < p->lanes[l].issued)
                own->after[l] = p->lanes[l].issued;
}

/* An operation of a survey took so long; 0: nobody knows.  Of a launch on several members the first one's counts, and of all the
 * least: where the host was held up between a launch and the event before it, that seems to be the launch's time. */
void streams_surveyed(struct recording *r, const struct op *op, uint64_t took_ns)
{
    if (!took_ns || op != first_launch(r))
        return;
    if (!r->surveyed++ || took_ns < r->surveyed_ns)
        r->surveyed_ns = took_ns;
}

/* Launches of one shape, which may have several recordings: how many were surveyed, and the least that one took. */
static uint64_t least_of(const struct sdi_player *p, const struct launch_shape *shape, uint64_t *count)
{
    uint64_t least = UINT64_MAX;
    *count = 0;
    for (uint32_t n = 0; n < p->num_recordings; n++) {
        const struct recording *r = &p->recordings[n];
        if (!r->surveyed || !has_shape(first_launch(r), shape))
            continue;
        *count += r->surveyed;
        least = r->surveyed_ns < least ? r->surveyed_ns : least;
    }
    return least;
}

/* Which launch takes longest of those that come often, and take so much of the time that others may gain by their waiting. */
static bool find_longest(struct sdi_player *p)
{
    struct trial *t = &p->trial;
    uint64_t most = 0;
    for (uint32_t n = 0; n < p->num_recordings; n++) {
        const struct recording *r = &p->recordings[n];
        if (!r->surveyed)
            continue;
        struct launch_shape shape = {.kernel = first_launch(r)->object};
        memcpy(shape.size, first_launch(r)->size, sizeof shape.size);
        uint64_t count, least = least_of(p, &shape, &count);
        if (least <= most || count < OFTEN || least * count < t->beats * t->took_ns[WAY_APART][0] / LONG_PART)
            continue;
        most = least;
        t->tried = shape;
    }
    return most > 0;
}

/* ---- trials ---------------------------------------------------------------------------------------------- */

static void turn(struct trial *t, enum streams_way way)
{
    t->turns = true;
    t->way = way;
    t->epoch++; /* no node has this one before the turn */
}

/* The trial is over. */
static void keep(struct trial *t, enum streams_way way, uint64_t now)
{
    const uint64_t least = REST_PART * (now - t->since_ns);
    t->rest_ns = way != t->found || !t->rest_ns ? REST_NS : t->rest_ns < REST_MOST_NS / 4 ? 4 * t->rest_ns : REST_MOST_NS;
    t->found = way;
    t->until_ns = now + (t->rest_ns > least ? t->rest_ns : least);
    t->is_on = t->surveys = false;
    turn(t, way);
}

static void begin(struct trial *t, uint64_t now)
{
    t->is_on = true;
    t->since_ns = now;
    t->rounds = t->place = 0;
    t->is_surveyed = false;
    memset(t->has_lost, 0, sizeof t->has_lost);
    t->trials++;
    turn(t, WAY_APART);
}

/* Of the windows of a way one that few are shorter than: what happens by the way only makes them longer. */
static uint64_t short_one(const uint64_t *some, unsigned count)
{
    for (unsigned a = 0; a < count; a++) {
        unsigned less = 0, same = 0;
        for (unsigned b = 0; b < count; b++) {
            less += some[b] < some[a];
            same += some[b] == some[a];
        }
        if (less <= (count - 1) / 4 && less + same > (count - 1) / 4)
            return some[a];
    }
    return 0;
}

/* Each way had another window: those that are clearly slower have lost.  Whether the fastest is known. */
static bool round_over(struct trial *t, enum streams_way *fastest)
{
    uint64_t took[WAYS];
    unsigned left = 0;
    t->rounds++;
    *fastest = WAY_APART;
    for (unsigned way = 0; way < WAYS; way++) {
        took[way] = t->has_lost[way] ? UINT64_MAX : short_one(t->took_ns[way], t->rounds);
        if (took[way] < took[*fastest])
            *fastest = (enum streams_way)way;
    }
    for (unsigned way = 0; way < WAYS; way++) {
        t->has_lost[way] |= t->rounds >= SURE && took[way] > took[*fastest] + took[*fastest] / 20;
        left += !t->has_lost[way];
    }
    if (t->rounds == ROUNDS_MAX && !t->has_lost[t->found] && took[t->found] < took[*fastest] + took[*fastest] / 64)
        *fastest = t->found; /* no other one is worth the change */
    return left == 1 || t->rounds == ROUNDS_MAX;
}

/* On to the next window.  The first one is apart, as others are given up by that; then comes the survey.  Each way that has not
 * lost has one in a round, but in no regular order: something else may come every so often. */
static void next(struct trial *t, uint64_t now)
{
    static const uint8_t orders[][WAYS] = {{0, 1, 2}, {1, 2, 0}, {2, 1, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}};
    if (!t->is_surveyed) {
        t->is_surveyed = t->surveys = true;
        turn(t, WAY_SHARED);
        return;
    }
    for (;; t->place++) {
        enum streams_way fastest;
        if (t->place == WAYS && round_over(t, &fastest)) {
            if (fastest == WAY_ALONE)
                t->longest = t->tried;
            keep(t, fastest, now);
            return;
        }
        t->place %= WAYS;
        const enum streams_way way = (enum streams_way)orders[t->rounds % (sizeof orders / sizeof *orders)][t->place];
        if (!t->has_lost[way]) {
            turn(t, way);
            return;
        }
    }
}

/* A window is over that took `ns` for each heart. */
static void window_over(struct sdi_player *p, uint64_t ns, uint64_t now)
{
    struct trial *t = &p->trial;
    unsigned used = 0;
    uint64_t records = 0;
    for (unsigned s = 0; s < STREAMS_MAX; s++) {
        used += t->done[s] >= BEATS_LONG / 4;
        records += t->done[s];
    }
    records = records * BEATS / (t->beats - SETTLE);
    if (!t->is_surveyed) /* the first one */
        t->records = records;
    const uint64_t more = records > t->records ? records - t->records : t->records - records;
    if (used < 2 || more > t->records / 8) { /* too little of several queues, or no longer the same work */
        t->rest_ns = 0; /* it came to nothing */
        keep(t, used >= 2 ? t->found : WAY_APART, now);
        return;
    }
    if (t->surveys) {
        t->surveys = false;
        t->has_lost[WAY_ALONE] = !find_longest(p);
    } else {
        t->took_ns[t->way][t->rounds] = ns;
        t->place++;
    }
    if (t->way == WAY_APART)
        t->window_ns = now - t->began_ns;
    next(t, now);
}

/* Whether a window takes longer than it is worth: its way has lost then. */
static bool gives_up(struct sdi_player *p, uint64_t now)
{
    struct trial *t = &p->trial;
    const uint64_t took = now - t->began_ns;
    if (took <= WINDOW_MOST_NS && (t->way == WAY_APART || took <= PATIENCE * t->window_ns))
        return false;
    if (t->way == WAY_APART) {
        keep(t, WAY_APART, now);
        return true;
    }
    t->has_lost[t->way] = true;
    if (t->surveys)
        t->has_lost[WAY_ALONE] = t->beats <= SETTLE || !find_longest(p);
    t->surveys = false;
    next(t, now);
    return true;
}

/* All records that were there have been taken: what was decided begins. */
void streams_turn(struct sdi_player *p, uint64_t now)
{
    struct trial *t = &p->trial;
    streams_use(p, t->way);
    for (uint32_t n = 0; n < p->num_recordings && t->surveys; n++)
        p->recordings[n].surveyed_ns = p->recordings[n].surveyed = 0;
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
    t->since_ns += now - since;
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
    if (t->is_on)
        gives_up(p, now);
    if (t->heart != node->recording + 1)
        return;
    t->beat_at = node->sequence;
    if (!t->is_on && now >= t->until_ns)
        begin(t, now);
    node->beat = t->is_on && !t->turns ? t->epoch : 0;
}

/* A command is complete that `node` was. */
void streams_completed(struct sdi_player *p, const struct node *node, uint64_t now)
{
    struct trial *t = &p->trial;
    t->ended_ns = now;
    if (!t->is_on || t->turns)
        return;
    if (gives_up(p, now))
        return;
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
            window_over(p, took / beats, now);
    }
}

/* What the last trial came to. */
API uint32_t sdi_player_way(const struct sdi_player *p)
{
    return p->trial.found;
}
