/* Random walks: thousands of proposals, sensible ones and others, to group 0 and to group 1, against naive twins.
 *
 * The twin of group 1 knows of some hundred keys one by one where they are, and moves them when an operation says so; the twin of group 0 is a plain list. A second replica begins anew from a snapshot now and
 * then and must never differ. What is refused must change nothing; no number is given twice. A walk in which a kind of operation never ended both ways, or a refusal never came, has failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "metakit.h"

enum { SPACES = 3, KEYS_PER_SPACE = 40, KEYS = SPACES * KEYS_PER_SPACE, STEPS = 6000 };

static const struct slice space_names[SPACES] = {SLICE("a"), SLICE("b/c"), SLICE("zoo")};

/* ---- the twin of group 1 */

struct place {
    uint32_t group;
    uint64_t id;
};

/* A routing of a space as the twin knows it. */
enum how { BY_HASH, BY_NAME, BY_RANGE };

struct twin_key {
    char text[32];
    struct slice key;
    uint64_t hash;
    struct place by_hash, by_name; /* of its own hash, and of that of its space's name */
    struct place now, to;          /* if BY_RANGE */
};

struct twin_space {
    enum how now, to;
    bool moving;
    struct slice boundary;
    char text[64];
};

struct walk {
    struct metakit k;
    struct metagroups *replica;
    struct rng rng;
    struct twin_key keys[KEYS];
    struct twin_space spaces[SPACES];
    uint32_t split_off[2]; /* into new groups: ranges, intervals of the hash */
    uint32_t retitled; /* buckets that became ranges where they are, and back */
    uint32_t last_group;
    uint64_t last_op, last_range;
    uint32_t ended[METAOPS_KINDS][2], codes[META_CODES];
};

static uint32_t pick(struct walk *w, uint32_t n) { return (uint32_t)rng_below(&w->rng, n); }

static struct twin_key *key_at(struct walk *w, uint32_t space, uint32_t i) { return &w->keys[space * KEYS_PER_SPACE + i]; }

static struct place twin_place(const struct walk *w, uint32_t space, const struct twin_key *k)
{
    const struct twin_space *s = &w->spaces[space];
    bool new_way = s->moving && slice_cmp(k->key, s->boundary) < 0;
    switch (new_way ? s->to : s->now) {
    case BY_HASH: return k->by_hash;
    case BY_NAME: return k->by_name;
    case BY_RANGE: break;
    }
    return new_way ? k->to : k->now;
}

static void compare(struct walk *w)
{
    for (uint32_t s = 0; s < SPACES; s++)
        for (uint32_t i = 0; i < KEYS_PER_SPACE; i++) {
            const struct twin_key *k = key_at(w, s, i);
            struct space_place is;
            struct place want = twin_place(w, s, k);
            spaces_route(w->k.groups->map, k->key, k->hash, &is);
            assert_int_equal(is.shard, want.group);
            assert_int_equal(is.id, want.id);
        }
}

static struct place interval_of(const struct space_map *m, uint64_t hash)
{
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (hash >= m->hash[i].first && hash <= m->hash[i].last) return (struct place){m->hash[i].shard, m->hash[i].id};
    fail();
    return (struct place){0};
}

static void twin_init(struct walk *w)
{
    const struct space_map *m = w->k.groups->map;
    for (uint32_t s = 0; s < SPACES; s++) {
        w->spaces[s].now = BY_NAME;
        for (uint32_t i = 0; i < KEYS_PER_SPACE; i++) {
            struct twin_key *k = key_at(w, s, i);
            snprintf(k->text, sizeof k->text, "%s/%02u", space_names[s].p, i * 2 + 1);
            k->key = slice_str(k->text);
            k->hash = keyhash(k->key, m->route.seed);
            k->by_hash = interval_of(m, k->hash);
            k->by_name = interval_of(m, keyhash(space_names[s], m->route.seed));
        }
    }
}

/* SPACES: one of which the twin knows no keys. */
static uint32_t space_of_plan(const struct metaops_plan *p)
{
    for (uint32_t s = 0; s < SPACES; s++)
        if (slice_eq(space_names[s], p->space)) return s;
    return SPACES;
}

static void move_if(struct place *p, bool when, uint64_t id, struct place to)
{
    if (when && p->id == id) *p = to;
}

static void twin_split(struct walk *w, const struct metaops_plan *p)
{
    struct place upper = {p->group, p->range2};
    for (uint32_t s = 0; s < SPACES; s++) {
        uint64_t name_hash = keyhash(space_names[s], w->k.groups->map->route.seed);
        for (uint32_t i = 0; i < KEYS_PER_SPACE; i++) {
            struct twin_key *k = key_at(w, s, i);
            if (p->of_hash) {
                move_if(&k->by_hash, k->hash >= p->hash, p->range, upper);
                move_if(&k->by_name, name_hash >= p->hash, p->range, upper);
            } else
                move_if(&k->now, slice_cmp(k->key, p->key) >= 0, p->range, upper);
        }
    }
}

static void twin_merge(struct walk *w, const struct metaops_plan *p)
{
    struct place one = {p->group, p->range};
    for (uint32_t i = 0; i < KEYS; i++) {
        move_if(&w->keys[i].by_hash, p->of_hash, p->range2, one);
        move_if(&w->keys[i].by_name, p->of_hash, p->range2, one);
        move_if(&w->keys[i].now, !p->of_hash, p->range2, one);
    }
}

static void arrive(struct place *at, uint64_t id, uint32_t group)
{
    if (at->id == id) at->group = group;
}

/* Keys of the range, or interval of the hash, below the boundary are in the other group. */
static void twin_walk_range(struct walk *w, const struct metaops_plan *p, uint64_t id, struct slice boundary, bool all)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        struct twin_key *k = &w->keys[i];
        if (!all && slice_cmp(k->key, boundary) >= 0) continue;
        if (p->of_hash) arrive(&k->by_hash, id, p->other);
        if (p->of_hash) arrive(&k->by_name, id, p->other);
        if (!p->of_hash) arrive(&k->now, id, p->other);
    }
}

static void twin_mode_begins(struct walk *w, const struct metaops_plan *p)
{
    uint32_t s = space_of_plan(p);
    w->spaces[s].moving = true;
    w->spaces[s].boundary = SLICE("");
    w->spaces[s].to = p->mode == SPACE_HASH ? BY_HASH : p->n_ranges ? BY_RANGE : BY_NAME;
    for (uint32_t i = 0; i < KEYS_PER_SPACE; i++)
        for (uint32_t j = 0; j < p->n_ranges; j++) {
            struct twin_key *k = key_at(w, s, i);
            if (slice_cmp(k->key, p->ranges[j].start) >= 0) k->to = (struct place){p->ranges[j].group, p->ranges[j].id};
        }
}

static void twin_mode_ends(struct walk *w, const struct metaops_plan *p)
{
    struct twin_space *s = &w->spaces[space_of_plan(p)];
    s->moving = false;
    s->now = s->to;
    for (uint32_t i = 0; i < KEYS_PER_SPACE; i++) key_at(w, space_of_plan(p), i)->now = key_at(w, space_of_plan(p), i)->to;
}

/* One descriptor that is where the plan wants it: only the mode changes. */
static bool descriptor_stays(const struct walk *w, const struct metaops_plan *p)
{
    const struct space *s = p->kind == METAOPS_CHANGE_MODE ? spaces_find(w->k.groups->map, p->space) : NULL;
    struct space_info info;
    if (!s || p->mode == SPACE_HASH || p->n_ranges != 1) return false;
    spaces_describe(s, &info);
    return info.n_ranges == 1 && spaces_range(s, false, 0)->shard == p->ranges[0].group && info.mode != p->mode;
}

/* What the twin makes of a step that was done. `p` is a copy of the plan, made before. */
static void twin_step(struct walk *w, const struct metaops_plan *p, bool stays, enum metaops_step from, enum metaops_step to, struct slice boundary)
{
    if (p->kind == METAOPS_SPLIT && from == METAOPS_PLANNED && to != METAOPS_UNDONE) twin_split(w, p);
    if (p->kind == METAOPS_SPLIT && from == METAOPS_WALKING) twin_walk_range(w, p, p->range2, boundary, to == METAOPS_CARRIED);
    if (p->kind == METAOPS_SPLIT && p->new_group && to == METAOPS_DONE) w->split_off[p->of_hash]++;
    if (p->kind == METAOPS_MERGE && (to == METAOPS_ABSORBED || (to == METAOPS_DONE && from == METAOPS_PLANNED))) twin_merge(w, p);
    if (p->kind == METAOPS_MOVE_RANGE && from == METAOPS_WALKING) twin_walk_range(w, p, p->range, boundary, to == METAOPS_CARRIED);
    if (p->kind != METAOPS_CHANGE_MODE || to == METAOPS_UNDONE || space_of_plan(p) == SPACES) return;
    struct twin_space *s = &w->spaces[space_of_plan(p)];
    if (stays && from == METAOPS_PLANNED && to == METAOPS_DONE) {
        w->retitled++;
        return;
    }
    if (from == METAOPS_PLANNED) twin_mode_begins(w, p);
    if (from == METAOPS_WALKING && to == METAOPS_WALKING) s->boundary = slice_of(memcpy(s->text, boundary.p, boundary.n), boundary.n);
    if (to == METAOPS_CARRIED || (from == METAOPS_PLANNED && to == METAOPS_DONE)) twin_mode_ends(w, p);
}

/* ---- proposals */

/* Proposes to both replicas; both must answer alike, be whole, and be unchanged if it was refused. */
static enum meta_code propose(struct walk *w, struct metacode_entry *e)
{
    bool unremembered = pick(w, 2);
    e->proposer = unremembered ? 0 : 1 + pick(w, 5);
    e->sequence = w->k.groups->seen.turn + 1;
    uint64_t before = metagroups_digest(w->k.groups), version = w->k.groups->map->version;
    enum meta_code code = metakit_propose(&w->k, e);
    struct meta_result other;
    metagroups_apply(w->replica, buf_slice(&w->k.bytes), &other);
    assert_int_equal(other.code, code);
    assert_int_equal(other.id, w->k.r.id);
    assert_string_equal(other.why, w->k.r.why);
    assert_int_equal(code == META_DONE, w->k.r.why[0] == 0);
    if (code != META_DONE && unremembered) assert_int_equal(metagroups_digest(w->k.groups), before);
    if (code != META_DONE) assert_int_equal(w->k.groups->map->version, version);
    assert_int_equal(metagroups_digest(w->replica), metagroups_digest(w->k.groups));
    w->codes[code]++;
    /* A retry is answered as it was then. */
    if (!unremembered && pick(w, 4) == 0) {
        struct meta_result again;
        before = metagroups_digest(w->k.groups);
        metagroups_apply(w->k.groups, buf_slice(&w->k.bytes), &again);
        assert_true(again.repeat && again.code == code && again.id == w->k.r.id);
        assert_int_equal(metagroups_digest(w->k.groups), before);
    }
    return code;
}

static const struct metagroups_group *any_group(struct walk *w) { return &w->k.groups->groups[pick(w, w->k.groups->n)]; }

/* Some range of some space, NULL if the space has none. */
static const struct range_desc *any_range(struct walk *w, uint32_t space, uint32_t *at, uint32_t *n)
{
    struct space_info info;
    const struct space *s = spaces_find(w->k.groups->map, space_names[space]);
    if (!s) return NULL;
    spaces_describe(s, &info);
    *n = info.n_ranges;
    if (info.n_ranges == 0) return NULL;
    *at = pick(w, info.n_ranges);
    return spaces_range(s, false, *at);
}

static void plan_split(struct walk *w, struct metaops_plan *p, char text[64])
{
    uint32_t s = pick(w, SPACES), at, n;
    const struct range_desc *d = any_range(w, s, &at, &n);
    *p = (struct metaops_plan){.kind = METAOPS_SPLIT, .new_group = pick(w, 2) && w->k.groups->n < 40};
    if (d && pick(w, 3)) {
        p->group = d->shard, p->range = d->id, p->generation = d->generation, p->space = space_names[s];
        snprintf(text, 64, "%s/%02u", space_names[s].p, pick(w, 90));
        p->key = slice_str(text);
        return;
    }
    const struct hash_desc *h = &w->k.groups->map->hash[pick(w, w->k.groups->map->n_hash)];
    p->of_hash = true, p->group = h->shard, p->range = h->id, p->generation = h->generation;
    p->hash = h->first + 1 + rng_below(&w->rng, h->last - h->first);
}

static void plan_merge(struct walk *w, struct metaops_plan *p)
{
    uint32_t s = pick(w, SPACES), at = 0, n = 0;
    const struct range_desc *lower = any_range(w, s, &at, &n);
    *p = (struct metaops_plan){.kind = METAOPS_MERGE};
    if (lower && n > 1 && pick(w, 3)) {
        const struct space *space = spaces_find(w->k.groups->map, space_names[s]);
        const struct range_desc *upper = spaces_range(space, false, (at + 1) % n);
        p->space = space_names[s];
        p->group = lower->shard, p->range = lower->id, p->generation = lower->generation;
        p->other = upper->shard, p->range2 = upper->id, p->generation2 = upper->generation;
        return;
    }
    const struct space_map *m = w->k.groups->map;
    const struct hash_desc *a = &m->hash[pick(w, m->n_hash)], *b = a + 1 < m->hash + m->n_hash ? a + 1 : m->hash;
    p->of_hash = true;
    p->group = a->shard, p->range = a->id, p->generation = a->generation;
    p->other = b->shard, p->range2 = b->id, p->generation2 = b->generation;
}

static void plan_move_range(struct walk *w, struct metaops_plan *p)
{
    uint32_t s = pick(w, SPACES), at, n;
    const struct range_desc *d = any_range(w, s, &at, &n);
    *p = (struct metaops_plan){.kind = METAOPS_MOVE_RANGE, .space = space_names[s], .group = 2, .range = 1, .generation = 1, .other = any_group(w)->id};
    if (d) p->group = d->shard, p->range = d->id, p->generation = d->generation;
}

static void plan_move_replica(struct walk *w, struct metaops_plan *p)
{
    const struct metagroups_group *g = any_group(w);
    *p = (struct metaops_plan){.kind = METAOPS_MOVE_REPLICA, .group = g->id};
    if (pick(w, 5)) p->from = g->wanted.m[pick(w, g->wanted.n)].node;
    if (pick(w, 5)) p->to = 1 + pick(w, 8);
}

static void plan_change_mode(struct walk *w, struct metaops_plan *p, struct metaops_range ranges[3], char texts[2][64])
{
    struct space_info info;
    uint32_t s = pick(w, SPACES), mode = pick(w, 4);
    spaces_info(w->k.groups->map, space_names[s], &info);
    *p = (struct metaops_plan){.kind = METAOPS_CHANGE_MODE, .space = space_names[s], .generation = info.set ? info.generation : 0};
    p->mode = mode == 0 ? SPACE_HASH : mode == 1 ? SPACE_BUCKET : SPACE_RANGE;
    p->n_ranges = p->mode == SPACE_HASH ? 0 : p->mode == SPACE_BUCKET ? pick(w, 2) : 1 + pick(w, 3);
    p->ranges = ranges;
    uint32_t at, n;
    const struct range_desc *there = any_range(w, s, &at, &n);
    if (there && n == 1 && pick(w, 2)) {
        p->mode = info.mode == SPACE_BUCKET ? SPACE_RANGE : SPACE_BUCKET;
        p->n_ranges = 1;
        ranges[0] = (struct metaops_range){.group = there->shard};
        return;
    }
    for (uint32_t i = 0; i < p->n_ranges; i++) {
        ranges[i] = (struct metaops_range){.group = any_group(w)->id};
        if (i == 0) continue;
        snprintf(texts[i - 1], 64, "%s/%u", space_names[s].p, i * 3);
        ranges[i].start = ranges[i - 1].end = slice_str(texts[i - 1]);
    }
}

static void spoil(struct walk *w, struct metaops_plan *p)
{
    switch (pick(w, 8)) {
    case 0: p->generation++; break;
    case 1: p->range += 100000; break;
    case 2: p->group = 100000; break;
    case 3: p->from = p->to; break;
    case 4: p->other = 1; break;
    case 5: p->key = SLICE("elsewhere/x"); break;
    case 6: p->space = SLICE("nowhere"); break;
    default: p->range2 = p->range;
    }
}

static void do_begin(struct walk *w)
{
    struct metacode_entry e = {.kind = METACODE_OP_BEGIN};
    struct metaops_plan *p = &e.begin.plan;
    struct metaops_range ranges[3];
    char text[64], texts[2][64];
    e.begin.driver = 1 + pick(w, 5);
    switch (pick(w, 5)) {
    case 0: plan_split(w, p, text); break;
    case 1: plan_merge(w, p); break;
    case 2: plan_move_range(w, p); break;
    case 3: plan_move_replica(w, p); break;
    default: plan_change_mode(w, p, ranges, texts);
    }
    if (pick(w, 5) == 0) spoil(w, p);
    if (propose(w, &e) != META_DONE) return;
    const struct metaops_op *op = metagroups_op(w->k.groups, w->k.r.id);
    assert_true(op->id > w->last_op);
    w->last_op = op->id;
    if (op->plan.kind == METAOPS_SPLIT) {
        assert_true(op->plan.range2 > w->last_range && (!op->plan.new_group || op->plan.other > w->last_group));
        w->last_range = op->plan.range2;
        if (op->plan.new_group) w->last_group = op->plan.other;
    }
    for (uint32_t i = 0; i < op->plan.n_ranges; i++) {
        assert_true(op->plan.ranges[i].id > w->last_range);
        w->last_range = op->plan.ranges[i].id;
    }
}

/* The group's log goes one step towards what the operation wants, and tells. */
static void tell_members(struct walk *w, const struct metagroups_group *g)
{
    struct raftnode_members told = g->told.n ? g->told : g->wanted;
    const struct metaops_op *op = metagroups_op_of(w->k.groups, g->id);
    struct metacode_entry e = {.kind = METACODE_MEMBERS};
    told.index = g->told.index + (pick(w, 8) ? 1 + pick(w, 3) : 0);
    for (uint32_t i = 0; i < g->wanted.n; i++)
        if (pick(w, 3)) meta_members_set(&told, g->wanted.m[i].node, RAFTNODE_VOTER);
    if (op && op->step != METAOPS_PLANNED)
        for (uint32_t i = 0; i < told.n; i++)
            if (!meta_members_has(&g->wanted, told.m[i].node) && pick(w, 2)) meta_members_set(&told, told.m[i].node, RAFTNODE_GONE);
    if (op && op->plan.to == 0 && pick(w, 2)) meta_members_set(&told, op->plan.from, RAFTNODE_GONE);
    if (!meta_members_valid(&told)) return;
    e.members.group = g->id;
    e.members.members = told;
    propose(w, &e);
}

/* A step of one that has ended, or never was. */
static void do_late_step(struct walk *w)
{
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    e.step.op = pick(w, (uint32_t)w->last_op + 2);
    e.step.to = pick(w, 2) ? METAOPS_DONE : METAOPS_UNDONE;
    if (!metagroups_op(w->k.groups, e.step.op)) assert_int_not_equal(propose(w, &e), META_DONE);
}

static void do_step(struct walk *w)
{
    if (w->k.groups->n_ops == 0) return;
    const struct metaops_op *op = w->k.groups->ops[pick(w, w->k.groups->n_ops)];
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    char text[64] = "";
    struct metaops_op *copy = metaops_new(&op->plan);
    enum metaops_kind kind = op->plan.kind;
    bool stays = descriptor_stays(w, &op->plan);
    e.step.op = op->id;
    e.step.from = pick(w, 12) ? op->step : (enum metaops_step)pick(w, METAOPS_STEPS);
    e.step.to = (enum metaops_step)pick(w, METAOPS_STEPS);
    if (e.step.to == METAOPS_WALKING && e.step.from == METAOPS_WALKING) {
        struct slice space = op->plan.of_hash ? space_names[pick(w, SPACES)] : op->plan.space;
        snprintf(text, sizeof text, "%.*s/%02u", (int)space.n, space.p, pick(w, 85));
        e.step.boundary = slice_str(text);
    }
    if (kind == METAOPS_MOVE_REPLICA && pick(w, 3)) tell_members(w, metagroups_find(w->k.groups, op->plan.group));
    if (propose(w, &e) == META_DONE) {
        twin_step(w, &copy->plan, stays, e.step.from, e.step.to, e.step.boundary);
        if (metaops_step_ends(e.step.to)) w->ended[kind][e.step.to == METAOPS_UNDONE]++;
    }
    metaops_free(copy);
}

static void do_group(struct walk *w)
{
    struct metacode_entry e = {.kind = pick(w, 2) ? METACODE_GROUP_CREATE : METACODE_GROUP_RETIRE};
    if (e.kind == METACODE_GROUP_CREATE) {
        if (w->k.groups->n > 24) return;
        e.create = any_group(w)->wanted;
    } else
        e.retire = pick(w, 4) ? any_group(w)->id : pick(w, w->k.groups->next_group + 2);
    if (propose(w, &e) != META_DONE || e.kind != METACODE_GROUP_CREATE) return;
    assert_true(w->k.r.id > w->last_group);
    w->last_group = (uint32_t)w->k.r.id;
}

static void do_driver(struct walk *w)
{
    struct metacode_entry e = {.kind = METACODE_OP_DRIVER};
    e.driver.op = 1 + pick(w, (uint32_t)w->last_op + 2);
    const struct metaops_op *op = metagroups_op(w->k.groups, e.driver.op);
    e.driver.from = op ? op->driver : 1;
    e.driver.to = pick(w, 6);
    propose(w, &e);
}

static void replace_replica(struct walk *w)
{
    struct buf b = {0}, why = {0}, again = {0};
    metagroups_snapshot(w->k.groups, &b);
    metagroups_free(w->replica);
    w->replica = metagroups_restore(buf_slice(&b), &why);
    assert_non_null(w->replica);
    metagroups_snapshot(w->replica, &again);
    assert_true(slice_eq(buf_slice(&b), buf_slice(&again)));
    assert_int_equal(w->replica->map->version, w->k.groups->map->version);
    buf_fini(&b);
    buf_fini(&again);
    buf_fini(&why);
}

static void walk_map(struct walk *w)
{
    for (int i = 0; i < STEPS; i++) {
        switch (pick(w, 10)) {
        case 0: case 1: do_begin(w); break;
        case 2: tell_members(w, any_group(w)); break;
        case 3: do_group(w); break;
        case 4: do_driver(w); do_late_step(w); break;
        default: do_step(w);
        }
        metagroups_check(w->k.groups);
        compare(w);
        if (pick(w, 50) == 0) replace_replica(w);
    }
}

static void the_map_follows_its_twin_through_every_operation(void **unused)
{
    static const enum meta_code must[] = {META_DONE, META_SAME, META_STALE, META_UNKNOWN, META_BUSY, META_EARLY, META_INVALID};
    uint32_t ended[METAOPS_KINDS][2] = {{0}}, codes[META_CODES] = {0}, retitled = 0, split_off[2] = {0};
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct walk *w = mem_zalloc(sizeof *w);
        rng_init(&w->rng, seed);
        metakit_init(&w->k, 5, 0, 4, 3, SPACE_BUCKET);
        w->replica = metagroups_new();
        w->last_group = w->k.groups->next_group - 1;
        w->last_range = w->k.groups->next_range - 1;
        twin_init(w);
        replace_replica(w);
        walk_map(w);
        for (int i = 0; i < METAOPS_KINDS; i++) ended[i][0] += w->ended[i][0], ended[i][1] += w->ended[i][1];
        for (int i = 0; i < META_CODES; i++) codes[i] += w->codes[i];
        retitled += w->retitled;
        for (int i = 0; i < 2; i++) split_off[i] += w->split_off[i];
        metagroups_free(w->replica);
        metakit_fini(&w->k);
        mem_free(w);
    }
    for (int i = 0; i < METAOPS_KINDS; i++) {
        print_message("%s: %u done, %u undone\n", metaops_kind_name((enum metaops_kind)i), ended[i][0], ended[i][1]);
        assert_true(ended[i][0] > 5 && ended[i][1] > 5);
    }
    print_message("retitled %u, split off %u ranges and %u intervals\n", retitled, split_off[0], split_off[1]);
    assert_true(retitled > 3 && split_off[false] > 3 && split_off[true] > 3);
    for (size_t i = 0; i < sizeof must / sizeof *must; i++) {
        print_message("%s: %u\n", meta_code_name(must[i]), codes[must[i]]);
        assert_true(codes[must[i]] > 20);
    }
}

/* ---- group 0 */

struct twin_node {
    uint32_t label; /* of metakit_node */
    enum metacode_node_state state;
};

/* What the naive list says a proposal's answer is; and the list after it. */
static enum meta_code twin_join(struct twin_node *list, uint32_t *n, uint32_t label)
{
    uint32_t living = 0;
    for (uint32_t i = 0; i < *n; i++) {
        if (list[i].label == label) return list[i].state == METACODE_GONE ? META_STALE : META_SAME;
        living += list[i].state != METACODE_GONE;
    }
    if (living >= META_NODES_MAX) return META_LIMIT;
    list[(*n)++] = (struct twin_node){label, METACODE_UP};
    return META_DONE;
}

static enum meta_code twin_state(struct twin_node *list, uint32_t n, uint64_t id, enum metacode_node_state from, enum metacode_node_state to, bool dead)
{
    if (id == 0 || id > n) return META_UNKNOWN;
    struct twin_node *t = &list[id - 1];
    if (t->state == METACODE_GONE) return to == METACODE_GONE ? META_SAME : META_STALE;
    if (t->state == to) return META_SAME;
    if (t->state != from) return META_STALE;
    if (from == METACODE_UP && to == METACODE_GONE && !dead) return META_EARLY;
    uint32_t up = 0;
    for (uint32_t i = 0; i < n; i++) up += list[i].state == METACODE_UP;
    if (from == METACODE_UP && up == 1) return META_INVALID;
    t->state = to;
    return META_DONE;
}

static void nodes_follow_their_list(void **unused)
{
    struct metakit k;
    struct rng rng;
    struct twin_node list[100];
    uint32_t n = 3, codes[META_CODES] = {0};
    for (uint32_t i = 0; i < 3; i++) list[i] = (struct twin_node){i, METACODE_UP};
    rng_init(&rng, 5);
    metakit_init(&k, 3, 0, 4, 3, SPACE_HASH);
    for (int i = 0; i < 4000; i++) {
        struct metacode_entry e = {.kind = METACODE_NODE_JOIN};
        enum meta_code want;
        uint64_t before = metanodes_digest(k.nodes);
        if (rng_below(&rng, 3) == 0) {
            uint32_t label = (uint32_t)rng_below(&rng, 60);
            e.join = metakit_node(&k, label, 0);
            want = twin_join(list, &n, label);
        } else {
            e.kind = METACODE_NODE_STATE;
            e.state.node = rng_below(&rng, n + 2);
            e.state.from = (enum metacode_node_state)rng_below(&rng, 3);
            e.state.to = (enum metacode_node_state)rng_below(&rng, 20) == 0 ? METACODE_GONE : (enum metacode_node_state)rng_below(&rng, 2);
            e.state.dead = rng_below(&rng, 2);
            want = twin_state(list, n, e.state.node, e.state.from, e.state.to, e.state.dead);
        }
        assert_string_equal(meta_code_name(metakit_propose(&k, &e)), meta_code_name(want));
        codes[want]++;
        if (want != META_DONE) assert_int_equal(metanodes_digest(k.nodes), before);
        for (uint32_t j = 0; j < n; j++) assert_int_equal(metanodes_find(k.nodes, j + 1)->state, list[j].state);
        metanodes_check(k.nodes);
        if (rng_below(&rng, 20)) continue;
        struct buf b = {0};
        const char *why;
        metanodes_snapshot(k.nodes, &b);
        metanodes_free(k.nodes);
        k.nodes = metanodes_restore(buf_slice(&b), &why);
        assert_non_null(k.nodes);
        buf_fini(&b);
    }
    assert_int_equal(k.nodes->next_node, n + 1);
    assert_true(codes[META_DONE] > 40 && codes[META_SAME] && codes[META_STALE] && codes[META_EARLY] && codes[META_UNKNOWN] && codes[META_LIMIT]);
    metakit_fini(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_follows_its_twin_through_every_operation),
        cmocka_unit_test(nodes_follow_their_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
