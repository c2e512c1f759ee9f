/* Scores in a pack: an integer of up to SCORE_INT_BYTES is kept as the fewest little-endian bytes of two's complement (none for 0), any other score
 * as the 8 bytes of the double. The element's length tells which. A score of 1 takes one byte, a time in milliseconds six.
 * There is no -0: it becomes 0, in both encodings alike. */
#include "store/zset.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "store/arena.h"
#include "store/members.h"
#include "store/ordered.h"
#include "store/pack.h"
#include "store/pack_entry.h"
#include "store/store.h"

enum { SCORE_BYTES = 8, SCORE_INT_BYTES = 6 };

/* The body of a large sorted set. */
struct tree {
    struct members *members; /* owns the entries */
    struct ordered order;    /* the same entries by (score, member) */
};

/* ---- scores as bytes */

static bool is_small_integer(double score)
{
    double limit = (double)(1ll << (SCORE_INT_BYTES * 8 - 1));
    return score >= -limit && score < limit && score == trunc(score);
}

static size_t score_encode(char out[SCORE_BYTES], double score)
{
    if (!is_small_integer(score)) {
        memcpy(out, &score, SCORE_BYTES);
        return SCORE_BYTES;
    }
    int64_t v = (int64_t)score;
    unsigned bits = 64 - (unsigned)__builtin_clrsbll(v); /* with the sign */
    size_t n = v == 0 ? 0 : (bits + 7) / 8;
    memcpy(out, &v, n);
    return n;
}

static double score_decode(struct slice s)
{
    if (s.n == 0) return 0;
    if (s.n == SCORE_BYTES) {
        double score;
        memcpy(&score, s.p, SCORE_BYTES);
        return score;
    }
    uint64_t bits = 0;
    memcpy(&bits, s.p, s.n);
    unsigned shift = 64 - 8 * (unsigned)s.n;
    return (double)((int64_t)(bits << shift) >> shift);
}

static double entry_score(const struct entry *member)
{
    double score;
    memcpy(&score, entry_value(member).p, sizeof score);
    return score;
}

static bool is_pack(const struct entry *e) { return entry_encoding(e) == ENC_PACK; }

static struct tree *tree_of(const struct entry *e)
{
    CHECK(entry_encoding(e) == ENC_TREE);
    return entry_body(e);
}

/* ---- packs: member, score, member, score, ... */

/* Score of the pair whose member stands at off. */
static double pair_score(struct slice pack, size_t off) { return score_decode(pack_get(pack, pack_next(pack, off))); }

static size_t pair_next(struct slice pack, size_t off) { return pack_next(pack, pack_next(pack, off)); }

static size_t pair_find(struct slice pack, struct slice member) { return pack_find(pack, member, 2, pack_first(pack)); }

static bool stands_before(double score, struct slice member, const struct ordered_bound *b)
{
    if (b->by == ORDERED_BY_BOTH && score != b->score) return score < b->score;
    if (b->by == ORDERED_BY_SCORE) return score < b->score || (b->after && score == b->score);
    return slice_cmp(member, b->member) < b->after;
}

/* How many pairs stand before the bound; *off is where the next one starts. */
static uint64_t pack_rank(struct slice pack, const struct ordered_bound *b, size_t *off)
{
    uint64_t rank = 0;
    size_t at = pack_first(pack);
    while (at < pack.n && stands_before(pair_score(pack, at), pack_get(pack, at), b)) {
        at = pair_next(pack, at);
        rank++;
    }
    *off = at;
    return rank;
}

static struct entry *pack_put(const struct kit *k, struct entry *e, struct slice member, double score)
{
    struct ordered_bound b = {.by = ORDERED_BY_BOTH, .score = score, .member = member};
    size_t off;
    char text[SCORE_BYTES];
    struct slice items[2] = {member, slice_of(text, score_encode(text, score))};
    pack_rank(entry_value(e), &b, &off);
    return pack_entry_insert(k->arena, e, off, items, 2);
}

/* ---- trees */

static bool tree_put(struct tree *t, struct slice member, double score)
{
    struct entry *have = members_find(t->members, member);
    if (have) {
        double old = entry_score(have);
        ordered_rescore(&t->order, old, score, have);
        memcpy(entry_value_ptr(have), &score, sizeof score);
        return false;
    }
    bool added;
    struct entry *e = members_put(t->members, member, slice_of(&score, sizeof score), &added);
    ordered_insert(&t->order, score, e);
    return true;
}

/* The pack in e becomes a tree. */
static struct entry *tree_from_pack(const struct kit *k, struct entry *e)
{
    struct slice pack = entry_value(e);
    struct tree *t = arena_alloc(k->arena, sizeof *t);
    t->members = members_new(k, pack_count(pack) / 2 + 1);
    ordered_init(&t->order, k->arena);
    for (size_t off = pack_first(pack); off < pack.n; off = pair_next(pack, off)) {
        tree_put(t, pack_get(pack, off), pair_score(pack, off));
    }
    e = entry_resize_value(k->arena, e, sizeof t);
    entry_set_kind(e, TYPE_ZSET, ENC_TREE);
    entry_set_body(e, t);
    return e;
}

static bool pack_is_too_small(const struct kit *k, const struct entry *e, struct slice member)
{
    uint32_t entries = __atomic_load_n(&k->limits->zset_entries, __ATOMIC_RELAXED);
    uint32_t value = __atomic_load_n(&k->limits->zset_value, __ATOMIC_RELAXED);
    return member.n > value || zset_len(e) >= entries;
}

/* ---- changing */

struct entry *zset_new(const struct kit *k, struct slice key) { return pack_entry_new(k->arena, TYPE_ZSET, key); }

void zset_drop(const struct kit *k, struct entry *e)
{
    if (is_pack(e)) return;
    struct tree *t = tree_of(e);
    ordered_fini(&t->order);
    members_free(t->members);
    arena_release(k->arena, t, sizeof *t);
}

struct entry *zset_put(const struct kit *k, struct entry *e, struct slice member, double score, bool *added)
{
    CHECK(!isnan(score));
    score += 0.0; /* -0 + 0 is 0 */
    if (!is_pack(e)) {
        *added = tree_put(tree_of(e), member, score);
        return e;
    }
    size_t have = pair_find(entry_value(e), member);
    *added = have == entry_value(e).n;
    if (*added && pack_is_too_small(k, e, member)) {
        e = tree_from_pack(k, e);
        tree_put(tree_of(e), member, score);
        return e;
    }
    if (!*added) e = pack_entry_remove(k->arena, e, have, 2);
    return pack_put(k, e, member, score);
}

struct entry *zset_rem(const struct kit *k, struct entry *e, struct slice member, bool *removed)
{
    if (is_pack(e)) {
        size_t have = pair_find(entry_value(e), member);
        *removed = have < entry_value(e).n;
        return *removed ? pack_entry_remove(k->arena, e, have, 2) : e;
    }
    struct tree *t = tree_of(e);
    struct entry *have = members_find(t->members, member);
    *removed = have != NULL;
    if (have) {
        ordered_remove(&t->order, entry_score(have), have);
        members_del(t->members, member);
    }
    return e;
}

/* ---- reading */

uint64_t zset_len(const struct entry *e)
{
    return is_pack(e) ? pack_count(entry_value(e)) / 2 : tree_of(e)->order.count;
}

bool zset_score(const struct entry *e, struct slice member, double *score)
{
    if (is_pack(e)) {
        struct slice pack = entry_value(e);
        size_t off = pair_find(pack, member);
        if (off == pack.n) return false;
        *score = pair_score(pack, off);
        return true;
    }
    struct entry *have = members_find(tree_of(e)->members, member);
    if (have) *score = entry_score(have);
    return have != NULL;
}

static uint64_t rank_of(const struct entry *e, const struct ordered_bound *b)
{
    size_t off;
    return is_pack(e) ? pack_rank(entry_value(e), b, &off) : ordered_rank(&tree_of(e)->order, b);
}

bool zset_rank(const struct entry *e, struct slice member, uint64_t *rank, double *score)
{
    if (!zset_score(e, member, score)) return false;
    struct ordered_bound b = {.by = ORDERED_BY_BOTH, .score = *score, .member = member};
    *rank = rank_of(e, &b);
    return true;
}

uint64_t zset_rank_of_score(const struct entry *e, double score, bool exclusive)
{
    struct ordered_bound b = {.by = ORDERED_BY_SCORE, .after = exclusive, .score = score};
    return rank_of(e, &b);
}

uint64_t zset_rank_of_lex(const struct entry *e, struct slice member, bool exclusive)
{
    struct ordered_bound b = {.by = ORDERED_BY_MEMBER, .after = exclusive, .member = member};
    return rank_of(e, &b);
}

uint64_t zset_order(const struct entry *e) { return members_order(tree_of(e)->members); }

size_t zset_body_bytes(const struct entry *e)
{
    if (is_pack(e)) return 0;
    const struct tree *t = tree_of(e);
    return arena_round(sizeof *t) + members_bytes(t->members) + t->order.bytes;
}

/* ---- walking */

struct walk {
    bool in_pack;
    union {
        struct {
            struct slice pack;
            size_t off; /* of the next pair's member; pack.n: at the end */
            bool back;
        };
        struct ordered_iter order;
    };
};

_Static_assert(sizeof(struct walk) <= sizeof(struct zset_iter), "the iterator has room for the walk");

void zset_iter_init(struct zset_iter *it, const struct entry *e, uint64_t rank, bool back)
{
    struct walk *w = (struct walk *)it->state;
    *w = (struct walk){.in_pack = is_pack(e)};
    if (w->in_pack) {
        w->pack = entry_value(e);
        w->back = back;
        w->off = rank < zset_len(e) ? pack_seek(w->pack, (int64_t)rank * 2) : w->pack.n;
    } else {
        ordered_iter_init(&w->order, &tree_of(e)->order, rank, back);
    }
}

static bool walk_pack(struct walk *w, struct slice *member, double *score)
{
    if (w->off == w->pack.n) return false;
    *member = pack_get(w->pack, w->off);
    *score = pair_score(w->pack, w->off);
    if (!w->back) w->off = pair_next(w->pack, w->off);
    else if (w->off == pack_first(w->pack)) w->off = w->pack.n;
    else w->off = pack_prev(w->pack, pack_prev(w->pack, w->off));
    return true;
}

bool zset_iter_next(struct zset_iter *it, struct slice *member, double *score)
{
    struct walk *w = (struct walk *)it->state;
    if (w->in_pack) return walk_pack(w, member, score);
    struct entry *e;
    if (!ordered_iter_next(&w->order, score, &e)) return false;
    *member = entry_key(e);
    return true;
}

struct scan {
    void (*visit)(void *ctx, struct slice member, double score);
    void *ctx;
};

static void scan_entry(void *ctx, struct entry *e)
{
    const struct scan *s = ctx;
    s->visit(s->ctx, entry_key(e), entry_score(e));
}

void zset_scan(const struct entry *e, uint64_t *cursor, size_t want,
               void (*visit)(void *ctx, struct slice member, double score), void *ctx)
{
    struct scan s = {visit, ctx};
    if (!is_pack(e)) {
        members_scan(tree_of(e)->members, cursor, want, scan_entry, &s);
        return;
    }
    struct slice pack = entry_value(e);
    for (size_t off = pack_first(pack); off < pack.n; off = pair_next(pack, off)) {
        visit(ctx, pack_get(pack, off), pair_score(pack, off));
    }
    *cursor = 0;
}

/* ---- for tests */

void zset_check(const struct entry *e)
{
    CHECK(entry_type(e) == TYPE_ZSET);
    if (is_pack(e)) CHECK(pack_valid(entry_value(e)));
    else ordered_check(&tree_of(e)->order);

    struct zset_iter it;
    struct slice member, before = {0};
    double score, score_before = 0;
    uint64_t n = 0;
    zset_iter_init(&it, e, 0, false);
    for (; zset_iter_next(&it, &member, &score); n++) {
        CHECK(n == 0 || score_before < score || (score_before == score && slice_cmp(before, member) < 0));
        double found;
        CHECK(zset_score(e, member, &found) && found == score);
        before = member;
        score_before = score;
    }
    CHECK(n == zset_len(e));
    if (!is_pack(e)) CHECK(members_count(tree_of(e)->members) == n);
}
