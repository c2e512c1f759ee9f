/* The load: a table grows when its buckets hold 5.9 of 7 entries on average, a large one by an eighth, a small one by a quarter (its entries must be
 * read to be moved); so it is between 75 % (67 %) and 84 % full. A bucket is full often then, yet a hit reads 1.1 to 1.25 buckets, neighbours in memory.
 * Fuller, the runs of full buckets become long, and so do misses and moves.
 *
 * Moving, an example with an old array of 8 buckets and steps of 2: homes 0..3 are moved, frontier is 2^31.
 *
 *     old   . . . . x x x x         every entry whose home is below 4 has left, also those that were passed on to buckets 4, 5, ...
 *     new   x x x x x . . . . .     entries of point below 2^31, perhaps passed on beyond the bucket of 2^31
 *
 * Buckets 0.. of the old array may still hold entries with a home at its very end that were passed on around the corner. */
#include "store/table.h"

#include "base/check.h"
#include "base/keyhash.h"
#include "base/mem.h"
#include "base/prefetch.h"
#include "base/rng.h"
#include "store/arena.h"
#include "store/entry.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum {
    ENTRY_LINES = 5, /* of an entry that are fetched ahead: header, key and a value of the usual size; a command copies all of it */
    MIN_BUCKETS = 4,
    GROW_LOAD_TENTHS = 59,   /* entries per 10 buckets at which the table grows */
    PREPARE_ENTRIES = 8192,  /* so many before that, a large one gets the array to grow into, whose first pages are made ready meanwhile */
    SHRINK_LOAD_TENTHS = 14, /* and shrinks */
    FRESH_LOAD_TENTHS = 45,  /* what it has after shrinking or when made for an expected number */
    SMALL_BUCKETS = 64,      /* up to here it doubles: steps would be many and small */
    OVERFLOW = 7,            /* index of the overflow counter among the tags */
    OVERFLOW_MAX = 255,
    PIECE_BUCKETS = 4096,    /* the old array goes back to the kernel in pieces of that many (256 KiB) */
    AHEAD_BYTES = 2 << 20,   /* the new array's pages are asked for when the frontier is that far away */
    RANDOM_TRIES = 64,
    WORD_POINTS = 1 << 19,    /* how many values the point's bits in a slot have */
    RECALL_BUCKETS = 1 << 15, /* from here on the points of four buckets are different in these bits: they need not be computed again */
    RECALL_DISTANCE = 32,     /* how far to look back for the home */
};

#define LINE_END (UINT64_C(1) << 32)

/* What an empty table points to, so that a search needs no special case. Never written. */
static const struct table_bucket no_bucket;

static bool is_unallocated(const struct table *t) { return t->now.buckets == &no_bucket; }

/* --- buckets --- */

/* Where the line puts a hash: its upper 32 bits are point_hi, the bits below it the tag's. The scramble is odd, so different hashes have different points. */
static inline uint64_t point_of(const struct table *t, uint64_t hash) { return hash * t->scramble; }

static inline uint64_t home_of(uint64_t point, uint64_t count) { return ((point >> 32) * count) >> 32; }

/* The smallest point_hi whose home is bucket b or a later one. */
static inline uint64_t first_point_of(uint64_t b, uint64_t count) { return ((b << 32) + count - 1) / count; }

/* Bits that neither the home bucket nor, the scramble being odd, the choice of the shard (hash % shards) has used up. */
static inline uint8_t tag_of(uint64_t point) { return (uint8_t)(0x80 | (point >> 24 & 0x7f)); }

/* The slots whose tag is this one, as bits. */
static inline unsigned slots_with(const struct table_bucket *b, uint8_t tag)
{
#if defined(__SSE2__)
    __m128i tags = _mm_loadl_epi64((const __m128i *)(const void *)b->tag);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8((char)tag))) & 0x7f;
#else
    unsigned bits = 0;
    for (unsigned i = 0; i < TABLE_SLOTS; i++) bits |= (unsigned)(b->tag[i] == tag) << i;
    return bits;
#endif
}

static inline unsigned used_slots(const struct table_bucket *b) { return ~slots_with(b, 0) & 0x7f; }

static inline uint64_t next_bucket(const struct table_array *a, uint64_t b) { return b + 1 == a->count ? 0 : b + 1; }

static inline struct table_array *array_of(struct table *t, uint64_t point)
{
    return likely(point >> 32 < t->frontier) ? &t->now : &t->old;
}

static inline uint64_t entry_point(const struct table *t, const struct entry *e) { return point_of(t, keyhash(entry_key(e), t->seed)); }

/* The point's part of a slot's word, and back. */
static inline uint64_t word_bits(uint64_t point) { return point >> 35 << 48 | (point >> 32 & 7); }
static inline uint64_t word_point(uint64_t word) { return word >> 48 << 3 | (word & 7); }

static struct table_slot *array_insert(struct table_array *a, uint64_t point_hi, uint8_t tag, uint64_t word)
{
    uint64_t at = home_of(point_hi << 32, a->count);
    struct table_bucket *b = &a->buckets[at];
    unsigned room = slots_with(b, 0);
    for (uint64_t passed = 0; unlikely(!room); passed++) {
        CHECK(passed < a->count);
        if (b->tag[OVERFLOW] < OVERFLOW_MAX) b->tag[OVERFLOW]++;
        at = next_bucket(a, at);
        b = &a->buckets[at];
        room = slots_with(b, 0);
    }
    unsigned i = (unsigned)__builtin_ctz(room);
    b->tag[i] = tag;
    b->slot[i].word = word;
    return &b->slot[i];
}

/* point_hi from what the array itself knows. The entry in bucket `at` has its home there, or in one of the buckets right before it that passed
 * entries on; if all their points lie within 2^19, the slot's bits of point_hi tell which it is. False: only the key can tell. */
static bool recall_point(const struct table_array *a, uint64_t at, uint64_t word, uint64_t *point_hi)
{
    if (a->count < RECALL_BUCKETS) return false;
    uint64_t first = at;
    while (a->buckets[first ? first - 1 : a->count - 1].tag[OVERFLOW]) {
        if (first == 0 || at - first == RECALL_DISTANCE) return false;
        first--;
    }
    uint64_t from = first_point_of(first, a->count), end = first_point_of(at + 1, a->count);
    if (end - from > WORD_POINTS) return false;
    *point_hi = from + ((word_point(word) - from) & (WORD_POINTS - 1));
    CHECK(*point_hi < end);
    return true;
}

/* point_hi of the entry in slot i of bucket `at`. */
static inline uint64_t slot_point(const struct table *t, const struct table_array *a, uint64_t at, unsigned i)
{
    const struct table_slot *slot = &a->buckets[at].slot[i];
    uint64_t point_hi;
    if (recall_point(a, at, slot->word, &point_hi)) return point_hi;
    return entry_point(t, table_entry(slot)) >> 32;
}

/* Empties slot i of bucket `at`, which holds an entry with that home. */
static void array_remove(struct table_array *a, uint64_t home, uint64_t at, unsigned i)
{
    a->buckets[at].tag[i] = 0;
    a->buckets[at].slot[i].word = 0;
    for (uint64_t b = home; b != at; b = next_bucket(a, b)) {
        uint8_t *overflow = &a->buckets[b].tag[OVERFLOW];
        CHECK(*overflow > 0);
        if (*overflow < OVERFLOW_MAX) --*overflow;
    }
}

/* --- arrays: the fields that table_prefetch_bucket reads without the token are written atomically --- */

static void set_array(struct table_array *a, struct table_bucket *buckets, uint64_t count)
{
    __atomic_store_n(&a->buckets, buckets, __ATOMIC_RELAXED);
    __atomic_store_n(&a->count, count, __ATOMIC_RELAXED);
}

static void set_frontier(struct table *t, uint64_t frontier) { __atomic_store_n(&t->frontier, frontier, __ATOMIC_RELAXED); }

static size_t array_bytes(const struct table_array *a) { return a->count * sizeof(struct table_bucket); }

static void array_alloc(struct table *t, struct table_array *a, uint64_t count)
{
    set_array(a, arena_zalloc(t->arena, count * sizeof(struct table_bucket)), count);
}

static void array_release(struct table *t, struct table_array *a)
{
    if (a->buckets && a->buckets != &no_bucket) arena_release(t->arena, a->buckets, array_bytes(a));
}

static uint64_t buckets_for(uint64_t entries)
{
    uint64_t count = entries * 10 / FRESH_LOAD_TENTHS + 1;
    return count < MIN_BUCKETS ? MIN_BUCKETS : count;
}

static uint64_t grown(uint64_t count)
{
    if (count < SMALL_BUCKETS) return count * 2;
    return count + count / (count < RECALL_BUCKETS ? 4 : 8);
}

/* A new scramble. Its bits come from all bits of r (the steps are those of SplitMix64), so that neighbouring r give orders that are strangers, too. Only an
 * empty table may take one: the entries' places and everybody's cursors change. */
static void set_scramble(struct table *t, uint64_t r)
{
    r += UINT64_C(0x9e3779b97f4a7c15);
    r = (r ^ r >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    r = (r ^ r >> 27) * UINT64_C(0x94d049bb133111eb);
    __atomic_store_n(&t->scramble, (r ^ r >> 31) | 1, __ATOMIC_RELAXED);
}

void table_init(struct table *t, struct arena *a, uint64_t seed, uint64_t r, size_t expected)
{
    set_scramble(t, r);
    set_array(&t->old, NULL, 0);
    set_frontier(t, LINE_END);
    t->moved = t->entries = 0;
    t->seed = seed;
    t->arena = a;
    if (expected) array_alloc(t, &t->now, buckets_for(expected));
    else set_array(&t->now, (struct table_bucket *)(uintptr_t)&no_bucket, 1);
}

void table_set_order(struct table *t, uint64_t scramble)
{
    CHECK(t->entries == 0 && scramble & 1);
    __atomic_store_n(&t->scramble, scramble, __ATOMIC_RELAXED);
}

void table_fini(struct table *t)
{
    array_release(t, &t->now);
    array_release(t, &t->old);
    table_init(t, t->arena, t->seed, t->scramble, 0);
}

uint64_t table_hash(const struct table *t, struct slice key) { return keyhash(key, t->seed); }

/* --- moving --- */

static void start_moving(struct table *t, uint64_t count)
{
    set_array(&t->old, t->now.buckets, t->now.count);
    t->moved = 0;
    set_frontier(t, 0);
    array_alloc(t, &t->now, count);
    if (count <= PIECE_BUCKETS) return;
    arena_set_away(t->arena, t->now.buckets, array_bytes(&t->now), array_bytes(&t->now));
    arena_expect(t->arena, t->now.buckets, array_bytes(&t->now), 0, AHEAD_BYTES);
}

/* Bytes of the new array that are in use when the old one's buckets before this one have been moved. */
static size_t filled_bytes(const struct table *t, uint64_t old_bucket)
{
    return home_of(first_point_of(old_bucket, t->old.count) << 32, t->now.count) * sizeof(struct table_bucket);
}

/* A piece has been moved. Counts memory as it is used: the pages of the new array up to the frontier, and those of the old one from there on. The first piece of
 * the old array stays, for entries passed on around the corner; were there so many that they reach beyond it, nothing is given back. */
static void account_piece(struct table *t)
{
    uint64_t end = t->moved / PIECE_BUCKETS * PIECE_BUCKETS, first = end - PIECE_BUCKETS;
    size_t filled = filled_bytes(t, end), bytes = array_bytes(&t->now);
    arena_set_away(t->arena, t->now.buckets, bytes, bytes - filled);
    arena_expect(t->arena, t->now.buckets, bytes, filled_bytes(t, first) + AHEAD_BYTES, filled + AHEAD_BYTES);
    if (first == 0 || t->old.buckets[PIECE_BUCKETS - 1].tag[OVERFLOW] > 0) return;
    arena_discard(t->arena, t->old.buckets, array_bytes(&t->old), first * sizeof(struct table_bucket), end * sizeof(struct table_bucket));
}

static void finish_moving(struct table *t)
{
    struct table_array old = t->old;
    set_frontier(t, LINE_END);
    set_array(&t->old, NULL, 0);
    t->moved = 0;
    arena_set_away(t->arena, t->now.buckets, array_bytes(&t->now), 0);
    array_release(t, &old);
}

static bool is_sparse(const struct table *t)
{
    return t->entries * 10 < t->now.count * SHRINK_LOAD_TENTHS && t->now.count > MIN_BUCKETS;
}

/* Moves the entries of one old bucket whose home is below `end`. */
static void move_from(struct table *t, uint64_t at, uint64_t end)
{
    struct table_bucket *b = &t->old.buckets[at];
    for (unsigned used = used_slots(b); used; used &= used - 1) {
        unsigned i = (unsigned)__builtin_ctz(used);
        uint64_t point_hi = slot_point(t, &t->old, at, i), home = home_of(point_hi << 32, t->old.count);
        if (home >= end) continue;
        array_insert(&t->now, point_hi, b->tag[i], b->slot[i].word);
        array_remove(&t->old, home, at, i);
    }
}

/* For a table too small to recall points: its entries will be read. */
static void prefetch_entries(const struct table_array *a, uint64_t from, uint64_t end)
{
    if (a->count >= RECALL_BUCKETS) return;
    for (uint64_t at = from; at < end && at < a->count; at++)
        for (unsigned used = used_slots(&a->buckets[at]); used; used &= used - 1)
            prefetch_line(table_entry(&a->buckets[at].slot[__builtin_ctz(used)]));
}

/* Moves all entries whose home is in [moved, end): they are in those buckets, or were passed on beyond them. */
static void move_homes(struct table *t, uint64_t end)
{
    uint64_t last = end - 1;
    prefetch_entries(&t->old, end, end + TABLE_STEP_BUCKETS);
    for (uint64_t at = t->moved; at <= last; at++) move_from(t, at, end);
    uint64_t at = last;
    for (uint64_t n = 0; t->old.buckets[last].tag[OVERFLOW] && t->old.buckets[at].tag[OVERFLOW] && n < t->old.count; n++) {
        at = next_bucket(&t->old, at);
        move_from(t, at, end);
    }
}

bool table_step(struct table *t, unsigned buckets)
{
    if (!t->old.buckets && is_sparse(t)) start_moving(t, buckets_for(t->entries)); /* it was made for more than came */
    while (t->old.buckets && buckets) {
        CHECK(t->old.count && t->moved < t->old.count);
        unsigned n = buckets < TABLE_STEP_BUCKETS ? buckets : TABLE_STEP_BUCKETS;
        uint64_t from = t->moved, end = from + n < t->old.count ? from + n : t->old.count;
        move_homes(t, end);
        t->moved = end;
        set_frontier(t, first_point_of(end, t->old.count));
        if (end == t->old.count) {
            finish_moving(t);
            if (is_sparse(t)) start_moving(t, buckets_for(t->entries));
        } else if (unlikely(from / PIECE_BUCKETS != end / PIECE_BUCKETS)) {
            account_piece(t);
        }
        buckets -= n;
    }
    return t->old.buckets != NULL;
}

/* The array to grow into is there, but there is still room in this one. */
static bool is_preparing(const struct table *t)
{
    return t->moved == 0 && t->now.count > t->old.count && (t->entries + 1) * 10 <= t->old.count * GROW_LOAD_TENTHS;
}

static void make_room(struct table *t)
{
    if (unlikely(is_unallocated(t))) {
        array_alloc(t, &t->now, MIN_BUCKETS);
        return;
    }
    if (unlikely(t->old.buckets)) {
        if (is_preparing(t)) return;
        table_step(t, TABLE_STEP_BUCKETS);
    }
    uint64_t early = t->now.count < RECALL_BUCKETS ? 0 : PREPARE_ENTRIES;
    if (likely((t->entries + 1 + early) * 10 <= t->now.count * GROW_LOAD_TENTHS)) return;
    while (table_step(t, TABLE_STEP_BUCKETS)) {}
    start_moving(t, grown(t->now.count));
}

static void give_room(struct table *t)
{
    if (unlikely(t->old.buckets)) table_step(t, TABLE_STEP_BUCKETS);
    else if (unlikely(is_sparse(t))) start_moving(t, buckets_for(t->entries));
}

/* --- the contract --- */

struct table_slot *table_find(struct table *t, uint64_t hash, struct slice key)
{
    uint64_t point = point_of(t, hash);
    struct table_array *a = array_of(t, point);
    uint64_t at = home_of(point, a->count), bits = word_bits(point);
    uint8_t tag = tag_of(point);
    for (uint64_t n = a->count; n; n--) {
        struct table_bucket *b = &a->buckets[at];
        for (unsigned hits = slots_with(b, tag); hits; hits &= hits - 1) {
            struct table_slot *slot = &b->slot[__builtin_ctz(hits)];
            if (unlikely((slot->word ^ bits) & ~TABLE_ADDRESS_MASK)) continue;
            if (likely(slice_eq(entry_key(table_entry(slot)), key))) return slot;
        }
        if (likely(b->tag[OVERFLOW] == 0)) return NULL;
        at = next_bucket(a, at);
    }
    return NULL;
}

struct table_slot *table_find_entry(struct table *t, uint64_t hash, const struct entry *e)
{
    uint64_t point = point_of(t, hash);
    struct table_array *a = array_of(t, point);
    uint64_t at = home_of(point, a->count), word = word_bits(point) | (uintptr_t)e;
    uint8_t tag = tag_of(point);
    for (uint64_t n = a->count; n; n--) {
        struct table_bucket *b = &a->buckets[at];
        for (unsigned hits = slots_with(b, tag); hits; hits &= hits - 1) {
            struct table_slot *slot = &b->slot[__builtin_ctz(hits)];
            if (slot->word == word) return slot;
        }
        if (b->tag[OVERFLOW] == 0) return NULL;
        at = next_bucket(a, at);
    }
    return NULL;
}

struct table_slot *table_insert(struct table *t, uint64_t hash, struct entry *e)
{
    CHECK(((uintptr_t)e & ~TABLE_ADDRESS_MASK) == 0);
    make_room(t);
    t->entries++;
    uint64_t point = point_of(t, hash);
    struct table_array *a = array_of(t, point);
    CHECK(a->buckets);
    return array_insert(a, point >> 32, tag_of(point), word_bits(point) | (uintptr_t)e);
}

void table_remove(struct table *t, uint64_t hash, struct table_slot *slot)
{
    uint64_t point = point_of(t, hash);
    struct table_array *a = array_of(t, point);
    struct table_bucket *b = (struct table_bucket *)((uintptr_t)slot & ~(uintptr_t)(sizeof *b - 1));
    CHECK(b >= a->buckets && b < a->buckets + a->count && slot->word);
    array_remove(a, home_of(point, a->count), (uint64_t)(b - a->buckets), (unsigned)(slot - b->slot));
    if (unlikely(--t->entries == 0)) set_scramble(t, t->scramble);
    give_room(t);
}

/* The bits of point_hi in a slot say that it is not in [from, end): so few entries are read where that is short. */
static inline bool is_elsewhere(const struct table_slot *slot, uint64_t from, uint64_t end)
{
    return end - from < WORD_POINTS && ((word_point(slot->word) - from) & (WORD_POINTS - 1)) >= end - from;
}

/* Visits the entries with a point_hi in [from, end), all of which have home `home`. */
static size_t scan_home(struct table *t, const struct table_array *a, uint64_t home, uint64_t from, uint64_t end,
                        void (*visit)(void *ctx, struct entry *e), void *ctx)
{
    size_t visited = 0;
    uint64_t at = home;
    for (uint64_t n = a->count; n; n--) {
        const struct table_bucket *b = &a->buckets[at];
        for (unsigned used = used_slots(b); used; used &= used - 1) {
            unsigned i = (unsigned)__builtin_ctz(used);
            if (is_elsewhere(&b->slot[i], from, end)) continue;
            uint64_t point_hi = slot_point(t, a, at, i);
            if (point_hi < from || point_hi >= end) continue;
            visit(ctx, table_entry(&b->slot[i]));
            visited++;
        }
        if (b->tag[OVERFLOW] == 0) break;
        at = next_bucket(a, at);
    }
    return visited;
}

/* The first point from here on that a cursor may stand at. */
static inline uint64_t next_mark(uint64_t point_hi) { return (point_hi + TABLE_CURSOR_UNIT - 1) & ~(uint64_t)(TABLE_CURSOR_UNIT - 1); }

void table_scan(struct table *t, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct entry *e), void *ctx)
{
    uint64_t at = *cursor;
    size_t visited = 0;
    do {
        if (at >= LINE_END) break;
        struct table_array *a = array_of(t, at << 32);
        uint64_t home = home_of(at << 32, a->count), end = first_point_of(home + 1, a->count);
        if (a == &t->now && end > t->frontier) end = t->frontier;
        if (visited >= want && end > next_mark(at)) end = next_mark(at);
        visited += scan_home(t, a, home, at, end, visit, ctx);
        at = end;
    } while (visited < want || at != next_mark(at));
    *cursor = at < LINE_END ? at : 0;
}

/* Any entry from bucket `at` on, around the corner if need be. */
static struct entry *first_from(const struct table_array *a, uint64_t at)
{
    for (uint64_t n = a->count; n; n--) {
        unsigned used = used_slots(&a->buckets[at]);
        if (used) return table_entry(&a->buckets[at].slot[__builtin_ctz(used)]);
        at = next_bucket(a, at);
    }
    return NULL;
}

/* Throws darts at slots until one hits an entry, so every entry is as likely; only where entries are very rare, the next one is taken. */
struct entry *table_random(struct table *t, uint64_t r)
{
    if (t->entries == 0) return NULL;
    struct rng rng;
    rng_init(&rng, r);
    bool moving = t->old.buckets != NULL;
    uint64_t in_now = moving ? home_of(t->frontier << 32, t->now.count) + 1 : t->now.count;
    uint64_t in_old = t->old.count - t->moved;
    for (unsigned i = 0; i < RANDOM_TRIES; i++) {
        uint64_t at = rng_below(&rng, in_now + in_old);
        CHECK(at < in_now || moving);
        const struct table_bucket *b = at < in_now ? &t->now.buckets[at] : &t->old.buckets[t->moved + at - in_now];
        unsigned slot = (unsigned)rng_below(&rng, TABLE_SLOTS);
        if (b->tag[slot]) return table_entry(&b->slot[slot]);
    }
    struct entry *e = first_from(&t->now, rng_below(&rng, t->now.count));
    return e ? e : first_from(&t->old, rng_below(&rng, t->old.count));
}

void table_prefetch_bucket(const struct table *t, uint64_t hash)
{
    uint64_t point = hash * __atomic_load_n(&t->scramble, __ATOMIC_RELAXED);
    const struct table_array *a = point >> 32 < __atomic_load_n(&t->frontier, __ATOMIC_RELAXED) ? &t->now : &t->old;
    uint64_t count = __atomic_load_n(&a->count, __ATOMIC_RELAXED);
    uintptr_t base = (uintptr_t)__atomic_load_n(&a->buckets, __ATOMIC_RELAXED);
    prefetch_line((const void *)(base + home_of(point, count) * sizeof(struct table_bucket)));
}

void table_prefetch_entry(const struct table *t, uint64_t hash)
{
    uint64_t point = point_of(t, hash);
    const struct table_array *a = point >> 32 < t->frontier ? &t->now : &t->old;
    const struct table_bucket *b = &a->buckets[home_of(point, a->count)];
    for (unsigned hits = slots_with(b, tag_of(point)); hits; hits &= hits - 1) {
        const char *e = (const char *)table_entry(&b->slot[__builtin_ctz(hits)]);
        for (unsigned line = 0; line < ENTRY_LINES; line++) prefetch_line(e + 64 * line);
    }
}

size_t table_bytes(const struct table *t)
{
    if (is_unallocated(t)) return 0;
    return arena_round(array_bytes(&t->now)) + (t->old.buckets ? arena_round(array_bytes(&t->old)) : 0);
}

/* --- walking and checking --- */

void table_iter_init(struct table_iter *it, const struct table *t) { *it = (struct table_iter){.t = t}; }

struct entry *table_iter_next(struct table_iter *it)
{
    for (;;) {
        const struct table_array *a = it->in_old ? &it->t->old : &it->t->now;
        for (; it->bucket < a->count; it->bucket++, it->slot = 0) {
            unsigned used = used_slots(&a->buckets[it->bucket]) >> it->slot;
            if (!used) continue;
            unsigned slot = it->slot + (unsigned)__builtin_ctz(used);
            it->slot = slot + 1;
            return table_entry(&a->buckets[it->bucket].slot[slot]);
        }
        if (it->in_old) return NULL;
        it->in_old = true;
        it->bucket = it->slot = 0;
    }
}

/* Counts an array's overflows again and compares; gives its number of entries. */
static uint64_t array_check(const struct table *t, const struct table_array *a, uint64_t from_point, uint64_t end_point)
{
    uint64_t entries = 0;
    uint32_t *passed = mem_zalloc((a->count + 1) * sizeof *passed);
    for (uint64_t at = 0; at < a->count; at++)
        for (unsigned used = used_slots(&a->buckets[at]); used; used &= used - 1) {
            unsigned i = (unsigned)__builtin_ctz(used);
            uint64_t point = entry_point(t, table_entry(&a->buckets[at].slot[i]));
            CHECK(slot_point(t, a, at, i) == point >> 32);
            CHECK(word_point(a->buckets[at].slot[i].word) == (point >> 32 & (WORD_POINTS - 1)));
            CHECK(point >> 32 >= from_point && point >> 32 < end_point);
            CHECK(a->buckets[at].tag[i] == tag_of(point));
            for (uint64_t b = home_of(point, a->count); b != at; b = next_bucket(a, b)) passed[b]++;
            entries++;
        }
    for (uint64_t at = 0; at < a->count; at++) {
        uint8_t overflow = a->buckets[at].tag[OVERFLOW];
        CHECK(overflow == OVERFLOW_MAX || overflow == passed[at]);
    }
    mem_free(passed);
    return entries;
}

void table_check(const struct table *t)
{
    uint64_t entries = array_check(t, &t->now, 0, t->frontier);
    if (t->old.buckets) {
        CHECK(t->frontier == first_point_of(t->moved, t->old.count));
        entries += array_check(t, &t->old, t->frontier, LINE_END);
    } else {
        CHECK(t->frontier == LINE_END);
    }
    CHECK(entries == t->entries);
}
