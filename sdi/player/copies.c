/* Copies to and from memory of this process, in which OpenCL members compute: the player makes short ones itself once the lane
 * has done what is before them, so that no thread of the driver has to wake.  What is given to the lane before that has
 * happened comes behind them: then the driver makes them after all. */
#include "player.h"

#include <string.h>

enum { NEAR_NBYTES = 256 << 10, NEAR_MAX = 16 }; /* what is larger threads of the driver copy beside the player */

struct own_copy copy_by(const struct op *op)
{
    return (struct own_copy){.kind = op->kind, .object = op->object, .other = op->other, .to = op->to, .from = op->from,
                             .nbytes = op->nbytes, .near = op->near, .near_other = op->near_other,
                             .num_runs = op->num_runs, .to_pitch = op->to_pitch, .from_pitch = op->from_pitch};
}

bool copy_is_near(const struct lane *lane, const struct op *op)
{
    if (op->nbytes > NEAR_NBYTES || !op->near || lane->num_own == NEAR_MAX)
        return false;
    return op->kind == OP_UPLOAD || op->kind == OP_DOWNLOAD || (op->kind == OP_COPY && op->near_other);
}

/* It is the lane's next operation. */
void copy_keep(struct lane *lane, const struct recording *r, const struct op *op, uint32_t node)
{
    lane->issued++;
    lane->num_own++;
    lane_put_mark(lane, NULL, NULL, node, (uint32_t)(op - r->ops))->copy = copy_by(op);
}

/* `count`: 0 for one run, of all the bytes. */
static void copy_runs(uint64_t to, uint64_t from, uint64_t nbytes, uint64_t count, uint64_t to_pitch, uint64_t from_pitch)
{
    count = count ? count : 1;
    for (uint64_t i = 0; i < count; i++)
        memmove((void *)(uintptr_t)(to + i * to_pitch), (const void *)(uintptr_t)(from + i * from_pitch), nbytes / count);
}

/* What is before it is done. */
void copy_make(struct lane *lane, struct own_copy *copy)
{
    const uint64_t to = copy->kind == OP_DOWNLOAD ? copy->to : copy->near + copy->to;
    const uint64_t from_near = copy->kind == OP_COPY ? copy->near_other : copy->near;
    const uint64_t from = copy->kind == OP_UPLOAD ? copy->from : from_near + copy->from;
    if (copy->is_given_up)
        return;
    copy->began_ns = sdi_player_now();
    copy_runs(to, from, copy->nbytes, copy->num_runs, copy->to_pitch, copy->from_pitch);
    copy->ended_ns = sdi_player_now();
    lane->num_own--;
}

/* Between two members, each of which has done what uses these bytes (`recording_may_execute`): no lane has to know. */
void copy_now(struct sdi_player *p, const struct recording *r, const struct op *op, const struct node *node)
{
    const uint64_t began_ns = p->log ? sdi_player_now() : 0;
    copy_runs(op->near + op->to, op->near_other + op->from, op->nbytes, op->num_runs, op->to_pitch, op->from_pitch);
    if (p->log)
        profile_operation(p, node, (uint32_t)(op - r->ops), began_ns, sdi_player_now());
}

static int give_rows(const struct sdi_player *p, struct lane *lane, const struct own_copy *copy, void **event)
{
    const struct opencl_table *cl = &p->opencl;
    const size_t region[3] = {copy->nbytes / copy->num_runs, copy->num_runs, 1}, nowhere[3] = {0, 0, 0};
    const size_t to[3] = {copy->to, 0, 0}, from[3] = {copy->from, 0, 0};
    const size_t to_pitch = copy->to_pitch, from_pitch = copy->from_pitch;
    switch (copy->kind) {
    case OP_UPLOAD:
        return cl->upload_rows(lane->stream, copy->object, 0, to, nowhere, region, to_pitch, 0, from_pitch, 0,
                               (const void *)(uintptr_t)copy->from, 0, NULL, event);
    case OP_DOWNLOAD:
        return cl->download_rows(lane->stream, copy->object, 0, from, nowhere, region, from_pitch, 0, to_pitch, 0,
                                 (void *)(uintptr_t)copy->to, 0, NULL, event);
    default:
        return cl->copy_rows(lane->stream, copy->other, copy->object, from, to, region, from_pitch, 0, to_pitch, 0, 0, NULL,
                             event);
    }
}

int copy_give(const struct sdi_player *p, struct lane *lane, const struct own_copy *copy, void **event)
{
    lane->unflushed = true;
    if (copy->num_runs)
        return give_rows(p, lane, copy, event);
    switch (copy->kind) {
    case OP_UPLOAD:
        return p->opencl.upload(lane->stream, copy->object, 0, copy->to, copy->nbytes, (const void *)(uintptr_t)copy->from, 0,
                                NULL, event);
    case OP_DOWNLOAD:
        return p->opencl.download(lane->stream, copy->object, 0, copy->from, copy->nbytes, (void *)(uintptr_t)copy->to, 0, NULL,
                                  event);
    default:
        return p->opencl.copy(lane->stream, copy->other, copy->object, copy->from, copy->to, copy->nbytes, 0, NULL, event);
    }
}

/* Give the driver all that the player has not copied yet; a driver's error. */
int copies_give(const struct sdi_player *p, struct lane *lane)
{
    for (; lane->num_own; lane->num_own--) {
        struct mark *mark = lane_mark_at(lane, lane->num_marks - lane->num_own);
        int status = copy_give(p, lane, &mark->copy, &mark->event);
        if (status)
            return status;
    }
    return 0;
}

/* None of them is made any more. */
void copies_give_up(struct lane *lane)
{
    for (; lane->num_own; lane->num_own--)
        lane_mark_at(lane, lane->num_marks - lane->num_own)->copy.is_given_up = true;
}
