/* Movers: keys go from group to group (cluster/mover.h), driven by the node that leads group 1; as server/movers.h has it.
 *
 * The mover is the worker's. What there is to drive it learns by way of the raft thread, and by that way it tells group 1 how far it is. Slices are of a few keys, so that there are several.
 *
 * Every request of a driver may be the moment when a fault strikes (nodesim_topology.c). */
#include <stdio.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/num.h"
#include "cluster/holding.h"
#include "cluster/mover.h"
#include "nodesim_own.h"

enum { LOOK_MS = 20, TELL_MS = 2000, SLICE_KEYS = 3, SLICE_BYTES = 200, PIECE_BYTES = 8, LATE_MS = 4000 };

/* What group 1 is to be told. */
struct word {
    uint32_t node;
    uint64_t op, version;
    enum metaops_step from, to;
    struct buf boundary;
};

struct nodesim_moves {
    struct word *words;
    uint32_t n, cap;
    uint64_t terms[NODESIM_OPS]; /* of an operation: the highest that any group has heard, for a mutant */
};

struct nodesim_mover_node {
    struct mover *mover;
    struct metahost_moves *found; /* by the raft thread; on its way to the worker */
    bool looks, leads;
    uint64_t look_at;
    struct mover_counts counted;
};

static uint64_t now_ms(void *ctx) { return world_now(((struct nodesim_node *)ctx)->sim->w) / WORLD_MS; }

/* ---- the host: groups */

static void count(struct nodesim_node *n)
{
    const struct mover_counts *c = mover_counts(n->mover->mover);
    struct nodesim_result *r = n->sim->result;
    r->slices += c->slices - n->mover->counted.slices;
    r->carried += c->keys - n->mover->counted.keys;
    r->large += c->large - n->mover->counted.large;
    n->mover->counted = *c;
}

static void answered(void *ctx, uint64_t op, const struct txn_answer *answers, uint32_t n)
{
    struct nodesim_node *node = ctx;
    mover_answered(node->mover->mover, op, answers, n);
    count(node);
}

/* A slice is of few keys. What goes along with it is often less than they are, and pieces of what does not are short. */
static void make_small(struct nodesim_node *n, struct slice *argv, uint32_t argc, char *word, size_t size)
{
    static const struct {
        const char *command;
        uint32_t arg, most;
    } small[] = {{"carry.measure", 2, SLICE_KEYS}, {"carry.freeze", 4, SLICE_BYTES}, {"carry.piece", 4, PIECE_BYTES}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        if (!slice_is(argv[0], small[i].command) || argc <= small[i].arg) continue;
        snprintf(word, size, "%u", 1 + (unsigned)rng_below(nodesim_rng(n), small[i].most));
        argv[small[i].arg] = slice_str(word);
    }
}

static void send(void *ctx, struct mover *m, uint64_t op, const struct txn_request *requests, uint32_t count, uint32_t timeout_ms)
{
    struct nodesim_node *n = ctx;
    const struct nodesim_call call = {.done = answered, .ctx = n, .arg = op};
    char words[NODESIM_GROUPS][12];
    struct txn_request *small = mem_dup(requests, count * sizeof *requests);
    CHECK(count <= NODESIM_GROUPS);
    for (uint32_t i = 0; i < count; i++) {
        struct slice *argv = mem_dup(requests[i].argv, requests[i].argc * sizeof *argv);
        make_small(n, argv, requests[i].argc, words[i], sizeof words[i]);
        small[i].argv = argv;
    }
    nodesim_leg_send(n, &call, small, count, timeout_ms);
    for (uint32_t i = 0; i < count; i++) mem_free((void *)small[i].argv);
    mem_free(small);
}

/* ---- the host: group 1 */

static void tell(void *ctx, struct mover *m, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    struct nodesim_node *n = ctx;
    struct nodesim_moves *all = n->sim->moves;
    if (all->n == all->cap) {
        all->cap = all->cap * 2 + 64;
        all->words = mem_resize(all->words, all->cap * sizeof *all->words);
    }
    struct word *w = &all->words[all->n];
    *w = (struct word){.node = n->id, .op = op, .from = from, .to = to};
    buf_add_slice(&w->boundary, boundary);
    world_trace(n->sim->w, n->id, "operation %llu: tells that it is %s, to %.*s", (unsigned long long)op, metaops_step_name(to), (int)boundary.n, boundary.n ? boundary.p : "");
    world_after(n->sim->w, n->id, 1 + rng_below(nodesim_rng(n), 100), NODESIM_MOVER_TELL, all->n++);
}

struct telling {
    struct nodesim_node *node;
    uint32_t word;
};

static void stepped(void *ctx, uint64_t version)
{
    struct telling t = *(struct telling *)ctx;
    mem_free(ctx);
    if (!t.node->meta) return; /* it ends */
    t.node->sim->moves->words[t.word].version = version;
    world_after(t.node->sim->w, t.node->id, 1 + rng_below(nodesim_rng(t.node), 200), NODESIM_MOVER_TOLD, t.word);
}

void nodesim_mover_raft(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    if (kind == NODESIM_MOVER_TELL) {
        const struct word *w = &n->sim->moves->words[arg];
        const struct telling t = {n, (uint32_t)arg};
        nodesim_topology_step(n, w->to);
        metahost_step(n->meta, w->op, w->from, w->to, buf_slice(&w->boundary), TELL_MS, stepped, mem_dup(&t, sizeof t));
    }
    if (kind == NODESIM_MOVER_LOOK) {
        struct rng *rng = nodesim_rng(n);
        n->mover->found = metahost_moves(n->meta);
        bool late = !n->mover->found->term && n->sim->admin && rng_below(rng, 2); /* it goes on though another leads by now */
        world_after(n->sim->w, n->id, 1 + rng_below(rng, late ? LATE_MS * WORLD_MS : 200), NODESIM_MOVER_FOUND, 0);
    }
}

/* ---- the worker's */

static void drive(struct nodesim_node *n)
{
    struct nodesim_mover_node *m = n->mover;
    struct metahost_moves *f = m->found;
    m->looks = false;
    m->found = NULL;
    bool deaf = n->sim->mutant == NODESIM_OLD_DRIVER && n->sim->admin && !f->term; /* it does not hear that another leads */
    if (!deaf) {
        m->leads = f->term != 0;
        mover_drive(m->mover, f->term, f->map, f->ops, f->n);
    }
    metahost_moves_free(f);
}

static void turn(struct nodesim_node *n)
{
    struct nodesim_mover_node *m = n->mover;
    uint64_t now = now_ms(n);
    if (mover_wakes_ms(m->mover) <= now) mover_turn(m->mover);
    if (m->looks || now < m->look_at || !(n->leads[META_MAP_GROUP] || m->leads)) return;
    m->looks = true;
    m->look_at = now + LOOK_MS;
    world_after(n->sim->w, n->id, 1 + rng_below(nodesim_rng(n), 100), NODESIM_MOVER_LOOK, 0);
}

void nodesim_mover_task(struct nodesim_node *n, enum nodesim_task kind, uint64_t arg)
{
    const struct word *w = kind == NODESIM_MOVER_TOLD ? &n->sim->moves->words[arg] : NULL;
    if (w) mover_told(n->mover->mover, w->op, w->version);
    if (kind == NODESIM_MOVER_FOUND) drive(n);
    if (kind == NODESIM_MOVER) world_after(n->sim->w, n->id, (10 + rng_below(nodesim_rng(n), 20)) * WORLD_MS, NODESIM_MOVER, 0);
    if (w || kind == NODESIM_MOVER_FOUND || kind == NODESIM_MOVER) turn(n);
}

void nodesim_mover_open(struct nodesim_node *n)
{
    n->mover = mem_zalloc(sizeof *n->mover);
    n->mover->mover = mover_new(&(struct mover_host){n, send, tell, now_ms});
    world_after(n->sim->w, n->id, 1, NODESIM_MOVER, 0);
}

void nodesim_mover_close(struct nodesim_node *n)
{
    if (n->mover->found) metahost_moves_free(n->mover->found);
    mover_free(n->mover->mover);
    mem_free(n->mover);
}

/* ---- planted bugs: what a group is asked is another thing */

/* An old driver is taken for the new one. */
static void make_new(struct nodesim *s, struct slice *argv, char *word, size_t size)
{
    uint64_t op, term;
    if (!num_parse_u64(argv[1], &op) || !num_parse_u64(argv[2], &term)) return;
    uint64_t *highest = &s->moves->terms[op % NODESIM_OPS];
    if (term > *highest) *highest = term;
    snprintf(word, size, "%llu", (unsigned long long)*highest);
    argv[2] = slice_str(word);
}

void nodesim_mover_spoil(struct nodesim *s, struct slice *argv, uint32_t argc, char *word, size_t size)
{
    if (s->mutant == NODESIM_OLD_DRIVER && argc > 3 && !slice_is(argv[0], "carry.measure")) make_new(s, argv, word, size);
    if (s->mutant == NODESIM_OLD_MAP && slice_is(argv[0], "carry.end")) argv[3] = SLICE("0");
}

/* ---- the whole */

void nodesim_mover_new(struct nodesim *s) { s->moves = mem_zalloc(sizeof *s->moves); }

void nodesim_mover_free(struct nodesim *s)
{
    for (uint32_t i = 0; i < s->moves->n; i++) buf_fini(&s->moves->words[i].boundary);
    mem_free(s->moves->words);
    mem_free(s->moves);
}

/* In the end nothing is under way, and each key is where the map says, and nowhere else. */
void nodesim_mover_check(struct nodesim *s, struct nodesim_node *leader, uint32_t group)
{
    struct seat_info info;
    const struct space_map *m = metahost_groups(leader->meta)->map;
    if (!seats_look(leader->seats, group, &info)) return;
    const struct shard *shard = &leader->engine->shards[info.shard];
    struct holding *h = leader->real->holding(leader->real->ctx, shard);
    if (holding_count(h)) world_fail(s->w, "group %u: operation %llu is still under way in the end", group, (unsigned long long)holding_at(h, 0)->plan.op);
    for (uint32_t i = 0; i < NODESIM_KEYS; i++) {
        char name[NODESIM_KEY_BYTES];
        struct place at;
        nodesim_key_name(name, i);
        struct slice key = slice_str(name);
        uint64_t hash = keyhash(key, leader->engine->route.seed);
        store_peek(shard->store, 0, hash, key, &at);
        if (at.e && spaces_shard(m, key, hash) != group) world_fail(s->w, "group %u has key %s, which is group %u's", group, name, spaces_shard(m, key, hash));
    }
}
