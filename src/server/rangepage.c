#include "server/rangepage.h"

#include "store/chill.h"
#include "store/hash.h"
#include "store/list.h"
#include "store/set.h"
#include "store/zset.h"

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

/* ---- pages */

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

bool rangepage_fill(struct exec *x, struct rangequery_walk *w, struct buf *page, size_t *n, struct buf *cursor)
{
    const struct rangequery *q = w->q;
    struct reply r = {.out = page, .resp = x->out.resp};
    struct slice last = {0};
    struct store *s;
    struct entry *e;
    *n = 0;
    while ((cursor || *n < q->limit) && (e = rangequery_next(w, &s))) {
        if (*n == q->limit) { /* there is more */
            rangequery_cursor(q, q->reverse ? last : entry_key(e), cursor);
            break;
        }
        if (!q->keys_only && !has_value(x, w, s, &e)) return false;
        last = entry_key(e);
        reply_bulk(&r, last);
        if (!q->keys_only) reply_value(&r, e);
        ++*n;
    }
    return true;
}

void rangepage_reply(struct reply *out, const struct rangequery *q, struct slice cursor, size_t n, struct slice page)
{
    reply_array(out, 2);
    reply_bulk(out, cursor.n ? cursor : slice_str("0"));
    reply_array(out, q->keys_only ? n : n * 2);
    buf_add_slice(out->out, page);
}
