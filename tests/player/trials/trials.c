/* Trials of streams (streams.c) on work that is made up: how long a turn of it takes is said by a scenario.
 *
 * `trials NAME`: prints, as JSON, whether queues share a stream in the end, how many trials there were, and, in ns, the time of all,
 * of turns, of shared turns, and of trials. */
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APART, SHARED, HEART = 5, OTHER = 9 };

struct scenario {
    const char *name;
    uint64_t turn_ns[2][2]; /* before and after the middle: apart, shared */
    unsigned noise;         /* so many parts of a thousand more or less */
    unsigned every;         /* so many turns of the first queue for one of the second; 0: that has none */
    unsigned extra[2];      /* commands of the first queue besides, in turns below `phase` and in the others, which take three times as long */
    unsigned phase;
    unsigned changes;       /* the second queue's recording is another one after so many turns; 0: never */
    uint64_t pause_ns;      /* every 64 turns, with nothing in flight */
    uint64_t all_ns;
};

#define MS UINT64_C(1000000)
static const struct scenario scenarios[] = {
    {"shared_is_faster", {{600000, 560000}, {600000, 560000}}, 40, 1, {10, 10}, 0, 0, 0, 20000 * MS},
    {"apart_is_faster", {{230000, 240000}, {230000, 240000}}, 20, 1, {10, 10}, 0, 0, 0, 20000 * MS},
    {"shared_takes_twice", {{100000, 200000}, {100000, 200000}}, 40, 1, {2, 2}, 0, 0, 0, 60000 * MS},
    {"apart_takes_twice", {{200000, 100000}, {200000, 100000}}, 40, 1, {2, 2}, 0, 0, 0, 60000 * MS},
    {"shared_is_stuck", {{1000000, 500 * MS}, {1000000, 500 * MS}}, 0, 1, {2, 2}, 0, 0, 0, 60000 * MS},
    {"one_queue", {{600000, 300000}, {600000, 300000}}, 0, 0, {10, 10}, 0, 0, 0, 5000 * MS},
    {"one_is_seldom_used", {{600000, 300000}, {600000, 300000}}, 0, 64, {3, 3}, 0, 0, 0, 20000 * MS},
    {"turns_of_a_second", {{1000 * MS, 500 * MS}, {1000 * MS, 500 * MS}}, 0, 1, {3, 3}, 0, 0, 0, 200000 * MS},
    {"another_is_faster_later", {{600000, 500000}, {500000, 600000}}, 40, 1, {10, 10}, 0, 0, 0, 60000 * MS},
    {"other_work_in_between", {{300000, 330000}, {300000, 330000}}, 0, 1, {4, 12}, 66, 0, 0, 20000 * MS},
    {"its_heart_is_replaced", {{600000, 500000}, {600000, 500000}}, 40, 1, {10, 10}, 0, 500, 0, 20000 * MS},
    {"with_pauses", {{600000, 500000}, {600000, 500000}}, 40, 1, {10, 10}, 0, 0, 5 * MS, 20000 * MS},
    {"with_long_pauses", {{600000, 500000}, {600000, 500000}}, 40, 1, {10, 10}, 0, 0, 150 * MS, 80000 * MS},
    {"with_pauses_of_seconds", {{600000, 500000}, {600000, 500000}}, 40, 1, {10, 10}, 0, 0, 3000 * MS, 800000 * MS},
};

static struct sdi_player p;
static uint64_t now = 1000 * MS;

static unsigned below(unsigned limit)
{
    static uint64_t state = 1;
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % limit);
}

static struct node issue(unsigned queue, uint32_t recording)
{
    struct node node = {.queue = queue, .recording = recording, .sequence = p.sequence++};
    p.record_ns = now;
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
    p.num_members = 1;
    p.num_streams = p.num_lanes = p.num_queues = 2;
    p.queues[1].stream = 1;
    uint64_t work_ns = 0, shared_ns = 0, tried_ns = 0;
    const uint64_t begin = now;
    for (unsigned n = 0; now - begin < s->all_ns; n++) {
        struct node nodes[32];
        unsigned count = 0;
        const bool is_other = s->phase && n % (2 * s->phase) >= s->phase;
        for (unsigned e = 0; e < s->extra[is_other]; e++)
            nodes[count++] = issue(0, 20 + e);
        if (s->every && n % s->every == 0)
            nodes[count++] = issue(1, s->changes ? HEART + n / s->changes % 2 : HEART);
        nodes[count++] = issue(0, OTHER);
        const uint64_t turn_ns = s->turn_ns[now - begin > s->all_ns / 2][p.is_shared] * (is_other ? 3 : 1);
        const uint64_t took = turn_ns * (1000 - s->noise + below(2 * s->noise + 1)) / 1000;
        now += took;
        shared_ns += p.is_shared ? took : 0;
        tried_ns += p.trial.is_on ? took : 0;
        for (unsigned c = 0; c < count; c++, p.num_nodes--)
            streams_completed(&p, &nodes[c], now);
        now += n % 64 ? 0 : s->pause_ns;
        work_ns += took;
        if (p.trial.turns)
            streams_turn(&p, now);
    }
    printf("{\"shared\": %d, \"trials\": %u, \"all_ns\": %lu, \"work_ns\": %lu, \"shared_ns\": %lu, \"tried_ns\": %lu}\n", p.is_shared, p.trial.trials,
           (unsigned long)(now - begin), (unsigned long)work_ns, (unsigned long)shared_ns, (unsigned long)tried_ns);
    return 0;
}
