/* What a group serves while keys are carried to it or from it (docs/decisions/023). Its records are entries of the group's system database, so they are in its log and its snapshots; here they are in the form in which a request is judged by them.
 *
 *   own/map                     the least version of the map by which the group may be served
 *   own/op/0123456789abcdef     an operation under way: the number of who drives it, three bounds, its plan
 *
 * Without records everything that the map gives to the group is served. With them, a key that some operation's plan covers is judged by its bounds:
 *
 *          low           gone           high
 *   ---------|-------------|--------------|------------->   the plan's keys, in byte order
 *    new side              : given out    :  old side
 *
 * low <= high, gone <= high. Below low: served here if the plan's new side has it in this group. From high on: served here if the old side has. Between: not served. [gone, high): keys that were given out by the last freeze, and may be both here and elsewhere.
 * A group that is no target has low at the beginning, always; one that is no source has gone = high at the end of what it took.
 *
 * Thread: whoever has the seat's token. Values are never trusted: holding_load aborts on a record that makes no sense, for only this program writes them (cluster/carrycmd.h); decoding by itself is for fuzzers. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

struct op;
struct space_map;
struct store;

enum { HOLDING_PIECES_MAX = 4096 }; /* of one side of a plan */

/* A point between keys. */
struct holding_bound {
    bool at_end;      /* behind all keys of the space; key is empty */
    struct slice key; /* else: before this key; empty: before all */
};
int holding_bound_cmp(struct holding_bound a, struct holding_bound b);
bool holding_is_below(struct slice key, struct holding_bound b); /* the key is before the bound */

/* Where a plan's keys are before or after it. */
struct holding_piece {
    struct slice end; /* exclusive; empty: to the end of the line. It begins where the one before it ends, the first at the plan's start */
    uint32_t group;
};
struct holding_side {
    bool hashed; /* each key where its own hash says, by the map's intervals; else: */
    uint32_t n;
    const struct holding_piece *pieces;
};

struct holding_plan {
    uint64_t op;              /* the operation's number */
    struct slice space;
    struct slice start, end;  /* the keys that it is about; empty as in struct range_desc. A change of mode: all of the space */
    bool of_hash;             /* it is about keys of many spaces: those that an interval of the hash places, [first, last]. space, start and end are empty */
    uint64_t first, last;
    struct holding_side old_side, new_side;
};

/* Whether the plan is about a key, or about some keys of a space. m is asked which spaces the hash places: while keys of an interval are carried no space changes its mode, and no map is used that is older (own/map). */
bool holding_covers(const struct holding_plan *p, const struct space_map *m, struct slice key);
bool holding_concerns(const struct holding_plan *p, const struct space_map *m, struct slice space);
/* Where keys of a space lie on the line of all keys: cuts [start, end) to that. A new end is in *storage. */
void holding_extent(struct slice space, struct slice *start, struct slice *end, struct buf *storage);
/* Where a side has a key of the plan's: a group. m is asked for intervals of the hash alone. */
uint32_t holding_side_group(const struct holding_plan *p, const struct holding_side *s, const struct space_map *m, struct slice key);
/* The groups that have a part in it, ascending, each once: a side that is hashed has all that the map's intervals name. mem_free the array. */
uint32_t *holding_plan_groups(const struct holding_plan *p, const struct space_map *m, uint32_t *n);

struct holding_op {
    struct holding_plan plan;
    uint64_t term; /* of the driver; lower ones are refused */
    struct holding_bound low, gone, high;
};

/* ---- records as bytes */
void holding_plan_encode(struct buf *out, const struct holding_plan *p);
/* Slices borrow; pieces are in *storage, which the caller frees with mem_free (also if bad). 0 or -EBADMSG: also a plan whose pieces do not tile. */
int holding_plan_decode(struct slice bytes, struct holding_plan *p, void **storage);
void holding_op_encode(struct buf *out, const struct holding_op *o);
int holding_op_decode(struct slice bytes, struct holding_op *o, void **storage);
void holding_op_key(struct buf *out, uint64_t op); /* "own/op/..." */
struct slice holding_map_key(void);                /* "own/map"; its value is eight bytes, little endian */

/* ---- what a seat has */
struct holding;
struct holding *holding_new(uint32_t group);
void holding_free(struct holding *h);
/* The records of the store's system database say it from now on. */
void holding_load(struct holding *h, const struct store *s);
/* Whether an op changes some record: then it must be loaded again. */
bool holding_is_changed_by(const struct op *op);

bool holding_any(const struct holding *h); /* there are records: then every request is judged */
uint64_t holding_map_version(const struct holding *h);
/* Whether the group serves the key, of any database, as far as its records say: the caller has found that the map gives it to the group, or does not care for the map's word on what is carried. m is the map that this node has. False also if m is too old. */
bool holding_serves(const struct holding *h, const struct space_map *m, struct slice key);
/* Whether all keys of [start, end) of the space that there are, or could be, are served here, if the map gives them to the group; for commands on ranges. */
bool holding_serves_range(const struct holding *h, const struct space_map *m, struct slice space, struct slice start, struct slice end);
/* Some keys are here and elsewhere: they are given out and not dropped, or large values have not come with all their pieces (cluster/carrypieces.h). Commands over all keys wait. */
bool holding_gives_out(const struct holding *h);
/* Keys have come here, or left, of which this map does not know yet: commands over all keys wait for it as well, so that whoever asks can tell by the map's version that keys have moved meanwhile. */
bool holding_is_ahead(const struct holding *h, const struct space_map *m);
const struct holding_op *holding_find(const struct holding *h, uint64_t op); /* NULL: it has no part in it, or not any more. Good until the next load */
uint32_t holding_count(const struct holding *h);
const struct holding_op *holding_at(const struct holding *h, uint32_t i);

/* A command over all keys was turned away because of holding_gives_out: for a moment no further keys should be given out. The clock is the store's (now_ms). */
void holding_ask_pause(struct holding *h, uint64_t now_ms);
bool holding_is_paused(const struct holding *h, uint64_t now_ms);
