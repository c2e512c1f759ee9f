#include "store/ordered.h"

#include <string.h>

#include "base/check.h"
#include "base/prefetch.h"
#include "store/arena.h"
#include "store/entry.h"

enum {
    LEAF_MAX = 30,
    INNER_MAX = 31,
    ORDERED_MERGE = 22, /* neighbours that fit together in this many become one */
    HEIGHT_MAX = 24,    /* by O4 each level multiplies the number of nodes by more than 8 */
};

struct leaf {
    _Alignas(64) uint32_t n;
    struct leaf *prev, *next;
    double score[LEAF_MAX];
    struct entry *item[LEAF_MAX];
};

struct inner {
    _Alignas(64) uint32_t n;
    double score[INNER_MAX]; /* score and item: the first pair below each child */
    struct entry *item[INNER_MAX];
    void *kid[INNER_MAX];
    uint64_t count[INNER_MAX];
};

_Static_assert(sizeof(struct leaf) == 512 && sizeof(struct inner) == 1024, "nodes fill whole cache lines");

/* The way from the root to a leaf: inner nodes, and which child was taken in each. */
struct path {
    struct inner *node[HEIGHT_MAX];
    unsigned at[HEIGHT_MAX];
};

/* What a parent keeps of a child. */
struct kid {
    void *node; /* NULL: there is none */
    double score;
    struct entry *item;
    uint64_t count;
};

/* ---- nodes */

static void *node_new(struct ordered *o, size_t bytes)
{
    o->bytes += bytes;
    return arena_zalloc(o->arena, bytes);
}

static void node_release(struct ordered *o, void *node, size_t bytes)
{
    o->bytes -= bytes;
    arena_release(o->arena, node, bytes);
}

static struct kid leaf_kid(struct leaf *l)
{
    return (struct kid){.node = l, .score = l->score[0], .item = l->item[0], .count = l->n};
}

static struct kid inner_kid(struct inner *in)
{
    struct kid k = {.node = in, .score = in->score[0], .item = in->item[0]};
    for (unsigned i = 0; i < in->n; i++) k.count += in->count[i];
    return k;
}

static void leaf_move(struct leaf *to, unsigned t, struct leaf *from, unsigned f, unsigned n)
{
    memmove(to->score + t, from->score + f, n * sizeof(double));
    memmove(to->item + t, from->item + f, n * sizeof(void *));
}

static void inner_move(struct inner *to, unsigned t, struct inner *from, unsigned f, unsigned n)
{
    memmove(to->score + t, from->score + f, n * sizeof(double));
    memmove(to->item + t, from->item + f, n * sizeof(void *));
    memmove(to->kid + t, from->kid + f, n * sizeof(void *));
    memmove(to->count + t, from->count + f, n * sizeof(uint64_t));
}

static void leaf_put(struct leaf *l, unsigned at, double score, struct entry *e)
{
    leaf_move(l, at + 1, l, at, l->n - at);
    l->score[at] = score;
    l->item[at] = e;
    l->n++;
}

static void leaf_cut(struct leaf *l, unsigned at)
{
    l->n--;
    leaf_move(l, at, l, at + 1, l->n - at);
}

static void inner_set(struct inner *in, unsigned at, struct kid k)
{
    in->score[at] = k.score;
    in->item[at] = k.item;
    in->kid[at] = k.node;
    in->count[at] = k.count;
}

static void inner_put(struct inner *in, unsigned at, struct kid k)
{
    inner_move(in, at + 1, in, at, in->n - at);
    inner_set(in, at, k);
    in->n++;
}

static void inner_cut(struct inner *in, unsigned at)
{
    in->n--;
    inner_move(in, at, in, at + 1, in->n - at);
}

/* ---- searching */

/* How many of n ascending scores are below `bound` (or equal, with or_equal). Free of branches that depend on the scores. */
static unsigned scores_below(const double *score, unsigned n, double bound, bool or_equal)
{
    const double *base = score;
    if (n == 0) return 0;
    while (n > 1) {
        unsigned half = n / 2;
        double s = base[half - 1];
        base += (s < bound) | (or_equal & (s == bound)) ? half : 0;
        n -= half;
    }
    return (unsigned)(base - score) + ((*base < bound) | (or_equal & (*base == bound)));
}

static unsigned members_below(struct entry *const *item, unsigned n, struct slice bound, bool or_equal)
{
    unsigned low = 0;
    while (low < n) {
        unsigned mid = (low + n) / 2;
        if (slice_cmp(entry_key(item[mid]), bound) < or_equal) low = mid + 1;
        else n = mid;
    }
    return low;
}

/* How many of a node's n pairs stand before the bound. */
static unsigned pairs_below(const double *score, struct entry *const *item, unsigned n, const struct ordered_bound *b)
{
    if (b->by == ORDERED_BY_MEMBER) return members_below(item, n, b->member, b->after);
    if (b->by == ORDERED_BY_SCORE) return scores_below(score, n, b->score, b->after);
    unsigned low = scores_below(score, n, b->score, false);
    if (low == n || score[low] != b->score) return low;
    unsigned ties = scores_below(score + low, n - low, b->score, true);
    return low + members_below(item + low, ties, b->member, b->after);
}

/* Fetches the lines that hold a node's scores all at once: a binary search would wait for one after the other. */
static void prefetch_scores(const void *node)
{
    for (size_t line = 0; line <= offsetof(struct leaf, item); line += 64) prefetch_line((const char *)node + line);
}

/* The child in which the bound lies: the last one whose first pair stands before it. */
static unsigned inner_search(const struct inner *in, const struct ordered_bound *b)
{
    unsigned i = pairs_below(in->score, in->item, in->n, b);
    return i ? i - 1 : 0;
}

static struct ordered_bound behind_pair(double score, const struct entry *e)
{
    return (struct ordered_bound){.by = ORDERED_BY_BOTH, .after = true, .score = score, .member = entry_key(e)};
}

static struct leaf *descend(const struct ordered *o, const struct ordered_bound *b, struct path *p)
{
    void *node = o->root;
    for (unsigned level = 0; level < o->height; level++) {
        struct inner *in = node;
        p->node[level] = in;
        p->at[level] = inner_search(in, b);
        node = in->kid[p->at[level]];
        prefetch_scores(node);
    }
    return node;
}

uint64_t ordered_rank(const struct ordered *o, const struct ordered_bound *b)
{
    if (o->count == 0) return 0;
    uint64_t rank = 0;
    const void *node = o->root;
    for (unsigned level = 0; level < o->height; level++) {
        const struct inner *in = node;
        unsigned at = inner_search(in, b);
        node = in->kid[at];
        prefetch_scores(node);
        for (unsigned i = 0; i < at; i++) rank += in->count[i];
    }
    const struct leaf *l = node;
    return rank + pairs_below(l->score, l->item, l->n, b);
}

/* ---- inserting */

/* At which end of the whole tree a pair is inserted. There a full node is not cut in the middle: whoever inserts in order
 * (timestamps, counters) leaves full nodes behind. */
enum edge { EDGE_NONE, EDGE_FIRST, EDGE_LAST };

static struct leaf *leaf_split(struct ordered *o, struct leaf *l, unsigned cut)
{
    struct leaf *right = node_new(o, sizeof *right);
    leaf_move(right, 0, l, cut, l->n - cut);
    right->n = l->n - cut;
    l->n = cut;
    right->prev = l;
    right->next = l->next;
    if (l->next) l->next->prev = right;
    l->next = right;
    return right;
}

/* Puts the pair at `at` of a leaf; gives the leaf that had to be made behind it, if any. */
static struct leaf *leaf_insert(struct ordered *o, struct leaf *l, unsigned at, double score, struct entry *e, enum edge edge)
{
    if (l->n < LEAF_MAX) {
        leaf_put(l, at, score, e);
        return NULL;
    }
    unsigned cut = edge == EDGE_LAST ? LEAF_MAX : edge == EDGE_FIRST ? 0 : LEAF_MAX / 2;
    struct leaf *right = leaf_split(o, l, cut);
    if (at > cut || edge == EDGE_LAST) leaf_put(right, at - cut, score, e);
    else leaf_put(l, at, score, e);
    return right;
}

/* Puts a child at `at` > 0 of an inner node; gives the node that had to be made behind it, if any. */
static struct inner *inner_insert(struct ordered *o, struct inner *in, unsigned at, struct kid k, enum edge edge)
{
    if (in->n < INNER_MAX) {
        inner_put(in, at, k);
        return NULL;
    }
    unsigned cut = edge == EDGE_LAST ? INNER_MAX : edge == EDGE_FIRST ? 1 : INNER_MAX / 2;
    struct inner *right = node_new(o, sizeof *right);
    inner_move(right, 0, in, cut, in->n - cut);
    right->n = in->n - cut;
    in->n = cut;
    if (at > cut || edge == EDGE_LAST) inner_put(right, at - cut, k);
    else inner_put(in, at, k);
    return right;
}

static void root_grow(struct ordered *o, struct kid left, struct kid right)
{
    CHECK(o->height < HEIGHT_MAX);
    struct inner *in = node_new(o, sizeof *in);
    in->n = 2;
    inner_set(in, 0, left);
    inner_set(in, 1, right);
    o->root = in;
    o->height++;
}

void ordered_insert(struct ordered *o, double score, struct entry *e)
{
    struct ordered_bound b = behind_pair(score, e);
    struct path p;
    if (o->count++ == 0) o->root = node_new(o, sizeof(struct leaf));
    struct leaf *l = descend(o, &b, &p);
    unsigned at = pairs_below(l->score, l->item, l->n, &b);
    enum edge edge = at == l->n && !l->next ? EDGE_LAST : at == 0 && !l->prev ? EDGE_FIRST : EDGE_NONE;
    struct leaf *more = leaf_insert(o, l, at, score, e, edge);

    struct kid left = leaf_kid(l), right = more ? leaf_kid(more) : (struct kid){0};
    for (unsigned level = o->height; level-- > 0;) {
        struct inner *in = p.node[level];
        unsigned i = p.at[level];
        if (!right.node) {
            in->count[i]++;
            in->score[i] = left.score;
            in->item[i] = left.item;
            left.score = in->score[0];
            left.item = in->item[0];
            continue;
        }
        inner_set(in, i, left);
        struct inner *split = inner_insert(o, in, i + 1, right, edge);
        left = inner_kid(in);
        right = split ? inner_kid(split) : (struct kid){0};
    }
    if (right.node) root_grow(o, left, right);
}

/* ---- removing */

static void leaf_unlink(struct leaf *l)
{
    if (l->prev) l->prev->next = l->next;
    if (l->next) l->next->prev = l->prev;
}

/* Size of child i, in pairs or children. Of a leaf the parent knows it, so its neighbours need not be touched. */
static uint64_t kid_size(const struct inner *in, unsigned i, bool leaves)
{
    return leaves ? in->count[i] : ((const struct inner *)in->kid[i])->n;
}

/* Child i and the one behind it become one. */
static void kids_merge(struct ordered *o, struct inner *in, unsigned i, bool leaves)
{
    if (leaves) {
        struct leaf *l = in->kid[i], *r = in->kid[i + 1];
        leaf_move(l, l->n, r, 0, r->n);
        l->n += r->n;
        leaf_unlink(r);
        node_release(o, r, sizeof *r);
    } else {
        struct inner *l = in->kid[i], *r = in->kid[i + 1];
        inner_move(l, l->n, r, 0, r->n);
        l->n += r->n;
        node_release(o, r, sizeof *r);
    }
    in->count[i] += in->count[i + 1];
    inner_cut(in, i + 1);
}

static void kid_drop(struct ordered *o, struct inner *in, unsigned i, bool leaves)
{
    if (leaves) leaf_unlink(in->kid[i]);
    node_release(o, in->kid[i], leaves ? sizeof(struct leaf) : sizeof(struct inner));
    inner_cut(in, i);
}

/* Child i lost a pair or a child: keeps O4. */
static void kid_shrunk(struct ordered *o, struct inner *in, unsigned i, bool leaves)
{
    uint64_t size = kid_size(in, i, leaves);
    if (size == 0) kid_drop(o, in, i, leaves);
    else if (i > 0 && kid_size(in, i - 1, leaves) + size <= ORDERED_MERGE) kids_merge(o, in, i - 1, leaves);
    else if (i + 1 < in->n && size + kid_size(in, i + 1, leaves) <= ORDERED_MERGE) kids_merge(o, in, i, leaves);
}

static void root_shrink(struct ordered *o)
{
    if (o->count == 0) {
        /* Every inner node lost its only child on the way up; the root is what is left. */
        node_release(o, o->root, o->height ? sizeof(struct inner) : sizeof(struct leaf));
        o->root = NULL;
        o->height = 0;
        return;
    }
    while (o->height > 0) {
        struct inner *in = o->root;
        if (in->n > 1) return;
        o->root = in->kid[0];
        o->height--;
        node_release(o, in, sizeof *in);
    }
}

/* The leaf that holds the pair, the way to it, and its place there. */
static struct leaf *find_pair(const struct ordered *o, double score, const struct entry *e, struct path *p, unsigned *at)
{
    CHECK(o->count > 0);
    struct ordered_bound b = behind_pair(score, e);
    struct leaf *l = descend(o, &b, p);
    unsigned behind = pairs_below(l->score, l->item, l->n, &b);
    CHECK(behind > 0 && l->item[behind - 1] == e);
    *at = behind - 1;
    return l;
}

static void remove_pair(struct ordered *o, struct leaf *l, unsigned at, const struct path *p)
{
    leaf_cut(l, at);
    o->count--;
    double first_score = l->score[0];
    struct entry *first = l->item[0];
    bool shrunk = true; /* the child on the path has fewer pairs or children than before */
    for (unsigned level = o->height; level-- > 0;) {
        struct inner *in = p->node[level];
        unsigned i = p->at[level], n = in->n;
        in->count[i]--;
        in->score[i] = first_score;
        in->item[i] = first;
        if (shrunk) kid_shrunk(o, in, i, level == o->height - 1);
        shrunk = in->n < n;
        first_score = in->score[0];
        first = in->item[0];
    }
    root_shrink(o);
}

void ordered_remove(struct ordered *o, double score, const struct entry *e)
{
    struct path p;
    unsigned at;
    struct leaf *l = find_pair(o, score, e, &p, &at);
    remove_pair(o, l, at, &p);
}

void ordered_rescore(struct ordered *o, double from, double to, struct entry *e)
{
    struct path p;
    unsigned at;
    struct leaf *l = find_pair(o, from, e, &p, &at);
    /* Strictly between its neighbours in the leaf: no other pair and no parent notices. */
    if (at > 0 && at + 1 < l->n && l->score[at - 1] < to && to < l->score[at + 1]) {
        l->score[at] = to;
        return;
    }
    remove_pair(o, l, at, &p);
    ordered_insert(o, to, e);
}

/* ---- whole trees */

void ordered_init(struct ordered *o, struct arena *a) { *o = (struct ordered){.arena = a}; }

static void release_below(struct ordered *o, void *node, unsigned height)
{
    if (height == 0) {
        node_release(o, node, sizeof(struct leaf));
        return;
    }
    struct inner *in = node;
    for (unsigned i = 0; i < in->n; i++) release_below(o, in->kid[i], height - 1);
    node_release(o, in, sizeof *in);
}

void ordered_fini(struct ordered *o)
{
    if (o->root) release_below(o, o->root, o->height);
    CHECK(o->bytes == 0);
    ordered_init(o, o->arena);
}

void ordered_iter_init(struct ordered_iter *it, const struct ordered *o, uint64_t rank, bool back)
{
    *it = (struct ordered_iter){.back = back};
    if (rank >= o->count) return;
    const void *node = o->root;
    for (unsigned level = 0; level < o->height; level++) {
        const struct inner *in = node;
        unsigned i = 0;
        while (rank >= in->count[i]) rank -= in->count[i++];
        node = in->kid[i];
    }
    it->leaf = node;
    it->at = (unsigned)rank;
}

bool ordered_iter_next(struct ordered_iter *it, double *score, struct entry **e)
{
    const struct leaf *l = it->leaf;
    if (!l) return false;
    *score = l->score[it->at];
    *e = l->item[it->at];
    if (!it->back && ++it->at == l->n) {
        it->leaf = l->next;
        it->at = 0;
    } else if (it->back && it->at-- == 0) {
        it->leaf = l->prev;
        it->at = l->prev ? l->prev->n - 1 : 0;
    }
    return true;
}

/* ---- for tests */

struct check {
    const struct leaf *last_leaf;
    double score;
    struct entry *item; /* the pair before; NULL at first */
    size_t bytes;
};

static void check_leaf(struct check *c, const struct leaf *l)
{
    CHECK(l->n > 0 && l->n <= LEAF_MAX);
    CHECK(l->prev == c->last_leaf && (!c->last_leaf || c->last_leaf->next == l));
    for (unsigned i = 0; i < l->n; i++) {
        if (c->item) {
            CHECK(c->score <= l->score[i]);
            CHECK(c->score < l->score[i] || slice_cmp(entry_key(c->item), entry_key(l->item[i])) < 0);
        }
        c->score = l->score[i];
        c->item = l->item[i];
    }
    c->last_leaf = l;
    c->bytes += sizeof *l;
}

/* Gives how many pairs are below the node, and the first of them. */
static uint64_t check_below(struct check *c, const void *node, unsigned height, struct entry **first)
{
    if (height == 0) {
        const struct leaf *l = node;
        check_leaf(c, l);
        *first = l->item[0];
        return l->n;
    }
    const struct inner *in = node;
    uint64_t sum = 0;
    CHECK(in->n > 0 && in->n <= INNER_MAX);
    for (unsigned i = 0; i < in->n; i++) {
        struct entry *kid_first;
        uint64_t n = check_below(c, in->kid[i], height - 1, &kid_first);
        CHECK(n == in->count[i] && kid_first == in->item[i]);
        CHECK(i == 0 || kid_size(in, i - 1, height == 1) + kid_size(in, i, height == 1) > ORDERED_MERGE);
        sum += n;
    }
    *first = in->item[0];
    c->bytes += sizeof *in;
    return sum;
}

void ordered_check(const struct ordered *o)
{
    CHECK((o->count == 0) == (o->root == NULL));
    if (!o->root) return;
    struct check c = {0};
    struct entry *first;
    CHECK(check_below(&c, o->root, o->height, &first) == o->count);
    CHECK(c.last_leaf->next == NULL);
    CHECK(c.bytes == o->bytes);
    CHECK(o->height == 0 || ((const struct inner *)o->root)->n > 1);
}
