/* Changes of the tree: adding, removing, replacing; and its check. */
#include "base/check.h"
#include "store/arena.h"
#include "store/body.h"
#include "store/keyindex_own.h"

enum {
    LEAF_MERGE = 48, /* neighbours that fit together in this many become one */
    INNER_MERGE = 40,
    SPILL_MIN = 8,   /* a neighbour with room for this many takes entries of a full leaf */
    SPILL_MAX = KEYINDEX_LEAF_MAX - LEAF_MERGE, /* which keeps so many that K4 holds towards its other neighbour, too */
    HEIGHT_MAX = 16, /* by K4 each level multiplies the number of nodes by more than 20 */
};

/* The way from the root to a leaf: inner nodes, and which child was taken in each. */
struct path {
    struct inner *node[HEIGHT_MAX];
    unsigned at[HEIGHT_MAX];
};

/* What a parent keeps of a child. */
struct kid {
    void *node; /* NULL: there is none */
    uint64_t head;
    struct entry *item;
    uint64_t count, bytes;
};

size_t keyindex_entry_bytes(const struct entry *e) { return arena_round(entry_bytes(e)) + body_bytes(e); }

/* ---- nodes */

static void *node_new(struct keyindex *k, size_t bytes)
{
    k->node_bytes += bytes;
    return arena_zalloc(k->arena, bytes);
}

static void node_release(struct keyindex *k, void *node, size_t bytes)
{
    k->node_bytes -= bytes;
    arena_release(k->arena, node, bytes);
}

static struct kid leaf_kid(const struct keyindex *k, struct leaf *l)
{
    return (struct kid){l, keyindex_head(k, entry_key(l->item[0])), l->item[0], l->n, keyindex_sum_bytes(l->item, l->n)};
}

static struct kid inner_kid(struct inner *in)
{
    struct kid kid = {.node = in, .head = in->head[0], .item = in->item[0]};
    for (unsigned i = 0; i < in->n; i++) {
        kid.count += in->count[i];
        kid.bytes += in->bytes[i];
    }
    return kid;
}

static void leaf_move(struct leaf *to, unsigned t, struct leaf *from, unsigned f, unsigned n)
{
    memmove(to->item + t, from->item + f, n * sizeof(void *));
}

static void inner_move(struct inner *to, unsigned t, struct inner *from, unsigned f, unsigned n)
{
    memmove(to->head + t, from->head + f, n * sizeof(uint64_t));
    memmove(to->item + t, from->item + f, n * sizeof(void *));
    memmove(to->kid + t, from->kid + f, n * sizeof(void *));
    memmove(to->count + t, from->count + f, n * sizeof(uint64_t));
    memmove(to->bytes + t, from->bytes + f, n * sizeof(uint64_t));
}

static void leaf_put(struct leaf *l, unsigned at, struct entry *e)
{
    leaf_move(l, at + 1, l, at, l->n - at);
    l->item[at] = e;
    l->n++;
}

static void leaf_cut(struct leaf *l, unsigned at)
{
    l->n--;
    leaf_move(l, at, l, at + 1, l->n - at);
}

static void inner_set(struct inner *in, unsigned at, struct kid kid)
{
    in->head[at] = kid.head;
    in->item[at] = kid.item;
    in->kid[at] = kid.node;
    in->count[at] = kid.count;
    in->bytes[at] = kid.bytes;
}

static void inner_put(struct inner *in, unsigned at, struct kid kid)
{
    inner_move(in, at + 1, in, at, in->n - at);
    inner_set(in, at, kid);
    in->n++;
}

static void inner_cut(struct inner *in, unsigned at)
{
    in->n--;
    inner_move(in, at, in, at + 1, in->n - at);
}

static void set_first(const struct keyindex *k, struct inner *in, unsigned at, struct entry *first)
{
    if (in->item[at] == first) return;
    in->item[at] = first;
    in->head[at] = keyindex_head(k, entry_key(first));
}

/* ---- searching */

/* To the leaf that has the key, or into which it would go. */
static struct leaf *descend(const struct keyindex *k, const struct sought *s, struct path *p)
{
    void *node = k->root;
    for (unsigned level = 0; level < k->height; level++) {
        struct inner *in = node;
        p->node[level] = in;
        p->at[level] = keyindex_child(in, s, true);
        node = in->kid[p->at[level]];
        keyindex_prefetch(node);
    }
    return node;
}

/* ---- adding */

/* At which end of the whole tree an entry is added. There a full node is not cut in the middle: whoever adds in order (timestamps, counters) leaves
 * full nodes behind. */
enum edge { EDGE_NONE, EDGE_FIRST, EDGE_LAST };

static struct leaf *leaf_split(struct keyindex *k, struct leaf *l, unsigned cut)
{
    struct leaf *right = node_new(k, sizeof *right);
    leaf_move(right, 0, l, cut, l->n - cut);
    right->n = l->n - cut;
    l->n = cut;
    right->prev = l;
    right->next = l->next;
    if (l->next) l->next->prev = right;
    l->next = right;
    return right;
}

/* So many entries of child i's end go to the head of the one behind it, or, if they are to go `back`, from that one's head to child i's end. */
static void leaf_spill(const struct keyindex *k, struct inner *in, unsigned i, unsigned n, bool back)
{
    struct leaf *l = in->kid[i], *r = in->kid[i + 1];
    uint64_t bytes = keyindex_sum_bytes(back ? r->item : l->item + l->n - n, n);
    if (back) {
        leaf_move(l, l->n, r, 0, n);
        leaf_move(r, 0, r, n, r->n - n);
    } else {
        leaf_move(r, n, r, 0, r->n);
        leaf_move(r, 0, l, l->n - n, n);
    }
    uint32_t sign = back ? 1 : -1u;
    l->n += sign * n;
    r->n -= sign * n;
    in->count[i] = l->n;
    in->count[i + 1] = r->n;
    in->bytes[i] += back ? bytes : -bytes;
    in->bytes[i + 1] -= back ? bytes : -bytes;
    set_first(k, in, i + 1, r->item[0]);
}

static unsigned spilled(uint64_t room) { return room / 2 < SPILL_MAX ? (unsigned)room / 2 : SPILL_MAX; }

/* A full leaf shares with a neighbour that has room, so that leaves are four fifths full in the middle, not two thirds as with splits alone. False: it has to be split. */
static bool make_room(const struct keyindex *k, const struct path *p)
{
    if (k->height == 0) return false;
    struct inner *in = p->node[k->height - 1];
    unsigned i = p->at[k->height - 1];
    uint64_t room_before = i > 0 ? KEYINDEX_LEAF_MAX - in->count[i - 1] : 0, room_behind = i + 1 < in->n ? KEYINDEX_LEAF_MAX - in->count[i + 1] : 0;
    if (room_before < SPILL_MIN && room_behind < SPILL_MIN) return false;
    if (room_before > room_behind) leaf_spill(k, in, i - 1, spilled(room_before), true);
    else leaf_spill(k, in, i, spilled(room_behind), false);
    return true;
}

/* Puts the entry at `at` of a leaf; gives the leaf that had to be made behind it, if any. */
static struct leaf *leaf_insert(struct keyindex *k, struct leaf *l, unsigned at, struct entry *e, enum edge edge)
{
    if (l->n < KEYINDEX_LEAF_MAX) {
        leaf_put(l, at, e);
        return NULL;
    }
    unsigned cut = edge == EDGE_LAST ? KEYINDEX_LEAF_MAX : edge == EDGE_FIRST ? 0 : KEYINDEX_LEAF_MAX / 2;
    struct leaf *right = leaf_split(k, l, cut);
    if (at > cut || edge == EDGE_LAST) leaf_put(right, at - cut, e);
    else leaf_put(l, at, e);
    return right;
}

/* Puts a child at `at` > 0 of an inner node; gives the node that had to be made behind it, if any. */
static struct inner *inner_insert(struct keyindex *k, struct inner *in, unsigned at, struct kid kid, enum edge edge)
{
    if (in->n < KEYINDEX_INNER_MAX) {
        inner_put(in, at, kid);
        return NULL;
    }
    unsigned cut = edge == EDGE_LAST ? KEYINDEX_INNER_MAX : edge == EDGE_FIRST ? 1 : KEYINDEX_INNER_MAX / 2;
    struct inner *right = node_new(k, sizeof *right);
    inner_move(right, 0, in, cut, in->n - cut);
    right->n = in->n - cut;
    in->n = cut;
    if (at > cut || edge == EDGE_LAST) inner_put(right, at - cut, kid);
    else inner_put(in, at, kid);
    return right;
}

/* The root was split: it and what was made behind it get a parent. */
static void root_grow(struct keyindex *k, struct entry *first, struct kid right)
{
    CHECK(k->height < HEIGHT_MAX);
    struct inner *in = node_new(k, sizeof *in);
    in->n = 2;
    inner_set(in, 0, (struct kid){k->root, keyindex_head(k, entry_key(first)), first, k->count - right.count, k->bytes - right.bytes});
    inner_set(in, 1, right);
    k->root = in;
    k->height++;
}

void keyindex_add(struct keyindex *k, struct entry *e)
{
    CHECK(keyindex_has_prefix(k, entry_key(e)));
    struct sought s = keyindex_sought(k, entry_key(e), NULL);
    struct path p;
    uint64_t bytes = keyindex_entry_bytes(e);
    if (!k->root) k->root = node_new(k, sizeof(struct leaf));
    struct leaf *l = descend(k, &s, &p);
    unsigned at = keyindex_items_below(l->item, l->n, &s, true);
    enum edge edge = at == l->n && !l->next ? EDGE_LAST : at == 0 && !l->prev ? EDGE_FIRST : EDGE_NONE;
    if (l->n == KEYINDEX_LEAF_MAX && edge == EDGE_NONE && make_room(k, &p)) {
        l = descend(k, &s, &p);
        at = keyindex_items_below(l->item, l->n, &s, true);
    }
    struct leaf *made = leaf_insert(k, l, at, e, edge);
    k->count++;
    k->bytes += bytes;

    struct kid more = made ? leaf_kid(k, made) : (struct kid){0};
    struct entry *first = l->item[0];
    for (unsigned level = k->height; level-- > 0;) {
        struct inner *in = p.node[level];
        unsigned i = p.at[level];
        in->count[i] += 1 - more.count;
        in->bytes[i] += bytes - more.bytes;
        set_first(k, in, i, first);
        first = in->item[0];
        struct inner *split = more.node ? inner_insert(k, in, i + 1, more, edge) : NULL;
        more = split ? inner_kid(split) : (struct kid){0};
    }
    if (more.node) root_grow(k, first, more);
}

/* ---- removing */

static void leaf_unlink(struct leaf *l)
{
    if (l->prev) l->prev->next = l->next;
    if (l->next) l->next->prev = l->prev;
}

/* Size of child i, in entries or children. Of a leaf the parent knows it, so its neighbours need not be touched. */
static uint64_t kid_size(const struct inner *in, unsigned i, bool leaves)
{
    return leaves ? in->count[i] : ((const struct inner *)in->kid[i])->n;
}

static bool kids_fit(const struct inner *in, unsigned i, bool leaves)
{
    return kid_size(in, i, leaves) + kid_size(in, i + 1, leaves) <= (leaves ? LEAF_MERGE : INNER_MERGE);
}

/* Child i and the one behind it become one. */
static void kids_merge(struct keyindex *k, struct inner *in, unsigned i, bool leaves)
{
    if (leaves) {
        struct leaf *l = in->kid[i], *r = in->kid[i + 1];
        leaf_move(l, l->n, r, 0, r->n);
        l->n += r->n;
        leaf_unlink(r);
        node_release(k, r, sizeof *r);
    } else {
        struct inner *l = in->kid[i], *r = in->kid[i + 1];
        inner_move(l, l->n, r, 0, r->n);
        l->n += r->n;
        node_release(k, r, sizeof *r);
    }
    in->count[i] += in->count[i + 1];
    in->bytes[i] += in->bytes[i + 1];
    inner_cut(in, i + 1);
}

static void kid_drop(struct keyindex *k, struct inner *in, unsigned i, bool leaves)
{
    if (leaves) leaf_unlink(in->kid[i]);
    node_release(k, in->kid[i], leaves ? sizeof(struct leaf) : sizeof(struct inner));
    inner_cut(in, i);
}

/* Child i lost an entry or a child: keeps K4. */
static void kid_shrunk(struct keyindex *k, struct inner *in, unsigned i, bool leaves)
{
    if (kid_size(in, i, leaves) == 0) kid_drop(k, in, i, leaves);
    else if (i > 0 && kids_fit(in, i - 1, leaves)) kids_merge(k, in, i - 1, leaves);
    else if (i + 1 < in->n && kids_fit(in, i, leaves)) kids_merge(k, in, i, leaves);
}

static void root_shrink(struct keyindex *k)
{
    if (k->count == 0) {
        /* Every inner node lost its only child on the way up; the root is what is left. */
        node_release(k, k->root, k->height ? sizeof(struct inner) : sizeof(struct leaf));
        k->root = NULL;
        k->height = 0;
        return;
    }
    while (k->height > 0) {
        struct inner *in = k->root;
        if (in->n > 1) return;
        k->root = in->kid[0];
        k->height--;
        node_release(k, in, sizeof *in);
    }
}

/* The leaf that has the entry, the way to it, and its place there. */
static struct leaf *find_entry(const struct keyindex *k, struct slice key, const struct entry *e, struct path *p, unsigned *at)
{
    CHECK(k->count > 0);
    struct sought s = keyindex_sought(k, key, e);
    struct leaf *l = descend(k, &s, p);
    unsigned behind = keyindex_items_below(l->item, l->n, &s, true);
    CHECK(behind > 0 && l->item[behind - 1] == e);
    *at = behind - 1;
    return l;
}

void keyindex_remove(struct keyindex *k, struct slice key, const struct entry *old, uint64_t old_bytes)
{
    struct path p;
    unsigned at;
    struct leaf *l = find_entry(k, key, old, &p, &at);
    leaf_cut(l, at);
    k->count--;
    k->bytes -= old_bytes;
    struct entry *first = l->item[0];
    bool shrunk = true; /* the child on the path has fewer entries or children than before */
    for (unsigned level = k->height; level-- > 0;) {
        struct inner *in = p.node[level];
        unsigned i = p.at[level], n = in->n;
        in->count[i]--;
        in->bytes[i] -= old_bytes;
        if (in->count[i]) set_first(k, in, i, first);
        if (shrunk) kid_shrunk(k, in, i, level == k->height - 1);
        shrunk = in->n < n;
        first = in->item[0];
    }
    root_shrink(k);
}

void keyindex_replace(struct keyindex *k, struct slice key, const struct entry *old, uint64_t old_bytes, struct entry *now)
{
    struct path p;
    unsigned at;
    struct leaf *l = find_entry(k, key, old, &p, &at);
    uint64_t more = keyindex_entry_bytes(now) - old_bytes;
    l->item[at] = now;
    k->bytes += more;
    for (unsigned level = k->height; level-- > 0;) {
        struct inner *in = p.node[level];
        unsigned i = p.at[level];
        in->bytes[i] += more;
        if (in->item[i] == old) in->item[i] = now; /* with the same key, so with the same head */
    }
}

/* ---- whole trees */

void keyindex_init(struct keyindex *k, struct arena *a, struct slice prefix) { *k = (struct keyindex){.arena = a, .prefix = prefix}; }

static void release_below(struct keyindex *k, void *node, unsigned height)
{
    if (height == 0) {
        node_release(k, node, sizeof(struct leaf));
        return;
    }
    struct inner *in = node;
    for (unsigned i = 0; i < in->n; i++) release_below(k, in->kid[i], height - 1);
    node_release(k, in, sizeof *in);
}

void keyindex_fini(struct keyindex *k)
{
    if (k->root) release_below(k, k->root, k->height);
    CHECK(k->node_bytes == 0);
    keyindex_init(k, k->arena, k->prefix);
}

/* ---- for tests */

struct check {
    const struct keyindex *k;
    const struct leaf *last_leaf;
    struct entry *item; /* the entry before; NULL at first */
    size_t node_bytes;
};

static struct kid check_leaf(struct check *c, struct leaf *l)
{
    CHECK(l->n > 0 && l->n <= KEYINDEX_LEAF_MAX);
    CHECK(l->prev == c->last_leaf && (!c->last_leaf || c->last_leaf->next == l));
    for (unsigned i = 0; i < l->n; i++) {
        CHECK(keyindex_has_prefix(c->k, entry_key(l->item[i])));
        CHECK(!c->item || slice_cmp(entry_key(c->item), entry_key(l->item[i])) < 0);
        c->item = l->item[i];
    }
    c->last_leaf = l;
    c->node_bytes += sizeof *l;
    return leaf_kid(c->k, l);
}

static struct kid check_below(struct check *c, void *node, unsigned height)
{
    if (height == 0) return check_leaf(c, node);
    struct inner *in = node;
    CHECK(in->n > 0 && in->n <= KEYINDEX_INNER_MAX);
    for (unsigned i = 0; i < in->n; i++) {
        struct kid kid = check_below(c, in->kid[i], height - 1);
        CHECK(kid.count == in->count[i] && kid.bytes == in->bytes[i] && kid.item == in->item[i] && kid.head == in->head[i]);
        CHECK(i == 0 || !kids_fit(in, i - 1, height == 1));
    }
    c->node_bytes += sizeof *in;
    return inner_kid(in);
}

void keyindex_check(const struct keyindex *k)
{
    CHECK((k->count == 0) == (k->root == NULL));
    CHECK(k->root || k->bytes == 0);
    if (!k->root) return;
    struct check c = {.k = k};
    struct kid all = check_below(&c, k->root, k->height);
    CHECK(all.count == k->count && all.bytes == k->bytes);
    CHECK(c.last_leaf->next == NULL);
    CHECK(c.node_bytes == k->node_bytes);
    CHECK(k->height == 0 || ((const struct inner *)k->root)->n > 1);
}
