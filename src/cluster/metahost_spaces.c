/* Key spaces: their modes, where their ranges are cut, and where those are. What lets every key stay in its group is the map's affair alone, in two entries of group 1: one plans it, the next has it done. What carries keys is planned
 * and begins to walk in the same way, and is then driven by the mover (cluster/mover.h). Whoever was asked proposes both entries; if it is lost in between, the leader of group 1 goes on. */
#include <inttypes.h>

#include "base/keyhash.h"
#include "base/num.h"
#include "cluster/metahost_own.h"

/* ---- what stays where it is */

struct staying {
    uint32_t group;
    bool stays;
};

static bool visit_piece(void *ctx, const struct space_piece *p)
{
    struct staying *s = ctx;
    s->stays &= !p->hashed && p->shard == s->group;
    return s->stays;
}

/* Every key that the space has, or could have, is in this group. */
static bool is_in_group(const struct space_map *m, struct slice space, uint32_t group)
{
    struct staying s = {group, true};
    spaces_overlap(m, space, slice_of(NULL, 0), slice_of(NULL, 0), visit_piece, &s);
    return s.stays;
}

static enum space_mode mode_of(const struct space_map *m, struct slice space)
{
    struct space_info info;
    spaces_info(m, space, &info);
    return info.mode;
}

/* Of an operation that has not begun to walk. */
static bool moves_nothing(const struct space_map *m, const struct metaops_plan *p)
{
    switch (p->kind) {
    case METAOPS_SPLIT: return !p->new_group;
    case METAOPS_MERGE: return p->group == p->other;
    case METAOPS_CHANGE_MODE:
        if (p->mode == SPACE_HASH) return mode_of(m, p->space) == SPACE_HASH;
        return p->n_ranges == 1 && is_in_group(m, p->space, p->ranges[0].group);
    default: return false;
    }
}

bool metahost_spaces_carries(const struct metahost *h, const struct metaops_op *op)
{
    if (op->plan.kind != METAOPS_MOVE_RANGE && op->plan.kind != METAOPS_CHANGE_MODE && op->plan.kind != METAOPS_SPLIT) return false;
    return op->step != METAOPS_PLANNED || !moves_nothing(h->groups->map, &op->plan);
}

/* ---- plans */

uint32_t metahost_spaces_home(const struct space_map *m, struct slice space)
{
    uint64_t hash = keyhash(space, m->route.seed);
    uint32_t i = 0;
    while (i + 1 < m->n_hash && m->hash[i].last < hash) i++;
    return m->hash[i].shard;
}

struct first {
    const struct space_map *map;
    struct slice space;
    uint32_t group;
};

static bool take_first(void *ctx, const struct space_piece *p)
{
    struct first *f = ctx;
    f->group = p->hashed ? metahost_spaces_home(f->map, f->space) : p->shard;
    return false;
}

/* Where the keys of a space are gathered: where the first of them are. */
static uint32_t group_to_gather(const struct space_map *m, struct slice space)
{
    struct first f = {m, space, 0};
    spaces_overlap(m, space, slice_of(NULL, 0), slice_of(NULL, 0), take_first, &f);
    return f.group;
}

static bool refuse(struct buf *why, const char *text)
{
    buf_add_str(why, text);
    return false;
}

static bool plan_mode(const struct space_map *m, struct slice space, struct slice word, struct metaops_plan *p, struct metaops_range *range, struct buf *why)
{
    struct space_info info;
    if (!space_mode_parse(word, &p->mode)) return refuse(why, "the mode of a key space is HASH, BUCKET or RANGE");
    if (space.n > SPACES_NAME_MAX) return refuse(why, "the name of the key space is too long");
    spaces_info(m, space, &info);
    *range = (struct metaops_range){.group = group_to_gather(m, space)};
    p->kind = METAOPS_CHANGE_MODE;
    p->space = space;
    p->generation = info.set ? info.generation : 0;
    p->ranges = range;
    p->n_ranges = p->mode != SPACE_HASH;
    return true;
}

static bool plan_move(const struct space_map *m, const struct slice *argv, struct metaops_plan *p, struct buf *why)
{
    uint64_t group;
    if (!num_parse_u64(argv[2], &group) || group > UINT32_MAX) return refuse(why, "a group is a number");
    const struct range_desc *d = spaces_range_named(m, argv[0], argv[1], why);
    if (!d) return false;
    *p = (struct metaops_plan){.kind = METAOPS_MOVE_RANGE, .group = d->shard, .other = (uint32_t)group, .range = d->id, .generation = d->generation, .space = argv[0]};
    return true;
}

/* What the map itself refuses is refused with its sentence, as on a single server. What moves is left to group 1: it knows which operation does it. */
static bool would_be(struct space_map *next, enum spaces_error error, struct buf *why)
{
    if (next) spaces_unref(next);
    if (next || error != SPACES_MOVING) return next != NULL;
    why->len = 0;
    return true;
}

static bool plan_split(const struct space_map *m, struct slice space, struct slice key, struct metaops_plan *p, struct buf *why)
{
    enum spaces_error error;
    const struct range_desc *d = spaces_range_of(m, space, key);
    if (key.n > META_KEY_MAX) return refuse(why, "a cluster's ranges are split at keys of at most 4096 bytes");
    struct space_map *next = spaces_split(m, space, key, spaces_max_id(m) + 1, d ? d->shard : META_FIRST_DATA_GROUP, &error, why);
    if (!would_be(next, error, why)) return false;
    if (!d) return refuse(why, "the key space has no ranges: SPACE.SET it RANGE first"); /* it had, and its mode changes */
    *p = (struct metaops_plan){.kind = METAOPS_SPLIT, .group = d->shard, .range = d->id, .generation = d->generation, .space = space, .key = key};
    return true;
}

static const struct range_desc *range_before(const struct space_map *m, struct slice space, const struct range_desc *upper)
{
    const struct space *s = spaces_find(m, space);
    struct space_info info;
    spaces_describe(s, &info);
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        if (d->end.n && slice_eq(d->end, upper->start)) return d;
    }
    return NULL;
}

static bool plan_merge(const struct space_map *m, struct slice space, struct slice key, struct metaops_plan *p, struct buf *why)
{
    enum spaces_error error;
    struct space_map *next = spaces_merge(m, space, key, &error, why);
    if (!would_be(next, error, why)) return false;
    const struct range_desc *upper = spaces_range_of(m, space, key);
    const struct range_desc *lower = upper && slice_eq(upper->start, key) ? range_before(m, space, upper) : NULL;
    if (!lower) return refuse(why, "no range begins at that key");
    if (lower->shard != upper->shard) return refuse(why, "the two ranges are in different groups");
    *p = (struct metaops_plan){.kind = METAOPS_MERGE, .group = lower->shard, .other = upper->shard, .range = lower->id, .generation = lower->generation, .range2 = upper->id, .generation2 = upper->generation,
                               .space = space};
    return true;
}

bool metahost_spaces_plan(const struct metahost *h, enum metahost_question q, const struct slice *argv, struct metaops_plan *p, struct metaops_range *range, bool *is_so, struct buf *why)
{
    const struct space_map *m = h->groups->map;
    struct space_info info;
    *p = (struct metaops_plan){0};
    *is_so = false;
    if (q == METAHOST_SPLIT) return plan_split(m, argv[0], argv[1], p, why);
    if (q == METAHOST_MERGE) return plan_merge(m, argv[0], argv[1], p, why);
    if (q == METAHOST_MOVE_RANGE) return plan_move(m, argv, p, why);
    if (!plan_mode(m, argv[0], argv[1], p, range, why)) return false;
    spaces_info(m, argv[0], &info);
    *is_so = info.set && !info.moving && info.mode == p->mode;
    return true;
}

/* ---- the second entry */

void metahost_spaces_finish(struct metahost *h, uint64_t op, uint32_t timeout_ms, metahost_ask_done *done, void *ctx)
{
    struct metacode_entry e = {.kind = METACODE_OP_STEP};
    const struct metaops_op *planned = metagroups_op(h->groups, op);
    e.step.op = op;
    e.step.from = METAOPS_PLANNED;
    e.step.to = planned && metahost_spaces_carries(h, planned) ? METAOPS_WALKING : METAOPS_DONE;
    metahost_ask_propose(h, &e, METAHOST_ASK_OP, op, timeout_ms, done, ctx);
}

/* Whoever was asked may have been started again, or have given up its question: that it is alive does not say that it will go on. A step that both propose is done once. */
void metahost_spaces_sweep(struct metahost *h)
{
    for (uint32_t i = 0; i < h->groups->n_ops; i++) {
        const struct metaops_op *op = h->groups->ops[i];
        if (op->step != METAOPS_PLANNED || !moves_nothing(h->groups->map, &op->plan) || metahost_ask_open(h, META_MAP_GROUP, METAHOST_ASK_OP, op->id)) continue;
        metahost_spaces_finish(h, op->id, METAHOST_GIVE_UP_MS, NULL, NULL);
    }
}
