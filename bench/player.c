/* player MEMBERS [new] [profiled] [idle|beside|ordered]: what a replayed launch costs the service, with members whose driver does
 * nothing at once.
 *
 * Microseconds of wall time in the player per launch: many launches in the socket at a time, and one at a time, each
 * complete before the next one is sent.  A launch has a part on each member, 3 buffers, a new scalar with `new`, an
 * event, and is guarded by 12 facts; each part reads two segments, writes one, and waits for no other member.
 * profiled: a profile is recorded, and read as Python does.
 * With a word, there is a second queue, with streams of its own.  idle: nothing is in it; beside: the launches are in
 * both by turns; ordered: likewise, and each waits for the one before. */
#include "player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MEMBERS_MAX = 8, BUFFERS = 3, GUARDS = 12, ARGS_NBYTES = 64, CELLS = 64, ROUNDS = 400, AT_ONCE = 200 };

struct record {
    struct sdi_rec_ndrange launch;
    uint8_t args[ARGS_NBYTES];
};

enum way { ONE_QUEUE, IDLE, BESIDE, ORDERED };
static enum way way;

static int nothing(void)
{
    return 0;
}

static int make_event(void **event, unsigned flags)
{
    (void)flags;
    *event = event;
    return 0;
}

static struct sdi_player *player;
static uint32_t cells[CELLS];
static uint64_t last_id;

/* It is complete; and the player returns when it has read all that was sent. */
static int query_event(void *event)
{
    (void)event;
    cells[CELL_POSTED] = sdi_player_records(player, SDI_OP_NDRANGE, PLAYED) == last_id;
    return 0;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct segment segments[BUFFERS * MEMBERS_MAX];
static uint64_t released[NODES_MAX];
static int commands[2];

static void send_launches(unsigned count)
{
    static char records[AT_ONCE * (sizeof(struct record) + sizeof(uint64_t))];
    size_t nbytes = 0, waits = way == ORDERED ? sizeof(uint64_t) : 0;
    for (unsigned n = 0; n < count; n++) {
        struct sdi_rec_ndrange launch = {.nbytes = sizeof(struct record) + (uint32_t)waits, .op = SDI_OP_NDRANGE};
        char *record = records + nbytes;
        nbytes += launch.nbytes;
        memset(record, 0, launch.nbytes);
        memcpy(record + sizeof launch, &last_id, waits);
        launch.id = ++last_id;
        launch.queue = way >= BESIDE ? 1 + last_id % 2 : 1;
        launch.num_waits = waits != 0;
        launch.slot = 1 + (uint32_t)(last_id % 1000);
        launch.build = 5;
        memcpy(record, &launch, sizeof launch);
        memcpy(record + sizeof launch + waits, &last_id, 4);
    }
    if (send(commands[1], records, nbytes, 0) != (ssize_t)nbytes)
        exit(1);
}

static void add_recording(unsigned members, unsigned holes)
{
    uint8_t key[sizeof(struct record) - 32] = {0}, mask[sizeof key], block[256 * MEMBERS_MAX] = {0};
    struct op ops[MEMBERS_MAX];
    struct access accesses[MEMBERS_MAX * BUFFERS];
    struct hole hole[MEMBERS_MAX];
    struct cell_value guards[GUARDS];
    uint32_t budget = CELLS_RESERVED + GUARDS;
    size_t at = sizeof(struct sdi_rec_ndrange) - 32;
    memset(mask, 0xFF, sizeof mask);
    memset(mask + at, 0, 4);
    memset(ops, 0, sizeof ops);
    uint64_t build = 5;
    memcpy(key, &build, sizeof build);
    for (unsigned m = 0; m < members; m++) {
        ops[m] = (struct op){.kind = OP_LAUNCH, .lane = m, .first_access = m * BUFFERS, .num_accesses = BUFFERS};
        ops[m].first_hole = m;
        ops[m].num_holes = holes != 0;
        ops[m].block_at = 256 * m;
        ops[m].block_nbytes = 64;
        for (uint32_t b = 0; b < BUFFERS; b++)
            accesses[m * BUFFERS + b] = (struct access){m * BUFFERS + b, b == 0};
        hole[m] = (struct hole){sizeof(struct sdi_rec_ndrange), 8, 4};
    }
    for (uint32_t n = 0; n < GUARDS; n++)
        guards[n] = (struct cell_value){CELLS_RESERVED + n, 0};
    cells[budget] = UINT32_MAX;
    struct given given = {
        .op = SDI_OP_NDRANGE,
        .key_nbytes = sizeof key,
        .key = key,
        .mask = mask,
        .guards = guards,
        .budgets = &budget,
        .ops = ops,
        .accesses = accesses,
        .holes = hole,
        .block = block,
        .build = build,
        .block_nbytes = sizeof block,
        .num_guards = GUARDS,
        .num_budgets = 1,
        .num_ops = members,
        .num_accesses = members * BUFFERS,
        .num_holes = members,
    };
    if (sdi_player_add(player, &given) < 0)
        exit(1);
}

static int by_size(const void *one, const void *two)
{
    double a = *(const double *)one, b = *(const double *)two;
    return (a > b) - (a < b);
}

/* Least and median of some rounds. */
static void measure(unsigned at_once, unsigned rounds)
{
    static double us[10 * ROUNDS];
    for (unsigned n = 0; n < rounds; n++) {
        send_launches(at_once);
        cells[CELL_POSTED] = 0;
        uint64_t begin = now_ns();
        const struct logged *log;
        int why;
        while ((why = sdi_player_run(player, true)) == SDI_MEASURED)
            sdi_player_logged(player, &log);
        us[n] = (double)(now_ns() - begin) / 1e3 / at_once;
        if (why != SDI_POSTED)
            exit(1);
    }
    qsort(us, rounds, sizeof *us, by_size);
    printf("%s %.3f %.3f\n", at_once > 1 ? "in_a_row" : "alone", us[0], us[rounds / 2]);
}

int main(int count, char **arguments)
{
    unsigned members = count > 1 ? (unsigned)atoi(arguments[1]) : 1, holes = 0;
    bool is_profiled = false;
    static const char *const ways[] = {"", "idle", "beside", "ordered"};
    for (int n = 2; n < count; n++) {
        holes |= !strcmp(arguments[n], "new");
        is_profiled |= !strcmp(arguments[n], "profiled");
        for (unsigned each = IDLE; each <= ORDERED; each++)
            if (!strcmp(arguments[n], ways[each]))
                way = (enum way)each;
    }
    int notices[2], nbytes = 1 << 20;
    if (members > MEMBERS_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, commands)
        || socketpair(AF_UNIX, SOCK_STREAM, 0, notices))
        return 1;
    setsockopt(commands[1], SOL_SOCKET, SO_SNDBUF, &nbytes, sizeof nbytes);
    player = sdi_player_new(commands[0], notices[0], calloc(1, SDI_HEAP_OFFSET), cells, segments, released);
    void *table[sizeof(struct cuda_table) / sizeof(void *)];
    for (unsigned n = 0; n < sizeof table / sizeof *table; n++)
        table[n] = (void *)nothing;
    struct cuda_table cuda;
    memcpy(&cuda, table, sizeof cuda);
    cuda.event_new = make_event;
    cuda.event_query = query_event;
    sdi_player_drivers(player, &cuda, NULL);
    if (is_profiled && sdi_player_profiled(player, 4096))
        return 1;
    for (unsigned m = 0; m < members; m++)
        sdi_player_lane(player, DRIVER_CUDA, arguments + m, NULL);
    sdi_player_queue(player, 1, true, false, true);
    void *streams[MEMBERS_MAX] = {NULL};
    if (way != ONE_QUEUE && sdi_player_streams(player, streams))
        return 1;
    if (way != ONE_QUEUE)
        sdi_player_queue(player, 2, true, false, true);
    add_recording(members, holes);
    measure(AT_ONCE, ROUNDS);
    measure(1, 10 * ROUNDS);
    if (sdi_player_records(player, SDI_OP_NDRANGE, PLAYED) != last_id)
        return 1;
    sdi_player_free(player);
    return 0;
}
