/* Two members compute in place, each behind a copy of the other's edge: prints what the driver is given, a call a line.
 *
 * `halos STEPS`: "launch LANE", "fetch LANE", "record LANE EVENT", "wait LANE EVENT"; a blank line behind each step. */
#include "player.h"

#include <stdio.h>
#include <stdlib.h>

enum { LANES = 2, KERNEL = 1, FETCHER };

static struct segment segments[1 + LANES]; /* of the buffer, in each member's memory */
static uint32_t cells[64];
static uint64_t released[64];
static uintptr_t num_events;
static unsigned parameters[4];

static unsigned lane_of_stream(void *stream)
{
    return (unsigned)(uintptr_t)stream - 1;
}

static int set_current(void *context)
{
    (void)context;
    return 0;
}

static int launch(void *function, unsigned x, unsigned y, unsigned z, unsigned lx, unsigned ly, unsigned lz, unsigned shared,
                  void *stream, void **values, void **extra)
{
    parameters[0] = x + y + z + lx + ly + lz + shared + !values + !extra;
    printf("%s %u\n", (uintptr_t)function == FETCHER ? "fetch" : "launch", lane_of_stream(stream));
    return 0;
}

static int event_new(void **event, unsigned flags)
{
    parameters[1] = flags;
    *event = (void *)++num_events;
    return 0;
}

static int event_record(void *event, void *stream)
{
    printf("record %u %lu\n", lane_of_stream(stream), (unsigned long)(uintptr_t)event);
    return 0;
}

static int stream_wait(void *stream, void *event, unsigned flags)
{
    parameters[2] = flags;
    printf("wait %u %lu\n", lane_of_stream(stream), (unsigned long)(uintptr_t)event);
    return 0;
}

static int event_free(void *event)
{
    parameters[3] = (unsigned)(uintptr_t)event;
    return 0;
}

int main(int argc, char **argv)
{
    const struct cuda_table cuda = {.set_current = set_current, .launch = launch, .event_new = event_new,
                                    .event_record = event_record, .stream_wait = stream_wait, .event_free = event_free};
    struct sdi_player *p = sdi_player_new(-1, -1, NULL, cells, segments, released);
    if (argc != 2 || !p)
        return 2;
    sdi_player_drivers(p, &cuda, NULL);
    for (uintptr_t l = 0; l < LANES; l++)
        if (sdi_player_lane(p, DRIVER_CUDA, (void *)(l + 1), (void *)(l + 1)) != (int)l)
            return 3;
    p->wake_after = 0;
    sdi_player_queue(p, 7, true, false, true);
    struct op ops[2 * LANES] = {0};
    struct access accesses[3 * LANES];
    uint8_t block[16] = {0};
    uint32_t count = 0;
    for (unsigned l = 0; l < LANES; l++) {
        ops[l] = (struct op){.kind = OP_FETCH, .lane = l, .object = (void *)FETCHER, .dim = 1, .first_access = count, .num_accesses = 2};
        accesses[count++] = (struct access){.segment = 2 - l, .writes = 0};
        accesses[count++] = (struct access){.segment = 1 + l, .writes = 1};
    }
    for (unsigned l = 0; l < LANES; l++) {
        ops[LANES + l] = (struct op){.kind = OP_LAUNCH, .lane = l, .object = (void *)KERNEL, .dim = 1, .first_access = count, .num_accesses = 1};
        accesses[count++] = (struct access){.segment = 1 + l, .writes = 1};
    }
    static uint64_t none[1]; /* of what there is nothing */
    const struct given given = {.key = (void *)none, .mask = (void *)none, .guards = (void *)none, .effects = (void *)none,
                                .budgets = (void *)none, .holes = (void *)none, .tests = (void *)none, .watched = (void *)none,
                                .handed = (void *)none, .stores = (void *)none, .undone = (void *)none,
                                .op = SDI_OP_NDRANGE, .ops = ops, .num_ops = 2 * LANES, .accesses = accesses, .num_accesses = count,
                                .block = block, .block_nbytes = sizeof block, .num_beside = LANES};
    const int64_t number = sdi_player_add(p, &given);
    if (number < 0)
        return 4;
    for (int step = 0; step < atoi(argv[1]); step++) {
        struct node *node = node_new(p, 0, 100 + (uint64_t)step, 0, (uint32_t)number);
        if (!node || recording_execute(p, &p->recordings[number], node, NULL))
            return 5;
        printf("\n");
    }
    sdi_player_free(p);
    return 0;
}
