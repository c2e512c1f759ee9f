/* RANGE.GET, RANGE.COUNT, RANGE.DEL and BUCKET.GET: reading and deleting along the order of a key space. */
#include "base/mem.h"
#include "server/families.h"
#include "server/rangequery.h"
#include "shard/engine.h"
#include "shard/topology.h"
#include "store/chill.h"
#include "store/hash.h"
#include "store/list.h"
#include "store/set.h"
#include "store/zset.h"

static struct topology *topology_of(struct exec *x) { return engine_worker_of(x)->engine->topology; }

static bool parse(struct exec *x, unsigned parts, struct rangequery *q)
{
    struct buf why = {0};
    bool ok = rangequery_parse(x->argv, x->argc, parts, q, &why);
    buf_add_byte(&why, '\0');
    if (!ok) reply_error(&x->out, why.p);
    buf_fini(&why);
    return ok;
}

/* ---- a value, whole, whatever its type: as GET, LRANGE 0 -1, SMEMBERS, HGETALL and ZRANGE 0 -1 WITHSCORES show it in RESP2 */

static void reply_list(struct reply *r, const struct entry *e)
{
    struct list_iter it;
    struct slice v;
    reply_array(r, list_len(e));
    list_iter_init(&it, e, 0, false);
    while (list_iter_next(&it, &v)) reply_bulk(r, v);
}

static void reply_hash(struct reply *r, const struct entry *e)
{
    struct hash_iter it;
    struct slice field, value;
    reply_array(r, hash_len(e) * 2);
    hash_iter_init(&it, e);
    while (hash_iter_next(&it, &field, &value)) {
        reply_bulk(r, field);
        reply_bulk(r, value);
    }
}

static void reply_members(struct reply *r, const struct entry *e)
{
    struct set_iter it;
    struct slice member;
    reply_array(r, set_len(e));
    set_iter_init(&it, e);
    while (set_iter_next(&it, &member)) reply_bulk(r, member);
}

static void reply_scores(struct reply *r, const struct entry *e)
{
    struct zset_iter it;
    struct slice member;
    double score;
    reply_array(r, zset_len(e) * 2);
    zset_iter_init(&it, e, 0, false);
    while (zset_iter_next(&it, &member, &score)) {
        reply_bulk(r, member);
        reply_double(r, score);
    }
}

static void reply_value(struct reply *r, const struct entry *e)
{
    switch (entry_type(e)) {
    case TYPE_LIST: reply_list(r, e); break;
    case TYPE_HASH: reply_hash(r, e); break;
    case TYPE_SET: reply_members(r, e); break;
    case TYPE_ZSET: reply_scores(r, e); break;
    default: reply_bulk(r, entry_value(e));
    }
}

/* ---- RANGE.GET, BUCKET.GET: a cursor, then keys and values by turns */

/* Its value is in memory; false: it cannot be read, and that has been answered. */
static bool has_value(struct exec *x, struct rangequery_walk *w, struct store *s, struct entry **e)
{
    if (likely(!chill_is_cold(*e))) return true;
    struct slice key = entry_key(*e);
    struct place at = {s, s->dbs[x->db], x->db, keyhash(key, s->seed), key, *e};
    if (!exec_readable(x, &at)) return false;
    *e = at.e;
    rangequery_refresh(w, entry_key(at.e));
    return true;
}

static void get(struct exec *x, const struct rangequery *q)
{
    struct rangequery_walk w;
    struct store *s;
    struct entry *e;
    struct buf cursor = {0};
    if (!rangequery_begin(x, topology_of(x), q, &w)) return;
    struct buf page = {0};
    struct reply r = {.out = &page, .resp = x->out.resp};
    size_t n = 0;
    bool ok = true;
    struct slice last = {0};
    while (ok && (e = rangequery_next(&w, &s))) {
        if (n == q->limit) { /* there is more */
            rangequery_cursor(q, q->reverse ? last : entry_key(e), &cursor);
            break;
        }
        ok = q->keys_only || has_value(x, &w, s, &e);
        if (!ok) break;
        last = entry_key(e);
        reply_bulk(&r, last);
        if (!q->keys_only) reply_value(&r, e);
        n++;
    }
    if (ok) {
        reply_array(&x->out, 2);
        reply_bulk(&x->out, cursor.len ? buf_slice(&cursor) : slice_str("0"));
        reply_array(&x->out, q->keys_only ? n : n * 2);
        buf_add_slice(x->out.out, buf_slice(&page));
    }
    rangequery_end(&w);
    buf_fini(&page);
    buf_fini(&cursor);
}

enum { OF_RANGE = RANGEQUERY_BOUNDS | RANGEQUERY_PAGES | RANGEQUERY_GET, OF_BUCKET = RANGEQUERY_PAGES | RANGEQUERY_GET };

static void range_get(struct exec *x)
{
    struct rangequery q;
    if (parse(x, OF_RANGE, &q)) get(x, &q);
}

static void bucket_get(struct exec *x)
{
    struct rangequery q;
    if (parse(x, OF_BUCKET, &q)) get(x, &q);
}

static bool range_extent(const struct slice *argv, uint32_t argc, struct slice *space, struct slice *start, struct slice *end)
{
    return rangequery_extent(argv, argc, OF_RANGE, space, start, end);
}

static bool bucket_extent(const struct slice *argv, uint32_t argc, struct slice *space, struct slice *start, struct slice *end)
{
    return rangequery_extent(argv, argc, OF_BUCKET, space, start, end);
}

static bool bounds_extent(const struct slice *argv, uint32_t argc, struct slice *space, struct slice *start, struct slice *end)
{
    return rangequery_extent(argv, argc, RANGEQUERY_BOUNDS, space, start, end);
}

/* ---- RANGE.COUNT, RANGE.DEL */

static void range_count(struct exec *x)
{
    struct rangequery q;
    uint64_t keys, bytes;
    if (parse(x, RANGEQUERY_BOUNDS, &q) && rangequery_count(x, topology_of(x), &q, &keys, &bytes)) reply_int(&x->out, (int64_t)keys);
}

/* The keys first: deleting ends the walk. */
static bool note_keys(struct exec *x, const struct rangequery *q, struct buf *keys, size_t *n)
{
    struct rangequery_walk w;
    struct store *s;
    if (!rangequery_begin(x, topology_of(x), q, &w)) return false;
    for (struct entry *e; (e = rangequery_next(&w, &s)); ++*n) {
        struct slice key = entry_key(e);
        buf_add(keys, &key.n, sizeof key.n);
        buf_add_slice(keys, key);
    }
    rangequery_end(&w);
    return true;
}

static void range_del(struct exec *x)
{
    struct rangequery q;
    struct buf keys = {0};
    size_t n = 0, at = 0;
    if (!parse(x, RANGEQUERY_BOUNDS, &q) || !note_keys(x, &q, &keys, &n)) return;
    while (at < keys.len) {
        struct place place;
        struct slice key;
        memcpy(&key.n, keys.p + at, sizeof key.n);
        key.p = keys.p + at + sizeof key.n;
        at += sizeof key.n + key.n;
        exec_peek(x, key, &place);
        if (!place.e) continue;
        exec_del(x, &place);
        exec_notify(x, NOTIFY_GENERIC, "del", key);
    }
    buf_fini(&keys);
    reply_int(&x->out, (int64_t)n);
}

static const struct command rows[] = {
    {.name = "range.get", .fn = range_get, .arity = -2, .class = CLASS_SPACE, .extent = range_extent, .flags = CMD_READONLY, .group = "range", .since = "7.2.0",
     .summary = "Keys and values of a key space in byte order, at one moment; answers a cursor for the next page, 0 if there is none, and the pairs.",
     .args = "space [start | - [end | +]] [LIMIT count] [REVERSE] [CURSOR cursor] [KEYSONLY]"},
    {.name = "range.count", .fn = range_count, .arity = -2, .class = CLASS_SPACE, .extent = bounds_extent, .flags = CMD_READONLY | CMD_FAST | CMD_KEY_ONLY, .group = "range", .since = "7.2.0",
     .summary = "How many keys of a key space there are from start to before end.", .args = "space [start | - [end | +]]"},
    {.name = "range.del", .fn = range_del, .arity = -2, .class = CLASS_SPACE, .extent = bounds_extent, .flags = CMD_WRITE | CMD_KEY_ONLY, .group = "range", .since = "7.2.0",
     .summary = "Deletes the keys of a key space from start to before end, all at one moment; answers how many.", .args = "space [start | - [end | +]]"},
    {.name = "bucket.get", .fn = bucket_get, .arity = -2, .class = CLASS_SPACE, .extent = bucket_extent, .flags = CMD_READONLY, .group = "range", .since = "7.2.0",
     .summary = "The whole key space in byte order, at one moment; answers a cursor for the next page, 0 if there is none, and the pairs.",
     .args = "prefix [KEYSONLY] [LIMIT count] [REVERSE] [CURSOR cursor]"},
};

const struct command_family rangecmd_family = COMMAND_FAMILY(rows);
