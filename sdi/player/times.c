/* When members ran what a command came to, on the clock of this machine. */
#include "player.h"

#define ANCHOR_MAX_NS 10e9 /* beyond that a float of milliseconds says too little */
#define ANCHOR_OFF_NS UINT64_C(50000000) /* what seems to have ended so long before it was seen running: clocks drifted */
#define SHORT_NS UINT64_C(1000000) /* what takes longer is worth splitting although others ran beside it */
#define KEPT_NS UINT64_C(10000000) /* others are told when there are some, or so long after the first one: while Python
                                    * learns from them nobody sees commands end */
enum { KEPT_MOST = 64 };

/* Whether other streams of its member may have had something to do while a short operation ran: then its time says nothing of
 * what it would take alone. */
static bool is_shared(const struct sdi_player *p, const struct lane *lane, const struct mark *mark, uint64_t took_ns)
{
    return lane->driver == DRIVER_CUDA && took_ns < SHORT_NS
           && (mark->beside == BUSY || lane_beside(p, (unsigned)(lane - p->lanes)) != mark->beside);
}

static void report(struct sdi_player *p, const struct lane *lane, const struct mark *mark, uint64_t began_ns, uint64_t ended_ns)
{
    const struct node *node = &p->nodes[mark->node - 1];
    if (p->num_reports == REPORTS_MAX)
        return;
    if (is_shared(p, lane, mark, ended_ns - began_ns))
        began_ns = ended_ns;
    if (!p->num_reports)
        p->report_since_ns = sdi_player_now();
    p->report_soon |= ended_ns - began_ns >= SHORT_NS;
    p->reports[p->num_reports++] = (struct report){node->id, node->recording, mark->op, began_ns, ended_ns};
}

bool reports_are_due(const struct sdi_player *p)
{
    return p->num_reports
           && (p->report_soon || p->num_reports >= KEPT_MOST || sdi_player_now() - p->report_since_ns > KEPT_NS);
}

/* The recording of a command that is in flight; one that Python finishes may have lost its own. */
static struct recording *recording_of(struct sdi_player *p, const struct node *node)
{
    return node->untold ? NULL : &p->recordings[node->recording];
}

/* When operation `op` of a command ran. */
static void tell_node(struct sdi_player *p, struct node *node, uint32_t op, uint64_t began_ns, uint64_t ended_ns)
{
    const struct recording *r = recording_of(p, node);
    if (began_ns < node->submitted_ns)
        began_ns = node->submitted_ns;
    if (ended_ns < began_ns)
        ended_ns = began_ns;
    profile_operation(p, node, op, began_ns, ended_ns);
    if (!node->is_timed || !r || !op_counts(r, &r->ops[op]))
        return;
    if (!node->ended_ns || began_ns < node->began_ns)
        node->began_ns = began_ns;
    if (ended_ns > node->ended_ns)
        node->ended_ns = ended_ns;
}

static void tell(struct sdi_player *p, const struct lane *lane, const struct mark *mark, uint64_t began_ns, uint64_t ended_ns)
{
    struct node *node = &p->nodes[mark->node - 1];
    struct recording *r = recording_of(p, node);
    const bool counts = r && op_counts(r, &r->ops[mark->op]);
    if (node->is_measured && counts)
        report(p, lane, mark, began_ns, ended_ns);
    if (node->is_surveyed && counts)
        streams_surveyed(r, &r->ops[mark->op], ended_ns - began_ns);
    tell_node(p, node, mark->op, began_ns, ended_ns);
}

/* When the driver says that an operation ran; false: it does not. */
static bool opencl_asked(struct sdi_player *p, const struct mark *mark, uint64_t *start, uint64_t *end)
{
    return !p->opencl.event_times(mark->event, CL_PROFILING_COMMAND_START, sizeof *start, start, NULL)
           && !p->opencl.event_times(mark->event, CL_PROFILING_COMMAND_END, sizeof *end, end, NULL);
}

/* What an operation usually takes: the least that the driver has said, unless that has changed. */
static uint64_t usual(uint64_t before_ns, uint64_t took_ns)
{
    const uint64_t most = before_ns + before_ns / 8 + 1;
    return !before_ns || took_ns < most ? took_ns : most;
}

static void learn(struct sdi_player *p, const struct mark *mark)
{
    const bool is_there = mark->launch && mark->launch <= p->num_recordings;
    const struct recording *r = is_there ? &p->recordings[mark->launch - 1] : NULL;
    uint64_t start = 0, end = 0;
    if (!r || mark->op >= r->num_ops || !opencl_asked(p, mark, &start, &end))
        return;
    r->ops[mark->op].took_ns = usual(r->ops[mark->op].took_ns, end - start);
}

/* None ended after it was seen, or began before it was issued. */
static void opencl_times(struct sdi_player *p, struct lane *lane, unsigned marks, const struct mark *last)
{
    const uint64_t now = sdi_player_now();
    uint64_t start = 0, end = 0;
    if (last && opencl_asked(p, last, &start, &end) && (!lane->has_offset || (int64_t)end + lane->offset_ns > (int64_t)now)) {
        lane->offset_ns = (int64_t)now - (int64_t)end;
        lane->has_offset = true;
    }
    for (unsigned n = 0; n < marks; n++) {
        const struct mark *mark = lane_mark_at(lane, n);
        if (mark->node && !mark->event)
            tell(p, lane, mark, mark->copy.began_ns, mark->copy.ended_ns);
        if (!mark->node || !mark->event || !opencl_asked(p, mark, &start, &end))
            continue;
        const uint64_t issued = p->nodes[mark->node - 1].submitted_ns;
        if ((int64_t)start + lane->offset_ns < (int64_t)issued)
            lane->offset_ns = (int64_t)issued - (int64_t)start;
        tell(p, lane, mark, start + (uint64_t)lane->offset_ns, end + (uint64_t)lane->offset_ns);
    }
}

static double elapsed_ns(struct sdi_player *p, void *from, void *to)
{
    float ms = -1;
    return p->cuda.event_elapsed(&ms, from, to) || ms < 0 ? -1 : ms * 1e6;
}

/* Where the last of some operations that were seen to be complete together ended: by the last one before it of which that
 * is known, if that is not long ago. */
static uint64_t cuda_last(struct sdi_player *p, const struct lane *lane, void *last, uint64_t now)
{
    const double took = lane->anchor ? elapsed_ns(p, lane->anchor, last) : -1;
    if (took < 0 || took >= ANCHOR_MAX_NS)
        return now;
    const uint64_t end = lane->anchor_ns + (uint64_t)took;
    return end + ANCHOR_OFF_NS < lane->running_ns ? now : end;
}

/* How long the operation of a mark took, which ended so long before the last one: at most, where that is since the one before
 * it ended. */
static double cuda_took(struct sdi_player *p, struct lane *lane, unsigned n, double before)
{
    const struct mark *mark = lane_mark_at(lane, n);
    if (mark->begin || !n)
        return elapsed_ns(p, mark->begin ? mark->begin : lane->anchor, mark->event);
    const double earlier = (double)lane_mark_at(lane, n - 1)->before_ns;
    return before < 0 || earlier <= 0 ? -1 : earlier - before;
}

static void cuda_learn(struct sdi_player *p, const struct mark *mark, uint64_t took_ns)
{
    struct recording *r = recording_of(p, &p->nodes[mark->node - 1]);
    if (r && took_ns)
        r->ops[mark->op].took_ns = usual(r->ops[mark->op].took_ns, took_ns);
}

/* When an operation began: no earlier than it was given. */
static uint64_t begin_of(uint64_t at_ns, uint64_t given_ns, uint64_t ended_ns)
{
    const uint64_t given = given_ns < ended_ns ? given_ns : ended_ns;
    return at_ns < given ? given : at_ns;
}

/* Of operations that ran one after the other it is known when the first one began and the last one ended: each has its usual
 * part of that, unless the lane had too little to do, where each but the last takes what it usually does. */
static void cuda_divide(struct sdi_player *p, struct lane *lane, const struct mark *mark, unsigned first, uint64_t ended_ns)
{
    uint64_t sum = mark->usual_ns;
    for (unsigned n = 0; n < mark->num_unmarked; n++)
        sum += lane_unmarked_at(lane, first + n)->usual_ns;
    const uint64_t took = mark->took_ns ? mark->took_ns : sum;
    uint64_t at = begin_of(took < ended_ns ? ended_ns - took : 0, lane_unmarked_at(lane, first)->given_ns, ended_ns);
    const bool is_idle = mark->given_ns > at && ended_ns - at > sum;
    const double part = is_idle ? 1 : (double)(ended_ns - at) / (double)sum;
    for (unsigned n = 0; n < mark->num_unmarked; n++) {
        const struct unmarked *one = lane_unmarked_at(lane, first + n);
        const uint64_t began = begin_of(at, one->given_ns, ended_ns), left = ended_ns - began;
        const uint64_t own = (uint64_t)((double)one->usual_ns * part);
        at = began + (own < left ? own : left);
        tell_node(p, &p->nodes[one->node - 1], one->op, began, at);
    }
    tell(p, lane, mark, begin_of(at, mark->given_ns, ended_ns), ended_ns);
}

/* None ended after it was seen, or began before it was issued: else the clocks have drifted apart. */
static void cuda_times(struct sdi_player *p, struct lane *lane, unsigned marks, void *last)
{
    const uint64_t now = sdi_player_now();
    uint64_t last_ns = cuda_last(p, lane, last, now);
    for (unsigned n = 0; n < marks; n++) {
        struct mark *mark = lane_mark_at(lane, n);
        if (!mark->node)
            continue;
        const double before = mark->event == last ? 0 : elapsed_ns(p, mark->event, last), took = cuda_took(p, lane, n, before);
        mark->took_ns = took > 0 ? (uint64_t)took : 0;
        mark->before_ns = before > 0 ? (uint64_t)before : 0;
        const uint64_t at_least = mark->begin ? mark->took_ns : 0;
        const uint64_t least = p->nodes[mark->node - 1].submitted_ns + at_least + mark->before_ns;
        if (took > 0 && before >= 0 && last_ns < least)
            last_ns = least;
    }
    last_ns = last_ns > now ? now : last_ns;
    unsigned unmarked = 0;
    for (unsigned n = 0; n < marks; n++) {
        const struct mark *mark = lane_mark_at(lane, n);
        const uint64_t end = last_ns - mark->before_ns;
        uint64_t began = end - mark->took_ns;
        const bool is_since = !mark->begin && began < mark->given_ns; /* with the time that it took to begin */
        if (is_since) {
            const uint64_t usually = mark->usual_ns && mark->usual_ns < end ? end - mark->usual_ns : 0;
            began = begin_of(usually, mark->given_ns, end);
        }
        if (mark->num_unmarked) {
            cuda_divide(p, lane, mark, unmarked, end);
        } else if (mark->node) {
            if (!is_since)
                cuda_learn(p, mark, end - began);
            tell(p, lane, mark, began, end);
        }
        unmarked += mark->num_unmarked;
    }
    lane->anchor_ns = last_ns;
}

/* The first `marks` of a lane are complete: tell the commands that want to know. */
void lane_times(struct sdi_player *p, struct lane *lane, unsigned marks)
{
    struct mark *last = NULL;
    bool is_wanted = false;
    if (lane->driver == DRIVER_OPENCL)
        learn(p, lane_mark_at(lane, marks - 1));
    for (unsigned n = 0; n < marks; n++) {
        struct mark *mark = lane_mark_at(lane, n);
        is_wanted |= mark->node > 0;
        if (mark->node && mark->event)
            last = mark;
    }
    if (!is_wanted)
        return;
    if (lane->driver == DRIVER_OPENCL) {
        opencl_times(p, lane, marks, last);
        return;
    }
    cuda_times(p, lane, marks, last->event);
    lane_anchor(p, lane, last);
}
