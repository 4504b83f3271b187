/* When members ran what a command came to, on the clock of this machine. */
#include "player.h"

#define ANCHOR_MAX_NS 10e9 /* beyond that a float of milliseconds says too little */
#define ANCHOR_OFF_NS UINT64_C(50000000) /* what seems to have ended so long before it was seen running: clocks drifted */

static void tell(struct sdi_player *p, const struct mark *mark, uint64_t began_ns, uint64_t ended_ns)
{
    struct node *node = &p->nodes[mark->node - 1];
    if (node->is_measured && p->num_reports < REPORTS_MAX)
        p->reports[p->num_reports++] = (struct report){node->id, node->recording, mark->op, began_ns, ended_ns};
    if (!p->queues[node->queue].is_timed)
        return;
    if (began_ns < node->submitted_ns)
        began_ns = node->submitted_ns;
    if (ended_ns < began_ns)
        ended_ns = began_ns;
    if (!node->ended_ns || began_ns < node->began_ns)
        node->began_ns = began_ns;
    if (ended_ns > node->ended_ns)
        node->ended_ns = ended_ns;
}

/* Nothing starts before it was issued, or ends after it was seen to be complete. */
static void opencl_times(struct sdi_player *p, struct lane *lane, const struct mark *mark, uint64_t now)
{
    uint64_t start = 0, end = 0;
    if (p->opencl.event_times(mark->event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL)
        || p->opencl.event_times(mark->event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL))
        return;
    const uint64_t issued = p->nodes[mark->node - 1].submitted_ns;
    if (!lane->has_offset || (int64_t)end + lane->offset_ns > (int64_t)now)
        lane->offset_ns = (int64_t)now - (int64_t)end;
    if ((int64_t)start + lane->offset_ns < (int64_t)issued)
        lane->offset_ns = (int64_t)issued - (int64_t)start;
    lane->has_offset = true;
    tell(p, mark, start + (uint64_t)lane->offset_ns, end + (uint64_t)lane->offset_ns);
}

static double elapsed_ns(struct sdi_player *p, void *from, void *to)
{
    float ms = -1;
    return p->cuda.event_elapsed(&ms, from, to) || ms < 0 ? -1 : ms * 1e6;
}

/* An end is placed by the last one that is known, if that is not long ago; else by the last of those that were seen
 * to be complete together. */
static void cuda_times(struct sdi_player *p, struct lane *lane, const struct mark *mark, void *last, uint64_t now)
{
    uint64_t end = 0;
    double took = lane->anchor ? elapsed_ns(p, lane->anchor, mark->event) : -1;
    if (took >= 0 && took < ANCHOR_MAX_NS)
        end = lane->anchor_ns + (uint64_t)took;
    if (end > now)
        end = now;
    if (!end || end + ANCHOR_OFF_NS < lane->running_ns) {
        took = elapsed_ns(p, mark->event, last);
        end = took > 0 ? now - (uint64_t)took : now;
    }
    took = elapsed_ns(p, mark->begin, mark->event);
    tell(p, mark, took > 0 ? end - (uint64_t)took : end, end);
    lane->anchor_ns = end;
}

/* The first `marks` of a lane are complete: tell the commands that want to know. */
void lane_times(struct sdi_player *p, struct lane *lane, unsigned marks)
{
    void *last = NULL;
    for (unsigned n = 0; n < marks; n++)
        if (lane_mark_at(lane, n)->node)
            last = lane_mark_at(lane, n)->event;
    if (!last)
        return;
    const uint64_t now = sdi_player_now();
    for (unsigned n = 0; n < marks; n++) {
        struct mark *mark = lane_mark_at(lane, n);
        if (!mark->node)
            continue;
        if (lane->driver == DRIVER_OPENCL) {
            opencl_times(p, lane, mark, now);
            continue;
        }
        void *before = lane->anchor;
        cuda_times(p, lane, mark, last, now);
        lane->anchor = mark->event; /* stays until the next one */
        mark->event = NULL;
        if (before)
            lane_spare(p, lane, before);
    }
}
