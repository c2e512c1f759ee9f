/* Group 1: looking things up, and every entry but those of operations (metabegin.c, metastep.c). */
#include "cluster/metagroups.h"

#include <inttypes.h>

#include "base/keyhash.h"
#include "base/mem.h"
#include "cluster/metabegin.h"
#include "cluster/metastep.h"

struct metagroups *metagroups_new(void) { return mem_zalloc(sizeof(struct metagroups)); }

void metagroups_free(struct metagroups *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->n_ops; i++) metaops_free(m->ops[i]);
    mem_free(m->ops);
    mem_free(m->groups);
    spaces_unref(m->map);
    metaseen_fini(&m->seen);
    mem_free(m);
}

/* ---- looking */

struct metagroups_group *metagroups_find(const struct metagroups *m, uint32_t id)
{
    uint32_t low = 0, high = m->n;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (m->groups[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->n && m->groups[low].id == id ? &m->groups[low] : NULL;
}

struct metaops_op *metagroups_op(const struct metagroups *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (m->ops[i]->id == id) return m->ops[i];
    return NULL;
}

const struct metaops_op *metagroups_op_of(const struct metagroups *m, uint32_t group)
{
    const struct metaops_plan move = {.kind = METAOPS_MOVE_REPLICA, .group = group};
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (metaops_conflict(&m->ops[i]->plan, &move)) return m->ops[i];
    return NULL;
}

uint32_t metagroups_of_node(const struct metagroups *m, uint64_t node, uint32_t *out, uint32_t max)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        if (!meta_members_has(&m->groups[i].wanted, node) && !meta_members_has(&m->groups[i].told, node)) continue;
        if (found < max) out[found] = m->groups[i].id;
        found++;
    }
    return found;
}

static bool covers_range(const struct space *s, struct slice name, bool of_new, uint32_t n, uint32_t group, metagroups_cover_fn *visit, void *ctx)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct range_desc *d = spaces_range(s, of_new, i);
        struct metagroups_cover c = {.range = d, .space = name};
        if ((d->shard == group || (d->moving && d->to_shard == group)) && !visit(ctx, &c)) return false;
    }
    return true;
}

bool metagroups_covers(const struct metagroups *m, uint32_t group, metagroups_cover_fn *visit, void *ctx)
{
    for (uint32_t i = 0; m->map && i < m->map->n_hash; i++) {
        struct metagroups_cover c = {.hash = &m->map->hash[i]};
        if ((c.hash->shard == group || (c.hash->moving && c.hash->to_shard == group)) && !visit(ctx, &c)) return false;
    }
    for (uint32_t i = 0; m->map && i < m->map->n_spaces; i++) {
        struct space_info info;
        const struct space *s = m->map->spaces[i];
        spaces_describe(s, &info);
        if (!covers_range(s, info.name, false, info.n_ranges, group, visit, ctx) || !covers_range(s, info.name, true, info.n_to, group, visit, ctx)) return false;
    }
    return true;
}

/* ---- changing */

struct metagroups_group *metagroups_add(struct metagroups *m, uint32_t id, const struct raftnode_members *wanted)
{
    m->groups = mem_resize(m->groups, (m->n + 1) * sizeof *m->groups);
    struct metagroups_group *g = &m->groups[m->n++];
    *g = (struct metagroups_group){.id = id, .generation = 1};
    for (uint32_t i = 0; i < wanted->n; i++) meta_members_set(&g->wanted, wanted->m[i].node, wanted->m[i].role);
    return g;
}

bool metagroups_map_refuses(struct meta_result *r, enum spaces_error error, struct buf *why)
{
    enum meta_code code = error == SPACES_SAME                                    ? META_SAME
                          : error == SPACES_MOVING                                ? META_BUSY
                          : error == SPACES_NO_SPACE || error == SPACES_NO_RANGE  ? META_UNKNOWN
                          : error == SPACES_NOT_MOVING                            ? META_STALE
                                                                                  : META_INVALID;
    meta_refuse(r, code, "%.*s", (int)why->len, why->p ? why->p : "");
    buf_fini(why);
    return false;
}

static bool found(struct metagroups *m, const struct metacode_found_map *f, struct meta_result *r)
{
    if (m->version) return meta_refuse(r, META_SAME, "the map is founded already");
    if (f->n <= META_FIRST_DATA_GROUP) return meta_refuse(r, META_INVALID, "a cluster begins with groups 0, 1 and at least one for data");
    if (f->default_mode == SPACE_RANGE) return meta_refuse(r, META_INVALID, "the default mode of spaces is hash or bucket");
    for (uint32_t i = 0; i < f->n; i++)
        if (!meta_members_valid(&f->groups[i])) return meta_refuse(r, META_INVALID, "group %u has no members", i);
    uint32_t n = f->n - META_FIRST_DATA_GROUP;
    struct hash_desc *hash = mem_zalloc(n * sizeof *hash);
    for (uint32_t i = 0; i < n; i++) {
        hash[i] = (struct hash_desc){.id = i + 1, .generation = 1, .shard = i + META_FIRST_DATA_GROUP, .last = UINT64_MAX};
        hash[i].first = (uint64_t)(((unsigned __int128)i << 64) / n);
        if (i) hash[i - 1].last = hash[i].first - 1;
    }
    m->map = spaces_new(&(struct route){.seed = f->seed, .shards = 1}, f->default_mode, hash, n, 1);
    mem_free(hash);
    for (uint32_t i = 0; i < f->n; i++) metagroups_add(m, i, &f->groups[i]);
    m->next_group = f->n;
    m->next_range = n + 1;
    m->next_op = 1;
    return true;
}

static bool create(struct metagroups *m, const struct raftnode_members *members, struct meta_result *r)
{
    if (!meta_members_valid(members)) return meta_refuse(r, META_INVALID, "a group has members");
    if (m->n >= META_GROUPS_MAX || m->next_group == UINT32_MAX) return meta_refuse(r, META_LIMIT, "a cluster has at most %d groups", META_GROUPS_MAX);
    r->id = m->next_group++;
    metagroups_add(m, (uint32_t)r->id, members)->wanted.index = 1;
    return true;
}

static bool any_cover(void *ctx, const struct metagroups_cover *c)
{
    *(struct metagroups_cover *)ctx = *c;
    return false;
}

static const struct metaops_op *op_that_names(const struct metagroups *m, uint32_t group)
{
    for (uint32_t i = 0; i < m->n_ops; i++)
        if (metaops_names_group(&m->ops[i]->plan, group)) return m->ops[i];
    return NULL;
}

static bool retire(struct metagroups *m, uint32_t id, struct meta_result *r)
{
    struct metagroups_group *g = metagroups_find(m, id);
    struct metagroups_cover cover;
    if (id < META_FIRST_DATA_GROUP) return meta_refuse(r, META_INVALID, "groups 0 and 1 are never retired");
    if (!g && id < m->next_group) return meta_refuse(r, META_SAME, "group %u is no more", id);
    if (!g) return meta_refuse(r, META_UNKNOWN, "there is no group %u", id);
    const struct metaops_op *op = op_that_names(m, id);
    if (op) return r->id = op->id, meta_refuse(r, META_BUSY, "operation %" PRIu64 " (%s) works on group %u", op->id, metaops_kind_name(op->plan.kind), id);
    if (!metagroups_covers(m, id, any_cover, &cover))
        return meta_refuse(r, META_EARLY, "group %u still has %s %" PRIu64, id, cover.hash ? "the interval of the hash" : "range", cover.hash ? cover.hash->id : cover.range->id);
    uint32_t at = (uint32_t)(g - m->groups);
    memmove(g, g + 1, (--m->n - at) * sizeof *g);
    r->id = id;
    return true;
}

static bool told(struct metagroups *m, uint32_t group, const struct raftnode_members *members, struct meta_result *r)
{
    struct metagroups_group *g = metagroups_find(m, group);
    if (!g) return group < m->next_group && m->version ? meta_refuse(r, META_STALE, "group %u is no more", group) : meta_refuse(r, META_UNKNOWN, "there is no group %u", group);
    if (!meta_members_valid(members) || members->index == 0) return meta_refuse(r, META_INVALID, "a group has members, since an index of its log");
    if (members->index == g->told.index && meta_members_equal(members, &g->told)) return meta_refuse(r, META_SAME, "group %u has told that already", group);
    if (members->index <= g->told.index) return meta_refuse(r, META_STALE, "the members of group %u are known as of index %" PRIu64, group, g->told.index);
    g->told = (struct raftnode_members){.index = members->index};
    for (uint32_t i = 0; i < members->n; i++) meta_members_set(&g->told, members->m[i].node, members->m[i].role);
    return true;
}

static bool drive(struct metagroups *m, const struct metacode_entry *e, struct meta_result *r)
{
    struct metaops_op *op = metagroups_op(m, e->driver.op);
    if (!op && e->driver.op && e->driver.op < m->next_op) return meta_refuse(r, META_STALE, "operation %" PRIu64 " has ended", e->driver.op);
    if (!op) return meta_refuse(r, META_UNKNOWN, "there is no operation %" PRIu64, e->driver.op);
    if (e->driver.to == 0) return meta_refuse(r, META_INVALID, "the driver of an operation is a node");
    if (op->driver == e->driver.to) return meta_refuse(r, META_SAME, "node %" PRIu64 " drives operation %" PRIu64 " already", op->driver, op->id);
    if (op->driver != e->driver.from) return meta_refuse(r, META_STALE, "node %" PRIu64 " drives operation %" PRIu64, op->driver, op->id);
    op->driver = e->driver.to;
    return true;
}

static bool judge(struct metagroups *m, const struct metacode_entry *e, struct meta_result *r)
{
    if (m->version == 0 && e->kind != METACODE_FOUND_MAP) return meta_refuse(r, META_EARLY, "the map is not founded yet");
    switch (e->kind) {
    case METACODE_FOUND_MAP: return found(m, &e->found_map, r);
    case METACODE_GROUP_CREATE: return create(m, &e->create, r);
    case METACODE_GROUP_RETIRE: return retire(m, e->retire, r);
    case METACODE_MEMBERS: return told(m, e->members.group, &e->members.members, r);
    case METACODE_OP_BEGIN: return metabegin_apply(m, e->begin.driver, &e->begin.plan, r);
    case METACODE_OP_STEP: return metastep_apply(m, e, r);
    case METACODE_OP_DRIVER: return drive(m, e, r);
    default: return meta_refuse(r, META_INVALID, "an entry %s is none of group 1", metacode_kind_name(e->kind));
    }
}

void metagroups_apply(struct metagroups *m, struct slice entry, struct meta_result *r)
{
    struct metacode_entry e;
    *r = (struct meta_result){.code = metacode_decode(&e, entry)};
    if (r->code != META_DONE)
        meta_refuse(r, r->code, r->code == META_FOREIGN ? "the entry is of a newer version of this program" : "the entry is malformed");
    else if (metaseen_new(&m->seen, e.proposer, e.sequence, r)) {
        if (judge(m, &e, r)) m->version++;
        metaseen_note(&m->seen, e.proposer, e.sequence, r);
    }
    metacode_fini(&e);
}

/* ---- checking */

bool metagroups_places_exist(const struct metagroups *m)
{
    for (uint32_t i = 0; i < m->map->n_hash; i++)
        if (!metagroups_find(m, m->map->hash[i].shard) || (m->map->hash[i].moving && !metagroups_find(m, m->map->hash[i].to_shard))) return false;
    for (uint32_t i = 0; i < m->map->n_spaces; i++) {
        struct space_info info;
        spaces_describe(m->map->spaces[i], &info);
        for (uint32_t j = 0; j < info.n_ranges + info.n_to; j++) {
            const struct range_desc *d = spaces_range(m->map->spaces[i], j >= info.n_ranges, j < info.n_ranges ? j : j - info.n_ranges);
            if (!metagroups_find(m, d->shard) || (d->moving && !metagroups_find(m, d->to_shard))) return false;
        }
    }
    return true;
}

void metagroups_check(const struct metagroups *m)
{
    metaseen_check(&m->seen);
    CHECK((m->version != 0) == (m->map != NULL));
    if (!m->map) return;
    spaces_check(m->map);
    CHECK(metagroups_places_exist(m));
    CHECK(spaces_max_id(m->map) < m->next_range);
    for (uint32_t i = 0; i < m->n; i++) {
        CHECK(m->groups[i].id < m->next_group && (i == 0 || m->groups[i - 1].id < m->groups[i].id));
        CHECK(meta_members_valid(&m->groups[i].wanted));
    }
    for (uint32_t i = 0; i < m->n_ops; i++) {
        CHECK(m->ops[i]->id < m->next_op && !metaops_step_ends(m->ops[i]->step) && (i == 0 || m->ops[i - 1]->id < m->ops[i]->id));
        for (uint32_t j = 0; j < i; j++) CHECK(!metaops_conflict(&m->ops[i]->plan, &m->ops[j]->plan));
    }
}
