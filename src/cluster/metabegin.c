/* A plan was made by looking at some state of the map; it is judged by the one at its place in the log. Ids and generations tell whether the two agree. */
#include "cluster/metabegin.h"

#include <inttypes.h>

#include "base/mem.h"
#include "cluster/holding.h"
#include "route/spaces.h"

/* What splits, merges and moves look at: a range or an interval of the hash. */
struct piece {
    uint64_t id, generation;
    uint32_t group;
    bool moving;
    uint32_t place; /* among its neighbours */
    struct slice start, end;
    uint64_t first, last; /* of the hash */
};

static bool find_interval(const struct space_map *map, uint64_t id, struct piece *p)
{
    for (uint32_t i = 0; i < map->n_hash; i++) {
        const struct hash_desc *d = &map->hash[i];
        if (d->id != id) continue;
        *p = (struct piece){.id = id, .generation = d->generation, .group = d->shard, .moving = d->moving, .place = i, .first = d->first, .last = d->last};
        return true;
    }
    return false;
}

static bool find_range(const struct space_map *map, struct slice name, uint64_t id, struct piece *p)
{
    const struct space *s = spaces_find(map, name);
    struct space_info info = {0};
    if (s) spaces_describe(s, &info);
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        if (d->id != id) continue;
        *p = (struct piece){.id = id, .generation = d->generation, .group = d->shard, .moving = d->moving || info.moving, .place = i, .start = d->start, .end = d->end};
        return true;
    }
    return false;
}

/* The piece, if it is as the proposer saw it. */
static bool look(const struct metagroups *m, const struct metaops_plan *plan, uint64_t id, uint64_t generation, uint32_t group, struct piece *p, struct meta_result *r)
{
    const char *what = plan->of_hash ? "interval of the hash" : "range";
    bool there = plan->of_hash ? find_interval(m->map, id, p) : find_range(m->map, plan->space, id, p);
    if (!there) return meta_refuse(r, id < m->next_range ? META_STALE : META_UNKNOWN, "there is no %s %" PRIu64 " there", what, id);
    if (p->generation != generation) return meta_refuse(r, META_STALE, "%s %" PRIu64 " has generation %" PRIu64 " meanwhile, not %" PRIu64, what, id, p->generation, generation);
    if (p->group != group) return meta_refuse(r, META_STALE, "%s %" PRIu64 " is in group %u, not %u", what, id, p->group, group);
    if (p->moving) return meta_refuse(r, META_BUSY, "%s %" PRIu64 " is moving", what, id);
    return true;
}

static uint32_t count_ranges(const struct space_map *map)
{
    uint32_t n = map->n_hash;
    for (uint32_t i = 0; i < map->n_spaces; i++) {
        struct space_info info;
        spaces_describe(map->spaces[i], &info);
        n += info.n_ranges + info.n_to;
    }
    return n;
}

/* Those that operations under way will make are counted as well. */
static bool room_for_ranges(const struct metagroups *m, uint32_t more, struct meta_result *r)
{
    uint32_t n = count_ranges(m->map) + more;
    for (uint32_t i = 0; i < m->n_ops; i++) n += m->ops[i]->plan.kind == METAOPS_SPLIT ? 1 : m->ops[i]->plan.n_ranges;
    if (n <= META_RANGES_MAX) return true;
    return meta_refuse(r, META_LIMIT, "a cluster has at most %d ranges and intervals of the hash", META_RANGES_MAX);
}

static bool room_for_group(const struct metagroups *m, struct meta_result *r)
{
    if (m->n < META_GROUPS_MAX && m->next_group < META_GROUPS_MAX) return true;
    return meta_refuse(r, META_LIMIT, "a cluster has at most %d groups", META_GROUPS_MAX);
}

static bool group_known(const struct metagroups *m, uint32_t id, struct meta_result *r)
{
    return metagroups_find(m, id) ? true : meta_refuse(r, META_UNKNOWN, "there is no group %u", id);
}

/* ---- kind by kind: may it begin? */

static bool cut_inside(const struct metaops_plan *plan, const struct piece *p, struct meta_result *r)
{
    struct buf flaw = {0};
    if (plan->of_hash) return plan->hash > p->first && plan->hash <= p->last ? true : meta_refuse(r, META_INVALID, "the cut is not inside the interval");
    bool fits = spaces_key_fits(plan->space, plan->key, &flaw);
    if (!fits) meta_refuse(r, META_INVALID, "%.*s", (int)flaw.len, flaw.p);
    buf_fini(&flaw);
    if (!fits) return false;
    bool inside = slice_cmp(plan->key, p->start) > 0 && (p->end.n == 0 || slice_cmp(plan->key, p->end) < 0);
    return inside ? true : meta_refuse(r, META_INVALID, "the cut is not inside the range");
}

static bool mode_has_ranges(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    struct space_info info;
    if (plan->of_hash) return true;
    spaces_info(m->map, plan->space, &info);
    return info.mode == SPACE_RANGE ? true : meta_refuse(r, META_INVALID, "the mode of the space is %s: only ranges are split and merged", space_mode_name(info.mode));
}

static bool may_split(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    struct piece p = {0};
    return look(m, plan, plan->range, plan->generation, plan->group, &p, r) && mode_has_ranges(m, plan, r) && cut_inside(plan, &p, r) && room_for_ranges(m, 1, r) &&
           (!plan->new_group || room_for_group(m, r));
}

/* What one group absorbs of another lies in the same stores, so both are on the same nodes, all of them. */
static bool may_merge(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    struct piece lower = {0}, upper = {0};
    if (!look(m, plan, plan->range, plan->generation, plan->group, &lower, r) || !look(m, plan, plan->range2, plan->generation2, plan->other, &upper, r) || !mode_has_ranges(m, plan, r)) return false;
    if (upper.place != lower.place + 1) return meta_refuse(r, META_INVALID, "range %" PRIu64 " does not follow range %" PRIu64, upper.id, lower.id);
    const struct metagroups_group *a = metagroups_find(m, plan->group), *b = metagroups_find(m, plan->other);
    if (a == b) return true;
    if (!meta_members_equal(&a->wanted, &b->wanted) || (a->told.n && b->told.n && !meta_members_equal(&a->told, &b->told)))
        return meta_refuse(r, META_EARLY, "groups %u and %u are not on the same nodes: move replicas first", a->id, b->id);
    return true;
}

static bool may_move_range(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    struct piece p = {0};
    return group_known(m, plan->other, r) && look(m, plan, plan->range, plan->generation, plan->group, &p, r);
}

static bool may_move_replica(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    const struct metagroups_group *g = metagroups_find(m, plan->group);
    if (!g) return group_known(m, plan->group, r);
    /* Its first members make it, each by the list that it sees. */
    if (!g->told.n) return meta_refuse(r, META_EARLY, "group %u has not told of itself yet", g->id);
    struct raftnode_members after = g->wanted;
    if (plan->from && !meta_members_has(&after, plan->from)) return meta_refuse(r, META_STALE, "node %" PRIu64 " is no member of group %u", plan->from, g->id);
    if (plan->to && meta_members_has(&after, plan->to)) return meta_refuse(r, META_STALE, "node %" PRIu64 " is a member of group %u already", plan->to, g->id);
    if (plan->to && !meta_members_set(&after, plan->to, RAFTNODE_VOTER)) return meta_refuse(r, META_LIMIT, "group %u has %u members", g->id, after.n);
    meta_members_set(&after, plan->from, RAFTNODE_GONE);
    return meta_members_valid(&after) ? true : meta_refuse(r, META_INVALID, "group %u would have no voter left", g->id);
}

/* The map is asked to do it, and what it makes thrown away. */
static bool may_change_mode(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    struct space_info info;
    struct buf why = {0};
    enum spaces_error error;
    spaces_info(m->map, plan->space, &info);
    uint64_t generation = info.set ? info.generation : 0;
    if (plan->generation != generation) return meta_refuse(r, META_STALE, "the space has generation %" PRIu64 " meanwhile, not %" PRIu64, generation, plan->generation);
    if (!info.set && m->map->n_spaces + m->n_ops >= META_SPACES_MAX) return meta_refuse(r, META_LIMIT, "a cluster has at most %d spaces with a mode", META_SPACES_MAX);
    if (info.n_ranges > HOLDING_PIECES_MAX) /* groups could not be told which keys go where */
        return meta_refuse(r, META_LIMIT, "the space has %u ranges, and can change its mode with at most %d: merge some of them first", info.n_ranges, HOLDING_PIECES_MAX);
    if (!room_for_ranges(m, plan->n_ranges, r)) return false;
    struct range_desc *ranges = mem_zalloc((plan->n_ranges + 1) * sizeof *ranges);
    bool known = true;
    for (uint32_t i = 0; i < plan->n_ranges && known; i++) {
        const struct metaops_range *p = &plan->ranges[i];
        ranges[i] = (struct range_desc){.id = m->next_range + i, .shard = p->group, .start = p->start, .end = p->end};
        known = group_known(m, p->group, r);
    }
    struct space_map *trial = known ? spaces_set_mode(m->map, plan->space, plan->mode, ranges, plan->n_ranges, false, &error, &why) : NULL;
    mem_free(ranges);
    if (known && !trial) return metagroups_map_refuses(r, error, &why);
    spaces_unref(trial);
    return known;
}

static bool may_begin(const struct metagroups *m, const struct metaops_plan *plan, struct meta_result *r)
{
    switch (plan->kind) {
    case METAOPS_SPLIT: return may_split(m, plan, r);
    case METAOPS_MERGE: return may_merge(m, plan, r);
    case METAOPS_MOVE_RANGE: return may_move_range(m, plan, r);
    case METAOPS_MOVE_REPLICA: return may_move_replica(m, plan, r);
    case METAOPS_CHANGE_MODE: return may_change_mode(m, plan, r);
    case METAOPS_KINDS: break;
    }
    return meta_refuse(r, META_INVALID, "there is no such operation");
}

/* ---- beginning */

/* Ids that the operation will need, and the members that it wants. */
static void take(struct metagroups *m, struct metaops_op *op)
{
    struct metaops_plan *plan = &op->plan;
    struct metaops_range *ranges = (struct metaops_range *)plan->ranges;
    if (plan->kind == METAOPS_SPLIT) {
        plan->range2 = m->next_range++;
        plan->other = plan->new_group ? m->next_group++ : plan->group;
    }
    if (plan->new_group) {
        struct raftnode_members like = metagroups_find(m, plan->group)->wanted; /* the table may move */
        metagroups_add(m, plan->other, &like)->wanted.index = 1;
    }
    for (uint32_t i = 0; i < plan->n_ranges; i++) ranges[i].id = m->next_range++;
    if (plan->kind == METAOPS_MOVE_REPLICA) {
        struct metagroups_group *g = metagroups_find(m, plan->group);
        if (plan->to) meta_members_set(&g->wanted, plan->to, RAFTNODE_VOTER);
        meta_members_set(&g->wanted, plan->from, RAFTNODE_GONE);
        g->generation++;
    }
}

bool metabegin_apply(struct metagroups *m, uint64_t driver, const struct metaops_plan *plan, struct meta_result *r)
{
    const char *flaw = metaops_plan_flaw(plan);
    if (flaw || driver == 0) return meta_refuse(r, META_INVALID, "%s", flaw ? flaw : "the driver of an operation is a node");
    for (uint32_t i = 0; i < m->n_ops; i++) {
        const struct metaops_op *other = m->ops[i];
        if (!metaops_conflict(&other->plan, plan)) continue;
        r->id = other->id;
        return meta_refuse(r, META_BUSY, "operation %" PRIu64 " (%s) is under way there", other->id, metaops_kind_name(other->plan.kind));
    }
    if (m->n_ops >= META_OPS_MAX) return meta_refuse(r, META_LIMIT, "%d operations are under way", META_OPS_MAX);
    if (!may_begin(m, plan, r)) return false;
    struct metaops_op *op = metaops_new(plan);
    op->id = r->id = m->next_op++;
    op->driver = driver;
    take(m, op);
    m->ops = mem_resize(m->ops, (m->n_ops + 1) * sizeof(*m->ops));
    m->ops[m->n_ops++] = op;
    return true;
}
