#include "server/spancmd.h"

#include <stdio.h>

#include "base/keyhash.h"
#include "base/num.h"
#include "cluster/holding.h"
#include "cluster/intentcode.h"
#include "cluster/intents.h"
#include "cluster/txncmd.h"
#include "server/rangepage.h"
#include "shard/engine.h"
#include "shard/locks.h"
#include "shard/seating.h"
#include "shard/topology.h"

struct span_call {
    struct exec *x;
    struct engine *e;
    struct intents *intents;
    const struct holding *holding;
    const struct space_map *map;
    struct slice id;
    struct intentspan span;
    bool hashed; /* it goes by hashes */
    bool mixed;  /* the store may have keys in the span that are another group's */
};

/* ---- whether the span is here */

struct slice spancmd_hashes(const struct space_map *m, char out[SPANCMD_HASHES_BYTES + 1])
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < m->n_hash; i++) {
        const struct hash_desc *d = &m->hash[i];
        const uint64_t one[] = {digest, d->shard, d->first, d->moving ? d->to_shard : d->shard};
        digest = keyhash(slice_of(one, sizeof one), 0);
        if (d->moving) digest ^= keyhash(d->boundary, digest);
    }
    snprintf(out, SPANCMD_HASHES_BYTES + 1, "%016llx", (unsigned long long)digest);
    return slice_of(out, SPANCMD_HASHES_BYTES);
}

static bool is_here(void *ctx, const struct space_piece *p)
{
    const struct span_call *c = ctx;
    if (p->hashed || c->hashed) return p->hashed && c->hashed;
    return route_place(c->x->route, p->shard) == c->x->shard;
}

/* Of a span that goes by hashes: its sender asks the same groups as this one would. */
static bool has_same_hashes(const struct span_call *c, struct slice hashes)
{
    char mine[SPANCMD_HASHES_BYTES + 1];
    return !c->hashed || slice_eq(hashes, spancmd_hashes(c->map, mine));
}

static bool is_served(struct span_call *c)
{
    const struct intentspan *s = &c->span;
    c->hashed = c->x->argv[5].n > 0;
    c->mixed = c->hashed || holding_any(c->holding);
    return has_same_hashes(c, c->x->argv[5]) && spaces_overlap(c->map, s->space, s->start, s->end, is_here, c) && holding_serves_range(c->holding, c->map, s->space, s->start, s->end);
}

/* Keys that went elsewhere, and are not dropped yet; or are spread over groups by their hash. */
static bool is_elsewhere(void *ctx, struct slice key)
{
    const struct span_call *c = ctx;
    return route_key(c->x->route, key, keyhash(key, c->x->route->seed)) != c->x->shard || !holding_serves(c->holding, c->map, key);
}

/* ---- beginning and ending */

/* False: it is answered. */
static bool begin(struct exec *x, struct span_call *c)
{
    struct engine *e = engine_worker_of(x)->engine;
    const struct shard *shard = &e->shards[x->shard];
    *c = (struct span_call){.x = x, .e = e, .map = route_map(x->route), .id = x->argv[1], .span = {x->db, x->argv[2], x->argv[3], x->argv[4]}};
    c->intents = e->seating->intents(e->seating->ctx, shard);
    c->holding = e->seating->holding(e->seating->ctx, shard);
    enum intents_state state = intentcode_is_id(c->id) ? intents_state(c->intents, c->id) : INTENTS_NONE;
    if (!intentcode_is_id(c->id)) reply_error(&x->out, "ERR that is no name of a transaction");
    else if (!is_served(c)) reply_error(&x->out, "TXNMOVED the span is not in this group, or not all of it");
    else if (state != INTENTS_NONE && state != INTENTS_RESERVED) reply_error(&x->out, "TXNGONE its reservations are gone");
    else return true;
    return false;
}

static void answer_busy(struct exec *x) { reply_error(&x->out, "TXNBUSY a key of the span is taken by another transaction"); }

/* Reserves the span, and tells of it. */
static uint64_t reserve(struct span_call *c)
{
    uint64_t token = intents_token(c->intents, c->id);
    while (!token) token = rng_u64(c->x->rng);
    intents_reserve_span(c->intents, c->id, token, &c->span);
    return token;
}

static void reply_token(struct exec *x, uint64_t token)
{
    char text[TXNCMD_TOKEN_BYTES + 1];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)token);
    reply_array(&x->out, 2);
    if (token) reply_bulk(&x->out, slice_of(text, TXNCMD_TOKEN_BYTES));
    else reply_null(&x->out);
}

/* ---- walking */

static bool begin_walk(struct span_call *c, const struct rangequery *q, struct rangequery_walk *w)
{
    if (!rangequery_begin_in(c->x, c->e->topology, q, c->x->shard, w)) return false;
    if (c->mixed) w->skips = is_elsewhere;
    w->skips_ctx = c;
    return true;
}

static struct rangequery query_of(const struct span_call *c) { return (struct rangequery){.space = c->span.space, .start = c->span.start, .end = c->span.end, .limit = UINT64_MAX}; }

/* ---- span.get */

static bool has_letter(struct slice how, char letter) { return how.n && memchr(how.p, letter, how.n); }

static void tell_page(struct span_call *c, const struct rangequery *q, bool once)
{
    struct exec *x = c->x;
    struct rangequery_walk w;
    struct buf page = {0};
    size_t n;
    if (!begin_walk(c, q, &w)) return;
    if (rangepage_fill(x, &w, &page, &n, NULL)) {
        reply_token(x, once && n == q->limit ? 0 : reserve(c));
        reply_array(&x->out, q->keys_only ? n : n * 2);
        buf_add_slice(x->out.out, buf_slice(&page));
    }
    rangequery_end(&w);
    buf_fini(&page);
}

static void span_get(struct exec *x)
{
    struct span_call c;
    if (!begin(x, &c)) return;
    struct rangequery q = query_of(&c);
    struct slice how = x->argv[7];
    q.reverse = has_letter(how, 'r');
    q.keys_only = has_letter(how, 'k');
    if (!num_parse_u64(x->argv[6], &q.limit) || q.limit == 0) reply_error(&x->out, "ERR the arguments of span.get make no sense");
    else if (!intents_can_span(c.intents, c.id, &c.span)) answer_busy(x);
    else tell_page(&c, &q, has_letter(how, 'o'));
}

/* ---- span.count */

static bool count_all(struct span_call *c, uint64_t *n)
{
    const struct rangequery q = query_of(c);
    struct rangequery_walk w;
    struct store *store;
    *n = 0;
    if (!c->mixed) return rangequery_count_in(c->x, c->e->topology, &q, c->x->shard, n);
    if (!begin_walk(c, &q, &w)) return false;
    while (rangequery_next(&w, &store)) ++*n;
    rangequery_end(&w);
    return true;
}

static void span_count(struct exec *x)
{
    struct span_call c;
    uint64_t n;
    if (!begin(x, &c)) return;
    if (!intents_can_span(c.intents, c.id, &c.span)) {
        answer_busy(x);
    } else if (count_all(&c, &n)) {
        reply_token(x, reserve(&c));
        reply_int(&x->out, (int64_t)n);
    }
}

/* ---- span.keys */

enum gathered { GATHERED, TAKEN, TOO_MANY };

/* The keys, as they are told. They can all be had, or some is taken. */
static enum gathered gather(struct span_call *c, struct rangequery_walk *w, struct buf *keys, size_t *n)
{
    struct reply r = {.out = keys, .resp = c->x->out.resp};
    struct store *store;
    for (struct entry *e; (e = rangequery_next(w, &store)); ++*n) {
        if (*n == SPANCMD_KEYS_MAX || keys->len > SPANCMD_BYTES_MAX) return TOO_MANY;
        if (!intents_can(c->intents, c->id, c->span.db, entry_key(e), INTENTS_WRITES)) return TAKEN;
        reply_bulk(&r, entry_key(e));
    }
    return GATHERED;
}

static void reserve_keys(struct span_call *c, struct rangequery_walk *w, uint64_t token)
{
    struct store *store;
    for (struct entry *e; (e = rangequery_next(w, &store));) intents_reserve(c->intents, c->id, token, c->span.db, entry_key(e), INTENTS_WRITES);
}

static void tell_keys(struct span_call *c, struct rangequery_walk *w, const struct rangequery *q)
{
    struct exec *x = c->x;
    struct buf keys = {0};
    size_t n = 0;
    enum gathered g = gather(c, w, &keys, &n);
    rangequery_end(w);
    if (g == TAKEN) answer_busy(x);
    else if (g == TOO_MANY) reply_errorf(&x->out, "ERR there are more than %d keys in a shard, or %d bytes of their names, which is too much for one transaction: nothing was deleted", SPANCMD_KEYS_MAX, SPANCMD_BYTES_MAX);
    else if (begin_walk(c, q, w)) {
        uint64_t token = reserve(c);
        reserve_keys(c, w, token);
        rangequery_end(w);
        reply_token(x, token);
        reply_array(&x->out, n);
        buf_add_slice(x->out.out, buf_slice(&keys));
    }
    buf_fini(&keys);
}

static void span_keys(struct exec *x)
{
    struct span_call c;
    struct rangequery_walk w;
    if (!begin(x, &c)) return;
    struct rangequery q = query_of(&c);
    if (!intents_can_span(c.intents, c.id, &c.span)) answer_busy(x);
    else if (begin_walk(&c, &q, &w)) tell_keys(&c, &w, &q);
}

/* ---- span.locks: the span in the system's database says which part of the line it is about, and locks no key */

static void tell_locks(struct span_call *c)
{
    struct exec *x = c->x;
    struct store *s = x->stores[x->shard];
    struct locks_walk w;
    struct spacelock l;
    int64_t expiry_ms;
    reply_array(&x->out, 3);
    reply_int(&x->out, (int64_t)locks_counter(s));
    reply_int(&x->out, x->now_ms);
    size_t mark = reply_open(&x->out), n = 0;
    locks_begin(&w, s, c->span.space, 0);
    while (locks_next(&w, &l, &expiry_ms)) {
        if (!spacelock_overlaps(&l, c->span.start, c->span.end)) continue;
        reply_array(&x->out, 6);
        reply_int(&x->out, (int64_t)l.token);
        reply_int(&x->out, l.exclusive);
        reply_bulk(&x->out, l.start);
        reply_bulk(&x->out, l.end);
        reply_bulk(&x->out, l.owner);
        reply_int(&x->out, expiry_ms);
        n++;
    }
    reply_close_array(&x->out, mark, n);
}

static void span_locks(struct exec *x)
{
    struct span_call c;
    if (!begin(x, &c)) return;
    enum intents_use use = has_letter(x->argv[6], 'w') ? INTENTS_WRITES : INTENTS_READS;
    c.span.db = STORE_SYSTEM_DB;
    if (!intents_can(c.intents, c.id, STORE_SYSTEM_DB, spacelock_counter, use)) {
        answer_busy(x);
        return;
    }
    uint64_t token = reserve(&c);
    intents_reserve(c.intents, c.id, token, STORE_SYSTEM_DB, spacelock_counter, use);
    reply_token(x, token);
    tell_locks(&c);
}

#define OF_GROUP .class = CLASS_KEYED, .flags = CMD_OF_GROUP | CMD_READONLY, .group = "cluster", .since = "0.1.0"

static const struct command rows[] = {
    {.name = "span.get", .fn = span_get, .arity = 8, OF_GROUP, .summary = "Reserves a span of a key space, and gives its keys and values.", .args = "id space start end hashes limit how"},
    {.name = "span.count", .fn = span_count, .arity = 6, OF_GROUP, .summary = "Reserves a span of a key space, and counts its keys.", .args = "id space start end hashes"},
    {.name = "span.keys", .fn = span_keys, .arity = 6, OF_GROUP, .summary = "Reserves a span of a key space and all its keys, to be written.", .args = "id space start end hashes"},
    {.name = "span.locks", .fn = span_locks, .arity = 7, OF_GROUP, .summary = "Reserves the locks on key spaces, and gives those on a span.", .args = "id space start end hashes use"},
};

const struct command_family spancmd_family = COMMAND_FAMILY(rows);
