#include "cluster/holding.h"

#include <stdlib.h>

#include "base/keyhash.h"
#include "base/le.h"
#include "base/mem.h"
#include "route/keyspace.h"
#include "route/spaces.h"
#include "store/keyindex.h"
#include "store/store.h"

enum { PAUSE_MS = 100 }; /* long enough for who was turned away to ask again */

static const struct slice own_space = SLICE("own"), op_space = SLICE("own/op"), pieces_space = SLICE("own/pieces");

/* ---- bounds */

int holding_bound_cmp(struct holding_bound a, struct holding_bound b)
{
    if (a.at_end || b.at_end) return a.at_end - b.at_end;
    return slice_cmp(a.key, b.key);
}

bool holding_is_below(struct slice key, struct holding_bound b) { return b.at_end || slice_cmp(key, b.key) < 0; }

/* An interval's ends, where empty means the beginning or the end of the line. */
static struct holding_bound bound_of_start(struct slice start) { return (struct holding_bound){.key = start}; }
static struct holding_bound bound_of_end(struct slice end) { return (struct holding_bound){.at_end = end.n == 0, .key = end}; }
static struct holding_bound lower(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? a : b; }
static struct holding_bound higher(struct holding_bound a, struct holding_bound b) { return holding_bound_cmp(a, b) < 0 ? b : a; }

/* ---- sides */

static uint32_t group_by_hash(const struct space_map *m, uint64_t hash)
{
    if (m->n_hash == 0) return route_shard(&m->route, hash);
    uint32_t low = 0, high = m->n_hash - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (m->hash[middle].last < hash) low = middle + 1;
        else high = middle;
    }
    return m->hash[low].shard;
}

/* The first piece that ends behind the key. */
static const struct holding_piece *piece_at(const struct holding_side *s, struct slice key)
{
    uint32_t low = 0, high = s->n - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (holding_is_below(key, bound_of_end(s->pieces[middle].end))) high = middle;
        else low = middle + 1;
    }
    return &s->pieces[low];
}

/* A key is its space's name, or that and a slash before something. */
void holding_extent(struct slice space, struct slice *start, struct slice *end, struct buf *storage)
{
    storage->len = 0;
    buf_add_slice(storage, space);
    buf_add_byte(storage, '/' + 1);
    if (slice_cmp(*start, space) < 0) *start = space;
    if (!end->n || slice_cmp(*end, buf_slice(storage)) > 0) *end = buf_slice(storage);
}

uint32_t holding_side_group(const struct holding_plan *p, const struct holding_side *s, const struct space_map *m, struct slice key)
{
    return s->hashed ? group_by_hash(m, keyhash(key, m->route.seed)) : piece_at(s, key)->group;
}

/* A side's groups, behind those that are there; gives how many there are then. */
static uint32_t add_groups(const struct holding_side *s, const struct space_map *m, uint32_t *groups, uint32_t n)
{
    for (uint32_t i = 0; i < s->n; i++) groups[n++] = s->pieces[i].group;
    if (!s->hashed) return n;
    for (uint32_t i = 0; i < m->n_hash; i++) groups[n++] = m->hash[i].shard;
    for (uint32_t i = 0; m->n_hash == 0 && i < m->route.shards; i++) groups[n++] = i;
    return n;
}

static int cmp_groups(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t *holding_plan_groups(const struct holding_plan *p, const struct space_map *m, uint32_t *n)
{
    size_t hashed = m->n_hash ? m->n_hash : m->route.shards;
    uint32_t *groups = mem_alloc((p->old_side.n + p->new_side.n + 2 * hashed) * sizeof *groups);
    uint32_t all = add_groups(&p->new_side, m, groups, add_groups(&p->old_side, m, groups, 0));
    qsort(groups, all, sizeof *groups, cmp_groups);
    *n = 0;
    for (uint32_t i = 0; i < all; i++)
        if (i == 0 || groups[i] != groups[i - 1]) groups[(*n)++] = groups[i];
    return groups;
}

/* ---- what a seat has */

struct record {
    struct holding_op op; /* borrows from bytes */
    struct buf bytes;
    void *pieces;
};

struct holding {
    uint32_t group;
    bool any;
    bool gives_out;
    uint64_t map_version;
    uint32_t n;
    struct record *records; /* ascending by operation */
    uint64_t paused_ms;     /* until then */
};

struct holding *holding_new(uint32_t group)
{
    struct holding *h = mem_zalloc(sizeof *h);
    h->group = group;
    return h;
}

static void clear(struct holding *h)
{
    for (uint32_t i = 0; i < h->n; i++) {
        buf_fini(&h->records[i].bytes);
        mem_free(h->records[i].pieces);
    }
    mem_free(h->records);
    h->records = NULL;
    h->n = 0;
    h->map_version = 0;
    h->any = h->gives_out = false;
}

void holding_free(struct holding *h)
{
    clear(h);
    mem_free(h);
}

/* ---- records */

static void check_key(const struct entry *e, const struct holding_op *o)
{
    struct buf key = {0};
    holding_op_key(&key, o->plan.op);
    CHECK(slice_eq(buf_slice(&key), entry_key(e)));
    buf_fini(&key);
}

static void load_op(struct holding *h, const struct entry *e)
{
    struct record *r = &h->records[h->n++];
    buf_add_slice(&r->bytes, entry_value(e));
    int rc = holding_op_decode(buf_slice(&r->bytes), &r->op, &r->pieces);
    CHECK(rc == 0);
    check_key(e, &r->op);
    h->gives_out |= holding_bound_cmp(r->op.gone, r->op.high) < 0;
}

static void load_ops(struct holding *h, const struct store *s)
{
    const struct keyindex *k = store_index(s, STORE_SYSTEM_DB, op_space);
    struct keyindex_at at;
    if (!k) return;
    h->records = mem_zalloc(k->count * sizeof *h->records);
    for (const struct entry *e = keyindex_seek(k, SLICE(""), &at); e; e = keyindex_next(&at))
        if (slice_eq(space_of(entry_key(e)), op_space)) load_op(h, e);
}

static void load_map_version(struct holding *h, const struct store *s)
{
    const struct keyindex *k = store_index(s, STORE_SYSTEM_DB, own_space);
    struct keyindex_at at;
    const struct entry *e = k ? keyindex_seek(k, holding_map_key(), &at) : NULL;
    if (!e || !slice_eq(entry_key(e), holding_map_key())) return;
    CHECK(entry_value(e).n == 8);
    h->map_version = le_u64(entry_value(e).p);
}

void holding_load(struct holding *h, const struct store *s)
{
    clear(h);
    load_ops(h, s);
    load_map_version(h, s);
    const struct keyindex *pieces = store_index(s, STORE_SYSTEM_DB, pieces_space);
    h->gives_out |= pieces && pieces->count > 0;
    h->any = h->n > 0 || h->map_version > 0;
}

bool holding_is_changed_by(const struct op *op)
{
    if (likely(op->db != STORE_SYSTEM_DB)) return false;
    struct slice space = space_of(op->key);
    return op->kind == OP_FLUSH || slice_eq(space, own_space) || slice_eq(space, op_space) || slice_eq(space, pieces_space);
}

/* ---- judging */

bool holding_any(const struct holding *h) { return h->any; }
uint64_t holding_map_version(const struct holding *h) { return h->map_version; }

bool holding_covers(const struct holding_plan *p, const struct space_map *m, struct slice key)
{
    uint64_t placing;
    if (p->of_hash) return spaces_is_by_hash(m, key, keyhash(key, m->route.seed), &placing) && placing >= p->first && placing <= p->last;
    return slice_eq(p->space, space_of(key)) && slice_cmp(p->start, key) <= 0 && holding_is_below(key, bound_of_end(p->end));
}

bool holding_concerns(const struct holding_plan *p, const struct space_map *m, struct slice space)
{
    struct space_info info;
    if (!p->of_hash) return slice_eq(p->space, space);
    spaces_info(m, space, &info);
    uint64_t hash = keyhash(space, m->route.seed);
    return !info.n_ranges && (info.mode == SPACE_HASH || (hash >= p->first && hash <= p->last));
}

static bool op_serves(const struct holding *h, const struct holding_op *o, const struct space_map *m, struct slice key)
{
    if (holding_is_below(key, o->low)) return holding_side_group(&o->plan, &o->plan.new_side, m, key) == h->group;
    if (holding_is_below(key, o->high)) return false;
    return holding_side_group(&o->plan, &o->plan.old_side, m, key) == h->group;
}

/* An operation that is over everywhere but here may stand beside its successor for a moment: each must agree. */
bool holding_serves(const struct holding *h, const struct space_map *m, struct slice key)
{
    if (m->version < h->map_version) return false;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct holding_op *o = &h->records[i].op;
        if (holding_covers(&o->plan, m, key) && !op_serves(h, o, m, key)) return false;
    }
    return true;
}

/* ---- judging a range */

struct stretch { /* of the line */
    struct holding_bound start, end;
};

static struct stretch common(struct stretch a, struct stretch b) { return (struct stretch){higher(a.start, b.start), lower(a.end, b.end)}; }
static bool is_empty(struct stretch s) { return holding_bound_cmp(s.start, s.end) >= 0; }

static bool has_hashes(const struct holding *h, const struct space_map *m)
{
    if (m->n_hash == 0) return h->group < m->route.shards;
    for (uint32_t i = 0; i < m->n_hash; i++)
        if (m->hash[i].shard == h->group) return true;
    return false;
}

/* All pieces of a side that have something of the stretch are the group's. */
static bool has_all(uint32_t group, const struct holding_plan *p, const struct holding_side *s, struct stretch of)
{
    struct stretch piece = {bound_of_start(p->start), bound_of_start(p->start)};
    for (uint32_t i = 0; i < s->n; i++) {
        piece = (struct stretch){piece.end, bound_of_end(s->pieces[i].end)};
        if (s->pieces[i].group != group && !is_empty(common(piece, of))) return false;
    }
    return !s->hashed;
}

struct judging {
    const struct holding *h;
    const struct holding_op *op;
    const struct space_map *map;
};

/* How far the interval of a plan has come by the map. */
static struct holding_bound boundary_by(const struct space_map *m, const struct holding_plan *p)
{
    uint32_t i = 0;
    while (i + 1 < m->n_hash && m->hash[i].last < p->first) i++;
    if (m->hash[i].moving) return (struct holding_bound){.key = m->hash[i].boundary};
    return (struct holding_bound){.at_end = m->hash[i].shard == p->new_side.pieces[0].group};
}

/* Whatever the map gives this group of a piece of its own, the operation must let it have, too. */
static bool judge_piece(void *ctx, const struct space_piece *piece)
{
    const struct judging *j = ctx;
    const struct holding_op *o = j->op;
    const struct holding_plan *p = &o->plan;
    /* The group has its part of any stretch, but where keys are on their way and the map does not know it yet. */
    if (piece->hashed && p->of_hash) return is_empty(common((struct stretch){bound_of_start(piece->start), bound_of_end(piece->end)}, (struct stretch){boundary_by(j->map, p), o->high}));
    if (piece->hashed ? !has_hashes(j->h, j->map) : piece->shard != j->h->group) return true;
    struct stretch line = {bound_of_start(SLICE("")), bound_of_end(SLICE(""))}, of = {bound_of_start(piece->start), bound_of_end(piece->end)};
    of = common(of, (struct stretch){bound_of_start(p->start), bound_of_end(p->end)});
    struct stretch below = common(of, (struct stretch){line.start, o->low}), between = common(of, (struct stretch){o->low, o->high}), above = common(of, (struct stretch){o->high, line.end});
    if (!is_empty(between)) return false;
    if (!is_empty(below) && !(piece->hashed && p->new_side.hashed) && !has_all(j->h->group, p, &p->new_side, below)) return false;
    return is_empty(above) || (piece->hashed && p->old_side.hashed) || has_all(j->h->group, p, &p->old_side, above);
}

/* Bounds that are on the line of all keys know nothing of an open end of a space's. */
static bool op_serves_range(const struct judging *j, struct slice space, struct slice start, struct slice end)
{
    struct buf storage = {0};
    if (j->op->plan.of_hash) holding_extent(space, &start, &end, &storage);
    bool serves = (end.n && slice_cmp(start, end) >= 0) || spaces_overlap(j->map, space, start, end, judge_piece, (void *)j);
    buf_fini(&storage);
    return serves;
}

bool holding_serves_range(const struct holding *h, const struct space_map *m, struct slice space, struct slice start, struct slice end)
{
    if (m->version < h->map_version) return false;
    for (uint32_t i = 0; i < h->n; i++) {
        struct judging j = {.h = h, .op = &h->records[i].op, .map = m};
        if (holding_concerns(&j.op->plan, m, space) && !op_serves_range(&j, space, start, end)) return false;
    }
    return true;
}

/* ---- judging the map */

/* Whether the new side has the keys of a piece of the map's where the map has them. */
static bool is_new_side(void *ctx, const struct space_piece *piece)
{
    const struct judging *j = ctx;
    const struct holding_plan *p = &j->op->plan;
    if (p->new_side.hashed || piece->hashed) return p->new_side.hashed && piece->hashed;
    return has_all(piece->shard, p, &p->new_side, (struct stretch){bound_of_start(piece->start), bound_of_end(piece->end)});
}

/* The same of a plan that is about an interval of the hash: as far as its keys have come, the map's boundary has. */
static bool has_interval_come(const struct space_map *m, const struct holding_plan *p, struct holding_bound upto)
{
    uint32_t to = p->new_side.pieces[0].group;
    for (uint32_t i = 0; i < m->n_hash; i++) {
        const struct hash_desc *d = &m->hash[i];
        if (d->last < p->first || d->first > p->last || (d->shard == to && !d->moving)) continue;
        if (!d->moving || d->to_shard != to || holding_bound_cmp(bound_of_start(d->boundary), upto) < 0) return false;
    }
    return true;
}

bool holding_is_ahead(const struct holding *h, const struct space_map *m)
{
    for (uint32_t i = 0; i < h->n; i++) {
        struct judging j = {.h = h, .op = &h->records[i].op, .map = m};
        const struct holding_plan *p = &j.op->plan;
        struct holding_bound upto = lower(higher(j.op->low, j.op->gone), bound_of_end(p->end));
        if (holding_bound_cmp(upto, bound_of_start(p->start)) <= 0) continue;
        if (p->of_hash ? !has_interval_come(m, p, upto) : !spaces_overlap(m, p->space, p->start, upto.key, is_new_side, &j)) return true;
    }
    return false;
}

/* ---- the rest */

bool holding_gives_out(const struct holding *h) { return h->gives_out; }
uint32_t holding_count(const struct holding *h) { return h->n; }

const struct holding_op *holding_at(const struct holding *h, uint32_t i)
{
    CHECK(i < h->n);
    return &h->records[i].op;
}

const struct holding_op *holding_find(const struct holding *h, uint64_t op)
{
    for (uint32_t i = 0; i < h->n; i++)
        if (h->records[i].op.plan.op == op) return &h->records[i].op;
    return NULL;
}

void holding_ask_pause(struct holding *h, uint64_t now_ms) { h->paused_ms = now_ms + PAUSE_MS; }
bool holding_is_paused(const struct holding *h, uint64_t now_ms) { return now_ms < h->paused_ms && h->paused_ms - now_ms <= PAUSE_MS; } /* longer: the clock was set back */
