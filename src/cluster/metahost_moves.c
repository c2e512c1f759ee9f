/* Operations that carry keys: their plans are made of group 1's state, the same by whoever leads it. While one is planned or walks, the map has the routing that its keys come from, and nothing else changes that. */
#include "base/mem.h"
#include "cluster/metahost_own.h"

/* ---- plans. Each has its pieces in an array of its own, those of the old side first; what they point to is the map's or the operation's, until the plan is copied */

/* All of it goes from one group to another. */
static void plan_whole(const struct metaops_plan *p, struct holding_plan *plan, struct holding_piece *pieces)
{
    pieces[0] = (struct holding_piece){plan->end, p->group};
    pieces[1] = (struct holding_piece){plan->end, p->other};
    plan->old_side = (struct holding_side){.n = 1, .pieces = pieces};
    plan->new_side = (struct holding_side){.n = 1, .pieces = pieces + 1};
}

static void plan_move(const struct space_map *map, const struct metaops_plan *p, struct holding_plan *plan, struct holding_piece *pieces)
{
    const struct range_desc *d = spaces_range_by_id(map, p->range, NULL);
    CHECK(d);
    plan->start = d->start;
    plan->end = d->end;
    plan_whole(p, plan, pieces);
}

/* The upper half, which is cut off when the operation begins to walk. */
static void plan_split(const struct space_map *map, const struct metaops_op *op, struct holding_plan *plan, struct holding_piece *pieces)
{
    const struct metaops_plan *p = &op->plan;
    uint64_t id = op->step == METAOPS_PLANNED ? p->range : p->range2;
    const struct hash_desc *h = p->of_hash ? spaces_hash_by_id(map, id) : NULL;
    const struct range_desc *d = p->of_hash ? NULL : spaces_range_by_id(map, id, NULL);
    CHECK(h || d);
    plan->of_hash = p->of_hash;
    if (h) {
        plan->first = p->hash;
        plan->last = h->last;
    } else {
        plan->start = p->key;
        plan->end = d->end;
    }
    plan_whole(p, plan, pieces);
}

/* A side whose routing has no ranges: by the hash of the keys, or of the space's name. */
static struct holding_side side_without_ranges(const struct space_map *map, struct slice space, enum space_mode mode, struct holding_piece *piece)
{
    if (mode == SPACE_HASH) return (struct holding_side){.hashed = true};
    *piece = (struct holding_piece){.group = metahost_spaces_home(map, space)};
    return (struct holding_side){.n = 1, .pieces = piece};
}

static void plan_mode(const struct space_map *map, const struct metaops_plan *p, struct holding_plan *plan, struct holding_piece *pieces)
{
    const struct space *s = spaces_find(map, p->space);
    struct space_info info;
    spaces_info(map, p->space, &info);
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        pieces[i] = (struct holding_piece){d->end, d->shard};
    }
    plan->old_side = info.n_ranges ? (struct holding_side){.n = info.n_ranges, .pieces = pieces} : side_without_ranges(map, p->space, info.mode, pieces);
    pieces += plan->old_side.n;
    for (uint32_t i = 0; i < p->n_ranges; i++) pieces[i] = (struct holding_piece){p->ranges[i].end, p->ranges[i].group};
    plan->new_side = p->n_ranges ? (struct holding_side){.n = p->n_ranges, .pieces = pieces} : side_without_ranges(map, p->space, p->mode, pieces);
}

/* How many pieces both sides have, at most. */
static uint32_t room_for_pieces(const struct space_map *map, const struct metaops_plan *p)
{
    struct space_info info;
    spaces_info(map, p->space, &info);
    return info.n_ranges + p->n_ranges + 2;
}

/* A copy that owes nothing to the state. */
static void copy(struct metahost_moves *m, struct mover_op *to, const struct holding_plan *plan)
{
    struct buf *bytes = &m->plans[m->n];
    holding_plan_encode(bytes, plan);
    CHECK(holding_plan_decode(buf_slice(bytes), &to->plan, &m->pieces[m->n]) == 0);
}

static void add_op(struct metahost_moves *m, const struct metagroups *g, const struct metaops_op *op)
{
    struct mover_op *to = &m->ops[m->n];
    struct holding_plan plan = {.op = op->id, .space = op->plan.space};
    *to = (struct mover_op){.plan.op = op->id, .step = op->step, .groups = m->groups, .n_groups = m->n_groups};
    if (op->step != METAOPS_CARRIED) {
        struct holding_piece *pieces = mem_zalloc(room_for_pieces(g->map, &op->plan) * sizeof *pieces);
        if (op->plan.kind == METAOPS_MOVE_RANGE) plan_move(g->map, &op->plan, &plan, pieces);
        else if (op->plan.kind == METAOPS_SPLIT) plan_split(g->map, op, &plan, pieces);
        else plan_mode(g->map, &op->plan, &plan, pieces);
        copy(m, to, &plan);
        mem_free(pieces);
    }
    m->n++;
}

static void add_groups(struct metahost_moves *m, const struct metagroups *g)
{
    m->groups = mem_alloc((g->n + 1) * sizeof *m->groups);
    for (uint32_t i = 0; i < g->n; i++)
        if (g->groups[i].id >= META_FIRST_DATA_GROUP) m->groups[m->n_groups++] = g->groups[i].id;
}

struct metahost_moves *metahost_moves(const struct metahost *h)
{
    struct metahost_moves *m = mem_zalloc(sizeof *m);
    const struct metagroups *g = h->groups;
    const struct metahost_group *own = metahost_peers_group_known(h, META_MAP_GROUP);
    if (h->failed || !g->map || !own || !own->here || own->state != RAFTNODE_LEADER) return m;
    m->term = own->term;
    m->map = spaces_ref(g->map);
    m->ops = mem_zalloc((g->n_ops + 1) * sizeof *m->ops);
    m->plans = mem_zalloc((g->n_ops + 1) * sizeof *m->plans);
    m->pieces = mem_zalloc((g->n_ops + 1) * sizeof *m->pieces);
    add_groups(m, g);
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (metahost_spaces_carries(h, g->ops[i])) add_op(m, g, g->ops[i]);
    return m;
}

void metahost_moves_free(struct metahost_moves *m)
{
    for (uint32_t i = 0; i < m->n; i++) {
        buf_fini(&m->plans[i]);
        mem_free(m->pieces[i]);
    }
    spaces_unref(m->map);
    mem_free(m->ops);
    mem_free(m->plans);
    mem_free(m->pieces);
    mem_free(m->groups);
    mem_free(m);
}

/* ---- steps */

struct telling {
    void (*done)(void *ctx, uint64_t version);
    void *ctx;
};

static void told(struct metahost *h, void *ctx, const struct meta_result *r)
{
    struct telling *t = ctx;
    bool is_so = r && (r->code == META_DONE || r->code == META_SAME);
    t->done(t->ctx, is_so ? h->groups->map->version : 0);
    mem_free(t);
}

void metahost_step(struct metahost *h, uint64_t op, enum metaops_step from, enum metaops_step to, struct slice boundary, uint32_t timeout_ms, void (*done)(void *ctx, uint64_t version), void *ctx)
{
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    e.step.op = op;
    e.step.from = from;
    e.step.to = to;
    e.step.boundary = boundary;
    metahost_ask_propose(h, &e, METAHOST_ASK_OP, op, timeout_ms, told, mem_dup(&(struct telling){done, ctx}, sizeof(struct telling)));
}
