/* What a profile is told: which commands were executed, and when what of them ran.  Python reads it now and then, and
 * writes it down as it is (sdi/profile/analyse/replayed.py says what it means). */
#include "player.h"

#include <stdlib.h>

enum { KEEP_NS = 20000000 }; /* so long it is kept back: what a service that is killed can lose */

enum { IN_FLIGHT_MAX = 2 * NODES_MAX + LANES_MAX * (MARKS_MAX + UNMARKED_MAX) + 64 };

/* So many lines are kept before Python is asked to read them: behind these there is room for all that is in flight, as
 * commands and operations are told of when they end. */
API int sdi_player_profiled(struct sdi_player *p, uint32_t lines)
{
    p->log_soon = lines;
    p->log = malloc((lines + IN_FLIGHT_MAX) * sizeof *p->log);
    return p->log ? 0 : -1;
}

static void add(struct sdi_player *p, uint32_t what, uint32_t which, uint64_t id, uint64_t began_ns, uint64_t ended_ns)
{
    if (!p->num_logged)
        p->log_since_ns = ended_ns;
    if (p->num_logged < p->log_soon + IN_FLIGHT_MAX)
        p->log[p->num_logged++] = (struct logged){what, which, id, began_ns, ended_ns};
}

/* What was told since the last call; it stays until the player runs again. */
API uint32_t sdi_player_logged(struct sdi_player *p, const struct logged **log)
{
    uint32_t count = p->num_logged;
    *log = p->log;
    p->num_logged = 0;
    return count;
}

/* Whether Python has to read it before anything else is executed. */
bool profile_is_full(const struct sdi_player *p)
{
    return p->num_logged > p->log_soon;
}

/* Whether it was kept back for long enough. */
bool profile_is_due(const struct sdi_player *p)
{
    return p->num_logged && (profile_is_full(p) || sdi_player_now() > p->log_since_ns + KEEP_NS);
}

void profile_operation(struct sdi_player *p, const struct node *node, uint32_t op, uint64_t began_ns, uint64_t ended_ns)
{
    if (p->log)
        add(p, op, node->profiled, node->id, began_ns, ended_ns);
}

/* A command is complete; or, without times, Python finishes it, and says when it ended. */
void profile_command(struct sdi_player *p, const struct node *node, uint64_t began_ns, uint64_t ended_ns)
{
    if (!p->log)
        return;
    add(p, LOG_COMMAND, node->profiled, node->id, node->submitted_ns, node->issued_ns);
    add(p, LOG_END, node->nbytes, p->queues[node->queue].id, began_ns, ended_ns);
}

/* A turn of the service: from a record that is there until no other one is.  It sleeps in none. */
void profile_turn_begins(struct sdi_player *p)
{
    if (p->log && !p->turn_ns)
        p->turn_ns = sdi_player_now();
}

/* `counts`: it did something. */
void profile_turn_ends(struct sdi_player *p, bool counts)
{
    if (p->turn_ns && counts)
        add(p, LOG_TURN, 0, 0, p->turn_ns, sdi_player_now());
    p->turn_ns = 0;
}
