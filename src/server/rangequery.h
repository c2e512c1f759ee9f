/* What RANGE.GET and its kin ask for: a space, bounds, and options; and walks over the entries that it means, in order, over any number of shards. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "command/exec.h"
#include "store/keyindex.h"
#include "store/keysort.h"

struct topology;

struct rangequery {
    struct slice space, start, end; /* [start, end); empty: no bound. A cursor has been taken into account */
    uint64_t limit;                 /* UINT64_MAX: none */
    bool reverse, keys_only;
};

enum { RANGEQUERY_BOUNDS = 1, RANGEQUERY_PAGES = 2 /* LIMIT and CURSOR */, RANGEQUERY_GET = 4 /* REVERSE, KEYSONLY */ };

/* The arguments behind the command's name: space, bounds and options as `parts` allows. False: why (if not NULL) gets the error for the client, its code included. */
bool rangequery_parse(const struct slice *argv, uint32_t argc, unsigned parts, struct rangequery *q, struct buf *why);
/* For the rows of such commands. */
bool rangequery_extent(const struct slice *argv, uint32_t argc, unsigned parts, struct slice *space, struct slice *start, struct slice *end);

/* ---- walking, with the tokens of all shards that the query touches
 *
 * Where a shard has no index of the space, or one that is not complete yet, its keys are sorted for the one walk: in a cluster a space that nobody has set is a bucket all the same, and one that was just set is not indexed everywhere yet. */

struct rangequery_source {
    struct store *store;
    const struct keyindex *index; /* NULL: the keys were sorted */
    struct keyindex_at at;
    struct keysort sorted;
    struct entry *e; /* the next one, inside the piece; NULL: none */
};

struct rangequery_piece {
    struct slice start, end;
    uint32_t first, n; /* of its shards */
};

struct rangequery_walk {
    const struct rangequery *q;
    const struct topology *topology;
    uint16_t db;
    int64_t now_ms;
    struct rangequery_piece *pieces;
    uint32_t n_pieces, piece; /* the one being walked, counted from the end that the walk began at */
    struct rangequery_source *sources; /* [shards] */
    uint32_t n_sources;
    struct rangequery_source *given;
    struct store *const *stores;
    bool (*skips)(void *ctx, struct slice key); /* keys that are passed over; NULL: none. The caller's to set, after it has begun */
    void *skips_ctx;
};

/* Answers the error and gives false if the space has no order. */
bool rangequery_begin(struct exec *x, const struct topology *t, const struct rangequery *q, struct rangequery_walk *w);
/* The same in one shard alone, whatever the map says. */
bool rangequery_begin_in(struct exec *x, const struct topology *t, const struct rangequery *q, uint32_t shard, struct rangequery_walk *w);
/* Whether the map has the space in order, be it by default, or is bringing it there; if not, that is answered. */
bool rangequery_has_order(const struct space_map *m, struct slice space, struct reply *out);
/* The next entry that has not expired, and its store; NULL at the end. Valid until the next call, if nothing changes meanwhile. */
struct entry *rangequery_next(struct rangequery_walk *w, struct store **store);
/* Something about the entry given last has changed (its value came into memory): the walk finds its place again. */
void rangequery_refresh(struct rangequery_walk *w, struct slice key);
void rangequery_end(struct rangequery_walk *w);

/* How many keys the query means; without a walk where they are indexed and none expire. As rangequery_begin, and rangequery_begin_in. */
bool rangequery_count(struct exec *x, const struct topology *t, const struct rangequery *q, uint64_t *keys);
bool rangequery_count_in(struct exec *x, const struct topology *t, const struct rangequery *q, uint32_t shard, uint64_t *keys);

/* The cursor behind which the next page begins: at key (forward), below it (reverse). */
void rangequery_cursor(const struct rangequery *q, struct slice key, struct buf *out);
