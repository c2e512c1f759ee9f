/* WATCH: a set of watched keys and one flag that any change of them raises.
 * Added under the keys' tokens; dropped by mail to each shard, so dropping needs no token. */
#pragma once
#include "shard/engine.h"
#include "store/interest.h"

struct watch_flag;
struct watched;

struct watch_set { /* zeroed: empty */
    struct watch_flag *flag;
    struct watched *first;
    uint32_t n; /* keys */
};

void watch_add(struct exec *x, struct watch_set *set, struct slice key); /* the key's token is held; once per key */
bool watch_dirty(struct exec *x, struct watch_set *set);  /* all tokens of the set are held; expired keys count as changed */
void watch_drop(struct worker *w, struct watch_set *set); /* any time; the set is empty afterwards */

/* The shards of the watched keys, one call each. */
void watch_shards(const struct watch_set *set, void (*visit)(void *ctx, uint32_t shard), void *ctx);
