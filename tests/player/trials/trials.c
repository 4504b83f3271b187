/* Trials of streams (streams.c) on work that is made up: how long a turn of it takes is said by a scenario.
 *
 * `trials NAME [TURN]`: begins with that turn, and prints, as JSON, how queues use streams in the end (by `enum streams_way`), how many trials there were, and, in ns,
 * the time of all, of turns, of turns in each way, and of trials. */
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEART = 5, OTHER = 9, SELDOM = 10, AGAIN = 11, ALIKE = 12, EXTRA = 20, RECORDINGS = 40, HICCUPS = 250 };

struct scenario {
    const char *name;
    uint64_t turn_ns[2][WAYS]; /* before and after the middle; alone: where `OTHER` is the longest launch, else as apart */
    unsigned noise;         /* so many parts of a thousand more or less */
    unsigned every;         /* so many turns of the first queue for one of the second; 0: that has none */
    unsigned extra[2];      /* commands of the first queue besides, in turns below `phase` and in the others, which take three times as long */
    unsigned phase;
    unsigned changes;       /* the second queue's recording is another one after so many turns; 0: never */
    uint64_t pause_ns;      /* every 64 turns, with nothing in flight */
    uint64_t all_ns, long_ns; /* long: what a launch of `OTHER` takes, others `SHORT_NS` */
    uint64_t hiccup_ns;     /* of one turn in `HICCUPS` */
};

#define MS UINT64_C(1000000)
#define SHORT_NS UINT64_C(10000)
static const struct scenario scenarios[] = {
    {"shared_is_faster", {{600000, 560000, 600000}, {600000, 560000, 600000}}, 40, 1, {10, 10}, 0, 0, 0, 20000 * MS, SHORT_NS, 0},
    {"apart_is_faster", {{230000, 240000, 230000}, {230000, 240000, 230000}}, 20, 1, {10, 10}, 0, 0, 0, 20000 * MS, SHORT_NS, 0},
    {"shared_takes_twice", {{100000, 200000, 100000}, {100000, 200000, 100000}}, 40, 1, {2, 2}, 0, 0, 0, 60000 * MS, SHORT_NS, 0},
    {"apart_takes_twice", {{200000, 100000, 200000}, {200000, 100000, 200000}}, 40, 1, {2, 2}, 0, 0, 0, 60000 * MS, SHORT_NS, 0},
    {"shared_is_stuck", {{1000000, 500 * MS, 1000000}, {1000000, 500 * MS, 1000000}}, 0, 1, {2, 2}, 0, 0, 0, 60000 * MS, SHORT_NS, 0},
    {"one_queue", {{600000, 300000, 600000}, {600000, 300000, 600000}}, 0, 0, {10, 10}, 0, 0, 0, 5000 * MS, SHORT_NS, 0},
    {"one_is_seldom_used", {{600000, 300000, 600000}, {600000, 300000, 600000}}, 0, 64, {3, 3}, 0, 0, 0, 30000 * MS, SHORT_NS, 0},
    {"turns_of_a_second", {{1000 * MS, 500 * MS, 1000 * MS}, {1000 * MS, 500 * MS, 1000 * MS}}, 0, 1, {3, 3}, 0, 0, 0, 200000 * MS, SHORT_NS, 0},
    {"another_is_faster_later", {{600000, 500000, 600000}, {500000, 600000, 500000}}, 40, 1, {10, 10}, 0, 0, 0, 60000 * MS, SHORT_NS, 0},
    {"other_work_in_between", {{300000, 330000, 300000}, {300000, 330000, 300000}}, 0, 1, {4, 12}, 66, 0, 0, 20000 * MS, SHORT_NS, 0},
    {"its_heart_is_replaced", {{600000, 500000, 600000}, {600000, 500000, 600000}}, 40, 1, {10, 10}, 0, 500, 0, 20000 * MS, SHORT_NS, 0},
    {"with_pauses", {{600000, 500000, 600000}, {600000, 500000, 600000}}, 40, 1, {10, 10}, 0, 0, 5 * MS, 20000 * MS, SHORT_NS, 0},
    {"with_long_pauses", {{600000, 500000, 600000}, {600000, 500000, 600000}}, 40, 1, {10, 10}, 0, 0, 150 * MS, 80000 * MS, SHORT_NS, 0},
    {"with_pauses_of_seconds", {{600000, 500000, 600000}, {600000, 500000, 600000}}, 40, 1, {10, 10}, 0, 0, 3000 * MS, 800000 * MS, SHORT_NS, 0},
    {"alone_is_fastest", {{600000, 560000, 500000}, {600000, 560000, 500000}}, 40, 1, {10, 10}, 0, 0, 0, 20000 * MS, 160000, 0},
    {"alone_is_little_faster", {{560000, 600000, 545000}, {560000, 600000, 545000}}, 20, 1, {10, 10}, 0, 0, 0, 20000 * MS, 160000, 0},
    {"alone_is_slower", {{500000, 600000, 530000}, {500000, 600000, 530000}}, 40, 1, {10, 10}, 0, 0, 0, 20000 * MS, 160000, 0},
    {"alone_takes_twice", {{100000, 105000, 200000}, {100000, 105000, 200000}}, 40, 1, {2, 2}, 0, 0, 0, 60000 * MS, 40000, 0},
    {"alone_is_stuck", {{1000000, 1000000, 500 * MS}, {1000000, 1000000, 500 * MS}}, 0, 1, {2, 2}, 0, 0, 0, 60000 * MS, 400000, 0},
    {"nothing_is_long", {{600000, 500000, 300000}, {600000, 500000, 300000}}, 40, 1, {10, 10}, 0, 0, 0, 20000 * MS, 60000, 0},
    {"alone_is_fastest_later", {{500000, 600000, 560000}, {600000, 560000, 500000}}, 40, 1, {10, 10}, 0, 0, 0, 60000 * MS, 160000, 0},
    {"alone_with_long_pauses", {{600000, 560000, 500000}, {600000, 560000, 500000}}, 40, 1, {10, 10}, 0, 0, 150 * MS, 80000 * MS, 160000, 0},
    {"alone_and_seldom_a_heart", {{600000, 560000, 500000}, {600000, 560000, 500000}}, 40, 4, {10, 10}, 0, 0, 0, 20000 * MS, 160000, 0},
    {"alone_where_shared_is_slow", {{1000000, 2500000, 800000}, {1000000, 2500000, 800000}}, 40, 1, {10, 10}, 0, 0, 0, 60000 * MS, 300000, 0},
    {"alone_where_shared_takes_seconds", {{70 * MS, 120 * MS, 55 * MS}, {70 * MS, 120 * MS, 55 * MS}}, 40, 1, {10, 10}, 0, 0, 0, 600000 * MS, 20 * MS, 0},
    {"all_are_alike", {{600000, 600000, 600000}, {600000, 600000, 600000}}, 40, 1, {10, 10}, 0, 0, 0, 400000 * MS, 160000, 0},
    {"all_are_alike_and_long", {{60 * MS, 60 * MS, 60 * MS}, {60 * MS, 60 * MS, 60 * MS}}, 40, 1, {10, 10}, 0, 0, 0, 2000000 * MS, 20 * MS, 0},
    {"alone_with_hiccups", {{560000, 590000, 500000}, {560000, 590000, 500000}}, 40, 1, {10, 10}, 0, 0, 0, 1500 * MS, 160000, 9 * MS},
    {"it_changes_in_a_survey", {{600000, 560000, 500000}, {600000, 560000, 500000}}, 40, 1, {4, 12}, 90, 0, 0, 20000 * MS, 160000, 0},
};

static struct sdi_player p;
static uint64_t now = 1000 * MS;

static unsigned below(unsigned limit)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % limit);
}

/* Each has a kernel of its own. */
static void make_recordings(void)
{
    static struct recording recordings[RECORDINGS];
    static struct op ops[RECORDINGS][2];
    for (unsigned n = 0; n < RECORDINGS; n++) {
        ops[n][0] = (struct op){.kind = OP_LAUNCH, .object = &ops[n], .size = {100, 1, 1}};
        ops[n][1] = (struct op){.kind = OP_LAUNCH, .object = &ops[n], .size = {10, 1, 1}, .lane = 1};
        recordings[n] = (struct recording){0};
        recordings[n].ops = ops[n];
        recordings[n].num_ops = 2;
    }
    ops[AGAIN][0].object = &ops[OTHER];
    ops[ALIKE][0].object = &ops[OTHER];
    ops[ALIKE][0].size[1] = 2;
    p.recordings = recordings;
    p.num_recordings = RECORDINGS;
}

/* Whether a launch in the first queue waits for what the other one was given, on each member that has a part of it. */
static bool waits(uint32_t recording)
{
    memset(p.queues[0].after, 0, sizeof p.queues[0].after);
    p.lanes[3].issued = p.lanes[4].issued = p.lanes[5].issued = 1;
    streams_issue(&p, &p.recordings[recording], 0);
    if (p.queues[0].after[5] || p.queues[0].after[3] != p.queues[0].after[4])
        exit(3);
    return p.queues[0].after[3] == 1;
}

/* Whether the launches of `OTHER` do, and no others. */
static bool is_alone(void)
{
    if (waits(ALIKE) || waits(EXTRA) || waits(AGAIN) != waits(OTHER))
        exit(4);
    return waits(OTHER);
}

/* Two members have launched it, the second one a smaller part, and once nobody knows how long that took. */
static void survey(uint32_t recording, uint64_t took_ns)
{
    struct recording *r = &p.recordings[recording];
    streams_surveyed(r, &r->ops[0], took_ns);
    streams_surveyed(r, &r->ops[1], took_ns / 20);
    streams_surveyed(r, &r->ops[0], 0);
}

static struct node issue(const struct scenario *s, unsigned queue, uint32_t recording)
{
    struct node node = {.queue = queue, .recording = recording, .sequence = p.sequence++};
    p.record_ns = now;
    const uint64_t took_ns = recording == OTHER || recording == AGAIN ? s->long_ns : below(20) ? SHORT_NS : 100 * MS; /* which seems long now and then */
    if (p.trial.surveys)
        survey(recording, took_ns);
    if (p.trial.surveys && !below(200))
        survey(SELDOM, 2 * s->long_ns);
    if (++p.num_nodes == 1)
        streams_paused(&p, now);
    streams_issued(&p, &node);
    return node;
}

int main(int argc, char **argv)
{
    const struct scenario *s = NULL;
    for (size_t n = 0; argc > 1 && n < sizeof scenarios / sizeof *scenarios; n++)
        if (!strcmp(scenarios[n].name, argv[1]))
            s = &scenarios[n];
    if (!s)
        return 2;
    p.num_members = 3; /* the last one has no part of anything */
    p.num_streams = p.num_queues = 2;
    p.num_lanes = 6;
    p.queues[1].stream = 1;
    make_recordings();
    uint64_t work_ns = 0, way_ns[WAYS] = {0}, tried_ns = 0;
    const uint64_t begin = now;
    for (unsigned n = argc > 2 ? (unsigned)atoi(argv[2]) : 0; now - begin < s->all_ns; n++) {
        struct node nodes[32];
        unsigned count = 0;
        const bool is_other = s->phase && n % (2 * s->phase) >= s->phase;
        for (unsigned e = 0; e < s->extra[is_other]; e++)
            nodes[count++] = issue(s, 0, EXTRA + e);
        if (s->every && n % s->every == 0)
            nodes[count++] = issue(s, 1, s->changes ? HEART + n / s->changes % 2 : HEART);
        nodes[count++] = issue(s, 0, n % 3 ? OTHER : AGAIN);
        const enum streams_way way = p.way == WAY_ALONE && !is_alone() ? WAY_APART : p.way;
        const uint64_t turn_ns = s->turn_ns[now - begin > s->all_ns / 2][way] * (is_other ? 3 : 1);
        const uint64_t took = turn_ns * (1000 - s->noise + below(2 * s->noise + 1)) / 1000 + (n % HICCUPS ? 0 : s->hiccup_ns);
        now += took;
        way_ns[way] += took;
        tried_ns += p.trial.is_on ? took : 0;
        for (unsigned c = 0; c < count; c++, p.num_nodes--)
            streams_completed(&p, &nodes[c], now);
        now += n % 64 ? 0 : s->pause_ns;
        if (p.trial.surveys && !p.trial.is_on)
            return 5;
        work_ns += took;
        if (p.trial.turns)
            streams_turn(&p, now);
    }
    printf("{\"way\": %u, \"trials\": %u, \"all_ns\": %lu, \"work_ns\": %lu, \"tried_ns\": %lu, \"way_ns\": [%lu, %lu, %lu]}\n", p.way,
           p.trial.trials, (unsigned long)(now - begin), (unsigned long)work_ns, (unsigned long)tried_ns,
           (unsigned long)way_ns[WAY_APART], (unsigned long)way_ns[WAY_SHARED], (unsigned long)way_ns[WAY_ALONE]);
    return 0;
}
