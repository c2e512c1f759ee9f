#include "store/chain.h"

#include "base/check.h"
#include "store/arena.h"
#include "store/pack.h"

enum {
    OVERHEAD = sizeof(struct chain_node) + 64, /* a full node with the arena's header is a whole power of two for the heap */
    FIRST_BYTES = 256,
};

struct chain_limit chain_limit_of(int32_t list_size)
{
    unsigned size = list_size >= 0 ? 2 : list_size < -5 ? 5 : (unsigned)-list_size;
    uint32_t count = list_size < 0 ? UINT32_MAX : list_size == 0 ? 1 : (uint32_t)list_size;
    return (struct chain_limit){(2048u << size) - OVERHEAD, count};
}

bool chain_fits(struct chain_limit limit, uint64_t bytes, uint64_t count)
{
    return bytes <= limit.bytes && count <= limit.count;
}

struct chain_limit chain_half(struct chain_limit limit)
{
    return (struct chain_limit){limit.bytes / 2, limit.count / 2};
}

/* ---- one node */

static size_t block_bytes(size_t cap) { return sizeof(struct chain_node) + cap; }
static uint32_t used(const struct chain_node *n) { return n->end - n->start; }

static struct chain_node *node_new(struct arena *a, struct chain *c, size_t cap)
{
    cap = (cap + 7) & ~(size_t)7; /* the arena would round it so: what it adds is ours to use */
    CHECK(cap <= UINT32_MAX);
    struct chain_node *n = arena_alloc(a, block_bytes(cap));
    *n = (struct chain_node){.cap = (uint32_t)cap};
    c->bytes += arena_round(block_bytes(cap));
    return n;
}

static void node_free(struct arena *a, struct chain *c, struct chain_node *n)
{
    c->bytes -= arena_round(block_bytes(n->cap));
    arena_release(a, n, block_bytes(n->cap));
}

struct slice chain_pack(const struct chain_node *n)
{
    const char *block = (const char *)n;
    return slice_of(block + sizeof(struct chain_node) + n->start - PACK_HEADER, used(n) + (size_t)PACK_HEADER);
}

/* Between offsets in the pack's shape and places in data. */
static uint32_t place_of(const struct chain_node *n, size_t off) { return n->start + (uint32_t)(off - PACK_HEADER); }
static size_t offset_of(const struct chain_node *n, uint32_t place) { return place - n->start + (size_t)PACK_HEADER; }

/* The place of the node's index-th element (its count: the end), walked to from the nearer end. */
static uint32_t node_seek(const struct chain_node *n, uint32_t index)
{
    struct slice pack = chain_pack(n);
    size_t off;
    if (index <= n->count / 2) {
        off = PACK_HEADER;
        for (uint32_t i = 0; i < index; i++) off = pack_next(pack, off);
    } else {
        off = pack.n;
        for (uint32_t i = n->count; i > index; i--) off = pack_prev(pack, off);
    }
    return place_of(n, off);
}

/* ---- links */

static void link_between(struct chain *c, struct chain_node *prev, struct chain_node *n, struct chain_node *next)
{
    n->prev = prev;
    n->next = next;
    *(prev ? &prev->next : &c->head) = n;
    *(next ? &next->prev : &c->tail) = n;
}

static void node_insert(struct chain *c, struct chain_node *prev, struct chain_node *n, struct chain_node *next)
{
    link_between(c, prev, n, next);
    c->nodes++;
}

static void node_delete(struct arena *a, struct chain *c, struct chain_node *n)
{
    *(n->prev ? &n->prev->next : &c->head) = n->next;
    *(n->next ? &n->next->prev : &c->tail) = n->prev;
    if (c->finger == n) c->finger = NULL;
    c->nodes--;
    node_free(a, c, n);
}

/* ---- room in a node */

/* Moves the node into a block of `cap` bytes with the window at `start`, and a gap of `gap` bytes at *at, which becomes the gap's new place. */
static struct chain_node *node_rebuild(struct arena *a, struct chain *c, struct chain_node *n, size_t cap, uint32_t start,
                                       uint32_t *at, uint32_t gap)
{
    struct chain_node *to = node_new(a, c, cap);
    uint32_t before = *at - n->start;
    to->count = n->count;
    to->start = start;
    to->end = start + used(n) + gap;
    CHECK(to->end <= to->cap);
    memcpy(to->data + start, n->data + n->start, before);
    memcpy(to->data + start + before + gap, n->data + *at, n->end - *at);
    *at = start + before;
    link_between(c, n->prev, to, n->next);
    if (c->finger == n) c->finger = to;
    node_free(a, c, n);
    return to;
}

/* Gives back room that a node will not need: an end node may keep three quarters free, an inner one an eighth. */
static struct chain_node *node_trim(struct arena *a, struct chain *c, struct chain_node *n)
{
    uint32_t spare = n->prev && n->next ? n->cap / 8 : n->cap / 4 * 3;
    if (n->cap - used(n) <= spare) return n;
    uint32_t at = n->start;
    return node_rebuild(a, c, n, used(n), 0, &at, 0);
}

/* Opens a gap anywhere in the window: by moving the shorter side if there is room for it, else in a new block of the exact size. */
static struct chain_node *node_open(struct arena *a, struct chain *c, struct chain_node *n, uint32_t *at, uint32_t gap)
{
    uint32_t before = *at - n->start, after = n->end - *at;
    bool front = n->start >= gap, back = n->cap - n->end >= gap;
    if (!front && !back) return node_rebuild(a, c, n, (size_t)used(n) + gap, 0, at, gap);
    if (front && (!back || before < after)) {
        memmove(n->data + n->start - gap, n->data + n->start, before);
        n->start -= gap;
        *at -= gap;
    } else {
        memmove(n->data + *at + gap, n->data + *at, after);
        n->end += gap;
    }
    return n;
}

/* Closes `cut` bytes at `at` by moving the shorter side; gives the place where they were. */
static uint32_t node_close(struct chain_node *n, uint32_t at, uint32_t cut)
{
    uint32_t before = at - n->start, after = n->end - at - cut;
    if (before < after) {
        memmove(n->data + n->start + cut, n->data + n->start, before);
        n->start += cut;
        return at + cut;
    }
    memmove(n->data + at, n->data + at + cut, after);
    n->end -= cut;
    return at;
}

/* Makes room for `more` bytes at one end of an end node; NULL if a new node is the better place. Room is made by sliding a window that fills at
 * most half its block, or by a block half as large again: either way many pushes pay for one move. */
static struct chain_node *node_extend(struct arena *a, struct chain *c, struct chain_limit limit, struct chain_node *n, bool head,
                                      uint32_t more)
{
    if (!chain_fits(limit, (uint64_t)used(n) + more, n->count + 1ull)) return NULL;
    if ((head ? n->start : n->cap - n->end) >= more) return n;
    uint32_t size = used(n), want = size + more;
    if (size <= n->cap / 2 && want <= n->cap) {
        uint32_t start = head ? n->cap - size : 0;
        memmove(n->data + start, n->data + n->start, size);
        n->start = start;
        n->end = start + size;
        return n;
    }
    if (n->cap >= limit.bytes) return NULL;
    uint32_t cap = want + want / 2 < limit.bytes ? want + want / 2 : limit.bytes;
    uint32_t at = n->start;
    return node_rebuild(a, c, n, cap, head ? cap - size : 0, &at, 0);
}

/* ---- neighbours */

/* left and right become one node. */
static struct chain_node *node_merge(struct arena *a, struct chain *c, struct chain_node *left, struct chain_node *right)
{
    struct chain_node *both = node_new(a, c, (size_t)used(left) + used(right));
    both->count = left->count + right->count;
    both->end = used(left) + used(right);
    memcpy(both->data, left->data + left->start, used(left));
    memcpy(both->data + used(left), right->data + right->start, used(right));
    link_between(c, left->prev, both, right->next);
    if (c->finger == right) c->finger_index -= left->count;
    if (c->finger == left || c->finger == right) c->finger = both;
    c->nodes--;
    node_free(a, c, left);
    node_free(a, c, right);
    return both;
}

static bool too_small_apart(struct chain_limit limit, const struct chain_node *l, const struct chain_node *r)
{
    return chain_fits(chain_half(limit), (uint64_t)used(l) + used(r), (uint64_t)l->count + r->count);
}

/* Keeps C3 after n shrank or is new: afterwards it fits neither neighbour. (More than one merge to a side happens only after the limit
 * was raised.) */
static struct chain_node *settle(struct arena *a, struct chain *c, struct chain_limit limit, struct chain_node *n)
{
    while (n->prev && too_small_apart(limit, n->prev, n)) n = node_merge(a, c, n->prev, n);
    while (n->next && too_small_apart(limit, n, n->next)) n = node_merge(a, c, n, n->next);
    return n;
}

/* As settle, when the neighbours may be new too. Settling them does not touch n, which fits neither. */
static void settle_around(struct arena *a, struct chain *c, struct chain_limit limit, struct chain_node *n)
{
    n = settle(a, c, limit, n);
    if (n->prev) settle(a, c, limit, n->prev);
    if (n->next) settle(a, c, limit, n->next);
}

/* The elements from place `at` on leave n for a new node behind it. */
static struct chain_node *node_split(struct arena *a, struct chain *c, struct chain_node *n, uint32_t at, uint32_t index)
{
    struct chain_node *right = node_new(a, c, n->end - at);
    right->count = n->count - index;
    right->end = n->end - at;
    memcpy(right->data, n->data + at, right->end);
    node_insert(c, n, right, n->next);
    n->count = index;
    n->end = at;
    return node_trim(a, c, n);
}

/* ---- the chain */

struct chain *chain_new(struct arena *a) { return arena_zalloc(a, sizeof(struct chain)); }

void chain_free(struct arena *a, struct chain *c)
{
    for (struct chain_node *n = c->head, *next; n; n = next) {
        next = n->next;
        node_free(a, c, n);
    }
    arena_release(a, c, sizeof *c);
}

void chain_adopt(struct arena *a, struct chain *c, struct slice elements, uint32_t count)
{
    CHECK(c->nodes == 0);
    if (count == 0) return;
    struct chain_node *n = node_new(a, c, elements.n);
    memcpy(n->data, elements.p, elements.n);
    n->end = (uint32_t)elements.n;
    n->count = count;
    node_insert(c, NULL, n, NULL);
    c->len = count;
}

/* The node of an index, walked to from the nearest of head, tail and finger; *index becomes the one inside the node. */
static struct chain_node *find_node(const struct chain *c, uint64_t *index)
{
    CHECK(*index < c->len);
    struct chain_node *n = c->head;
    uint64_t first = 0, i = *index, away = i; /* first: the index of n's first element */
    if (c->len - i < away) {
        n = c->tail;
        first = c->len - n->count;
        away = c->len - i;
    }
    if (c->finger && (i < c->finger_index ? c->finger_index - i : i - c->finger_index) < away) {
        n = c->finger;
        first = c->finger_index;
    }
    while (i < first) {
        n = n->prev;
        first -= n->count;
    }
    while (i - first >= n->count) {
        first += n->count;
        n = n->next;
    }
    *index = i - first;
    return n;
}

struct chain_node *chain_seek(const struct chain *c, uint64_t index, size_t *off)
{
    struct chain_node *n = find_node(c, &index);
    *off = offset_of(n, node_seek(n, (uint32_t)index));
    return n;
}

void chain_push(struct arena *a, struct chain *c, struct chain_limit limit, bool head, struct slice value)
{
    size_t size = pack_element_bytes(value.n);
    CHECK(size <= UINT32_MAX);
    struct chain_node *end = head ? c->head : c->tail;
    struct chain_node *n = end ? node_extend(a, c, limit, end, head, (uint32_t)size) : NULL;
    if (!n) {
        n = node_new(a, c, size < FIRST_BYTES && limit.count > 1 ? FIRST_BYTES : size);
        if (head) n->start = n->end = n->cap;
        node_insert(c, head ? NULL : end, n, head ? end : NULL);
        if (end) node_trim(a, c, end);
    }
    if (head) c->finger = NULL;
    if (head) n->start -= (uint32_t)size;
    else n->end += (uint32_t)size;
    pack_write_element(n->data + (head ? n->start : n->end - size), value);
    n->count++;
    c->len++;
}

/* A new node with one element. */
static struct chain_node *node_of(struct arena *a, struct chain *c, struct slice value)
{
    struct chain_node *n = node_new(a, c, pack_element_bytes(value.n));
    n->end = (uint32_t)pack_write_element(n->data, value);
    n->count = 1;
    return n;
}

static struct chain_node *node_write(struct arena *a, struct chain *c, struct chain_node *n, uint32_t at, struct slice value)
{
    n = node_open(a, c, n, &at, (uint32_t)pack_element_bytes(value.n));
    pack_write_element(n->data + at, value);
    n->count++;
    return n;
}

/* Puts value before the index-th element of n, which is at place `at`: into n, else into the neighbour at whose side it is, else between
 * what is left and right of it. Gives the node that took it. */
static struct chain_node *insert_at(struct arena *a, struct chain *c, struct chain_limit limit, struct chain_node *n, uint32_t at,
                                    uint32_t index, struct slice value)
{
    size_t size = pack_element_bytes(value.n);
    CHECK(size <= UINT32_MAX);
    if (chain_fits(limit, used(n) + size, n->count + 1ull)) return node_write(a, c, n, at, value);
    if (index > 0 && index < n->count) {
        n = node_split(a, c, n, at, index);
        if (chain_fits(limit, used(n) + size, n->count + 1ull)) return node_write(a, c, n, n->end, value);
    }
    struct chain_node *prev = index ? n : n->prev, *next = index ? n->next : n;
    if (index && next && chain_fits(limit, used(next) + size, next->count + 1ull)) return node_write(a, c, next, next->start, value);
    if (!index && prev && chain_fits(limit, used(prev) + size, prev->count + 1ull)) return node_write(a, c, prev, prev->end, value);
    struct chain_node *alone = node_of(a, c, value);
    node_insert(c, prev, alone, next);
    return alone;
}

void chain_insert(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, struct slice value)
{
    CHECK(index <= c->len);
    if (index == 0 || index == c->len) {
        chain_push(a, c, limit, index == 0, value);
        return;
    }
    struct chain_node *n = find_node(c, &index);
    n = insert_at(a, c, limit, n, node_seek(n, (uint32_t)index), (uint32_t)index, value);
    c->len++;
    c->finger = NULL;
    settle_around(a, c, limit, n);
}

void chain_set(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, struct slice value)
{
    struct chain_node *n = find_node(c, &index);
    uint32_t at = node_seek(n, (uint32_t)index);
    struct slice pack = chain_pack(n);
    size_t off = offset_of(n, at), cut = pack_next(pack, off) - off, size = pack_element_bytes(value.n);
    CHECK(size <= UINT32_MAX);
    if (cut == size) {
        pack_write_element(n->data + at, value);
        return;
    }
    c->finger = NULL;
    at = node_close(n, at, (uint32_t)cut);
    n->count--;
    if (n->count == 0 || chain_fits(limit, used(n) + size, n->count + 1ull)) n = node_write(a, c, n, at, value);
    else n = insert_at(a, c, limit, n, at, (uint32_t)index, value);
    settle_around(a, c, limit, node_trim(a, c, n));
}

/* `count` elements of n from its index-th on; the node stays, not empty. */
static void remove_within(struct arena *a, struct chain *c, struct chain_node *n, uint32_t index, uint32_t count)
{
    uint32_t from = node_seek(n, index), to = n->end;
    if (index + count < n->count) {
        struct slice pack = chain_pack(n);
        size_t off = offset_of(n, from);
        for (uint32_t i = 0; i < count; i++) off = pack_next(pack, off);
        to = place_of(n, off);
    }
    node_close(n, from, to - from);
    n->count -= count;
    node_trim(a, c, n);
}

void chain_remove(struct arena *a, struct chain *c, struct chain_limit limit, uint64_t index, uint64_t count)
{
    CHECK(index <= c->len && count <= c->len - index);
    if (count == 0) return;
    uint64_t inside = index;
    struct chain_node *n = find_node(c, &inside);
    c->len -= count;
    /* The finger is put on a node that stays, left of the removed elements if there is one. */
    c->finger = inside ? n : n->prev;
    c->finger_index = index - inside - (inside || !n->prev ? 0 : n->prev->count);
    for (struct chain_node *next; count; n = next) {
        uint64_t here = n->count - inside < count ? n->count - inside : count;
        next = n->next;
        if (here == n->count) node_delete(a, c, n);
        else remove_within(a, c, n, (uint32_t)inside, (uint32_t)here);
        count -= here;
        inside = 0;
    }
    if (!c->finger) c->finger = c->head;
    if (c->finger) settle_around(a, c, limit, c->finger);
}

size_t chain_bytes(const struct chain *c) { return arena_round(sizeof *c) + c->bytes; }

void chain_check(const struct chain *c, struct chain_limit limit)
{
    uint64_t len = 0, nodes = 0, bytes = 0, fingers = 0;
    const struct chain_node *prev = NULL;
    for (const struct chain_node *n = c->head; n; prev = n, n = n->next) {
        uint32_t walked = 0;
        struct slice pack = chain_pack(n);
        size_t off = pack_first(pack);
        for (; off < pack.n; off = pack_next(pack, off)) walked++;
        CHECK(off == pack.n && walked == n->count);
        for (; off > PACK_HEADER; off = pack_prev(pack, off)) walked--;
        CHECK(off == PACK_HEADER && walked == 0);
        CHECK(n->prev == prev && n->start <= n->end && n->end <= n->cap);
        CHECK(n->count > 0);                                           /* C1 */
        CHECK(n->count == 1 || chain_fits(limit, used(n), n->count));   /* C2 */
        CHECK(!prev || !too_small_apart(limit, prev, n));               /* C3 */
        CHECK(n != c->finger || c->finger_index == len);                /* C5 */
        fingers += n == c->finger;
        len += n->count;
        nodes++;
        bytes += arena_round(block_bytes(n->cap));
    }
    CHECK(c->tail == prev && c->len == len && c->nodes == nodes && c->bytes == bytes); /* C4 */
    CHECK(fingers == (c->finger != NULL));                        /* C5 */
}
