/* The player: executes recorded commands without Python.  See design/0012-player.md.
 *
 * Whoever has the session's turn calls sdi_player_run, which reads the command socket.  A record that equals a
 * recording, all of whose guards hold, is executed here; any other one is answered with RECORD, for Python.  Nothing
 * here is called by two threads at a time; issuers have threads of their own, and share only `struct issuer` with it. */
#ifndef SDI_PLAYER_H
#define SDI_PLAYER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "sdi_numbers.h"
#include "sdi_player.h" /* what is shared with Python, from library.py */
#include "sdi_wire.h"

enum { MARKS_MAX = 2 * OPS_MAX, UNMARKED_MAX = 512, SPARE_MAX = 64, QUEUES_MAX = 64, BUCKETS = 1 << 12, FORMS = 1 << 10, OPS_COUNT = SDI_OPS_COUNT };

enum driver { DRIVER_CUDA = 1, DRIVER_OPENCL = 2 };

struct cuda_rows { /* CUDA_MEMCPY2D */
    size_t from_x, from_y;
    unsigned from_type;
    const void *from_host;
    uint64_t from;
    void *from_array;
    size_t from_pitch, to_x, to_y;
    unsigned to_type;
    void *to_host;
    uint64_t to;
    void *to_array;
    size_t to_pitch, nbytes, count;
};

/* Entry points of the drivers, looked up by Python; those of a driver that is not there are NULL. */
struct cuda_table {
    int (*set_current)(void *context);
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned shared,
                  void *stream, void **parameters, void **extra);
    int (*upload)(uint64_t to, const void *from, size_t nbytes, void *stream);
    int (*download)(void *to, uint64_t from, size_t nbytes, void *stream);
    int (*copy)(uint64_t to, uint64_t from, size_t nbytes, void *stream);
    int (*copy_peer)(uint64_t to, void *to_context, uint64_t from, void *from_context, size_t nbytes, void *stream);
    int (*event_new)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_free)(void *event);
    int (*stream_wait)(void *stream, void *event, unsigned flags);
    int (*event_elapsed)(float *ms, void *from, void *to);
    int (*fill_bytes)(uint64_t to, unsigned char value, size_t count, void *stream);
    int (*fill_shorts)(uint64_t to, unsigned short value, size_t count, void *stream);
    int (*fill_words)(uint64_t to, unsigned value, size_t count, void *stream);
    int (*copy_rows)(const struct cuda_rows *, void *stream);
};

struct opencl_table {
    int (*launch)(void *queue, void *kernel, unsigned dim, const size_t *offset, const size_t *global,
                  const size_t *local, unsigned num_waits, const void *waits, void **event);
    int (*set_argument)(void *kernel, unsigned index, size_t nbytes, const void *value);
    int (*upload)(void *queue, void *buffer, unsigned blocking, size_t offset, size_t nbytes, const void *from,
                  unsigned num_waits, const void *waits, void **event);
    int (*download)(void *queue, void *buffer, unsigned blocking, size_t offset, size_t nbytes, void *to,
                    unsigned num_waits, const void *waits, void **event);
    int (*copy)(void *queue, void *from, void *to, size_t from_offset, size_t to_offset, size_t nbytes,
                unsigned num_waits, const void *waits, void **event);
    int (*fill)(void *queue, void *buffer, const void *pattern, size_t pattern_nbytes, size_t offset, size_t nbytes,
                unsigned num_waits, const void *waits, void **event);
    int (*flush)(void *queue);
    int (*event_info)(void *event, unsigned what, size_t nbytes, void *value, size_t *got);
    int (*event_free)(void *event);
    int (*event_times)(void *event, unsigned what, size_t nbytes, void *value, size_t *got);
    int (*upload_rows)(void *queue, void *buffer, unsigned blocking, const size_t *to, const size_t *from,
                       const size_t *region, size_t to_pitch, size_t to_slice, size_t from_pitch, size_t from_slice,
                       const void *host, unsigned num_waits, const void *waits, void **event);
    int (*download_rows)(void *queue, void *buffer, unsigned blocking, const size_t *from, const size_t *to,
                         const size_t *region, size_t from_pitch, size_t from_slice, size_t to_pitch, size_t to_slice,
                         void *host, unsigned num_waits, const void *waits, void **event);
    int (*copy_rows)(void *queue, void *from, void *to, const size_t *from_at, const size_t *to_at, const size_t *region,
                     size_t from_pitch, size_t from_slice, size_t to_pitch, size_t to_slice, unsigned num_waits,
                     const void *waits, void **event);
};

/* A call of a CUDA driver's, see issuers.c.  `number`: of its lane, the operation that it is or that comes next. */
enum call_kind {
    CALL_NONE, CALL_LAUNCH, CALL_UPLOAD, CALL_DOWNLOAD, CALL_COPY, CALL_COPY_PEER, CALL_FILL_BYTES, CALL_FILL_SHORTS,
    CALL_FILL_WORDS, CALL_COPY_ROWS, CALL_RECORD, CALL_WAIT
};

struct call {
    uint32_t nbytes, kind; /* nbytes: with its parameters, behind it */
    uint32_t lane, shared;
    uint64_t number, sequence, after; /* after: the sequence of the call that records the event waited for */
    void *stream, *object, *other;
    uint64_t to, from, count; /* count: of a copy of rows, bytes of each */
    uint64_t num_runs, to_pitch, from_pitch;
    uint32_t groups[3], local[3], word, block_nbytes;
};

/* Gives one member its calls, in a thread of its own.  Of `done` and `status` whoever sees the first sees the second that
 * came with it or before. */
struct issuer {
    /* the player's */
    bool is_started;
    char *ring;
    uint64_t head, last, recent_ns; /* bytes that were pushed; the newest call; when the last one came that it was not given */
    uint32_t streak;
    /* both sides' */
    uint64_t pushed, popped, done; /* bytes, bytes, sequence of a call */
    uint32_t state;
    int status;                    /* of the first call that failed: none behind it was made */
    bool is_over;
    /* its own, the player's once `status` is there and all are done */
    uint64_t refused[STREAMS_MAX]; /* by stream of the member: the first operation that was not given to it; 0: none */
    const struct cuda_table *cuda;
    const struct issuer *all; /* of all members */
    unsigned num_members;
    void *context;
    pthread_t thread;
};

/* A copy of an OpenCL member that the player may make itself, see copies.c; as in `struct op`. */
struct own_copy {
    uint32_t kind;
    bool is_given_up;
    void *object, *other;
    uint64_t to, from, nbytes, near, near_other;
    uint64_t num_runs, to_pitch, from_pitch;
    uint64_t began_ns, ended_ns; /* once it was made */
};

/* An event behind operation `number` of a lane.  `recorded`, `awaited`: the calls that record it, and that have others wait
 * for it last; 0: the player has made them itself.  `node`: + 1, the command that wants its times; 0: none does; `op`: which
 * of its operations it is.  CUDA: the events of a node's have times; `begin`: the one before the operation, without which it
 * began when the one before it had ended, or when it was `given_ns`; `num_unmarked`: so many just before it have no event.
 * OpenCL: without an event it is `copy`, which the driver was not given. */
struct mark {
    struct own_copy copy;
    uint64_t number, recorded, awaited;
    uint32_t num_unmarked;
    uint32_t launch; /* OpenCL launches: a recording + 1, which may be gone; 0: it is none */
    void *event, *begin;
    uint32_t node, op;
    uint64_t beside; /* `lane_beside` when it was issued */
    uint64_t given_ns; /* CUDA, where somebody wants its times */
    uint64_t took_ns, before_ns; /* once it is complete; so long before the last one of its lane that is it ended */
    uint64_t usual_ns;           /* what its operation takes; 0: not known */
};

/* CUDA: a short operation with times but without an event, as that would take as long: the next mark's event is behind it. */
struct unmarked {
    uint32_t node, op;
    uint64_t given_ns, usual_ns; /* as in `struct mark` */
};

/* One stream or in-order queue.  Lane s * num_members + m is stream s of member m; Python's own is the first one of
 * each member.  `issued`: operations given to it; `reached`: of these, how many are known to be
 * complete; `seen[l]`: up to which operation of lane l this one waits. */
struct lane {
    enum driver driver;
    void *context, *stream;
    uint64_t issued, reached;
    uint64_t seen[LANES_MAX];
    uint64_t waited; /* CUDA: what it was given when it was last made to wait, + 1 */
    struct mark marks[MARKS_MAX];
    unsigned first, num_marks;
    struct unmarked unmarked[UNMARKED_MAX];
    unsigned first_unmarked, num_unmarked, num_open; /* open: those behind the last mark */
    uint64_t open_ns;                                /* what these take */
    struct spare {
        struct {
            void *event;
            uint64_t used; /* by calls up to this one */
        } events[SPARE_MAX];
        unsigned first, count;
    } spare[2]; /* of CUDA: those without times, and with them */
    bool unflushed;
    uint64_t due_ns; /* OpenCL: when it has probably done all */
    unsigned num_own; /* OpenCL: so many of the last marks are copies that the driver was not given */
    void *anchor;       /* CUDA: the last event with times that is complete */
    uint64_t anchor_used; /* by calls up to this one */
    uint64_t anchor_ns; /* when that was */
    uint64_t running_ns; /* when it was seen last that something of it was not complete */
    int64_t offset_ns;  /* OpenCL: from the driver's clock to ours */
    bool has_offset;
};

/* What a command came to.  It is right while each guard's cell has the guard's value, and no budget is 0.  `key`, `mask`:
 * the record from behind its command fields, and which bits count.  `client_shown`: + 1, to the bytes of this segment; 0: of
 * none; `client_at`, `client_to`: where in this process, and where to; `client_from`, `client_stop`, `client_slack`: of
 * writes, see `fits`; `floats`: of reads and writes that may be anywhere between these, with their copies, which are those
 * for `delta` bytes behind the beginning; `client_span`: from their first byte to their last, or, where `client_nbytes` is 0, how many
 * they may be.  `watch`: 0, or the first of
 * three cells, see `is_watched`.  `profiled`: its number in a profile.  `watched`, `handed`, `stores`, `undone`: of an attempt, see attempts.c: copies of counters, how they
 * are looked at, and what cells say where it does not count; the last `num_moves` operations come after that. */
struct recording {
    uint64_t hash, runs; /* runs: since Python last asked */
    uint64_t surveyed_ns, surveyed; /* the least that a launch took in the last survey, see streams.c; how many there were */
    uint32_t next;       /* of the same bucket */
    uint64_t delta;
    uint32_t first_launch; /* among its operations; what comes before are copies */
    uint32_t long_runs, passed; /* of a merging launch: in a row, and for how many Python did it since */
    union {
        struct given given;
        struct {
            SDI_GIVEN_FIELDS
        };
    };
};

/* Bytes of a buffer in one memory: which copy wrote them last, and what has used them since.  A copy has its turn
 * among all that uses the bytes.  Launches, which are all of one member, are ordered by their queues and events alone,
 * as the application asked: those of two queues may use the same bytes at once. */
struct segment {
    uint32_t writer_lane;
    uint32_t client_reads;
    uint32_t shown, showing; /* so many reads have yet to be copied here to these bytes; and from them */
    uint64_t writer;
    uint64_t readers[LANES_MAX]; /* copies */
    uint64_t launch_writers[LANES_MAX], launch_readers[LANES_MAX]; /* and copies that write beside each other */
};

enum stage { STAGE_ISSUED = 0, STAGE_COPYING = 1, STAGE_TRYING = 2 };

struct node {
    uint64_t id, sequence, submitted_ns, start_ns;
    uint64_t began_ns, ended_ns; /* as members say; 0: not known */
    uint64_t issued_ns;          /* of a session that is profiled: when all of it was */
    uint32_t nbytes;             /* of writes, of which each may have others; else 0 */
    uint32_t staged;             /* of these, that are taken from where they are staged until it is over */
    uint32_t profiled;           /* its recording's number in a profile; 0: a marker */
    uint32_t untold;             /* Python's, but so many of its operations' times are yet to be told to a profile */
    uint32_t slot, recording, queue;
    uint32_t next; /* in its queue, or of the free ones */
    uint32_t beat; /* the trial's window that it is a heart of; 0: of none */
    uint8_t stage, forgotten, is_measured, is_timed, is_surveyed; /* timed: its own times are those of what it comes to */
    uint8_t wants_notice;                                         /* the application asked to be told when it is complete */
    int32_t status; /* negative: the driver refused it */
    uint64_t behind, behind_until; /* bits of other queues: it waits for what came there up to that one of the sequence */
    uint64_t floor_ns;              /* that ended then, as far as it has */
    uint64_t waits[LANES_MAX];
};

/* A queue of the application.  `stream`: which one of each member is its own, see `stream_of`; `after`: what is before its
 * next command on other lanes, because its commands waited for that. */
struct queue {
    uint64_t id;
    bool is_playable, is_timed, launches;
    uint32_t stream;
    uint32_t first, last; /* nodes + 1; 0: none */
    uint64_t end_ns;
    uint64_t after[LANES_MAX];
};

/* A buffer of the application that has cells: of its residency, and of its stage.  `slot`: the application waits there
 * until it may use the buffer again; 0: it does not, or was told.  `is_listed`: Python has to hear of it. */
struct buffer {
    uint64_t id, recycled_ns;
    uint32_t state, stage, fresh[2];
    uint32_t segments[LANES_MAX + 1], num_segments;
    uint32_t slot, next; /* next: of the same bucket, or of those without cells */
    bool is_listed, is_outside;
};

/* Which bits of a kernel's launches count: all that no scalar fills.  Those count too on which ranges depend, where
 * these were asked for: so there may be two masks, one behind the other. */
enum { MASKS_MAX = 2 };
struct form {
    uint64_t build;
    uint32_t op, index, nbytes;
    uint8_t *masks;
    uint32_t num_masks;
};

/* How queues use streams, see streams.c. */
enum streams_way {
    WAY_APART,  /* each its own */
    WAY_SHARED, /* all the first one */
    WAY_ALONE,  /* each its own, but the longest launch waits for all that others were given */
    WAYS,
};

/* Launches of a kernel with so many groups; of several members the first one's. */
struct launch_shape {
    void *kernel;
    uint64_t size[3];
};

/* Which way is fastest.  `found`: what the last trial came to.  `turns`: from `way` on there is another window; `epoch`: its
 * number; `surveys`: all launches of it are timed, to find the longest.  `since_ns`: the trial; `began_ns`, `first_ns`: a window, and what is timed of
 * it; `beats`: hearts in it; `place`: of its round; `ended_ns`: when a command was last seen to be complete; `done`: commands, by
 * streams of queues; `records`: in the first window, for `BEATS` hearts. */
enum { ROUNDS_MAX = 7 };
struct trial {
    bool is_on, turns, surveys, is_surveyed, has_lost[WAYS];
    enum streams_way way, found;
    struct launch_shape tried, longest; /* in this trial; with what was found */
    uint32_t heart; /* a recording + 1; 0: none is known */
    uint32_t epoch, rounds, place, beats, trials;
    uint64_t used[STREAMS_MAX], beat_at; /* sequence + 1 of the last command of each; of the last heart */
    uint64_t since_ns, until_ns, rest_ns, began_ns, first_ns, ended_ns, window_ns, records, done[STREAMS_MAX];
    uint64_t took_ns[WAYS][ROUNDS_MAX]; /* for each heart */
};

struct sdi_player {
    int commands, notices;
    int bell; /* it is rung when something is posted while it sleeps; -1: there is none */
    uint32_t is_asleep;
    char *arena;
    struct cuda_table cuda;
    struct opencl_table opencl;
    struct lane lanes[LANES_MAX];
    unsigned num_members, num_streams; /* of each member */
    unsigned num_lanes;                /* that were used so far */
    enum streams_way way;
    struct trial trial;
    uint64_t nap_part; /* it sleeps so small a part of what it has waited */
    uint64_t spin_ns; /* so long it asks all the time, before it sleeps between */
    uint64_t linger_ns; /* likewise, with nothing in flight */
    bool rests; /* with nothing in flight it sleeps until there is a record, for a while */
    void *current; /* CUDA context of this thread */
    struct issuer issuers[LANES_MAX]; /* by member */
    uint64_t calls;      /* that issuers were given */
    uint64_t record_ns;  /* when the newest command came */
    uint32_t wake_after; /* so many commands in a row are worth an issuer; 0: none ever is */
    volatile uint32_t *cells;
    struct recording *recordings;
    uint32_t num_recordings, recordings_room;
    uint32_t buckets[BUCKETS];
    uint32_t *played;
    uint32_t num_played;
    struct form forms[FORMS];
    struct segment *segments;
    struct node nodes[NODES_MAX];
    uint32_t num_behind, free_nodes, num_nodes, num_untold; /* untold: nodes that are Python's */
    struct queue queues[QUEUES_MAX];
    unsigned num_queues;
    uint64_t sequence, last_id;
    uint32_t attempt; /* a node + 1, which the next record is about; 0: none */
    uint64_t attempt_ns; /* when that was issued */
    uint32_t undone;  /* a recording + 1 that Python has not heard of */
    char *data; /* what was received; [head, tail) is unread */
    size_t room, head, tail;
    uint64_t ring_tail;  /* what was read of the ring; the client can't write here */
    bool offers_ring, uses_ring;
    bool socket_speaks; /* while the ring is used: there may be something in the socket, or its end */
    char *record;
    size_t record_nbytes;
    char *bare; /* a record without its wait list */
    size_t bare_room;
    uint64_t *released; /* events that the application let go, for Python */
    uint32_t num_released;
    struct report reports[REPORTS_MAX]; /* those for which there is no room are lost */
    uint32_t num_reports;
    bool report_soon; /* one is of a launch that took long */
    uint64_t report_since_ns;
    struct buffer buffers[BUFFERS_MAX];
    uint32_t buffer_buckets[BUFFERS_MAX], num_buffers, free_buffers;
    uint32_t recycled[BUFFERS_MAX], num_recycled; /* since Python last asked */
    uint32_t unready[BUFFERS_MAX], num_unready;   /* that the application may not use yet */
    struct logged *log; /* NULL: no profile is recorded; else all queues are timed */
    uint32_t num_logged, log_soon;
    uint64_t log_since_ns, turn_ns;
    uint32_t streak, wanted_after; /* known records in a row that Python acted on; so many are worth waiting */
    uint32_t stint;                /* records in a row that were played */
    bool page_changed, passes;
    bool has_failed; /* and nobody was told */
    bool has_asked;  /* Python knows of the next record: it may have recorded it by now */
    bool is_deaf; /* the application has no room for notices */
    uint64_t looks, naps, carried_nbytes;
    uint64_t waited_ns; /* so long the next record has waited for its turn */
    uint64_t rested_ns; /* when Python last had a turn because nothing was to be done */
    enum why why; /* of the newest record that was not executed */
    uint64_t records[OPS_COUNT * WHY_COUNT];
};

static inline uint64_t sdi_player_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline struct mark *lane_mark_at(struct lane *lane, unsigned n)
{
    return &lane->marks[(lane->first + n) % MARKS_MAX];
}

static inline struct unmarked *lane_unmarked_at(struct lane *lane, unsigned n)
{
    return &lane->unmarked[(lane->first_unmarked + n) % UNMARKED_MAX];
}

static inline struct mark *lane_put_mark(struct lane *lane, void *event, void *begin, uint32_t node, uint32_t op)
{
    struct mark *mark = lane_mark_at(lane, lane->num_marks++);
    *mark = (struct mark){.number = lane->issued, .event = event, .begin = begin, .node = node, .op = op};
    return mark;
}

static inline void needs_raise(uint64_t *needs, const uint64_t *numbers, unsigned lanes)
{
    for (unsigned l = 0; l < lanes; l++)
        if (numbers[l] > needs[l])
            needs[l] = numbers[l];
}

/* Whether each lane has done so many operations. */
static inline bool lanes_reached(const struct sdi_player *p, const uint64_t *numbers)
{
    for (unsigned l = 0; l < p->num_lanes; l++)
        if (numbers[l] > p->lanes[l].reached)
            return false;
    return true;
}

/* Whether nothing that was issued has yet to be done at these bytes before a copy reads or `writes` them. */
static inline bool segment_is_free(const struct sdi_player *p, const struct segment *s, bool writes)
{
    return s->writer <= p->lanes[s->writer_lane].reached && lanes_reached(p, s->launch_writers)
           && (!writes || (lanes_reached(p, s->readers) && lanes_reached(p, s->launch_readers)));
}

/* Of all rows of a read or write of the application; 0: more than the player copies. */
static inline uint64_t box_nbytes(const uint64_t *region)
{
    for (int d = 0; d < 3; d++)
        if (region[d] > SDI_STAGED_MAX_NBYTES)
            return 0;
    return region[0] * region[1] > SDI_STAGED_MAX_NBYTES ? 0 : region[0] * region[1] * region[2];
}

/* Whether a command's times are those of an operation: a launch's are its kernels', other commands' are those of all that
 * they come to. */
static inline bool op_counts(const struct recording *r, const struct op *op)
{
    return op->kind == OP_LAUNCH || r->op != SDI_OP_NDRANGE;
}

int issue_call(struct sdi_player *, unsigned lane, struct call *, const void *block);
int issuer_recorded(const struct sdi_player *, unsigned lane, uint64_t sequence);
bool issuers_passed(const struct sdi_player *, uint64_t sequence);
void issuers_settle(struct sdi_player *);
void issuers_blame(struct sdi_player *);
void issuers_stop(struct sdi_player *);

ssize_t input_receive(struct sdi_player *, size_t wanted);
void input_use_ring(struct sdi_player *);
void input_sleep(struct sdi_player *, uint64_t ns, bool reads);
void input_begin(struct sdi_player *);

int lane_enter(struct sdi_player *, const struct lane *);
int lane_wait(struct sdi_player *, unsigned lane, unsigned other, uint64_t number);
int lane_perform(struct sdi_player *, unsigned lane, struct recording *, struct op *, const char *record,
                 uint32_t node, bool exact);
int lane_mark(struct sdi_player *, unsigned lane);
int lane_mark_behind(struct sdi_player *, unsigned lane, uint64_t number);
int lane_close(struct sdi_player *, unsigned lane);
int lane_poll(struct sdi_player *, unsigned lane);
void lanes_free(struct sdi_player *);
#define BUSY UINT64_MAX
uint64_t lane_beside(const struct sdi_player *, unsigned lane);
bool lane_has_room(const struct lane *, unsigned ops);
void lane_anchor(struct sdi_player *, struct lane *, struct mark *last);
void lane_times(struct sdi_player *, struct lane *, unsigned marks);
bool reports_are_due(const struct sdi_player *p);

struct own_copy copy_by(const struct op *);
bool copy_is_near(const struct lane *, const struct op *);
void copy_keep(struct lane *, const struct recording *, const struct op *, uint32_t node);
void copy_make(struct lane *, struct own_copy *);
void copy_now(struct sdi_player *, const struct recording *, const struct op *, const struct node *);
int copy_give(const struct sdi_player *, struct lane *, const struct own_copy *, void **event);
int copies_give(const struct sdi_player *, struct lane *);
void copies_give_up(struct lane *);

uint32_t stream_of(const struct sdi_player *, const struct queue *);
uint32_t stream_for_queue(const struct sdi_player *);
void streams_use(struct sdi_player *, enum streams_way);
void streams_issue(struct sdi_player *, const struct recording *, uint32_t queue);
void streams_surveyed(struct recording *, const struct op *, uint64_t took_ns);
void streams_turn(struct sdi_player *, uint64_t now);
void streams_paused(struct sdi_player *, uint64_t now);
void streams_issued(struct sdi_player *, struct node *);
void streams_completed(struct sdi_player *, const struct node *, uint64_t now);

bool profile_is_full(const struct sdi_player *p);
bool profile_is_due(const struct sdi_player *p);
void profile_operation(struct sdi_player *p, const struct node *node, uint32_t op, uint64_t began_ns, uint64_t ended_ns);
void profile_command(struct sdi_player *p, const struct node *node, uint64_t began_ns, uint64_t ended_ns);
void profile_turn_begins(struct sdi_player *p);
void profile_turn_ends(struct sdi_player *p, bool counts);

/* FULL and BROKEN leave the record to be read again; one that is REFUSED is a node that has failed. */
enum taken { TAKEN, NOT_MINE, FULL, BROKEN, REFUSED };

int queue_find(const struct sdi_player *p, uint64_t id);
void page_publish(struct sdi_player *p);
void page_say(struct sdi_player *p, uint32_t slot, int32_t status);
void page_has_taken(struct sdi_player *p, uint64_t nbytes);
void node_free(struct sdi_player *p, struct node *node);
void node_told_of(struct sdi_player *p, struct node *node);
struct node *node_new(struct sdi_player *p, int queue, uint64_t id, uint32_t slot, uint32_t recording);
bool node_is_over(const struct sdi_player *p, const struct node *node);
bool node_may_finish(const struct sdi_player *p, const struct node *node);
bool node_watch(struct sdi_player *p, struct node *node, uint64_t id);
void node_finish(struct sdi_player *p, struct queue *q, int32_t status);
const struct recording *node_client_read(const struct sdi_player *p, const struct node *node);
void nodes_complete(struct sdi_player *p);
bool nodes_await_client(struct sdi_player *p);
bool recording_writes_host(const struct recording *r);
bool recording_awaits_copies(const struct sdi_player *p, const struct recording *r);
bool recording_awaits_client(const struct sdi_player *p, const struct recording *r);
bool recording_may_execute(struct sdi_player *p, const struct recording *r);
int recording_execute(struct sdi_player *p, struct recording *r, struct node *node, const char *record);
int recording_perform(struct sdi_player *p, struct recording *r, struct op *op, struct node *node,
                      const char *record);
bool recording_may_move(const struct sdi_player *p, const struct recording *r);
void recording_counts(struct sdi_player *p, struct recording *r, struct node *node, int status);
const char *copy_of_member(const struct watched *, uint32_t k);
enum taken attempt_take(struct sdi_player *p);
void attempt_fails(struct sdi_player *p);
void node_take_back(struct sdi_player *p, struct node *node);
int player_look(struct sdi_player *p);
enum taken record_take(struct sdi_player *p, uint32_t op, uint64_t id, const char *record, size_t nbytes);
bool record_is_known(struct sdi_player *p, uint32_t op, const char *record, size_t nbytes);
enum why buffer_recycle(struct sdi_player *p, uint64_t id, const char *record, size_t nbytes);
enum why buffer_reuse(struct sdi_player *p, uint64_t id, const char *record, size_t nbytes);
void buffers_complete(struct sdi_player *p);
bool player_is_posted(const struct sdi_player *p);
void record_count(struct sdi_player *p, uint32_t op, enum why why);

uint64_t record_hash(const char *data, const uint8_t *mask, size_t nbytes);
struct form *form_find(struct sdi_player *, uint32_t op, uint64_t build, uint32_t index, uint32_t nbytes, bool make);
struct recording *recording_find(struct sdi_player *, uint32_t op, const char *record, size_t nbytes);
bool recording_holds(const struct sdi_player *, const struct recording *);
void recordings_free(struct sdi_player *);

#define API __attribute__((visibility("default")))

struct sdi_player *sdi_player_new(int commands, int notices, void *arena, uint32_t *cells, struct segment *segments,
                                  uint64_t *released);
void sdi_player_free(struct sdi_player *);
void sdi_player_merge(struct watched *);
void sdi_player_merged(struct sdi_player *, uint32_t number, uint32_t i, uint64_t *counts);
void sdi_player_drivers(struct sdi_player *, const struct cuda_table *, const struct opencl_table *);
int sdi_player_lane(struct sdi_player *, uint32_t driver, void *context, void *stream);
int sdi_player_streams(struct sdi_player *, void *const *streams);
uint32_t sdi_player_way(const struct sdi_player *);
void sdi_player_queue(struct sdi_player *, uint64_t id, bool is_playable, bool is_timed, bool launches);
int64_t sdi_player_add(struct sdi_player *, const struct given *);
void sdi_player_drop_all(struct sdi_player *);
int sdi_player_run(struct sdi_player *, bool may_play);
void sdi_player_offer_ring(struct sdi_player *);
bool sdi_player_is_told(const struct sdi_player *);
bool sdi_player_may_sleep(struct sdi_player *);
void sdi_player_poke(struct sdi_player *);
void sdi_player_hang_bell(struct sdi_player *);
const char *sdi_player_record(struct sdi_player *, uint64_t *nbytes, uint64_t *left);
void sdi_player_waited(struct sdi_player *, bool gave_up);
uint32_t sdi_player_nodes(struct sdi_player *, struct node_told *);
uint32_t sdi_player_played(struct sdi_player *, uint64_t *pairs);
uint32_t sdi_player_reports(struct sdi_player *, struct report *);
int sdi_player_profiled(struct sdi_player *, uint32_t lines);
uint32_t sdi_player_logged(struct sdi_player *, const struct logged **log);
uint32_t sdi_player_released(struct sdi_player *);
uint32_t sdi_player_undone(struct sdi_player *);
uint64_t sdi_player_moved(struct sdi_player *, uint32_t number, uint32_t op);
bool sdi_player_buffer(struct sdi_player *, uint64_t id, uint32_t state, uint32_t stage, const uint32_t *fresh);
void sdi_player_no_buffer(struct sdi_player *, uint64_t id);
void sdi_player_buffer_segment(struct sdi_player *, uint64_t id, uint32_t segment);
uint32_t sdi_player_recycled(struct sdi_player *, struct recycled *told, bool takes_over);
uint64_t sdi_player_records(const struct sdi_player *, uint32_t op, uint32_t why);
void sdi_player_handed_over(struct sdi_player *, uint32_t num_segments);

#endif
