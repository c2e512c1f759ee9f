/* All keys of one shard: what commands over all keys of a server (keys.c) and of a Raft group (groups.c) share. x->shard says which shard, x->db which database. */
#pragma once
#include "command/exec.h"

extern const char allkeys_bad_db[]; /* ERR DB index is out of range */

static inline bool allkeys_is_live(const struct entry *e, int64_t now_ms)
{
    int64_t expiry_ms = entry_expiry_ms(e);
    return expiry_ms == 0 || expiry_ms >= now_ms;
}

/* The live keys that match the pattern, as replies; gives how many. */
size_t allkeys_list(struct exec *x, struct slice pattern, struct reply *to);
/* A random live key, as text good until the next change; false if none was found in a fair number of tries. */
bool allkeys_random(struct exec *x, struct slice *key);

/* The arguments of FLUSHDB and FLUSHALL, and of SWAPDB. False: the error is answered. */
bool allkeys_flush_args(struct exec *x);
bool allkeys_swap_args(struct exec *x, uint16_t *a, uint16_t *b);
