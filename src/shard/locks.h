/* Locks on parts of key spaces, as the shards hold them: records in their system databases (route/spacelock.h), changed by ordinary ops, so that they are as durable as data and end by ordinary expiry.
 *
 * Invariant: a lock's record is in every shard that a part of it lies in by the map in force, and in no other. A change of the map keeps it, under the tokens that the change is made with: locks_follow.
 *
 * A grant's token is above those of all grants before it that overlap it, and no two grants have the same. Each shard has a counter; a grant takes the highest of its shards' counters plus one and sets them
 * all to that. Two grants that overlap have a key in common. If that key was in one and the same shard both times, the second one found its counter at the first one's number or above; if the key went to another
 * shard in between, locks_follow has raised the counter there. And no two are equal: a token ends with the number of its first shard, whose counter gave each number once. So unrelated parts of the line share nothing.
 *
 * In a cluster a token ends with the number of the group whose counter it was taken from, not that of its seat, which is another one on another node. When keys are carried from group to group (cluster/carrylocks.h), the source's counter goes along with the slice that it gives out:
 * from then on it grants nothing on that, so the counter is above every token that it ever granted there; and the target raises its own to it in the entry by which it begins to serve the slice. So what was said of a key that goes to another shard holds of groups, too.
 *
 * Everything here is called with the tokens of the shards named. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "route/spacelock.h"
#include "shard/engine.h"
#include "store/keyindex.h"

/* Which shards the keys [start, end) of a space can be in: sets their places in `in`, [route->shards], and clears the others. m NULL: there are no spaces. */
void locks_shards(const struct space_map *m, const struct route *route, struct slice space, struct slice start, struct slice end, bool *in);

/* ---- the locks of a space in one store that have not ended, by token */

struct locks_walk {
    const struct store *store;
    struct keyindex_at at;
    struct entry *next;
};
void locks_begin(struct locks_walk *w, const struct store *s, struct slice space, uint64_t token); /* from that token on; 0: all */
bool locks_next(struct locks_walk *w, struct spacelock *l, int64_t *expiry_ms); /* false: that was the last. Ends with the next change of the store */

bool locks_has(struct store *s, struct slice space, uint64_t token);

/* Visits the key spaces that have locks in the store, in no order. */
void locks_each_space(const struct store *s, void (*visit)(void *ctx, struct slice space), void *ctx);

/* ---- changes, in the stores that `in` names */

uint64_t locks_new_token(struct engine *e, const bool *in);
void locks_put(struct engine *e, const bool *in, struct slice space, const struct spacelock *l, int64_t expiry_ms);
void locks_remove(struct engine *e, const bool *in, struct slice space, uint64_t token);

/* ---- of one store, when locks are carried between groups */

uint64_t locks_counter(struct store *s);
void locks_raise_counter(struct store *s, uint64_t to); /* unless it is as high */
void locks_put_one(struct store *s, struct slice space, const struct spacelock *l, int64_t expiry_ms);
void locks_remove_one(struct store *s, struct slice space, uint64_t token);

/* The map is about to be `next`, in which keys of [start, end) of the space are elsewhere within the shards that `in` names: so are the locks on them, and the counters behind their tokens. */
void locks_follow(struct engine *e, const bool *in, const struct space_map *next, struct slice space, struct slice start, struct slice end);
