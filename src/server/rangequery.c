#include "server/rangequery.h"

#include "base/mem.h"
#include "base/num.h"
#include "route/keyspace.h"
#include "shard/topology.h"

/* ---- arguments */

static bool is_word(struct slice arg, const char *word) { return slice_is(arg, word); }

static bool is_option(struct slice arg, unsigned parts)
{
    if (parts & RANGEQUERY_PAGES && (is_word(arg, "limit") || is_word(arg, "cursor"))) return true;
    return parts & RANGEQUERY_GET && (is_word(arg, "reverse") || is_word(arg, "keysonly"));
}

static bool fail(struct buf *why, const char *text)
{
    if (why) buf_add_str(why, text);
    return false;
}

/* '-' and '+' are the ends of the line. */
static bool parse_bound(struct slice arg, char open, struct slice space, struct slice *bound, struct buf *why)
{
    *bound = slice_of(NULL, 0);
    if (arg.n == 1 && arg.p[0] == open) return true;
    *bound = arg;
    struct buf reason = {0};
    bool ok = open == '-' ? spaces_key_fits(space, arg, &reason) : spaces_end_fits(space, arg, &reason);
    if (!ok && why) buf_printf(why, "ERR %.*s", (int)reason.len, reason.p);
    buf_fini(&reason);
    return ok;
}

/* "0" is the beginning; else '>' or '<', for the direction, and a key. */
static bool use_cursor(struct rangequery *q, struct slice c, struct buf *why)
{
    if (c.n == 0 || (c.n == 1 && c.p[0] == '0')) return true;
    if (c.p[0] != (q->reverse ? '<' : '>')) return fail(why, "ERR invalid cursor: it is not one of this command with these options");
    struct slice key = slice_of(c.p + 1, c.n - 1);
    if (q->reverse) {
        if (!q->end.n || slice_cmp(key, q->end) < 0) q->end = key;
    } else if (slice_cmp(key, q->start) > 0) {
        q->start = key;
    }
    return true;
}

static bool parse_option(const struct slice *argv, uint32_t argc, uint32_t *i, unsigned parts, struct rangequery *q, struct slice *cursor, struct buf *why)
{
    struct slice arg = argv[*i];
    if (!is_option(arg, parts)) return fail(why, reply_syntax);
    if (is_word(arg, "reverse")) return q->reverse = true;
    if (is_word(arg, "keysonly")) return q->keys_only = true;
    if (++*i == argc) return fail(why, reply_syntax);
    if (is_word(arg, "cursor")) {
        *cursor = argv[*i];
        return true;
    }
    int64_t limit;
    if (!num_parse_i64(argv[*i], &limit) || limit < 1) return fail(why, "ERR LIMIT must be a positive integer");
    q->limit = (uint64_t)limit;
    return true;
}

/* A prefix may be given as it is written in keys, with the slash behind it. */
static struct slice without_slash(struct slice s) { return s.n > 1 && s.p[s.n - 1] == '/' ? slice_of(s.p, s.n - 1) : s; }

bool rangequery_parse(const struct slice *argv, uint32_t argc, unsigned parts, struct rangequery *q, struct buf *why)
{
    struct slice cursor = slice_of(NULL, 0);
    *q = (struct rangequery){.space = without_slash(argv[1]), .limit = UINT64_MAX};
    uint32_t i = 2;
    if (parts & RANGEQUERY_BOUNDS) {
        if (i < argc && !is_option(argv[i], parts) && !parse_bound(argv[i++], '-', q->space, &q->start, why)) return false;
        if (i == 3 && i < argc && !is_option(argv[i], parts) && !parse_bound(argv[i++], '+', q->space, &q->end, why)) return false;
    }
    for (; i < argc; i++)
        if (!parse_option(argv, argc, &i, parts, q, &cursor, why)) return false;
    return use_cursor(q, cursor, why);
}

bool rangequery_extent(const struct slice *argv, uint32_t argc, unsigned parts, struct slice *space, struct slice *start, struct slice *end)
{
    struct rangequery q;
    if (!rangequery_parse(argv, argc, parts, &q, NULL)) return false;
    *space = q.space;
    *start = q.start;
    *end = q.end;
    return true;
}

void rangequery_cursor(const struct rangequery *q, struct slice key, struct buf *out)
{
    buf_add_byte(out, q->reverse ? '<' : '>');
    buf_add_slice(out, key);
}

/* ---- where it is */

struct laying_out {
    struct exec *x;
    struct rangequery_walk *w;
};

static bool is_empty(const struct rangequery *q) { return q->end.n && slice_cmp(q->start, q->end) >= 0; }

static void add_shards(struct rangequery_walk *w, struct slice start, struct slice end, uint32_t first, uint32_t n)
{
    w->pieces = mem_resize(w->pieces, (w->n_pieces + 1) * sizeof *w->pieces);
    w->pieces[w->n_pieces++] = (struct rangequery_piece){start, end, first, n};
}

static bool add_piece(void *ctx, const struct space_piece *p)
{
    const struct laying_out *l = ctx;
    if (p->hashed) add_shards(l->w, p->start, p->end, 0, l->x->route->shards);
    else add_shards(l->w, p->start, p->end, route_place(l->x->route, p->shard), 1);
    return true;
}

bool rangequery_has_order(const struct space_map *m, struct slice space, struct reply *out)
{
    struct space_info info = {0};
    struct buf name = {0};
    if (m) spaces_info(m, space, &info);
    if (m && (info.mode != SPACE_HASH || info.moving)) return true;
    spaces_text_key(&name, space);
    reply_errorf(out, "ERR the key space %.*s has no order: SPACE.SET it BUCKET or RANGE first", (int)name.len, name.p);
    buf_fini(&name);
    return false;
}

/* only: the one shard that is looked at; EXEC_NO_SHARD: wherever the map has it. */
static bool lay_out(struct exec *x, const struct topology *t, const struct rangequery *q, uint32_t only, struct rangequery_walk *w)
{
    *w = (struct rangequery_walk){.q = q, .topology = t, .db = x->db, .now_ms = x->now_ms, .stores = x->stores};
    const struct space_map *m = route_map(x->route);
    if (!rangequery_has_order(m, q->space, &x->out)) return false;
    if (!is_empty(q) && only == EXEC_NO_SHARD) spaces_overlap(m, q->space, q->start, q->end, add_piece, &(struct laying_out){x, w});
    else if (!is_empty(q)) add_shards(w, q->start, q->end, only, 1);
    return true;
}

/* ---- counting */

static bool is_past(const struct entry *e, int64_t now_ms)
{
    int64_t at = entry_expiry_ms(e);
    return at && now_ms > at;
}

static uint64_t count_past_in_order(const struct keyindex *k, struct slice start, struct slice end, int64_t now_ms)
{
    struct keyindex_at at;
    uint64_t n = 0;
    for (const struct entry *e = keyindex_seek(k, start, &at); e && (!end.n || slice_cmp(entry_key(e), end) < 0); e = keyindex_next(&at)) n += is_past(e, now_ms);
    return n;
}

/* Those that have expired, or those that have not. */
static uint64_t count_in_table(const struct table *t, struct slice space, const struct rangequery_piece *p, int64_t now_ms, bool past)
{
    struct table_iter it;
    uint64_t n = 0;
    table_iter_init(&it, t);
    for (const struct entry *e; (e = table_iter_next(&it));) n += is_past(e, now_ms) == past && space_has(space, p->start, p->end, entry_key(e));
    return n;
}

/* Those that have expired and are still there do not count. Nothing knows where they are, so the keys that expire are looked at, or all of the part, whichever are fewer. */
static uint64_t count_by_index(const struct rangequery_walk *w, const struct rangequery_piece *p, const struct store *s)
{
    const struct keyindex *k = store_index(s, w->db, w->q->space);
    uint64_t n = k ? keyindex_count(k, p->start, p->end.n ? &p->end : NULL) : 0, expiring = store_expiring(s, w->db);
    if (n == 0 || expiring == 0) return n;
    return n - (n < expiring ? count_past_in_order(k, p->start, p->end, w->now_ms) : count_in_table(&s->dbs[w->db]->expiring, w->q->space, p, w->now_ms, true));
}

static uint64_t count_piece(const struct rangequery_walk *w, const struct rangequery_piece *p, uint32_t shard)
{
    const struct store *s = w->stores[shard];
    if (topology_is_ordered(w->topology, shard, w->q->space)) return count_by_index(w, p, s);
    return s->dbs[w->db] ? count_in_table(&s->dbs[w->db]->keys, w->q->space, p, w->now_ms, false) : 0;
}

bool rangequery_count_in(struct exec *x, const struct topology *t, const struct rangequery *q, uint32_t shard, uint64_t *keys)
{
    struct rangequery_walk w;
    *keys = 0;
    if (!lay_out(x, t, q, shard, &w)) return false;
    for (uint32_t i = 0; i < w.n_pieces; i++) {
        const struct rangequery_piece *p = &w.pieces[i];
        for (uint32_t s = 0; s < p->n; s++) *keys += count_piece(&w, p, p->first + s);
    }
    rangequery_end(&w);
    return true;
}

bool rangequery_count(struct exec *x, const struct topology *t, const struct rangequery *q, uint64_t *keys) { return rangequery_count_in(x, t, q, EXEC_NO_SHARD, keys); }

/* ---- walking */

static const struct rangequery_piece *piece_of(const struct rangequery_walk *w)
{
    return &w->pieces[w->q->reverse ? w->n_pieces - 1 - w->piece : w->piece];
}

static bool outside(const struct rangequery_walk *w, struct slice key)
{
    const struct rangequery_piece *p = piece_of(w);
    if (w->q->reverse) return slice_cmp(key, p->start) < 0;
    return p->end.n && slice_cmp(key, p->end) >= 0;
}

static void settle(const struct rangequery_walk *w, struct rangequery_source *s, struct entry *e)
{
    s->e = e && !outside(w, entry_key(e)) ? e : NULL;
}

static struct entry *first_of(const struct rangequery_walk *w, struct rangequery_source *s)
{
    const struct rangequery_piece *p = piece_of(w);
    if (!s->index) return keysort_next(&s->sorted);
    if (!w->q->reverse) return keyindex_seek(s->index, p->start, &s->at);
    return p->end.n ? keyindex_before(s->index, p->end, &s->at) : keyindex_last(s->index, &s->at);
}

static struct entry *next_of(const struct rangequery_walk *w, struct rangequery_source *s)
{
    if (!s->index) return keysort_next(&s->sorted);
    return w->q->reverse ? keyindex_prev(&s->at) : keyindex_next(&s->at);
}

static void open_source(struct rangequery_walk *w, uint32_t shard)
{
    const struct rangequery *q = w->q;
    const struct rangequery_piece *p = piece_of(w);
    struct rangequery_source *s = &w->sources[w->n_sources++];
    *s = (struct rangequery_source){.store = w->stores[shard]};
    if (topology_is_ordered(w->topology, shard, q->space)) s->index = store_index(s->store, w->db, q->space);
    else keysort_init(&s->sorted, s->store, w->db, q->space, p->start, p->end, q->reverse);
    settle(w, s, first_of(w, s));
}

static void close_sources(struct rangequery_walk *w)
{
    for (uint32_t i = 0; i < w->n_sources; i++) keysort_fini(&w->sources[i].sorted);
    w->n_sources = 0;
}

static void open_piece(struct rangequery_walk *w)
{
    const struct rangequery_piece *p = piece_of(w);
    close_sources(w);
    w->given = NULL;
    for (uint32_t i = 0; i < p->n; i++) open_source(w, p->first + i);
}

bool rangequery_begin_in(struct exec *x, const struct topology *t, const struct rangequery *q, uint32_t shard, struct rangequery_walk *w)
{
    if (!lay_out(x, t, q, shard, w)) return false;
    w->sources = mem_alloc(x->route->shards * sizeof *w->sources);
    if (w->n_pieces) open_piece(w);
    return true;
}

bool rangequery_begin(struct exec *x, const struct topology *t, const struct rangequery *q, struct rangequery_walk *w) { return rangequery_begin_in(x, t, q, EXEC_NO_SHARD, w); }

static struct rangequery_source *nearest(struct rangequery_walk *w)
{
    struct rangequery_source *best = NULL;
    for (uint32_t i = 0; i < w->n_sources; i++) {
        struct rangequery_source *s = &w->sources[i];
        if (!s->e) continue;
        int order = best ? slice_cmp(entry_key(s->e), entry_key(best->e)) : -1;
        if (!best || (w->q->reverse ? order > 0 : order < 0)) best = s;
    }
    return best;
}

static bool has_expired(const struct rangequery_walk *w, const struct entry *e) { return is_past(e, w->now_ms); }

/* The next one behind a key of the index that has gone. */
static struct entry *behind(const struct rangequery_walk *w, struct rangequery_source *s, struct slice key)
{
    s->index = store_index(s->store, w->db, w->q->space); /* it goes with its last key */
    if (!s->index) return NULL;
    if (w->q->reverse) return keyindex_before(s->index, key, &s->at);
    struct entry *e = keyindex_seek(s->index, key, &s->at);
    return e && slice_eq(entry_key(e), key) ? keyindex_next(&s->at) : e; /* a replica that follows has it still */
}

/* An entry whose time is over goes when it is met, as it does wherever a key is looked for: so the answer waits for its end, and nobody whose clock is behind shows it again. False: it is kept, and shown. Else the walk is behind it. */
static bool bury(struct rangequery_walk *w, struct rangequery_source *s)
{
    struct slice key = entry_key(s->e);
    char *copy = mem_dup(key.p, key.n);
    struct place at;
    key.p = copy;
    store_peek(s->store, w->db, keyhash(key, s->store->seed), key, &at);
    if (!at.e) settle(w, s, s->index ? behind(w, s, key) : keysort_next(&s->sorted));
    mem_free(copy);
    return !at.e;
}

struct entry *rangequery_next(struct rangequery_walk *w, struct store **store)
{
    while (w->piece < w->n_pieces) {
        if (w->given) settle(w, w->given, next_of(w, w->given));
        w->given = nearest(w);
        if (!w->given) {
            if (++w->piece < w->n_pieces) open_piece(w);
            continue;
        }
        if (w->skips && w->skips(w->skips_ctx, entry_key(w->given->e))) continue;
        if (has_expired(w, w->given->e) && bury(w, w->given)) {
            w->given = NULL;
            continue;
        }
        *store = w->given->store;
        return w->given->e;
    }
    return NULL;
}

void rangequery_refresh(struct rangequery_walk *w, struct slice key)
{
    if (w->given->index) w->given->e = keyindex_seek(w->given->index, key, &w->given->at);
}

void rangequery_end(struct rangequery_walk *w)
{
    close_sources(w);
    mem_free(w->pieces);
    mem_free(w->sources);
    w->pieces = NULL;
    w->sources = NULL;
}
