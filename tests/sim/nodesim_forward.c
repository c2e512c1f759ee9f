/* Writes that a client's node sends on to whoever leads, with numbers (cluster/once.h), as server/relay_round.c does.
 *
 * A write goes in rounds. If nobody can tell what became of it, it goes again with the same number: whoever leads then knows whether it has happened, and it happens once. But if its key is another group's by then, which has no
 * record of it, nobody will ever know. A node that starts again uses the slots of its life before, in another session. */
#include "base/check.h"
#include "base/mem.h"
#include "nodesim_own.h"

enum { ROUND_MS = 150, FORWARD_MS = 3000, PAUSE_MS = 50 };

struct forward {
    struct forward *next;
    struct nodesim_node *node;
    struct nodesim_request request;
    uint64_t id, deadline;
    uint32_t group; /* of the round before */
    bool unsure;    /* it may have happened */
    struct ticket ticket;
};

struct nodesim_forward_node {
    struct forward *first;
    uint64_t session, last; /* last: number */
};

/* ---- ends */

static void free_forward(struct forward *f)
{
    struct forward **at = &f->node->forwards->first;
    while (*at != f) at = &(*at)->next;
    *at = f->next;
    mem_free(f);
}

static void settle(struct forward *f, enum nodesim_status status, struct slice reply)
{
    struct nodesim *s = f->node->sim;
    nodesim_client_tell(s, f->request.client, f->request.attempt, status, reply);
    s->result->forwarded += status == NODESIM_DONE;
    s->result->sent_again += status == NODESIM_DONE && f->unsure;
    free_forward(f);
}

/* ---- rounds */

static void pause(struct forward *f)
{
    struct nodesim_node *n = f->node;
    world_after(n->sim->w, n->id, 1 + rng_below(nodesim_rng(n), PAUSE_MS * WORLD_MS), NODESIM_FORWARD, f->id);
}

static void answered(void *ctx, uint64_t arg, const struct txn_answer *answers, uint32_t n)
{
    struct forward *f = ctx;
    if (answers[0].fate == TXN_ANSWERED) {
        settle(f, NODESIM_DONE, answers[0].reply);
        return;
    }
    f->unsure |= answers[0].fate == TXN_MAY_BE_DONE;
    pause(f);
}

static void send(struct forward *f, const struct slice *argv, uint32_t group)
{
    struct nodesim_node *n = f->node;
    const struct nodesim_call call = {.done = answered, .ctx = f, .db = f->request.db};
    const struct txn_request r = {.group = group, .argv = argv, .argc = f->request.argc};
    struct ticket fence;
    task_fence(n->engine, command_find_any(n->sim->commands, argv[0]), argv, r.argc, &fence);
    f->ticket.map = fence.map;
    f->ticket.range = fence.range;
    f->ticket.generation = fence.generation;
    f->ticket.group = f->group = group;
    f->ticket.again = f->unsure;
    nodesim_leg_send_numbered(n, &call, &r, &f->ticket, ROUND_MS);
}

static void begin_round(struct forward *f)
{
    const struct nodesim_node *n = f->node;
    const struct route *route = &n->engine->route;
    const struct space_map *m = route_map(route);
    struct slice argv[NODESIM_WORDS];
    for (uint32_t i = 0; i < f->request.argc; i++) argv[i] = slice_str(f->request.words[i]);
    uint32_t group = m ? spaces_shard(m, argv[1], keyhash(argv[1], route->seed)) : TXN_NO_GROUP;
    bool late = world_now(n->sim->w) >= f->deadline;
    if (f->unsure && (late || group != f->group)) settle(f, NODESIM_UNCERTAIN, SLICE(""));
    else if (late) settle(f, NODESIM_BOUNCED, SLICE(""));
    else if (group == TXN_NO_GROUP) pause(f);
    else send(f, argv, group);
}

/* ---- */

/* No other write of this node has it now. */
static uint32_t free_slot(const struct nodesim_forward_node *all)
{
    uint32_t slot = 1;
    for (const struct forward *f = all->first; f;) {
        bool taken = f->ticket.slot == slot;
        slot += taken;
        f = taken ? all->first : f->next;
    }
    return slot;
}

void nodesim_forward_begin(struct nodesim_node *n, const struct nodesim_request *r)
{
    struct nodesim_forward_node *all = n->forwards;
    struct forward *f = mem_zalloc(sizeof *f);
    *f = (struct forward){.next = all->first, .node = n, .request = *r, .id = ++all->last, .deadline = world_now(n->sim->w) + FORWARD_MS * WORLD_MS};
    f->ticket = (struct ticket){.node = n->id, .slot = free_slot(all), .session = all->session, .seq = f->id};
    all->first = f;
    begin_round(f);
}

void nodesim_forward_go_on(struct nodesim_node *n, uint64_t id)
{
    struct forward *f = n->forwards->first;
    while (f && f->id != id) f = f->next;
    if (f) begin_round(f);
}

void nodesim_forward_open(struct nodesim_node *n)
{
    n->forwards = mem_zalloc(sizeof *n->forwards);
    n->forwards->session = rng_u64(nodesim_rng(n));
}

void nodesim_forward_close(struct nodesim_node *n)
{
    while (n->forwards->first) free_forward(n->forwards->first);
    mem_free(n->forwards);
}
