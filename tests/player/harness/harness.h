/* A harness for the player: a driver, an application and Python, all made up, and a model of what must be.
 *
 * driver.c is the driver, client.c the application, python.c what Python does between two runs of the player, model.c
 * says what must be so, recycled.c does all of that for buffers that are released and used again.  Alone in its thread the player is driven by what it calls: its clock, sockets and driver
 * are the harness's, and each call lets the others go on a little, as the seed wants.  With `threads` the driver and
 * the application are threads. */
#ifndef HARNESS_H
#define HARNESS_H

#include "player.h"

#include <pthread.h>
#include <sys/socket.h>

enum {
    MEMBERS = 4,
    LANES = 8,
    SLOTS = 4096,
    COMMANDS = 2000,
    WAITS = 3,
    KINDS = 6,
    BUFFERS = 3,
    SEGMENTS = 10,
    HOST_SEGMENTS = 3, /* the last ones are the client's bytes */
    CELLS = 48,
    STATES = 3,
    OPS = 4,
    ACCESSES = 4,
    HOLES = 3,
    KEY_NBYTES = 256,
    BLOCK_NBYTES = 64,
    MEMORY_NBYTES = 48, /* of each segment of the client's bytes */
    QUEUES = QUEUES_MAX,
    FEW_QUEUES = 5,
    PREFIX = sizeof(struct sdi_wire_header) + sizeof(struct sdi_wire_command),
    SEEN = 77, /* a slot whose command is complete, and was found so */
};

enum { COPIES, LAUNCHES };

/* AT_ONCE: what is issued is done.  LATE: after some calls.  LAZY: only while the player sleeps. */
enum pace { AT_ONCE, LATE, LAZY };

struct event {
    struct event *older;
    unsigned lane;
    uint64_t position; /* complete when so many items of the lane are */
    uint64_t after[LANES];
    bool is_freed, has_failed, is_timed, is_unknown; /* unknown: the player was once not told when it was */
    uint64_t executed_ns, operation, issued_ns;
};

/* What an operation does to a segment of the client's bytes: it finds these there, or (`writes`) leaves them. */
struct touch {
    bool touches, writes; /* the part that begins at `from` */
    unsigned segment, from;
    uint8_t bytes[MEMORY_NBYTES];
};

struct item {
    const struct planned *planned; /* of a copy that the player means to make itself */
    const struct command *of;      /* whose operation it is */
    struct event *event; /* recorded; NULL: none */
    bool is_wait;
    bool is_own; /* a copy that the player means to make itself */
    unsigned lane;
    uint64_t position, given_ns, usual_ns;
    struct touch touch;
};

/* What is known of an operation.  Those between two events with times are a row, and the first of them has the sums.
 * `took_ns`: of the whole row; 0: there are no such events; `given_ns`: 0 where there may be something before the row. */
struct ran {
    uint64_t executed_ns, took_ns, given_ns, usual_ns;
    uint64_t row, in_row; /* its first operation; how many there are */
    const struct event *from, *to; /* which are used again */
    uint64_t from_ns;
    uint64_t row_usual_ns, told_ns, until_ns, num_told;
};

/* A stream or queue: `after[l]` operations of lane l are complete before what it is given next. */
struct stream {
    unsigned lane;
    void *context;
    struct item *items;
    uint64_t num_items, room, done, flushed;
    uint64_t issued, executed;
    uint64_t awaited; /* the last operation of which the application wants to know when it is done; 0: none */
    const struct command *of; /* the last one that was issued to it */
    struct ran *ran; /* by operation */
    uint64_t ran_room;
    const struct event *before; /* with times, and only operations came after it */
    bool was_operation, is_end; /* what came last; that event came behind one */
    uint64_t row;               /* the first operation after that event; 0: none */
    uint64_t after[LANES];
    unsigned stalled;
};

/* Commands whose records are alike but for scalars. */
struct kind {
    uint32_t op, index, nbytes;
    uint64_t build;
    uint8_t key[KEY_NBYTES], mask[KEY_NBYTES];
    uint32_t hole_at[HOLES], hole_nbytes[HOLES], num_holes;
    bool is_tested, is_signed; /* the first hole: its recordings are each for a case of its value */
    int64_t threshold, modulus;
    uint32_t states[STATES], num_states, budget, watch;
    uint32_t device[3], host; /* segments */
    uint32_t from, stop, slack; /* of writes and fills: bytes of the segment; writes are of some of them */
    uint32_t floats;            /* reads and writes of so many bytes are anywhere between; 0: they are not */
    uint32_t rows, pitch, span; /* of these: they are rows, from the first byte to the last */
    bool is_any, is_kept;       /* of writes that float: of any number of bytes up to that; copied from where they are staged */
    uint32_t pattern_nbytes;    /* of fills */
    bool on_member, takes, is_early_write; /* fills; maps and unmaps; writes */
    bool blocking, is_playable, is_shown; /* the player copies what is read */
};

#define PLANNED_NBYTES 64
struct planned { /* where a copy begins that names it */
    _Alignas(PLANNED_NBYTES) struct recorded *of; /* larger than what a copy floats by */
    unsigned index, guessed; /* so often in a row it is not said by itself when it ran */
};

struct recorded {
    struct recorded *older;
    struct kind *kind;
    struct given given;
    struct planned planned[OPS];
    struct op ops[OPS];
    struct access accesses[OPS * ACCESSES];
    struct hole holes[OPS * HOLES];
    struct test test;
    struct cell_value guards[STATES], effects[STATES];
    uint32_t budget;
    uint8_t key[KEY_NBYTES], block[OPS * BLOCK_NBYTES], shown[MEMORY_NBYTES];
    const struct command *newest; /* that it was replayed for */
    int64_t number;
    uint64_t runs;
    bool is_dropped;
};

struct command {
    uint64_t id;
    uint32_t op, slot, at, carried; /* of writes; `at`: of reads that float, too */
    uint64_t staged_at;             /* 0: the record brings them */
    unsigned queue, num_waits, waits[WAITS];
    struct kind *kind; /* NULL: a marker */
    int before;        /* the one before it in its queue, or -1 */
    const char *record;
    size_t nbytes;
    bool is_sent, is_played, is_pythons, is_released;
    bool is_told, is_answered, has_answer; /* of reads: the client may copy, has copied; Python knows */
    bool is_counted;                       /* its bytes are the client's until it answers */
    bool was_told, may_fail, must_fail, is_over; /* by the player; or by Python */
    bool is_seen;                          /* the client knows that it is over */
    bool is_watched, awaits_notice; /* the client asked for a notice when it is complete, and did not get it yet */
    bool owes_player, owes_python;  /* likewise: who was asked, and has yet to give it */
    bool is_measured;
    unsigned reported, lane_of[OPS]; /* bits of its operations */
    unsigned logged;                 /* likewise, in the profile */
    bool is_logged, is_taken_over;   /* it is in the profile; Python finishes it */
    bool is_left;                    /* likewise, as the application is gone */
    uint64_t taken_in;               /* likewise: behind that run of the player */
    uint64_t ran_until_ns;           /* as the profile says of its operations */
    uint64_t number_of[OPS];
    unsigned was_beside; /* likewise: other streams of the member had something to do */
    int32_t status;
    struct recorded *as;
    uint64_t own[LANES], over[LANES]; /* its operations; those that are complete when it is */
    uint64_t earlier[LANES];          /* those of what its queue and wait list have before it */
    uint64_t submitted_ns, started_ns, ended_ns;
    uint8_t finds[MEMORY_NBYTES]; /* of reads: what the client is to find */
    uint8_t staged[MEMORY_NBYTES]; /* what it has staged */
};

/* Segments that are a buffer, which the application releases and uses again; commands use them meanwhile, too. */
struct shared {
    uint64_t id;
    uint32_t state, stage, fresh[2]; /* cells */
    uint32_t segments[2], num_segments;
    bool is_known;               /* to the player */
    uint32_t slot;               /* where the application was last told that it may use it */
    uint32_t acted;              /* likewise, as far as somebody has acted on it */
    uint64_t command;            /* the first one that is sent after it was released */
    bool is_released, may_reuse; /* to the application */
    bool is_undecided;           /* it wants to use it before it may */
    bool is_passed;              /* somebody has acted on its release */
    bool is_players, is_pythons; /* who has yet to say that it may be used */
    bool is_listed;              /* Python has to be told */
    uint64_t over[LANES];        /* then these operations are complete */
};

enum what { A_COMMAND, A_RELEASE, A_WATCH, AN_ANSWER, A_RECYCLE, A_REUSE, ANOTHER, DAMAGED };

/* A record on the wire; it ends at byte `end` of the stream. */
struct sent {
    enum what what;
    struct command *command;
    struct shared *buffer;
    bool is_early; /* to use what may not be used yet, as far as is known */
    const char *record;
    size_t nbytes;
    uint64_t end;
};

struct world {
    uint64_t seed;
    bool threads, is_over;
    pthread_mutex_t lock;
    uint64_t now_ns, idle, received; /* received: by the socket, of the stream */
    uint64_t in_socket, ring_from, ring_seen; /* unread bytes; where the stream goes on in the ring; what was read of that */
    bool offers_ring, in_ring;
    struct sdi_player *player;
    char *arena;
    uint64_t staged, taken, staged_again; /* by the client; by the player and Python; of these, whose memory was used again */
    uint32_t cells[CELLS], truth[CELLS];
    int commands[2], notices[2];
    /* driver */
    enum driver driver;
    enum pace pace;
    unsigned num_members, num_lanes; /* lane l is a stream of member l % num_members */
    struct stream streams[LANES];
    void *current;
    struct event *events;
    uint64_t made, freed, observed[LANES];
    unsigned fails_in; /* calls; 0: never */
    bool fails_later, has_failed, stays_failed, is_playing, is_freeing, is_looking; /* looking: for times only */
    uint8_t arguments[HOLES][16];
    uint8_t memory[HOST_SEGMENTS][MEMORY_NBYTES];
    /* application */
    struct kind kinds[KINDS];
    unsigned num_kinds, num_queues;
    bool reads; /* some kinds are reads */
    bool is_near; /* OpenCL members compute in memory of this process */
    bool is_playable[QUEUES], is_timed[QUEUES];
    unsigned stream_of[QUEUES];
    struct command all[COMMANDS];
    unsigned num_commands, first_unseen;
    struct sent script[2 * COMMANDS];
    unsigned num_script, at_script;
    struct sent sent[4 * COMMANDS];
    unsigned num_sent;
    char *bytes, *out;
    size_t num_bytes, num_out, at_out;
    unsigned deaf, patience, hurry, leaves_after, reading[SEGMENTS];
    struct command *told[COMMANDS];
    unsigned num_told, num_open;
    struct shared buffers[BUFFERS];
    uint32_t num_recycled;
    bool watches; /* some commands */
    bool has_left, posts, was_posted, is_patient; /* it sends nothing while it waits for a read */
    /* model and Python */
    unsigned passed; /* records that the player is behind */
    struct recorded *recorded;
    struct recorded *running;
    struct command *current_command;
    const struct command *given; /* whose operation an OpenCL driver was given last */
    unsigned next_op;
    struct touch touch;                               /* of the operation that is issued */
    uint8_t in_order[HOST_SEGMENTS][MEMORY_NBYTES]; /* what `memory` is when all that was acted on is done */
    uint64_t wrote[2][SEGMENTS][LANES], read[2][SEGMENTS][LANES];
    uint64_t wrote_before[2][SEGMENTS][LANES], read_before[2][SEGMENTS][LANES]; /* when the present command had begun nothing */ /* copies; launches */
    struct command *pending[COMMANDS];
    unsigned num_pending, busy;
    bool lost_reports, is_profiled;
    uint64_t runs;
    uint32_t num_profiled, most_nodes; /* most: in flight at a time */
    uint64_t turn_ns, logged_ns[QUEUES]; /* ends of the newest turn and commands in the profile */
    bool shares; /* queues use streams in other ways now and then */
    enum streams_way way;
    uint64_t others[LANES]; /* what the lanes were given before the present command had begun anything */
    uint64_t replays;       /* of recordings */
    bool is_on, calm, is_long; /* calm: facts change seldom; long: more commands than can be in flight */
};

extern struct world w;

/* Of all streams: so the caller sees that what it means to test came to pass. */
enum counted {
    COMMANDS_SENT, RECORDS_PLAYED, WRITES_PLAYED, SHOWN, RECORDS_LEFT, OPERATIONS, STAGED, STAGED_AGAIN, ASIDE, AT_ONCE_USES, APART, TOGETHER, LANE_WAITS,
    NAPS, TIMED, MEASURED, REPORTS, REPORTS_KNOWN, RECYCLED, RECYCLED_BY_PYTHON, REUSED,
    NOTICES, NOTICES_LATE, FULL_TIMES, TAKEN_OVER, WANTED_TIMES, POSTED_TIMES, FAILURES,
    LOGGED, LOG_FULL, TURNS, IN_RING, COPIED, COPIED_LATE, COPIED_NOW, GIVEN_AFTER_ALL, WAYS_CHANGED, TRIED, SURVEYED, ALONE, FOLLOWED, UNMARKED, ROWS_FULL, WATCHED, PLANNED, NUM_COUNTED
};
extern uint64_t counted[NUM_COUNTED];

_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t random_bits(void);
unsigned below(unsigned limit);
bool one_in(unsigned chances);
/* How much of the stream the player has taken. */
uint64_t stream_taken(void);
void seed_with(uint64_t seed);
void lock(void);
void unlock(void);
struct sdi_wire_slot *slot_at(uint32_t slot);
struct command *command_of(uint64_t id);

extern const struct cuda_table cuda;
extern const struct opencl_table opencl;
bool driver_step(void);
void driver_drain(void);
void driver_reset(void);

void client_generate(unsigned records);
void client_append(const struct sent *);
char *client_put(size_t nbytes);
void client_step(void);
bool client_is_done(void);
size_t bare_key(const struct command *, uint8_t *key);
bool case_of(const struct command *, struct test *test);
bool admits(const struct recorded *, const struct command *);
size_t fixed_of(uint32_t op);
bool is_read(const struct command *);
const uint8_t *carried_by(const struct command *);
void staged_taken(const struct command *);
bool finds_staged(const struct command *);
void client_told(struct command *);
void client_notified(struct command *);
void client_look(void);
void client_leave(void);

void model_queue(unsigned queue, bool is_playable);
void model_turn(void);
void model_issue(const struct planned *, unsigned lane);
void model_copy_now(const struct planned *);
bool model_is_awaited(const struct command *);
struct sent *model_pass(uint64_t consumed, const char *record, size_t nbytes);
struct recorded *model_find(const struct command *, bool *is_known);
void model_told(struct command *);
void model_write(const struct command *);
void model_copied(const struct command *);
bool model_took(const struct command *, uint32_t op, uint64_t told);
void model_report(const struct report *);
void model_log(const struct logged *, uint32_t count);
void model_nodes(const struct node_told *, uint32_t count);
void model_seen(const struct command *);
void model_end(void);

void model_until(const bool *is_passed);

void shared_begin(void);
void shared_known(bool again);
void shared_step(void);
void shared_look(void);
void shared_pass(const struct sent *);
void shared_hear(void);
void shared_plan(struct shared *b);
void shared_take_over(uint32_t num_nodes);
void shared_act(const struct sent *, bool was_busy);
void shared_go_on(void);
void shared_end(void);

void python_run(void);
uint64_t harness_now(void);

ssize_t __real_recv(int, void *, size_t, int);

#endif
