/* RANGE.GET, RANGE.COUNT, RANGE.DEL and BUCKET.GET: reading and deleting along the order of a key space. */
#include "base/mem.h"
#include "server/families.h"
#include "server/rangepage.h"
#include "shard/engine.h"
#include "shard/topology.h"

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

/* ---- RANGE.GET, BUCKET.GET: a cursor, then keys and values by turns */

static void get(struct exec *x, const struct rangequery *q)
{
    struct rangequery_walk w;
    struct buf cursor = {0}, page = {0};
    size_t n;
    if (!rangequery_begin(x, topology_of(x), q, &w)) return;
    if (rangepage_fill(x, &w, &page, &n, &cursor)) rangepage_reply(&x->out, q, buf_slice(&cursor), n, buf_slice(&page));
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
    uint64_t keys;
    if (parse(x, RANGEQUERY_BOUNDS, &q) && rangequery_count(x, topology_of(x), &q, &keys)) reply_int(&x->out, (int64_t)keys);
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
