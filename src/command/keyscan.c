#include "command/keyscan.h"

#include "base/glob.h"
#include "command/allkeys.h"
#include "command/objects.h"

enum { KEYSCAN_COUNT = 10 };

static bool read_count(struct exec *x, struct slice arg, int64_t *count)
{
    if (!exec_arg_i64(x, arg, count)) return false;
    if (*count < 1) exec_syntax(x);
    return *count >= 1;
}

static bool read_option(struct exec *x, struct keyscan *s, struct slice name, struct slice value)
{
    if (slice_is(name, "match")) {
        s->pattern = value;
        s->by_pattern = !slice_eq(value, SLICE("*"));
    } else if (slice_is(name, "type")) {
        s->type = value;
        s->by_type = true;
    } else if (slice_is(name, "count")) {
        return read_count(x, value, &s->count);
    } else {
        exec_syntax(x);
        return false;
    }
    return true;
}

bool keyscan_begin(struct exec *x, uint32_t first, struct buf *found, struct keyscan *s)
{
    *s = (struct keyscan){.count = KEYSCAN_COUNT, .now_ms = x->now_ms, .found = {found, x->out.resp}};
    for (uint32_t i = first; i < x->argc; i += 2) {
        if (i + 1 == x->argc) {
            exec_syntax(x);
            return false;
        }
        if (!read_option(x, s, x->argv[i], x->argv[i + 1])) return false;
    }
    return true;
}

static void visit(void *ctx, struct entry *e)
{
    struct keyscan *s = ctx;
    struct slice key = entry_key(e);
    s->visited++;
    if (s->by_type && !slice_is(s->type, objects_type_name(entry_type(e)))) return;
    if (s->by_pattern && !glob_match(s->pattern, key, false)) return;
    if (!allkeys_is_live(e, s->now_ms)) {
        buf_add(&s->expired, &key.n, sizeof key.n);
        buf_add_slice(&s->expired, key);
        return;
    }
    reply_bulk(&s->found, key);
    s->n++;
}

/* Keys past their time go when they are met, as everywhere; not while the table is being walked. */
static void drop_expired(const struct exec *x, struct keyscan *s, struct store *store)
{
    struct place at;
    struct slice key;
    for (size_t i = 0; i < s->expired.len; i += key.n) {
        memcpy(&key.n, s->expired.p + i, sizeof key.n);
        i += sizeof key.n;
        key.p = s->expired.p + i;
        store_peek(store, x->db, keyhash(key, store->seed), key, &at);
    }
    buf_fini(&s->expired);
}

uint64_t keyscan_order(const struct store *store, uint16_t db) { return store->dbs[db] ? store->dbs[db]->keys.scramble : 0; }

uint64_t keyscan_walk(const struct exec *x, struct keyscan *s, struct store *store, uint64_t position)
{
    struct db *db = store->dbs[x->db];
    if (!db) return 0;
    size_t want = (uint64_t)s->count > s->visited ? (size_t)((uint64_t)s->count - s->visited) : 0;
    table_scan(&db->keys, &position, want, visit, s);
    drop_expired(x, s, store);
    return position;
}
