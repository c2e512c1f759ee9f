#include "shard/carry.h"

#include "base/check.h"
#include "base/mem.h"
#include "route/keyspace.h"
#include "shard/locks.h"
#include "store/chill.h"
#include "store/image.h"
#include "store/interest.h"
#include "store/keyindex.h"

/* What one slice takes along of a database: so much is done in a fraction of a millisecond. */
enum { SLICE_KEYS = 256, SLICE_BYTES = 256 * 1024 };

/* ---- which move */

static bool find_in_space(const struct space *s, struct carry_job *job)
{
    struct space_info info;
    spaces_describe(s, &info);
    if (info.moving) {
        *job = (struct carry_job){.space = info.name, .boundary = info.boundary, .all_shards = true};
        return true;
    }
    for (uint32_t i = 0; i < info.n_ranges; i++) {
        const struct range_desc *d = spaces_range(s, false, i);
        if (!d->moving) continue;
        *job = (struct carry_job){.space = info.name, .range = d->id, .boundary = d->boundary, .end = d->end, .from = d->shard, .to = d->to_shard};
        return true;
    }
    return false;
}

bool carry_find(const struct space_map *m, struct carry_job *job)
{
    for (uint32_t i = 0; i < m->n_spaces; i++)
        if (find_in_space(m->spaces[i], job)) return true;
    return false;
}

bool carry_has_token(uint32_t shard, const uint16_t *held, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (held[i] == shard) return true;
    return false;
}

bool carry_has_tokens(const struct carry_job *job, const struct engine *e, const uint16_t *held, uint32_t n)
{
    if (job->all_shards) return n == e->route.shards;
    return carry_has_token(0, held, n) && carry_has_token(job->from, held, n) && carry_has_token(job->to, held, n);
}

/* ---- how far */

struct carrying {
    struct engine *e;
    const struct carry_job *job;
    struct buf upto;   /* keys below it go along; empty: all that are left */
    struct carry_result *r;
    struct entry **picked;
    uint32_t n_picked, cap_picked;
};

static uint32_t first_shard(const struct carry_job *j) { return j->all_shards ? 0 : j->from; }
static uint32_t behind_last_shard(const struct carrying *c) { return c->job->all_shards ? c->e->route.shards : c->job->from + 1; }

static bool beyond(struct slice key, struct slice end) { return end.n && slice_cmp(key, end) >= 0; }

static void come_closer(struct carrying *c, struct slice key)
{
    if (c->upto.len && slice_cmp(key, buf_slice(&c->upto)) >= 0) return;
    c->upto.len = 0;
    buf_add_slice(&c->upto, key);
}

/* The slice ends where one of the databases has enough keys before it, or a value that cannot be had. */
static void measure(struct carrying *c, struct store *s, uint16_t db)
{
    const struct keyindex *k = store_index(s, db, c->job->space);
    struct keyindex_at at;
    size_t bytes = 0;
    uint32_t n = 0;
    if (!k) return;
    for (struct entry *e = keyindex_seek(k, c->job->boundary, &at); e && !beyond(entry_key(e), c->job->end); e = keyindex_next(&at)) {
        if (n == SLICE_KEYS || (n && bytes > SLICE_BYTES)) {
            come_closer(c, entry_key(e));
            return;
        }
        n++;
        bytes += keyindex_entry_bytes(e);
    }
}

/* ---- carrying */

static void pick(struct carrying *c, struct entry *e)
{
    if (c->n_picked == c->cap_picked) {
        c->cap_picked = c->cap_picked * 2 + 2 * SLICE_KEYS;
        c->picked = mem_resize(c->picked, c->cap_picked * sizeof *c->picked);
    }
    c->picked[c->n_picked++] = e;
}

static bool in_slice(const struct carrying *c, struct slice key)
{
    return slice_cmp(key, c->job->boundary) >= 0 && !beyond(key, buf_slice(&c->upto)) && !beyond(key, c->job->end);
}

static void pick_keys(struct carrying *c, const struct store *s, uint16_t db)
{
    const struct keyindex *k = store_index(s, db, c->job->space);
    struct keyindex_at at;
    c->n_picked = 0;
    if (!k) return;
    for (struct entry *e = keyindex_seek(k, c->job->boundary, &at); e && in_slice(c, entry_key(e)); e = keyindex_next(&at)) pick(c, e);
}

/* Values that are cold come into memory first: one that cannot be read ends the slice before it. */
static void warm_up(struct carrying *c, struct store *s, uint16_t db)
{
    if (!s->dbs[db] || !s->dbs[db]->cold) return;
    pick_keys(c, s, db);
    for (uint32_t i = 0; i < c->n_picked; i++) {
        struct entry *e = c->picked[i];
        if (!chill_is_cold(e)) continue;
        struct buf key = {0};
        buf_add_slice(&key, entry_key(e));
        struct place at;
        store_peek(s, db, keyhash(buf_slice(&key), s->seed), buf_slice(&key), &at);
        if (at.e && chill_fetch(&at) != 0) {
            c->r->unreadable = true;
            come_closer(c, buf_slice(&key));
        }
        buf_fini(&key);
    }
}

static void carry_entry(struct carrying *c, struct store *from, struct store *to, uint16_t db, const struct entry *e)
{
    struct op op = {.kind = OP_SET, .db = db, .key = entry_key(e), .value = entry_value(e), .expiry_ms = entry_expiry_ms(e)};
    struct buf image = {0};
    if (entry_type(e) != TYPE_STRING) {
        image_write(&image, e);
        op.kind = OP_RESTORE;
        op.value = buf_slice(&image);
    }
    c->r->keys++;
    c->r->bytes += keyindex_entry_bytes(e);
    store_apply(to, &op, NULL);
    buf_fini(&image);
    store_apply(from, &(struct op){.kind = OP_DEL, .db = db, .key = entry_key(e)}, NULL);
}

static void carry_db(struct carrying *c, const struct space_map *next, uint32_t shard, uint16_t db)
{
    struct store *s = c->e->stores[shard];
    pick_keys(c, s, db);
    for (uint32_t i = 0; i < c->n_picked; i++) {
        struct slice key = entry_key(c->picked[i]);
        uint32_t to = spaces_shard(next, key, keyhash(key, s->seed));
        if (to != shard) carry_entry(c, s, c->e->stores[to], db, c->picked[i]);
    }
}

static bool concerns(void *ctx, struct slice key, uint64_t hash)
{
    const struct carrying *c = ctx;
    return slice_eq(space_of(key), c->job->space) && in_slice(c, key);
}

static void each_db(struct carrying *c, void (*fn)(struct carrying *c, struct store *s, uint16_t db))
{
    for (uint32_t s = first_shard(c->job); s < behind_last_shard(c); s++)
        for (uint16_t db = 0; db < STORE_DBS; db++) fn(c, c->e->stores[s], db);
}

/* Who watches a key that goes has lost sight of it; who waits for one follows (shard/wait.c). */
static void tell_interested(struct carrying *c, struct store *s, uint16_t db) { interest_touch_if(s->interests, db, concerns, c); }

static struct space_map *advanced(const struct space_map *m, const struct carry_job *job, struct slice upto, bool done)
{
    enum spaces_error error;
    struct space_map *next;
    if (job->range) next = done ? spaces_move_finish(m, job->space, job->range, &error, NULL) : spaces_move_advance(m, job->space, job->range, upto, &error, NULL);
    else next = done ? spaces_finish(m, job->space, &error, NULL) : spaces_advance(m, job->space, upto, &error, NULL);
    CHECK(next);
    return next;
}

/* The locks on what goes are there before the boundary has passed. */
static void carry_locks(const struct carrying *c, const struct space_map *next)
{
    uint32_t shards = c->e->route.shards;
    bool *in = mem_zalloc(shards * sizeof *in);
    struct slice upto = buf_slice(&c->upto);
    if (c->job->all_shards) memset(in, true, shards);
    else in[c->job->from] = in[c->job->to] = true;
    locks_follow(c->e, in, next, c->job->space, c->job->boundary, upto.n ? upto : c->job->end);
    mem_free(in);
}

struct space_map *carry_slice(struct engine *e, const struct space_map *m, const struct carry_job *job, struct carry_result *r)
{
    struct carrying c = {.e = e, .job = job, .r = r};
    *r = (struct carry_result){0};
    each_db(&c, measure);
    each_db(&c, warm_up);
    struct slice upto = buf_slice(&c.upto);
    struct space_map *next = NULL;
    r->done = upto.n == 0;
    if (r->done || slice_cmp(upto, job->boundary) > 0) {
        next = advanced(m, job, upto, r->done);
        carry_locks(&c, next);
        for (uint32_t s = first_shard(job); s < behind_last_shard(&c); s++)
            for (uint16_t db = 0; db < STORE_DBS; db++) carry_db(&c, next, s, db);
        each_db(&c, tell_interested);
        if (r->keys) atomic_fetch_add(&e->route.shifts, 1);
    }
    mem_free(c.picked);
    buf_fini(&c.upto);
    return next;
}
