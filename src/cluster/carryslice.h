/* The keys of a plan (cluster/holding.h) between two bounds that one group's store has, in all databases: measured, given out, dropped. With the seat's token.
 *
 * All but dropping finds them by the store's key index of the space, which must have all of them; or, if the plan is of an interval of the hash, by its line (store_line). */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cluster/holding.h"

struct entry;
struct exec;

struct carryslice {
    struct store *store;
    const struct space_map *map; /* for hashes */
    uint32_t group;
    const struct holding_plan *plan;
    struct holding_bound from, upto;
};

/* Whether a side of the plan has the group somewhere in [from, upto). */
bool carryslice_side_has(const struct holding_plan *p, const struct holding_side *side, const struct space_map *m, uint32_t group, struct holding_bound from, struct holding_bound upto);
/* All of the plan's keys, and more. */
static inline struct holding_bound carryslice_first(void) { return (struct holding_bound){0}; }
static inline struct holding_bound carryslice_last(void) { return (struct holding_bound){.at_end = true}; }

/* The key is one of the plan's, and in the slice. */
bool carryslice_has(const struct carryslice *s, struct slice key);
struct intentspan;
bool carryslice_has_some(const struct carryslice *s, const struct intentspan *span); /* keys of the span are, or would be, in the slice */

/* Where a part of it ends that begins where it does, and has at most so many keys and about so many bytes, but at least one key: true, and before which key (good until the next change); false: all of it. */
bool carryslice_measure(const struct carryslice *s, uint64_t keys, uint64_t bytes, struct slice *before);
/* Values that are cold come into memory. False: one cannot be read now. */
bool carryslice_warm(const struct carryslice *s);
/* Visits the entries that the new side has in another group, database after database; those past their time are left out. */
void carryslice_each_leaving(const struct carryslice *s, void (*visit)(void *ctx, uint32_t to, uint16_t db, const struct entry *e), void *ctx);
/* Deletes the entries that the new side has in another group. ordered: by the index; else all keys of the store are looked at. Gives how many there were. */
uint64_t carryslice_drop(const struct carryslice *s, bool ordered);
/* Who watches a key of it has lost sight of it, and who waits for one looks elsewhere. */
void carryslice_tell_interested(const struct carryslice *s);
