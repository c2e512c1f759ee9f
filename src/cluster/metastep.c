/* The table of steps is in metaops.h; here is what each does to the map and to the members that are wanted. A step that the map refuses changes nothing. */
#include "cluster/metastep.h"

#include <inttypes.h>

#include "base/mem.h"

/* A change of the map in several calls, which is made whole or not at all. */
struct change {
    struct space_map *map; /* so far; NULL: refused */
    enum spaces_error error;
    struct buf why;
};

static void change_begin(struct change *c, const struct metagroups *m) { *c = (struct change){.map = spaces_ref(m->map)}; }

static void change_to(struct change *c, struct space_map *next)
{
    spaces_unref(c->map);
    c->map = next;
}

static bool change_end(struct change *c, struct metagroups *m, struct meta_result *r)
{
    if (!c->map) return metagroups_map_refuses(r, c->error, &c->why);
    spaces_unref(m->map);
    m->map = c->map;
    return true;
}

/* ---- ranges and intervals of the hash that go to another group */

static struct space_map *move_begin(const struct space_map *map, const struct metaops_plan *p, uint64_t range, uint32_t to, struct change *c)
{
    return p->of_hash ? spaces_hash_move(map, range, to, &c->error, &c->why) : spaces_move(map, p->space, range, to, &c->error, &c->why);
}

static struct space_map *move_advance(const struct space_map *map, const struct metaops_plan *p, uint64_t range, struct slice boundary, struct change *c)
{
    return p->of_hash ? spaces_hash_move_advance(map, range, boundary, &c->error, &c->why) : spaces_move_advance(map, p->space, range, boundary, &c->error, &c->why);
}

static struct space_map *move_finish(const struct space_map *map, const struct metaops_plan *p, uint64_t range, struct change *c)
{
    return p->of_hash ? spaces_hash_move_finish(map, range, &c->error, &c->why) : spaces_move_finish(map, p->space, range, &c->error, &c->why);
}

/* ---- split */

static struct space_map *cut(const struct space_map *map, const struct metaops_plan *p, struct change *c)
{
    return p->of_hash ? spaces_hash_split(map, p->hash, p->range2, p->group, &c->error, &c->why) : spaces_split(map, p->space, p->key, p->range2, p->group, &c->error, &c->why);
}

static bool step_split(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct slice boundary, struct meta_result *r)
{
    const struct metaops_plan *p = &op->plan;
    struct change c;
    if (to == METAOPS_UNDONE || op->step == METAOPS_CARRIED) return true;
    change_begin(&c, m);
    if (op->step == METAOPS_PLANNED) change_to(&c, cut(c.map, p, &c));
    if (op->step == METAOPS_PLANNED && to == METAOPS_WALKING && c.map) change_to(&c, move_begin(c.map, p, p->range2, p->other, &c));
    if (op->step == METAOPS_WALKING && to == METAOPS_WALKING) change_to(&c, move_advance(c.map, p, p->range2, boundary, &c));
    if (to == METAOPS_CARRIED) change_to(&c, move_finish(c.map, p, p->range2, &c));
    return change_end(&c, m, r);
}

/* ---- merge */

static struct space_map *hand_over(const struct space_map *map, const struct metaops_plan *p, struct change *c)
{
    if (p->group == p->other) return spaces_ref((struct space_map *)map);
    struct space_map *begun = move_begin(map, p, p->range2, p->group, c), *made = begun ? move_finish(begun, p, p->range2, c) : NULL;
    spaces_unref(begun);
    return made;
}

static struct space_map *join_up(const struct space_map *map, const struct metaops_plan *p, struct change *c)
{
    for (uint32_t i = 0; p->of_hash && i < map->n_hash; i++)
        if (map->hash[i].id == p->range2) return spaces_hash_merge(map, map->hash[i].first, &c->error, &c->why);
    const struct range_desc *d = p->of_hash ? NULL : spaces_range_by_id(map, p->range2, NULL);
    if (d) return spaces_merge(map, p->space, d->start, &c->error, &c->why);
    c->error = SPACES_NO_RANGE;
    buf_printf(&c->why, "there is no range %" PRIu64, p->range2);
    return NULL;
}

static bool merged(struct metagroups *m, const struct metaops_plan *p, struct meta_result *r)
{
    struct change c;
    change_begin(&c, m);
    change_to(&c, hand_over(c.map, p, &c));
    if (c.map) change_to(&c, join_up(c.map, p, &c));
    return change_end(&c, m, r);
}

static bool step_merge(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct meta_result *r)
{
    bool now = to == METAOPS_ABSORBED || (to == METAOPS_DONE && op->step == METAOPS_PLANNED);
    return now ? merged(m, &op->plan, r) : true;
}

/* ---- what walks */

static bool step_move_range(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct slice boundary, struct meta_result *r)
{
    const struct metaops_plan *p = &op->plan;
    struct change c;
    if (to == METAOPS_UNDONE || to == METAOPS_DONE) return true;
    change_begin(&c, m);
    if (to == METAOPS_CARRIED)
        change_to(&c, move_finish(c.map, p, p->range, &c));
    else if (op->step == METAOPS_PLANNED)
        change_to(&c, move_begin(c.map, p, p->range, p->other, &c));
    else
        change_to(&c, move_advance(c.map, p, p->range, boundary, &c));
    return change_end(&c, m, r);
}

/* A bucket that becomes one range in the same group, or the other way round: nothing moves, and the descriptor stays. */
static bool is_retitle(const struct metagroups *m, const struct metaops_plan *p)
{
    const struct space *s = spaces_find(m->map, p->space);
    struct space_info info;
    if (!s || p->mode == SPACE_HASH || p->n_ranges != 1) return false;
    spaces_describe(s, &info);
    return info.mode != SPACE_HASH && info.mode != p->mode && info.n_ranges == 1 && spaces_range(s, false, 0)->shard == p->ranges[0].group;
}

static struct space_map *set_mode(const struct space_map *map, const struct metaops_plan *p, bool at_once, struct change *c)
{
    struct range_desc *ranges = mem_zalloc((p->n_ranges + 1) * sizeof *ranges);
    for (uint32_t i = 0; i < p->n_ranges; i++) ranges[i] = (struct range_desc){.id = p->ranges[i].id, .shard = p->ranges[i].group, .start = p->ranges[i].start, .end = p->ranges[i].end};
    struct space_map *made = spaces_set_mode(map, p->space, p->mode, ranges, p->n_ranges, at_once, &c->error, &c->why);
    mem_free(ranges);
    return made;
}

static bool step_change_mode(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct slice boundary, struct meta_result *r)
{
    const struct metaops_plan *p = &op->plan;
    struct change c;
    if (to == METAOPS_UNDONE || op->step == METAOPS_CARRIED) return true;
    change_begin(&c, m);
    if (op->step == METAOPS_PLANNED && to == METAOPS_DONE && is_retitle(m, p))
        change_to(&c, spaces_retitle(c.map, p->space, p->mode, &c.error, &c.why));
    else if (op->step == METAOPS_PLANNED)
        change_to(&c, set_mode(c.map, p, to == METAOPS_DONE, &c));
    else if (to == METAOPS_CARRIED)
        change_to(&c, spaces_finish(c.map, p->space, &c.error, &c.why));
    else
        change_to(&c, spaces_advance(c.map, p->space, boundary, &c.error, &c.why));
    return change_end(&c, m, r);
}

/* ---- members */

static bool votes(const struct metagroups_group *g, uint64_t node, struct meta_result *r)
{
    if (node == 0 || meta_members_role(&g->told, node) == RAFTNODE_VOTER) return true;
    return meta_refuse(r, META_EARLY, "group %u has not told that node %" PRIu64 " votes", g->id, node);
}

static bool left(const struct metagroups_group *g, uint64_t node, struct meta_result *r)
{
    if (node == 0 || (g->told.n && !meta_members_has(&g->told, node))) return true;
    return meta_refuse(r, META_EARLY, "group %u has not told that node %" PRIu64 " left", g->id, node);
}

static bool still_there(const struct metagroups_group *g, uint64_t node, struct meta_result *r)
{
    if (node == 0 || g->told.n == 0 || meta_members_has(&g->told, node)) return true;
    return meta_refuse(r, META_STALE, "node %" PRIu64 " has left group %u: the move can only be done", node, g->id);
}

static bool go_back(struct metagroups_group *g, const struct metaops_plan *p, struct meta_result *r)
{
    if (!still_there(g, p->from, r)) return false;
    if (p->to) meta_members_set(&g->wanted, p->to, RAFTNODE_GONE);
    if (p->from) meta_members_set(&g->wanted, p->from, RAFTNODE_VOTER);
    g->generation++;
    return true;
}

static bool step_move_replica(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct meta_result *r)
{
    const struct metaops_plan *p = &op->plan;
    struct metagroups_group *g = metagroups_find(m, p->group);
    if (!g) return meta_refuse(r, META_UNKNOWN, "there is no group %u", p->group);
    switch (to) {
    case METAOPS_ADDED: return votes(g, p->to, r);
    case METAOPS_DONE: return votes(g, p->to, r) && left(g, p->from, r);
    case METAOPS_UNDOING: return go_back(g, p, r);
    case METAOPS_UNDONE: return op->step == METAOPS_UNDOING ? left(g, p->to, r) : go_back(g, p, r);
    default: return meta_refuse(r, META_INVALID, "a replica does not move like that");
    }
}

/* ---- any */

static bool do_step(struct metagroups *m, const struct metaops_op *op, enum metaops_step to, struct slice boundary, struct meta_result *r)
{
    switch (op->plan.kind) {
    case METAOPS_SPLIT: return step_split(m, op, to, boundary, r);
    case METAOPS_MERGE: return step_merge(m, op, to, r);
    case METAOPS_MOVE_RANGE: return step_move_range(m, op, to, boundary, r);
    case METAOPS_MOVE_REPLICA: return step_move_replica(m, op, to, r);
    case METAOPS_CHANGE_MODE: return step_change_mode(m, op, to, boundary, r);
    case METAOPS_KINDS: break;
    }
    return meta_refuse(r, META_INVALID, "there is no such operation");
}

/* An operation that is not under way: it ended, maybe as this step wants it to, or never was. */
static bool not_under_way(const struct metagroups *m, uint64_t id, enum metaops_step to, struct meta_result *r)
{
    if (id == 0 || id >= m->next_op) return meta_refuse(r, META_UNKNOWN, "there is no operation %" PRIu64, id);
    for (uint32_t i = 0; i < m->n_ended; i++)
        if (m->ended[i].op == id) return meta_refuse(r, m->ended[i].step == to ? META_SAME : META_STALE, "operation %" PRIu64 " has ended: %s", id, metaops_step_name(m->ended[i].step));
    return meta_refuse(r, META_STALE, "operation %" PRIu64 " ended long ago", id);
}

static void end(struct metagroups *m, struct metaops_op *op, enum metaops_step step)
{
    uint32_t at = 0;
    if (m->n_ended == METAGROUPS_ENDED_KEPT) memmove(m->ended, m->ended + 1, --m->n_ended * sizeof *m->ended);
    m->ended[m->n_ended++] = (struct metagroups_ended){op->id, op->plan.kind, step};
    while (m->ops[at] != op) at++;
    memmove(m->ops + at, m->ops + at + 1, (--m->n_ops - at) * sizeof *m->ops);
    metaops_free(op);
}

/* How far it walked, as the map has it. */
static struct slice boundary_of(const struct metagroups *m, const struct metaops_plan *p)
{
    struct space_info info;
    uint64_t range = p->kind == METAOPS_SPLIT ? p->range2 : p->range;
    const struct hash_desc *h = p->of_hash ? spaces_hash_by_id(m->map, range) : NULL;
    const struct range_desc *d = range && !p->of_hash ? spaces_range_by_id(m->map, range, NULL) : NULL;
    if (h || d) return h ? h->boundary : d->boundary;
    spaces_info(m->map, p->space, &info);
    return info.boundary;
}

/* Two drivers may tell of the same walk, each what it knows. */
static bool walks_on(const struct metagroups *m, const struct metaops_op *op, struct slice boundary, struct meta_result *r)
{
    int order = slice_cmp(boundary, boundary_of(m, &op->plan));
    if (order > 0) return true;
    return meta_refuse(r, order ? META_STALE : META_SAME, "the boundary of operation %" PRIu64 " is there, or further, already", op->id);
}

bool metastep_apply(struct metagroups *m, const struct metacode_entry *e, struct meta_result *r)
{
    enum metaops_step from = e->step.from, to = e->step.to;
    struct metaops_op *op = metagroups_op(m, e->step.op);
    if (!op) return not_under_way(m, e->step.op, to, r);
    r->id = op->id;
    bool again = from == METAOPS_WALKING && to == METAOPS_WALKING;
    if (e->step.boundary.n && !again) return meta_refuse(r, META_INVALID, "only what walks has a boundary");
    if (op->step == to && !again) return meta_refuse(r, META_SAME, "operation %" PRIu64 " is %s already", op->id, metaops_step_name(to));
    if (op->step != from) return meta_refuse(r, META_STALE, "operation %" PRIu64 " is %s, not %s", op->id, metaops_step_name(op->step), metaops_step_name(from));
    if (!metaops_step_allowed(&op->plan, from, to))
        return meta_refuse(r, META_INVALID, "a %s does not go from %s to %s", metaops_kind_name(op->plan.kind), metaops_step_name(from), metaops_step_name(to));
    if (again && !walks_on(m, op, e->step.boundary, r)) return false;
    if (!do_step(m, op, to, e->step.boundary, r)) return false;
    if (metaops_step_ends(to))
        end(m, op, to);
    else
        op->step = to;
    return true;
}
