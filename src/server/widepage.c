/* RANGE.GET, BUCKET.GET, RANGE.COUNT and RANGE.DEL over several groups.
 *
 * A walk with a LIMIT asks groups in its order, twice as many each time, until it has one key more than the limit: that one is the cursor's. If it has to begin anew, it asks at once for as much as it had got to; so its reservations are taken
 * in ascending order of groups (cluster/txn.h), not in the order of the walk. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/num.h"
#include "resp/answer.h"
#include "server/rangepage.h"
#include "server/rangetxn_own.h"

/* ---- arguments: they have been read before, to find where it lies, and are right */

static bool parse_as(struct rangetxn *w, struct exec *x, unsigned parts)
{
    struct buf why = {0};
    bool ok = rangequery_parse(x->argv, x->argc, parts, &w->q, &why);
    buf_add_byte(&why, '\0');
    if (!ok) reply_error(&x->out, why.p);
    buf_fini(&why);
    return ok && rangequery_has_order(route_map(&w->engine->route), w->q.space, &x->out);
}

static bool parse_range(struct rangetxn *w, struct exec *x) { return parse_as(w, x, RANGEQUERY_BOUNDS | RANGEQUERY_PAGES | RANGEQUERY_GET); }
static bool parse_bucket(struct rangetxn *w, struct exec *x) { return parse_as(w, x, RANGEQUERY_PAGES | RANGEQUERY_GET); }
static bool parse_bounds(struct rangetxn *w, struct exec *x) { return parse_as(w, x, RANGEQUERY_BOUNDS); }

/* ---- RANGE.GET: asking */

static uint64_t wanted(const struct rangequery *q) { return q->limit == UINT64_MAX ? UINT64_MAX : q->limit + 1; }

static uint32_t values_of(const struct rangequery *q) { return q->keys_only ? 1 : 2; } /* that each key has in an answer */

/* Keys that were told so far; pieces that make no sense count nothing, and are found out in the end. */
static uint64_t keys_told(const struct rangetxn *w, const struct txn *t)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < txn_asked(t); i++) {
        struct slice in = txn_told(t, i);
        uint32_t n;
        if (answer_array(&in, &n)) sum += n / values_of(&w->q);
    }
    return sum;
}

static void ask_piece(struct rangetxn *w, const struct rangetxn_piece *p, bool alone)
{
    char limit[NUM_I64_MAX_CHARS], how[4];
    size_t n = 0;
    if (w->q.reverse) how[n++] = 'r';
    if (w->q.keys_only) how[n++] = 'k';
    if (alone && !p->hashed) how[n++] = 'o';
    const struct slice words[2] = {slice_of(limit, num_format_u64(limit, wanted(&w->q))), slice_of(how, n)};
    rangetxn_ask(w, "span.get", w->q.space, p, words, 2);
}

/* The part of the line that this attempt has not asked for. */
static void rest_of(const struct rangetxn *w, struct slice *start, struct slice *end)
{
    *start = w->pieces && !w->q.reverse ? buf_slice(&w->at) : w->q.start;
    *end = w->pieces && w->q.reverse ? buf_slice(&w->at) : w->q.end;
}

/* Asks for the next `most` pieces. */
static void ask_next(struct rangetxn *w, uint32_t most)
{
    struct slice start, end, reached = {0};
    uint32_t n, i = 0;
    rest_of(w, &start, &end);
    struct rangetxn_piece *pieces = rangetxn_pieces(w, w->q.space, start, end, &n);
    for (; i < n && i < most; i++) {
        const struct rangetxn_piece *p = &pieces[w->q.reverse ? n - 1 - i : i];
        ask_piece(w, p, w->pieces == 0 && most == 1);
        reached = w->q.reverse ? p->start : p->end;
    }
    struct buf at = {0};
    buf_add_slice(&at, reached); /* it may lie in the bytes that it replaces */
    mem_free(pieces);
    buf_fini(&w->at);
    w->at = at;
    w->at_end = i == n;
    w->pieces += i;
    if (w->pieces > w->most_pieces) w->most_pieces = w->pieces;
}

static void ask_for_page(struct rangetxn *w, struct txn *t)
{
    if (!txn_asked(t)) {
        w->pieces = 0;
        ask_next(w, w->q.limit == UINT64_MAX ? UINT32_MAX : w->most_pieces ? w->most_pieces : 1);
    } else if (!w->at_end && keys_told(w, t) < wanted(&w->q)) {
        ask_next(w, w->pieces);
    }
}

/* ---- RANGE.GET: the answer */

struct pair {
    struct slice key, bytes; /* as they are sent: the key, and the value if it is shown */
};

struct pairs {
    struct pair *p;
    size_t n;
};

static bool take_pair(const struct rangequery *q, struct slice *in, struct pair *p)
{
    struct slice before = *in, value;
    struct answer key;
    if (!answer_next(in, &key) || key.type != '$' || (!q->keys_only && !answer_whole(in, &value))) return false;
    *p = (struct pair){key.text, slice_of(before.p, before.n - in->n)};
    return true;
}

static bool take_pairs(const struct rangetxn *w, struct slice in, struct pairs *all)
{
    uint32_t n;
    if (!answer_array(&in, &n) || n % values_of(&w->q)) return false;
    n /= values_of(&w->q);
    all->p = mem_resize(all->p, (all->n + n + 1) * sizeof *all->p);
    for (uint32_t i = 0; i < n; i++)
        if (!take_pair(&w->q, &in, &all->p[all->n++])) return false;
    return in.n == 0;
}

static int ascending(const void *a, const void *b) { return slice_cmp(((const struct pair *)a)->key, ((const struct pair *)b)->key); }
static int descending(const void *a, const void *b) { return ascending(b, a); }

static void reply_page(const struct rangequery *q, const struct pairs *all, struct reply *out)
{
    struct buf cursor = {0}, page = {0};
    bool more = all->n > q->limit;
    size_t n = more ? (size_t)q->limit : all->n;
    if (more) rangequery_cursor(q, all->p[q->reverse ? n - 1 : n].key, &cursor);
    for (size_t i = 0; i < n; i++) buf_add_slice(&page, all->p[i].bytes);
    rangepage_reply(out, q, buf_slice(&cursor), n, buf_slice(&page));
    buf_fini(&cursor);
    buf_fini(&page);
}

static bool answer_page(struct rangetxn *w, struct txn *t, struct reply *out)
{
    struct pairs all = {0};
    bool fine = true;
    for (uint32_t i = 0; fine && i < txn_asked(t); i++) fine = take_pairs(w, txn_told(t, i), &all);
    if (fine && all.n) qsort(all.p, all.n, sizeof *all.p, w->q.reverse ? descending : ascending);
    if (fine) reply_page(&w->q, &all, out);
    mem_free(all.p);
    return fine;
}

/* ---- RANGE.COUNT */

static void ask_for_count(struct rangetxn *w, struct txn *t) { rangetxn_ask_all(w, "span.count", w->q.space, w->q.start, w->q.end, NULL, 0); }

static bool answer_count(struct rangetxn *w, struct txn *t, struct reply *out)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < txn_asked(t); i++) {
        struct slice in = txn_told(t, i);
        struct answer a;
        if (!answer_next(&in, &a) || a.type != ':' || a.n < 0) return false;
        sum += a.n;
    }
    reply_int(out, sum);
    return true;
}

/* ---- RANGE.DEL */

static void ask_for_keys(struct rangetxn *w, struct txn *t) { rangetxn_ask_all(w, "span.keys", w->q.space, w->q.start, w->q.end, NULL, 0); }

static bool delete_told(struct rangetxn *w, struct txn *t, uint32_t ask, int64_t *sum)
{
    struct slice in = txn_told(t, ask);
    struct answer key;
    uint32_t n;
    if (!answer_array(&in, &n)) return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!answer_next(&in, &key) || key.type != '$') return false;
        rangetxn_write(w, ask, &(struct op){.kind = OP_DEL, .db = w->db, .key = key.text});
        rangetxn_event(w, ask, NOTIFY_GENERIC, "del", key.text);
    }
    *sum += n;
    return true;
}

static bool answer_del(struct rangetxn *w, struct txn *t, struct reply *out)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < txn_asked(t); i++)
        if (!delete_told(w, t, i, &sum)) return false;
    reply_int(out, sum);
    return true;
}

const struct rangetxn_kind widepage_get = {"range.get", parse_range, ask_for_page, answer_page};
const struct rangetxn_kind widepage_bucket = {"bucket.get", parse_bucket, ask_for_page, answer_page};
const struct rangetxn_kind widepage_count = {"range.count", parse_bounds, ask_for_count, answer_count};
const struct rangetxn_kind widepage_del = {"range.del", parse_bounds, ask_for_keys, answer_del};
