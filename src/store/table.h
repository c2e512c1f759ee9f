/* A hash table of entries, in the order of their points on a line, that grows and shrinks in steps.
 *
 * A key's point is its hash times the table's scramble, a random odd number. Buckets are one cache line: seven tags, an overflow counter, seven slots. A
 * key's home bucket is floor(point_hi * buckets / 2^32) with point_hi the upper 32 bits of its point: monotone in the point. A full bucket passes keys on to the
 * next one (wrapping), counting them in its overflow byte (saturating); a search ends at the first bucket nobody passed.
 *
 * Because buckets are in the order of points,
 *  - the number of buckets need not be a power of two: the table grows by an eighth, not by doubling, and stays fuller;
 *  - while it grows, everything below the frontier is in the new array and everything from it on in the old one: a
 *    search looks in one place, and each change moves a few buckets more (no stall, see TABLE_STEP_BUCKETS);
 *  - a scan is a walk along the line, its cursor a point: growing or shrinking in between loses and repeats nothing.
 *
 * Why a scramble: keys often arrive in the order in which another table gave them away (SSCAN here, SADD there; a log or a dump written by a walk). Were that
 * this table's order too, they would all crowd into the part of the line that has been reached, in an array whose size is right for the whole of it, and each
 * insert would pass thousands of full buckets. So each table has a line of its own, and a new one whenever it is empty: then no cursor has anything to lose.
 *
 * Invariants (table_check): I1 every entry is findable; I2 overflow bytes below 255 are exact; I3 nothing below the frontier is in
 * the old array, nothing from it on in the new one; I4 count is exact.
 *
 * One user at a time (the token's holder). Entries are borrowed: the table never frees them. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct arena;
struct entry;

enum { TABLE_SLOTS = 7, TABLE_STEP_BUCKETS = 4, TABLE_CURSOR_UNIT = 1 << 10 };

/* An entry's address, which is a multiple of 8 and below 2^48, with 19 bits of the point around it (bits 0-18 of point_hi: 3 below, 16 above). With them a search
 * compares almost only the key it looks for, and a large table moves without touching its entries. 0: empty. */
struct table_slot {
    uint64_t word;
};

struct table_bucket {
    _Alignas(64) uint8_t tag[8]; /* 0 = empty, else 0x80 | 7 bits of the point; [7] = overflow count */
    struct table_slot slot[TABLE_SLOTS];
};

#define TABLE_ADDRESS_MASK UINT64_C(0x0000fffffffffff8)

static inline struct entry *table_entry(const struct table_slot *slot)
{
    return (struct entry *)(uintptr_t)(slot->word & TABLE_ADDRESS_MASK);
}

/* The entry in the slot has moved. */
static inline void table_repoint(struct table_slot *slot, const struct entry *e)
{
    slot->word = (slot->word & ~TABLE_ADDRESS_MASK) | (uintptr_t)e;
}

struct table_array {
    struct table_bucket *buckets;
    uint64_t count; /* of buckets */
};

struct table {
    struct table_array now;  /* the array new entries below the frontier go to */
    struct table_array old;  /* being emptied; buckets NULL when the table is not moving */
    uint64_t moved;          /* buckets of old already emptied */
    uint64_t frontier;       /* smallest point_hi that is still in old; 2^32 when not moving */
    uint64_t entries;
    uint64_t seed;           /* of the key hash */
    uint64_t scramble;       /* odd; changes only while the table is empty */
    struct arena *arena;     /* keeps */
};

/* r is a random number, no two tables' the same if it can be: it chooses the scramble. Allocates lazily if expected is 0. */
void table_init(struct table *t, struct arena *a, uint64_t seed, uint64_t r, size_t expected);
void table_set_order(struct table *t, uint64_t scramble); /* of an empty one: that of another table, whose cursors are good here then */
void table_fini(struct table *t); /* releases the arrays, not the entries */

uint64_t table_hash(const struct table *t, struct slice key);

/* The slot that holds the key's entry, or NULL. Valid until the next insert, remove or step. */
struct table_slot *table_find(struct table *t, uint64_t hash, struct slice key);
/* The slot that holds exactly this entry (pointer identity), or NULL: for a second index over the same entries. */
struct table_slot *table_find_entry(struct table *t, uint64_t hash, const struct entry *e);

/* The key must not be in the table. Gives its slot. May move a few buckets: other slots become invalid. */
struct table_slot *table_insert(struct table *t, uint64_t hash, struct entry *e);
/* The entry in that slot leaves the table; it is the caller's now. May move a few buckets. */
void table_remove(struct table *t, uint64_t hash, struct table_slot *slot);

/* Moves up to n buckets if the table is growing or shrinking, which one that is much too large begins with; true while there is more to do. */
bool table_step(struct table *t, unsigned buckets);

/* Walks the line from *cursor (0 at first) over at least one bucket and until at least `want` entries were visited, calling visit for each entry;
 * the visited bucket's entries may be removed by the visitor only if it stops using the table through this call (use table_scan + later removal instead).
 * Sets *cursor to 0 at the end. Cursors are multiples of TABLE_CURSOR_UNIT below 2^32, so that clients' cursors (command/cursor.h) have room for more, and stay valid over any change: every entry present throughout is visited (if the table was empty in between, there is none). */
void table_scan(struct table *t, uint64_t *cursor, size_t want, void (*visit)(void *ctx, struct entry *e), void *ctx);

/* A scan that stands at this cursor (of a table that is not empty) has not visited the point of this hash yet. */
static inline bool table_is_ahead(const struct table *t, uint64_t cursor, uint64_t hash) { return hash * t->scramble >> 32 >= cursor; }

/* A random entry (nearly uniform), NULL if empty. r is a random number. */
struct entry *table_random(struct table *t, uint64_t r);

/* Touches the memory a later find will need. _bucket needs no token: it reads only the array addresses, atomically, and a prefetch of a stale
 * one does no harm. _entry reads the bucket, so it is called under the token, best a little after the bucket was prefetched. */
void table_prefetch_bucket(const struct table *t, uint64_t hash);
void table_prefetch_entry(const struct table *t, uint64_t hash);

size_t table_bytes(const struct table *t); /* what its arrays occupy in the arena; of large moving ones the arena may count less: parts are away */
void table_check(const struct table *t);

/* Walks all entries of a table that does not change meanwhile, in no order that means anything outside it. */
struct table_iter {
    const struct table *t;
    bool in_old;
    unsigned slot;
    uint64_t bucket; /* of the array in hand */
};
void table_iter_init(struct table_iter *it, const struct table *t);
struct entry *table_iter_next(struct table_iter *it); /* NULL at the end */
