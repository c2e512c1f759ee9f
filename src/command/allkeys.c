#include "command/allkeys.h"

#include "base/glob.h"
#include "base/num.h"

const char allkeys_bad_db[] = "ERR DB index is out of range";

size_t allkeys_list(struct exec *x, struct slice pattern, struct reply *to)
{
    const struct db *db = x->stores[x->shard]->dbs[x->db];
    bool all = slice_eq(pattern, SLICE("*"));
    size_t n = 0;
    if (!db) return 0;
    struct table_iter it;
    table_iter_init(&it, &db->keys);
    for (struct entry *e; (e = table_iter_next(&it));) {
        if (!allkeys_is_live(e, x->now_ms) || !(all || glob_match(pattern, entry_key(e), false))) continue;
        reply_bulk(to, entry_key(e));
        n++;
    }
    return n;
}

bool allkeys_random(struct exec *x, struct slice *key)
{
    enum { TRIES = 100 };
    struct store *s = x->stores[x->shard];
    for (int i = 0; i < TRIES && store_keys(s, x->db) > 0; i++) {
        struct entry *e = table_random(&s->dbs[x->db]->keys, rng_u64(x->rng));
        if (!e) return false;
        *key = entry_key(e);
        if (allkeys_is_live(e, x->now_ms)) return true;
    }
    return false;
}

/* ASYNC and SYNC are the same here: a database's memory goes as a whole, whatever it holds. */
bool allkeys_flush_args(struct exec *x)
{
    if (x->argc == 1 || (x->argc == 2 && (slice_is(x->argv[1], "async") || slice_is(x->argv[1], "sync")))) return true;
    exec_syntax(x);
    return false;
}

bool allkeys_swap_args(struct exec *x, uint16_t *a, uint16_t *b)
{
    int64_t first, second;
    if (!num_parse_i64(x->argv[1], &first) || first < INT32_MIN || first > INT32_MAX) {
        reply_error(&x->out, "ERR invalid first DB index");
    } else if (!num_parse_i64(x->argv[2], &second) || second < INT32_MIN || second > INT32_MAX) {
        reply_error(&x->out, "ERR invalid second DB index");
    } else if (first < 0 || first >= STORE_DBS || second < 0 || second >= STORE_DBS) {
        reply_error(&x->out, allkeys_bad_db);
    } else {
        *a = (uint16_t)first;
        *b = (uint16_t)second;
        return true;
    }
    return false;
}
